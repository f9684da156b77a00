"""The machines of a cluster, where they run, and what losing a Proxmox VE node would cost it now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from kubehenge.store.reads.sql import holds_text, scope_of
from kubehenge.store.reads.visible import Visible
from kubehenge.store.rows import BodyRow, ClusterRow, ResourceRow


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLine:
    """A Cluster API machine and its VM; memory in MiB, None for what is not known. `node` is the Proxmox VE node or ''."""

    name: str
    control_plane: bool
    pool: str
    version: str
    phase: str
    ready: bool
    deleting: bool
    addresses: tuple[str, ...]
    vmid: int | None
    node: str
    memory_mib: int | None
    cores: int | None
    created_at: str
    shared: bool = False

    @property
    def role(self) -> str:
        """`control plane` or `worker`."""
        return "control plane" if self.control_plane else "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOfNode:
    """What the cluster loses with one Proxmox VE node; `members` etcd members of `all_members` are left."""

    node: str
    control_planes: int
    workers: int
    members: int
    all_members: int
    replace_mib: int

    @property
    def quorum_kept(self) -> bool:
        """Whether etcd, and with it the API, stays up."""
        return self.members > self.all_members // 2


def machines_of(session: Session, site_id: int, cluster_id: int) -> tuple[MachineLine, ...]:
    """Return the machines of a cluster: control plane first, then the workers by pool and name."""
    found = _bodies(session, ResourceRow.cluster_id == cluster_id, ResourceRow.kind == "kube.machine")
    vmids = [str(body["vmid"]) for body in found.values() if body.get("vmid") is not None]
    vms = _bodies(session, ResourceRow.site_id == site_id, ResourceRow.kind == "proxmox.vm", ResourceRow.name.in_(vmids))
    lines = [_machine(name, body, vms.get(str(body.get("vmid")), {})) for name, body in found.items()]
    return tuple(sorted(_with_shared(lines), key=lambda one: (not one.control_plane, one.pool, one.name)))


def _bodies(session: Session, *conditions: Any) -> dict[str, Mapping[str, Any]]:
    query = select(ResourceRow.name, BodyRow.content).join(BodyRow, BodyRow.hash == ResourceRow.observed_hash).where(*conditions)
    return dict(session.execute(query).all())


def _machine(name: str, body: Mapping[str, Any], vm: Mapping[str, Any]) -> MachineLine:
    return MachineLine(
        name=name.rpartition("/")[2],
        control_plane=bool(body.get("control_plane")),
        pool=body.get("deployment") or "",
        version=body.get("version") or "",
        phase=body.get("phase") or "",
        ready=bool(body.get("ready")),
        deleting=bool(body.get("deleting")),
        addresses=tuple(body.get("addresses") or ()),
        vmid=body.get("vmid"),
        node=vm.get("node") or "",
        memory_mib=vm.get("memory_mib"),
        cores=vm.get("cores"),
        created_at=body.get("created_at") or "",
    )


def _with_shared(lines: Iterable[MachineLine]) -> Sequence[MachineLine]:
    lines = list(lines)
    nodes = [one.node for one in lines if one.control_plane and one.node]
    crowded = {node for node in nodes if nodes.count(node) > 1}
    return [replace(one, shared=one.control_plane and one.node in crowded) for one in lines]


def losses(machines: Sequence[MachineLine]) -> tuple[LossOfNode, ...]:
    """Return what losing each Proxmox VE node that runs some of the machines would cost."""
    members = [one for one in machines if one.control_plane]
    return tuple(
        LossOfNode(
            node=node,
            control_planes=sum(1 for one in here if one.control_plane),
            workers=sum(1 for one in here if not one.control_plane),
            members=sum(1 for one in members if one.node != node),
            all_members=len(members),
            replace_mib=sum(one.memory_mib or 0 for one in here),
        )
        for node in sorted({one.node for one in machines if one.node})
        for here in [[one for one in machines if one.node == node]]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMachine:
    """A machine that was looked for, and the cluster it is of."""

    namespace: str
    cluster: str
    name: str
    addresses: tuple[str, ...]
    vmid: int | None


def find_machines(session: Session, site_id: int, visible: Visible, text: str, *, limit: int = 20) -> tuple[FoundMachine, ...]:
    """Return the machines whose name holds a text, or whose address or VMID is it."""
    scope = scope_of(ClusterRow.namespace, ClusterRow.name)
    query = (
        select(ClusterRow.namespace, ClusterRow.name, ResourceRow.name, BodyRow.content)
        .select_from(ResourceRow)
        .join(ClusterRow, ClusterRow.id == ResourceRow.cluster_id)
        .join(BodyRow, BodyRow.hash == ResourceRow.observed_hash)
        .where(
            ResourceRow.site_id == site_id,
            ResourceRow.kind == "kube.machine",
            visible.clusters(scope),
            or_(
                holds_text(ResourceRow.name, text),
                BodyRow.content["vmid"].as_string() == text,
                holds_text(BodyRow.content["addresses"].as_string(), f'"{text}"'),
            ),
        )
        .order_by(ResourceRow.name)
        .limit(limit)
    )
    return tuple(
        FoundMachine(
            namespace=namespace,
            cluster=cluster,
            name=name.rpartition("/")[2],
            addresses=tuple(body.get("addresses") or ()),
            vmid=body.get("vmid"),
        )
        for namespace, cluster, name, body in session.execute(query)
    )
