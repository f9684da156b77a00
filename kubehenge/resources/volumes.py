"""The VM that owns a cluster's volumes and is never started (reference kubehenge-architecture; MODEL 34)."""

from __future__ import annotations

from kubehenge.model.identity import OWNER_TAGS, Incarnation
from kubehenge.model.resource import DesiredResource, ResourceRef


def owner_ref(poolid: str) -> ResourceRef:
    """Return the key of a cluster's volume owner: it is named after the pool, since it has one in it."""
    return ResourceRef(kind="proxmox.volume_owner", name=poolid)


def owner(who: Incarnation, poolid: str, vm_ids: tuple[int, int]) -> DesiredResource:
    """Return the volume owner; its VMID is drawn from the owners' own range when it is made."""
    return DesiredResource(
        ref=owner_ref(poolid),
        body={
            "name": who.owner_vm,
            "pool": poolid,
            "tags": list(OWNER_TAGS),
            "first_vmid": vm_ids[0],
            "last_vmid": vm_ids[1],
        },
    )
