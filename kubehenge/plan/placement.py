"""
Where VMs would go: a small simulation of a plan's moves on the nodes as they were read last.

Each new VM goes to the node, of those that it may use and that are online, which runs the fewest of the cluster's VMs of its role
and has the memory (reference kubehenge-clusters, Machines). Memory counts what VMs may take, as capmox's scheduler does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kubehenge.model.facts import ClusterFacts, SiteFacts
from kubehenge.resources.topology import Size, Topology, rolls_control_plane, rolls_workers


class Role(StrEnum):
    """What a machine is for."""

    CONTROL_PLANE = "control plane"
    WORKER = "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """One VM of the cluster in the simulation; `node` is '' where it is not known."""

    name: str
    role: Role
    pool: str
    node: str
    size: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One step: a VM is added, or a VM goes. `step` says which in words, for control planes only."""

    add: bool
    role: Role
    pool: str = ""
    replaces: str = ""
    step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The cluster's VMs after one move, and by how much memory (MiB) no node had room for it, 0 when one had."""

    move: Move | None
    vms: tuple[Placed, ...]
    short_mib: int = 0
    largest_free_mib: int = 0


@dataclass(slots=True, kw_only=True)
class _World:
    allowed: tuple[str, ...]
    memory_mib: Mapping[str, int]
    taken_mib: dict[str, int]
    vms: list[Placed] = field(default_factory=list)
    made: int = 0


def running(before: Topology | None, facts: ClusterFacts) -> tuple[Placed, ...]:
    """Return the cluster's machines with the nodes that their VMs run on, the oldest first: in that order Cluster API replaces them."""
    if before is None:
        return ()
    nodes = {vm.vmid: vm for vm in facts.vms}
    placed = []
    for machine in sorted(facts.machines, key=lambda one: (one.created_at, one.name)):
        vm = nodes.get(machine.vmid) if machine.vmid is not None else None
        role = Role.CONTROL_PLANE if machine.control_plane else Role.WORKER
        default = before.control_plane if machine.control_plane else before.worker
        size = Size(cores=vm.cores, memory_mib=vm.memory_mib, disk_gib=default.disk_gib) if vm else default
        placed.append(Placed(name=machine.name, role=role, pool=machine.deployment, node=vm.node if vm else machine.vm_node, size=size))
    return tuple(placed)


def moves(before: Topology | None, after: Topology | None, vms: Iterable[Placed]) -> Iterator[Move]:
    """Yield the moves of a plan: the control plane first, then each worker pool; a new one before an old one goes."""
    control_planes = [vm for vm in vms if vm.role is Role.CONTROL_PLANE]
    workers = [vm for vm in vms if vm.role is Role.WORKER]
    wanted = after.control_plane_replicas if after else 0
    if after is None:
        yield from (Move(add=False, role=vm.role, pool=vm.pool, replaces=vm.name) for vm in (*workers, *control_planes))
        return
    rolls = before is not None and rolls_control_plane(before, after)
    yield from _group(Role.CONTROL_PLANE, "", control_planes, wanted, rolls=rolls)
    rolls = before is not None and rolls_workers(before, after)
    for pool in sorted(after.pools.keys() | {vm.pool for vm in workers}):
        yield from _group(Role.WORKER, pool, [vm for vm in workers if vm.pool == pool], after.pools.get(pool, 0), rolls=rolls)


def _group(role: Role, pool: str, have: list[Placed], wanted: int, *, rolls: bool) -> Iterator[Move]:
    more, fewer = max(wanted - len(have), 0), max(len(have) - wanted, 0)
    for number in range(more):
        yield Move(add=True, role=role, pool=pool, step=f"{_ordinal(number + 1)} more joins")
    for number, vm in enumerate(have[:fewer]):
        yield Move(add=False, role=role, pool=pool, replaces=vm.name, step=f"{_ordinal(number + 1)} leaves for good")
    if rolls:
        for number, vm in enumerate(have[fewer:]):
            yield Move(add=True, role=role, pool=pool, replaces=vm.name, step=f"{_ordinal(number + 1)} joins")
            yield Move(add=False, role=role, pool=pool, replaces=vm.name, step=f"{_ordinal(number + 1)} leaves")


def _ordinal(number: int) -> str:
    suffix = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def play(before: Topology | None, after: Topology | None, facts: ClusterFacts, site: SiteFacts) -> tuple[Moment, ...]:
    """Return every moment of a plan, the first being now."""
    start = running(before, facts)
    bound = after or before
    allowed = bound.allowed_nodes if bound else ()
    online = site.online_nodes
    world = _World(
        allowed=tuple(node for node in online if not allowed or node in allowed),
        memory_mib={node.name: node.memory_mib for node in site.nodes},
        taken_mib=dict(site.memory_taken_mib),
        vms=list(start),
    )
    found = [Moment(move=None, vms=start)]
    for move in moves(before, after, start):
        if move.add:
            found.append(_add(world, move, after))
        else:
            found.append(_remove(world, move))
    return tuple(found)


def _add(world: _World, move: Move, after: Topology | None) -> Moment:
    assert after is not None  # noqa: S101 - only a plan that keeps its cluster adds machines
    size = after.control_plane if move.role is Role.CONTROL_PLANE else after.worker
    free = {node: world.memory_mib[node] - world.taken_mib.get(node, 0) for node in world.allowed}
    node = pick_node(free, [vm.node for vm in world.vms if vm.role is move.role], memory_mib=size.memory_mib)
    largest = max(free.values(), default=0)
    short = 0
    if node is None:
        short = size.memory_mib - max(largest, 0)
        node = max(sorted(free), key=lambda one: free[one], default="")
    world.made += 1
    world.taken_mib[node] = world.taken_mib.get(node, 0) + size.memory_mib
    world.vms.append(Placed(name=f"new {world.made}", role=move.role, pool=move.pool, node=node, size=size))
    return Moment(move=move, vms=tuple(world.vms), short_mib=short, largest_free_mib=largest)


def _remove(world: _World, move: Move) -> Moment:
    gone = next(vm for vm in world.vms if vm.name == move.replaces)
    world.vms.remove(gone)
    if gone.node:
        world.taken_mib[gone.node] = world.taken_mib.get(gone.node, 0) - gone.size.memory_mib
    return Moment(move=move, vms=tuple(world.vms))


def pick_node(free_mib: Mapping[str, int], taken: Iterable[str], *, memory_mib: int) -> str | None:
    """
    Return the node with room that runs the fewest of the given VMs, None when no node has room.

    Shape: `taken` holds the node of each VM of the same role; ties go to the lower name.
    """
    counts = dict.fromkeys(free_mib, 0)
    for node in taken:
        if node in counts:
            counts[node] += 1
    fits = [node for node, free in free_mib.items() if free >= memory_mib]
    return min(fits, key=lambda node: (counts[node], node), default=None)
