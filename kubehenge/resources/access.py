"""A cluster's pool, user, token and rights in Proxmox VE (reference kubehenge-architecture; MODEL 8, 21, 34)."""

from __future__ import annotations

from kubehenge.model.identity import Incarnation
from kubehenge.model.resource import DesiredResource, ResourceRef


def pool(who: Incarnation, poolid: str) -> DesiredResource:
    """Return the cluster's own pool, nested under the workload pool."""
    return DesiredResource(
        ref=ResourceRef(kind="proxmox.pool", name=poolid),
        body={"poolid": poolid, "comment": who.mark},
    )


def user(who: Incarnation, group: str) -> DesiredResource:
    """Return the cluster's own user, in the group that adds what all clusters share."""
    return DesiredResource(
        ref=ResourceRef(kind="proxmox.user", name=who.user),
        body={"userid": who.user, "comment": who.mark, "groups": [group], "enable": True},
    )


def token_ref(who: Incarnation, generation: int) -> ResourceRef:
    """Return the key of one generation of the cluster's token."""
    return ResourceRef(kind="proxmox.token", name=f"{who.user}!k{generation}")


def token(who: Incarnation, generation: int) -> DesiredResource:
    """Return a generation of the cluster's token; not separated, since a separated one gets none of the group's rights."""
    return DesiredResource(
        ref=token_ref(who, generation),
        body={
            "userid": who.user,
            "tokenid": f"k{generation}",
            "privsep": 0,
            "comment": f"{who.mark} generation={generation}",
        },
    )


CLUSTER_ROLE = "KubehengeCluster"
"""The Proxmox VE role of a cluster's user on its own pool: VM.Audit for the cloud controller manager, VM.Config.Disk for CSI."""


def acl(who: Incarnation, poolid: str) -> DesiredResource:
    """Return the user's rights on its own pool, and on nothing else."""
    path = f"/pool/{poolid}"
    return DesiredResource(
        ref=ResourceRef(kind="proxmox.acl", name=f"{path}:{who.user}:{CLUSTER_ROLE}"),
        body={"path": path, "type": "user", "ugid": who.user, "roleid": CLUSTER_ROLE, "propagate": 1},
    )
