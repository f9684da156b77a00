"""One resource of each kind that the driver of the management cluster writes, as `expand` makes them."""

from __future__ import annotations

from typing import Any

from kubehenge.drivers.fingerprint import secret_hmac
from kubehenge.model.canon import resolve
from kubehenge.model.identity import Incarnation
from kubehenge.model.resource import DesiredResource, ResourceRef
from kubehenge.resources import clusters, credentials
from tests.drivers.servers import POOL, SITE_KEY, KubeSite

KINDS = ("kube.namespace", "token", "credentials", "kube.resource_set", "kube.cluster")
MARKED = tuple(kind for kind in KINDS if kind != "kube.namespace")


def declared(name: str, *, control_planes: int = 1, workers: int = 2, version: str = "v1.36.5+k3s1") -> dict[str, Any]:
    network = {
        "bridge": "vmbr0",
        "addresses": ["192.0.2.11-192.0.2.20"],
        "prefix": 24,
        "gateway": "192.0.2.1",
        "dnsServers": ["192.0.2.1"],
    }
    variables = {"controlPlaneEndpoint": "192.0.2.10", "network": network, "storage": "shared-storage"}
    topology = {
        "classRef": {"name": "kubehenge-k3s", "namespace": "kubehenge-system"},
        "version": version,
        "controlPlane": {"replicas": control_planes},
        "variables": [{"name": key, "value": value} for key, value in variables.items()],
        "workers": {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": workers}]},
    }
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": "clusters"},
        "spec": {"topology": topology},
    }


def resource(site: KubeSite, kind: str, who: Incarnation, **options: Any) -> DesiredResource:
    match kind:
        case "kube.namespace":
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenants"}}
            return DesiredResource(ref=ResourceRef(kind=kind, name="tenants"), body=body)
        case "token":
            return credentials.cluster_token(who, who.pool(POOL), 1)
        case "credentials":
            return credentials.capmox(who, "capmox@pve!capmox", secret_hmac(SITE_KEY, site.capmox))
        case "kube.resource_set":
            return credentials.resource_set(who)
        case "kube.cluster":
            return clusters.cluster(
                who, declared(who.name, **options), poolid=who.pool(POOL), vm_ids=(10_000_000, 10_000_999), nodes=("pve1", "pve2"), fixed={}
            )
    raise KeyError(kind)


def written(site: KubeSite, it: DesiredResource, who: Incarnation) -> dict[str, Any]:
    """The body with its references resolved, as it is read back."""
    body: dict[str, Any] = resolve(it.body, site.context(who).lookup)
    return body


def contains(found: Any, wanted: Any) -> bool:
    """Whether everything that was asked for is there, whatever the server added."""
    match wanted:
        case dict():
            return isinstance(found, dict) and all(key in found and contains(found[key], item) for key, item in wanted.items())
        case list() if wanted and all(isinstance(item, dict) and "name" in item for item in wanted):
            by_name = {item["name"]: item for item in found}
            return all(item["name"] in by_name and contains(by_name[item["name"]], item) for item in wanted)
        case list() | tuple():
            return len(found) == len(wanted) and all(contains(one, other) for one, other in zip(found, wanted, strict=True))
        case _:
            return bool(found == wanted)
