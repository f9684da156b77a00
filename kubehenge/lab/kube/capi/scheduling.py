"""Where a new VM goes: its template, its node, its id, as capmox chooses them. Source: capmox 0.9, tried."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubehenge.lab.kube.capi.proxmox import Proxmox, ProxmoxError
from kubehenge.lab.kube.kinds import Obj

_MIB = 1024 * 1024


class Unplaceable(Exception):  # noqa: N818 - an answer, not a fault
    """There is no template, memory or id for a VM: what capmox calls a failed provisioning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The VM to clone from."""

    node: str
    vmid: int
    tags: tuple[str, ...]


async def pick_node(proxmox: Proxmox, allowed: Sequence[str], taken: Mapping[str, int], memory_mib: int) -> str:
    """
    The allowed node with memory left that runs the fewest of the cluster's VMs of this role.

    Shape: `taken` counts them by node. Memory is what guests are configured with, whether they run or not.
    Errors: ProxmoxError when any allowed node does not answer, Unplaceable when none has the memory.
    """
    needed = memory_mib * _MIB
    free = {node: await _free_memory(proxmox, node) for node in allowed}
    roomiest = max(allowed, key=lambda node: free[node])
    if free[roomiest] < needed:
        raise Unplaceable(f"cannot reserve {needed}B of memory on node {roomiest}: {max(0, free[roomiest])}B available memory left")
    return min((node for node in allowed if free[node] >= needed), key=lambda node: (taken.get(node, 0), node))


async def _free_memory(proxmox: Proxmox, node: str) -> int:
    status = await proxmox.get(f"/nodes/{node}/status")
    total = int(status["memory"]["total"])
    for kind in ("qemu", "lxc"):
        guests = await proxmox.get(f"/nodes/{node}/{kind}")
        total -= sum(int(guest.get("maxmem") or 0) for guest in guests if not guest.get("template"))
    return total


def find_template(vms: Iterable[Mapping[str, Any]], selector: Obj) -> Template:
    """
    The one template with the wanted tags, among what /cluster/resources lists.

    Errors: Unplaceable when there is none, or more than one.
    """
    wanted = {tag.lower() for tag in selector["matchTags"]}
    exact = selector.get("matchPolicy", "exact") == "exact"
    found = []
    for vm in vms:
        tags = {tag.lower() for tag in str(vm.get("tags") or "").replace(",", ";").split(";") if tag}
        if vm.get("template") and (tags == wanted if exact else tags >= wanted):
            found.append(Template(node=vm["node"], vmid=int(vm["vmid"]), tags=tuple(sorted(tags))))
    if len(found) != 1:
        names = ";".join(selector["matchTags"])
        raise Unplaceable(f'VM template not found: found {len(found)} VM templates with tags "{names}"')
    return found[0]


async def pick_id(proxmox: Proxmox, id_range: Mapping[str, int] | None, held: Collection[int]) -> int:
    """
    A free VM id: the first of the range that no machine holds and Proxmox VE has not, or the next one without a range.

    Errors: ProxmoxError, Unplaceable when the range is used up.
    """
    if id_range is None:
        return int(await proxmox.get("/cluster/nextid"))
    for vmid in range(id_range["start"], id_range["end"] + 1):
        if vmid in held:
            continue
        try:
            return int(await proxmox.get("/cluster/nextid", vmid=vmid))
        except ProxmoxError as exc:
            if exc.status != 400:
                raise
    raise Unplaceable("No free vmid found in vmIDRange")
