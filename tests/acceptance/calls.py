"""The changing request of each action, as the lab sees it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.acceptance.corner import CLUSTERS, RESOURCE_SETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One kind's request; `{name}` stands for the cluster, `{ns}` for its namespace, `{owner}` for its volume owner."""

    target: str
    method: str
    path: str

    def for_cluster(self, name: str, namespace: str) -> str:
        """The pattern of its path for one cluster."""
        return self.path.replace("{name}", name).replace("{ns}", namespace)


CREATES = {
    "kube.namespace": Call(target="kube", method="PATCH", path="/api/v1/namespaces/{ns}$"),
    "proxmox.pool": Call(target="proxmox", method="POST", path="/api2/json/pools$"),
    "proxmox.user": Call(target="proxmox", method="POST", path="/access/users$"),
    "proxmox.token": Call(target="proxmox", method="POST", path="/access/users/[^/]+/token/"),
    "proxmox.acl": Call(target="proxmox", method="PUT", path="/access/acl$"),
    "proxmox.volume_owner": Call(target="proxmox", method="POST", path="/qemu$"),
    "kube.secret": Call(target="kube", method="PATCH", path="/api/v1/namespaces/{ns}/secrets/{name}-proxmox-token$"),
    "kube.resource_set": Call(target="kube", method="PATCH", path="^" + RESOURCE_SETS + "/namespaces/{ns}/clusterresourcesets/"),
    "kube.cluster": Call(target="kube", method="PATCH", path="^" + CLUSTERS + "/namespaces/{ns}/clusters/{name}$"),
}

# The Secrets are not among them: they go with their set, and with capmox's own objects.
DELETES = {
    "kube.cluster": Call(target="kube", method="DELETE", path="^" + CLUSTERS + "/namespaces/{ns}/clusters/{name}$"),
    "proxmox.volume_owner": Call(target="proxmox", method="DELETE", path="/qemu/{owner}$"),
    "kube.resource_set": Call(target="kube", method="DELETE", path="^" + RESOURCE_SETS + "/namespaces/{ns}/clusterresourcesets/"),
    "proxmox.token": Call(target="proxmox", method="DELETE", path="/access/users/[^/]+/token/"),
    "proxmox.acl": Call(target="proxmox", method="PUT", path="/access/acl$"),
    "proxmox.pool": Call(target="proxmox", method="DELETE", path="/api2/json/pools$"),
    "proxmox.user": Call(target="proxmox", method="DELETE", path="/access/users/[^/]+$"),
}
