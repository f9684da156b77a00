"""The bill of a plan: what it needs at its peak, what it replaces, and whether etcd keeps its quorum (DESIGN, Plans)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kubehenge.model.facts import SiteFacts
from kubehenge.model.network import AddressBlock, Unreadable, count_addresses, network_of, parse_address, parse_block
from kubehenge.model.plan import Bill, NodeLoad, NodeLoss, QuorumStep, QuorumVerdict
from kubehenge.plan.placement import Moment, Move, Placed, Role
from kubehenge.resources.topology import Topology


@dataclass(slots=True)
class _Sum:
    """What one moment comes to, in all and by Proxmox VE node; memory in MiB."""

    memory_mib: int = 0
    cores: int = 0
    vms_on: dict[str, int] = field(default_factory=dict)
    memory_on: dict[str, int] = field(default_factory=dict)
    control_planes_on: dict[str, int] = field(default_factory=dict)
    workers: int = 0
    workers_on: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, vms: Iterable[Placed]) -> _Sum:
        total = cls()
        for vm in vms:
            total.memory_mib += vm.size.memory_mib
            total.cores += vm.size.cores
            total.vms_on[vm.node] = total.vms_on.get(vm.node, 0) + 1
            total.memory_on[vm.node] = total.memory_on.get(vm.node, 0) + vm.size.memory_mib
            if vm.role is Role.CONTROL_PLANE:
                total.control_planes_on[vm.node] = total.control_planes_on.get(vm.node, 0) + 1
            else:
                total.workers += 1
                total.workers_on[vm.node] = total.workers_on.get(vm.node, 0) + 1
        return total


def make_bill(before: Topology | None, after: Topology | None, moments: Sequence[Moment], site: SiteFacts) -> Bill:
    """
    Return the bill of a plan that was played through `placement.play`.

    Addresses: what is taken counts the machines that are there. Memory and cores are the cluster's own, `memory_free_mib` that
    of the online nodes it may use before the plan starts.
    """
    sums = [_Sum.of(moment.vms) for moment in moments]
    now, then = sums[0], sums[-1]
    have, left = len(moments[0].vms), len(moments[-1].vms)
    moves = [moment.move for moment in moments if moment.move and moment.move.add]
    added = sum(1 for move in moves if not move.replaces)
    usable = usable_addresses(after or before)
    free = _free(site)
    steps = quorum_steps(moments, sums)
    return Bill(
        addresses_needed=max(len(moment.vms) for moment in moments) - have,
        addresses_free=usable - have,
        addresses_free_after=usable - left,
        memory_now_mib=now.memory_mib,
        memory_peak_mib=max(one.memory_mib for one in sums),
        memory_after_mib=then.memory_mib,
        memory_free_mib=sum(free.get(node, 0) for node in _allowed(after or before, site)),
        cores_now=now.cores,
        cores_peak=max(one.cores for one in sums),
        cores_after=then.cores,
        control_planes_replaced=_replaced(moves, Role.CONTROL_PLANE),
        workers_replaced=_replaced(moves, Role.WORKER),
        machines_added=added,
        machines_removed=max(have + added - left, 0),
        nodes=_loads(sums, free, site),
        quorum=quorum_verdict(steps),
        quorum_steps=steps,
        losses=_losses(sums, steps),
    )


def usable_addresses(topology: Topology | None) -> int:
    """Count the addresses that nodes can get: each once, without the gateway and the network's own first and last address."""
    if topology is None:
        return 0
    blocks = [block for text in topology.addresses if not isinstance(block := parse_block(str(text)), Unreadable)]
    return count_addresses(blocks, without=reserved_addresses(topology))


def reserved_addresses(topology: Topology) -> frozenset[int]:
    """Return the addresses that are never handed out (Cluster API's in-cluster IPAM provider 1.1)."""
    gateway = parse_address(str(topology.network.get("gateway", "")))
    if isinstance(gateway, Unreadable):
        return frozenset()
    network: AddressBlock = network_of(gateway, int(topology.network.get("prefix", 32)))
    return frozenset({int(gateway)} | ({int(network.first), int(network.last)} if network.count > 2 else set()))


