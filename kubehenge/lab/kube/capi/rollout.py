"""What a control plane or a MachineDeployment does next with its machines: make some, delete one, or wait. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineView:
    """A machine as the decision sees it; `created` orders by age."""

    name: str
    created: str
    up_to_date: bool
    ready: bool
    joined: bool = True
    deleting: bool = False
    chosen: bool = False  # annotated to go first when scaling down
    overdue: bool = False  # has not joined in time, or has been silent for too long


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Make `create` machines, or delete the one named, or neither."""

    create: int = 0
    delete: str = ""


_WAIT = Step()


def _oldest(machines: Sequence[MachineView]) -> Step:
    return Step(delete=min(machines, key=lambda machine: (machine.created, machine.name)).name)


def control_plane_step(machines: Sequence[MachineView], desired: int, *, initialized: bool) -> Step:
    """The next step of a control plane: one machine at a time, a new one before an old one goes, and only while all are ready."""
    alive = [machine for machine in machines if not machine.deleting]
    if len(alive) < len(machines):
        return _WAIT
    if not alive:
        return Step(create=1)
    overdue = [machine for machine in alive if machine.overdue]
    if overdue and initialized and len(alive) > 1 and _keeps_quorum(alive, without=(going := _oldest(overdue))):
        return going
    if not initialized or not all(machine.ready for machine in alive):
        return _WAIT
    outdated = [machine for machine in alive if not machine.up_to_date]
    if outdated:
        return _oldest(outdated) if len(alive) > desired else Step(create=1)
    if len(alive) < desired:
        return Step(create=1)
    return _oldest(alive) if len(alive) > desired else _WAIT


def _keeps_quorum(machines: Sequence[MachineView], *, without: Step) -> bool:
    """Whether more than half of etcd's members are well once a machine has gone; one that never joined is no member."""
    left = [machine for machine in machines if machine.joined and machine.name != without.delete]
    return sum(machine.ready for machine in left) * 2 > len(left)


def workers_step(machines: Sequence[MachineView], desired: int) -> Step:
    """The next step of a MachineDeployment: at most one machine more than asked for, never fewer ready ones while it rolls."""
    alive = [machine for machine in machines if not machine.deleting]
    current = [machine for machine in alive if machine.up_to_date]
    outdated = [machine for machine in alive if not machine.up_to_date]
    overdue = [machine for machine in alive if machine.overdue]
    if overdue and len(alive) == len(machines):
        return _oldest(overdue)
    most = desired + (1 if outdated else 0)
    if (missing := min(desired - len(current), most - len(alive))) > 0:
        return Step(create=missing)
    if outdated:
        idle = [machine for machine in outdated if not machine.ready]
        ready = sum(machine.ready for machine in alive)
        if idle:
            return _oldest(idle)
        return _oldest(outdated) if ready > desired or len(alive) > most else _WAIT
    if len(alive) > desired:
        return _first_to_go(alive)
    return _WAIT


def _first_to_go(alive: Sequence[MachineView]) -> Step:
    """Scaling down takes the machines that were chosen, then those that are not ready, then the newest."""
    newest_first = sorted(alive, key=lambda machine: (machine.created, machine.name), reverse=True)
    return Step(delete=min(newest_first, key=lambda machine: (not machine.chosen, machine.ready)).name)
