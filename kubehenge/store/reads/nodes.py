"""The room on Proxmox VE: each node's memory, and what VMs may take of it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from kubehenge.store.rows import BodyRow, ResourceRow


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoom:
    """
    A Proxmox VE node, its VMs without templates, and its memory in MiB.

    `clusters_mib` is what the VMs of clusters may take, `others_mib` what other guests may.
    """

    node: str
    online: bool
    memory_mib: int
    vms: int
    clusters_mib: int
    others_mib: int

    @property
    def free_mib(self) -> int:
        """What is left."""
        return self.memory_mib - self.clusters_mib - self.others_mib


def room(session: Session, site_id: int, workload_pool: str) -> tuple[NodeRoom, ...]:
    """Return the room on each Proxmox VE node, as it was read last."""
    taken = _taken(session, site_id, workload_pool)
    nodes = session.execute(
        select(ResourceRow.name, BodyRow.content)
        .join(BodyRow, BodyRow.hash == ResourceRow.observed_hash)
        .where(ResourceRow.site_id == site_id, ResourceRow.kind == "proxmox.node")
        .order_by(ResourceRow.name)
    )
    found = []
    for name, body in nodes:
        vms, clusters_mib, others_mib = taken.get(name, (0, 0, 0))
        found.append(
            NodeRoom(
                node=name,
                online=bool(body.get("online")),
                memory_mib=int(body.get("memory_mib") or 0),
                vms=vms,
                clusters_mib=clusters_mib,
                others_mib=others_mib,
            )
        )
    return tuple(found)


def _taken(session: Session, site_id: int, workload_pool: str) -> dict[str, tuple[int, int, int]]:
    """Sum up the VMs by node: how many, and the memory of those in pools below the workload pool and of all others."""
    node, memory = BodyRow.content["node"].as_string(), BodyRow.content["memory_mib"].as_integer()
    ours = BodyRow.content["pool"].as_string().startswith(f"{workload_pool}/", autoescape=True)
    rows = session.execute(
        select(node, func.count(), func.sum(case((ours, memory), else_=0)), func.sum(case((ours, 0), else_=memory)))
        .select_from(ResourceRow)
        .join(BodyRow, BodyRow.hash == ResourceRow.observed_hash)
        .where(ResourceRow.site_id == site_id, ResourceRow.kind == "proxmox.vm", ~BodyRow.content["template"].as_boolean())
        .group_by(node)
    )
    return {name: (count, int(clusters_mib or 0), int(others_mib or 0)) for name, count, clusters_mib, others_mib in rows}