def quorum_steps(moments: Sequence[Moment], sums: Sequence[_Sum]) -> tuple[QuorumStep, ...]:
    """Return the moments at which the number of etcd members changes, with now first; none when it never changes."""
    steps = [
        _quorum_step(moment.move.step if moment.move else "Now", one.control_planes_on)
        for moment, one in zip(moments, sums, strict=True)
        if moment.move is None or moment.move.role is Role.CONTROL_PLANE
    ]
    steps = [step for step in steps if step.members_on]
    return tuple(steps) if len(steps) > 1 else ()


def _quorum_step(step: str, members: Mapping[str, int]) -> QuorumStep:
    nodes = [node for node, number in sorted(members.items()) for _ in range(number)]
    # A member that is on no known node may be on the worst one.
    worst = max((number for node, number in members.items() if node), default=0) + members.get("", 0)
    return QuorumStep(
        step=step[:1].upper() + step[1:], members_on=tuple(nodes), needs=len(nodes) // 2 + 1, left_after_loss=len(nodes) - worst
    )


def quorum_verdict(steps: Sequence[QuorumStep]) -> QuorumVerdict:
    """Judge the steps; a cluster that is being made, or has a single member at its start or end, has no quorum to keep yet."""
    if not steps:
        return QuorumVerdict.NOT_TOUCHED
    if any(len(step.members_on) <= 1 for step in (steps[0], steps[-1])):
        return QuorumVerdict.SINGLE
    return QuorumVerdict.KEPT if all(step.kept for step in steps) else QuorumVerdict.AT_RISK


def _replaced(moves: Iterable[Move], role: Role) -> int:
    return sum(1 for move in moves if move.replaces and move.role is role)


def _free(site: SiteFacts) -> dict[str, int]:
    return {node.name: node.memory_mib - site.memory_taken_mib.get(node.name, 0) for node in site.nodes}


def _allowed(topology: Topology | None, site: SiteFacts) -> tuple[str, ...]:
    chosen = topology.allowed_nodes if topology else ()
    return tuple(node for node in site.online_nodes if not chosen or node in chosen)


def _loads(sums: Sequence[_Sum], free: Mapping[str, int], site: SiteFacts) -> tuple[NodeLoad, ...]:
    now, then = sums[0], sums[-1]
    touched = {node for one in sums for node in one.vms_on}
    loads = []
    for node in sorted(site.nodes, key=lambda one: one.name):
        name, free_mib = node.name, free[node.name]
        moments = sums if name in touched else (now,)
        loads.append(
            NodeLoad(
                node=name,
                online=node.online,
                vms_now=now.vms_on.get(name, 0),
                vms_peak=max(one.vms_on.get(name, 0) for one in moments),
                vms_after=then.vms_on.get(name, 0),
                memory_mib=node.memory_mib,
                free_now_mib=free_mib,
                free_peak_mib=free_mib - max(one.memory_on.get(name, 0) for one in moments) + now.memory_on.get(name, 0),
            )
        )
    return tuple(loads)


def _losses(sums: Sequence[_Sum], steps: Sequence[QuorumStep]) -> tuple[NodeLoss, ...]:
    """What each node's failure would cost at the worst moment; only nodes that hold VMs of the cluster at some moment."""
    all_workers = min(one.workers for one in sums[1:] or sums)
    steps = steps or (_quorum_step("Now", sums[0].control_planes_on),)
    found = []
    for node in sorted({node for one in sums for node in one.vms_on if node}):
        workers = max(one.workers_on.get(node, 0) for one in sums)
        found.append(
            NodeLoss(
                node=node,
                control_planes=max(one.control_planes_on.get(node, 0) for one in sums),
                workers=workers,
                quorum_kept=all(len(step.members_on) - step.members_on.count(node) >= step.needs for step in steps),
                workers_left=max(all_workers - workers, 0),
                workers_all=all_workers,
                replace_mib=max(one.memory_on.get(node, 0) for one in sums),
            )
        )
    return tuple(found)
