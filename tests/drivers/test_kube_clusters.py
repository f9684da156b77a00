"""What a Cluster is waited for, and how it is told (facts: cluster-api, 1.3), with statuses as Cluster API writes them."""

from __future__ import annotations

from typing import Any

import pytest

from kubehenge.drivers.base import Done, Pending
from kubehenge.drivers.kube import kinds
from kubehenge.drivers.kube.reduce import VmPlace, cluster_status, is_rolling, machine, with_vms
from kubehenge.errors import InvariantError, RefusedError
from kubehenge.model.resource import DesiredResource
from tests.drivers.kube_resources import resource
from tests.drivers.servers import KubeSite, incarnation

pytestmark = pytest.mark.lab

WHO = incarnation()
PATH = kinds.CLUSTERS.one("clusters", "prod")
QUIET = dict.fromkeys(("RollingOut", "ScalingUp", "ScalingDown", "Remediating"), "False")
SETTLED = {
    "Available": "True",
    "TopologyReconciled": "True",
    "ControlPlaneMachinesUpToDate": "True",
    "WorkerMachinesUpToDate": "True",
    **QUIET,
}


def set_status(
    kube: KubeSite, conditions: dict[str, Any], *, control_planes: int = 1, workers: int = 2, observed: int | None = None
) -> None:
    """Write a Cluster's status as Cluster API does; a condition is its status, or (status, reason, message)."""
    meta = kube.admin.get(PATH)["metadata"]
    rows = []
    for kind, value in conditions.items():
        status, reason, message = value if isinstance(value, tuple) else (value, "Reason", "")
        rows.append({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-11-30T12:00:00Z"})
    counts = {
        "desiredReplicas": 1,
        "replicas": 1,
        "readyReplicas": control_planes,
        "availableReplicas": control_planes,
        "upToDateReplicas": 1,
    }
    status = {
        "observedGeneration": meta["generation"] if observed is None else observed,
        "phase": "Provisioned",
        "conditions": rows,
        "controlPlane": counts,
        "workers": {
            "desiredReplicas": 2,
            "replicas": 2,
            "readyReplicas": workers,
            "availableReplicas": workers,
            "upToDateReplicas": workers,
        },
    }
    kube.admin._change(
        "PATCH", f"{PATH}/status", {"status": status}, query={"fieldManager": "manager"}, content="application/merge-patch+json"
    )


def created(kube: KubeSite) -> tuple[DesiredResource, Pending]:
    it = resource(kube, "kube.cluster", WHO)
    outcome = kube.driver.create(it.ref, it.body, kube.context(WHO))
    assert isinstance(outcome, Pending)
    return it, outcome


def test_a_new_cluster_is_waited_for_until_it_is_available(kube: KubeSite) -> None:
    it, outcome = created(kube)
    assert outcome.abandonable
    assert outcome.handle == {"generation": 1, "want": "available"}
    assert (outcome.waits_on, outcome.done, outcome.of) == ("0 of 1 control-plane nodes", 0, 1)
    set_status(kube, {"Available": "False"}, workers=1)
    kube.restart()
    outcome = kube.driver.look(it.ref, outcome.handle, kube.context(WHO))
    assert isinstance(outcome, Pending)
    assert (outcome.waits_on, outcome.done, outcome.of) == ("1 of 2 workers", 1, 2)
    set_status(kube, {"Available": "True", "RollingOut": "True"})
    done = kube.driver.look(it.ref, outcome.handle, kube.context(WHO))
    assert isinstance(done, Done)
    assert done.left is not None
    assert done.left.ref == it.ref
    assert isinstance(kube.driver.create(it.ref, it.body, kube.context(WHO)), Done)


def changed(it: DesiredResource) -> dict[str, Any]:
    """A body with one worker more."""
    workers = {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": 3}]}
    return {**it.body, "spec": {"topology": {**it.body["spec"]["topology"], "workers": workers}}}


def rolled(kube: KubeSite, it: DesiredResource) -> Pending:
    outcome = kube.driver.update(it.ref, changed(it), kube.context(WHO))
    assert isinstance(outcome, Pending)
    return outcome


@pytest.mark.parametrize(
    "moving",
    [
        {"RollingOut": "True"},
        {"ScalingUp": "True"},
        {"ScalingDown": "True"},
        {"Remediating": "True"},
        {"WorkerMachinesUpToDate": "False"},
        {"ControlPlaneMachinesUpToDate": "False"},
        {"TopologyReconciled": ("False", "ClusterUpgrading", "Cluster is upgrading to v1.36.6+k3s1")},
        {"Available": "False"},
    ],
    ids=lambda moving: next(iter(moving)),
)
def test_a_changed_cluster_is_waited_for_until_nothing_moves(kube: KubeSite, moving: dict[str, Any]) -> None:
    it, _ = created(kube)
    set_status(kube, SETTLED)
    outcome = rolled(kube, it)
    assert outcome.handle == {"generation": 2, "want": "rolled"}
    set_status(kube, SETTLED, observed=1)  # what Cluster API says of the generation before
    assert isinstance(kube.driver.look(it.ref, outcome.handle, kube.context(WHO)), Pending)
    set_status(kube, {**SETTLED, **moving})
    assert isinstance(kube.driver.look(it.ref, outcome.handle, kube.context(WHO)), Pending)
    set_status(kube, SETTLED)
    assert isinstance(kube.driver.look(it.ref, outcome.handle, kube.context(WHO)), Done)


def test_a_change_of_annotations_alone_is_done_at_once_also_during_a_rollout(kube: KubeSite) -> None:
    it, _ = created(kube)
    rolled(kube, it)
    set_status(kube, {**SETTLED, "RollingOut": "True"})
    annotations = {**it.body["metadata"]["annotations"], "kubehenge.dev/online-nodes": "pve1"}
    body = {**changed(it), "metadata": {**it.body["metadata"], "annotations": annotations}}
    assert isinstance(kube.driver.update(it.ref, body, kube.context(WHO)), Done)
    assert kube.admin.get(PATH)["metadata"]["annotations"]["kubehenge.dev/online-nodes"] == "pve1"


def test_a_change_whose_answer_was_lost_is_waited_for_when_it_is_repeated(kube: KubeSite) -> None:
    it, _ = created(kube)
    rolled(kube, it)
    set_status(kube, {**SETTLED, "RollingOut": "True"})
    kube.restart()
    rolled(kube, it)
    set_status(kube, SETTLED)
    assert isinstance(kube.driver.update(it.ref, changed(it), kube.context(WHO)), Done)


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        (
            {"TopologyReconciled": ("False", "ReconcileFailed", "failed to create\n  patch helper")},
            "Cluster API cannot go on: failed to create patch helper",
        ),
        ({"TopologyReconciled": ("False", "ClusterClassNotReconciled", "ClusterClass is missing")}, "ClusterClass is missing"),
        ({"TopologyReconciled": ("False", "ClusterCreating", "a hook blocks")}, "the Cluster to be available"),
    ],
)
def test_what_cluster_api_says_when_it_is_stuck_is_passed_on(kube: KubeSite, conditions: dict[str, Any], told: str) -> None:
    it, outcome = created(kube)
    set_status(kube, {"Available": "False", **conditions})
    outcome = kube.driver.look(it.ref, outcome.handle, kube.context(WHO))
    assert isinstance(outcome, Pending)
    assert told in outcome.waits_on


def test_a_paused_cluster_is_named_so(kube: KubeSite) -> None:
    it, outcome = created(kube)
    kube.admin.merge(PATH, {"spec": {"paused": True}})
    outcome = kube.driver.look(it.ref, outcome.handle, kube.context(WHO))
    assert isinstance(outcome, Pending)
    assert outcome.waits_on == "the Cluster, which is paused"


def test_a_cluster_that_was_deleted_meanwhile_is_waited_for_no_longer(kube: KubeSite) -> None:
    it, outcome = created(kube)
    kube.admin.delete(PATH, uid=kube.admin.get(PATH)["metadata"]["uid"])
    with pytest.raises(RefusedError, match="was deleted while it was waited for"):
        kube.driver.look(it.ref, outcome.handle, kube.context(WHO))


def test_an_unknown_wish_is_our_own_mistake(kube: KubeSite) -> None:
    it, _ = created(kube)
    with pytest.raises(InvariantError):
        kube.driver.look(it.ref, {"want": "dance", "generation": 1}, kube.context(WHO))


def test_a_deletion_says_what_it_waits_for(kube: KubeSite) -> None:
    it, _ = created(kube)
    kube.admin.merge(PATH, {"metadata": {"finalizers": ["cluster.cluster.x-k8s.io"]}})
    set_status(kube, {"Deleting": ("True", "WaitingForWorkersDeletion", "* MachineDeployment prod-md-0:\n  * 2 Machines")})
    outcome = kube.driver.delete(it.ref, it.body, kube.context(WHO))
    assert isinstance(outcome, Pending)
    assert outcome.waits_on == "* MachineDeployment prod-md-0: * 2 Machines"
    assert not outcome.abandonable
    kube.admin.merge(PATH, {"metadata": {"finalizers": None}})


def test_how_a_cluster_stands_is_reduced_to_what_people_ask(kube: KubeSite) -> None:
    created(kube)
    set_status(kube, {**SETTLED, "Available": ("False", "NotAvailable", "no quorum")}, workers=1)
    kube.admin.merge(PATH, {"spec": {"controlPlaneEndpoint": {"host": "192.0.2.10", "port": 6443}}})
    [found] = kube.driver.read_bulk().items["kube.cluster_status"]
    assert found.mark == WHO.mark
    body = dict(found.body)
    conditions = {row["type"]: row for row in body.pop("conditions")}
    assert conditions["Available"] == {
        "type": "Available",
        "status": "False",
        "reason": "NotAvailable",
        "message": "no quorum",
        "since": "2026-11-30T12:00:00Z",
    }
    assert body == {
        "phase": "Provisioned",
        "available": False,
        "rolling": False,
        "control_plane": {"desired": 1, "replicas": 1, "ready": 1, "up_to_date": 1},
        "workers": {"desired": 2, "replicas": 2, "ready": 1, "up_to_date": 1},
        "endpoint": "192.0.2.10:6443",
        "version": "v1.36.5+k3s1",
        "class": "kubehenge-k3s",
        "control_plane_kind": "",
        "paused": False,
        "deleting": False,
        "observed_generation": 1,
        "generation": body["generation"],
    }


def test_a_cluster_without_status_reads_as_nothing_there() -> None:
    body = cluster_status({"metadata": {"name": "x", "namespace": "y", "deletionTimestamp": "now"}, "spec": {}}).body
    assert (body["phase"], body["available"], body["rolling"], body["endpoint"], body["deleting"]) == ("", False, False, "", True)
    assert not is_rolling({})


def test_a_machine_is_reduced_and_gets_its_vm_id() -> None:
    labels = {"cluster.x-k8s.io/control-plane": "", "topology.cluster.x-k8s.io/deployment-name": "md-0"}
    obj = {
        "metadata": {"name": "prod-abc", "namespace": "clusters", "labels": labels, "creationTimestamp": "2026-11-30T12:00:00Z"},
        "spec": {"clusterName": "prod", "version": "v1.36.5+k3s1", "infrastructureRef": {"kind": "ProxmoxMachine", "name": "prod-infra"}},
        "status": {
            "phase": "Running",
            "nodeRef": {"name": "prod-abc"},
            "addresses": [
                {"type": "InternalIP", "address": "192.0.2.11"},
                {"type": "Hostname", "address": "prod-abc"},
                {"type": "ExternalIP", "address": "192.0.2.11"},
            ],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    [found] = with_vms([machine(obj)], {"clusters/prod-infra": VmPlace(10_000_001, "pve2")})
    assert found.ref.name == "clusters/prod-abc"
    assert found.body == {
        "cluster": "clusters/prod",
        "control_plane": True,
        "deployment": "md-0",
        "version": "v1.36.5+k3s1",
        "vmid": 10_000_001,
        "vm_node": "pve2",
        "ready": True,
        "deleting": False,
        "phase": "Running",
        "node_name": "prod-abc",
        "addresses": ["192.0.2.11", "prod-abc"],
        "created_at": "2026-11-30T12:00:00Z",
    }
    [bare] = with_vms([machine({"metadata": {"name": "x", "namespace": "y"}})], {})
    assert bare.body["vmid"] is None
