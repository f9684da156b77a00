"""ClusterResourceSets, and the stand-in for CCM and CSI."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.kube.fleet import Cluster, conditions_of
from tests.lab.kube.running import until

pytestmark = pytest.mark.lab

_SETS = "/apis/addons.cluster.x-k8s.io/v1beta2/namespaces/clusters"
_SECRETS = "/api/v1/namespaces/clusters/secrets"
_TYPE = "addons.cluster.x-k8s.io/resource-set"


def _make(cluster: Cluster, *, strategy: str = "Reconcile", generation: str = "1", kind: str = _TYPE) -> None:
    secret = f"{cluster.name}-proxmox-token"
    call = cluster.kube.server.call
    meta = {"name": secret, "annotations": {"kubehenge.dev/token-generation": generation}}
    assert call("POST", _SECRETS, {"metadata": meta, "type": kind, "stringData": {"a": generation}})[0] == 201
    spec = {
        "strategy": strategy,
        "clusterSelector": {"matchLabels": {"kubehenge.dev/cluster-name": cluster.name}},
        "resources": [{"kind": "Secret", "name": secret}],
    }
    assert call("POST", f"{_SETS}/clusterresourcesets", {"metadata": {"name": f"{cluster.name}-proxmox"}, "spec": spec})[0] == 201


def _condition(cluster: Cluster) -> tuple[str, str, str]:
    _, body = cluster.kube.server.call("GET", f"{_SETS}/clusterresourcesets/{cluster.name}-proxmox")
    return conditions_of(body).get("ResourcesApplied", ("", "", ""))


def _consumers(cluster: Cluster) -> dict[str, Any]:
    _, body = cluster.kube.server.call("GET", f"/api/v1/namespaces/clusters/configmaps/{cluster.name}-lab-consumers")
    return body.get("data", {})


def _rotate(cluster: Cluster, generation: str) -> None:
    change = {"metadata": {"annotations": {"kubehenge.dev/token-generation": generation}}, "stringData": {"a": generation}}
    path = f"{_SECRETS}/{cluster.name}-proxmox-token"
    assert cluster.kube.server.call("PATCH", path, change, media="application/merge-patch+json")[0] == 200


def test_resources_are_applied_once_the_control_plane_is_up(cluster: Cluster) -> None:
    _make(cluster)
    cluster.corner()
    cluster.create(workers=0)
    until(lambda: _condition(cluster) == ("False", "NotApplied", f"waiting for the control plane of {cluster.name}"))
    assert _consumers(cluster) == {}
    cluster.credentials()
    cluster.nudge()
    cluster.settled()
    until(lambda: _condition(cluster)[:2] == ("True", "Applied"))
    assert _consumers(cluster) == {"ccm": "1", "csi": "1"}
    _, binding = cluster.kube.server.call("GET", f"{_SETS}/clusterresourcesetbindings/{cluster.name}")
    (entry,) = binding["spec"]["bindings"]
    assert entry["clusterResourceSetName"] == f"{cluster.name}-proxmox"
    assert entry["resources"][0]["applied"] is True


def test_set_owns_its_secret(cluster: Cluster) -> None:
    _make(cluster)
    path = f"{_SECRETS}/{cluster.name}-proxmox-token"
    owners = until(lambda: cluster.kube.server.call("GET", path)[1]["metadata"].get("ownerReferences"))
    assert [entry["kind"] for entry in owners] == ["ClusterResourceSet"]


def test_new_token_generation_is_taken_up_by_both_consumers(cluster: Cluster) -> None:
    _make(cluster)
    cluster.build(workers=0)
    until(lambda: _consumers(cluster) == {"ccm": "1", "csi": "1"})
    _rotate(cluster, "2")
    until(lambda: _consumers(cluster) == {"ccm": "2", "csi": "2"})


def test_secret_of_another_type_is_refused(cluster: Cluster) -> None:
    _make(cluster, kind="Opaque")
    until(lambda: _condition(cluster) == ("False", "WrongSecretType", "Secret type Opaque is not supported"))


def test_strategy_cannot_change(cluster: Cluster) -> None:
    _make(cluster)
    path = f"{_SETS}/clusterresourcesets/{cluster.name}-proxmox"
    status, body = cluster.kube.server.call("PATCH", path, {"spec": {"strategy": "ApplyOnce"}}, media="application/merge-patch+json")
    assert status == 422
    assert body["details"]["causes"][0]["field"] == "spec.strategy"


def test_consumers_go_with_their_cluster(cluster: Cluster) -> None:
    _make(cluster)
    cluster.build(workers=0)
    until(lambda: _consumers(cluster))
    cluster.delete()
    cluster.gone()
    until(lambda: not _consumers(cluster))
