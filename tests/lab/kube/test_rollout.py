"""The steps of control planes and MachineDeployments, played out against machines that come and go."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kubehenge.lab.kube.capi.rollout import MachineView, Step, control_plane_step, workers_step


def _machine(number: int, *, up_to_date: bool = True, ready: bool = True) -> MachineView:
    return MachineView(name=f"m{number:03}", created=f"{number:06}", up_to_date=up_to_date, ready=ready)


def _machines(count: int, **about: bool) -> list[MachineView]:
    return [_machine(number, **about) for number in range(count)]


class _World:
    """Machines that become ready two turns after they were made, and are gone one turn after they were deleted."""

    def __init__(self, machines: list[MachineView]) -> None:
        self.machines = machines
        self._numbers = itertools.count(1000)
        self._born: dict[str, int] = {}
        self._turn = 0

    def take(self, step: Step) -> None:
        self._turn += 1
        there = [machine for machine in self.machines if not machine.deleting]
        there = [replace(machine, ready=self._turn - self._born.get(machine.name, -2) >= 2) for machine in there]
        self.machines = [replace(machine, deleting=True, ready=False) if machine.name == step.delete else machine for machine in there]
        for _ in range(step.create):
            made = _machine(next(self._numbers), ready=False)
            self._born[made.name] = self._turn
            self.machines.append(made)


_counts = st.integers(0, 6)


@given(_counts, _counts, _counts)
def test_workers_roll_without_ever_being_too_few_or_too_many(old: int, current: int, desired: int) -> None:
    machines = _machines(old, up_to_date=False) + [_machine(100 + number) for number in range(current)]
    world, least = _World(machines), min(old + current, desired)
    for _ in range(200):
        step = workers_step(world.machines, desired)
        world.take(step)
        assert sum(machine.ready for machine in world.machines) >= least
        assert len([m for m in world.machines if not m.deleting]) <= max(desired + 1, old + current)
    assert len(world.machines) == desired
    assert all(machine.up_to_date for machine in world.machines)
    assert workers_step(world.machines, desired) == Step()


@given(st.sampled_from([1, 3, 5]), st.sampled_from([1, 3, 5, 7]))
def test_control_plane_rolls_and_scales_one_at_a_time(old: int, desired: int) -> None:
    world = _World(_machines(old, up_to_date=False))
    for _ in range(200):
        step = control_plane_step(world.machines, desired, initialized=True)
        assert step.create + bool(step.delete) <= 1
        world.take(step)
        assert sum(machine.ready for machine in world.machines) >= min(old, desired)
        assert len(world.machines) <= max(old, desired) + 1
    assert len(world.machines) == desired
    assert all(machine.up_to_date for machine in world.machines)


def test_second_control_plane_machine_waits_for_the_first() -> None:
    assert control_plane_step([], 3, initialized=False) == Step(create=1)
    assert control_plane_step(_machines(1, ready=False), 3, initialized=False) == Step()
    assert control_plane_step(_machines(1), 3, initialized=True) == Step(create=1)


def test_new_control_plane_machine_comes_before_an_old_one_goes() -> None:
    old = _machines(3, up_to_date=False)
    assert control_plane_step(old, 3, initialized=True) == Step(create=1)
    assert control_plane_step([*old, _machine(9, ready=False)], 3, initialized=True) == Step()
    assert control_plane_step([*old, _machine(9)], 3, initialized=True) == Step(delete="m000")


def test_all_missing_workers_are_made_at_once() -> None:
    assert workers_step([], 5) == Step(create=5)


def test_scaling_down_takes_the_chosen_machine_then_an_unready_one() -> None:
    machines = _machines(3)
    assert workers_step([machines[0], replace(machines[1], chosen=True), machines[2]], 2) == Step(delete="m001")
    assert workers_step([replace(machines[0], ready=False), *machines[1:]], 2) == Step(delete="m000")
    assert workers_step(machines, 2) == Step(delete="m002")


def test_overdue_machines_are_replaced_one_at_a_time() -> None:
    machines = [replace(machine, overdue=True, ready=False) for machine in _machines(3)]
    assert workers_step(machines, 3) == Step(delete="m000")
    assert workers_step([replace(machines[0], deleting=True), *machines[1:]], 3).delete == ""


def test_only_control_plane_machine_is_not_replaced() -> None:
    (machine,) = _machines(1, ready=False)
    assert control_plane_step([replace(machine, overdue=True)], 1, initialized=True) == Step()


def test_control_plane_machine_is_replaced_only_while_etcd_keeps_its_quorum() -> None:
    machines = _machines(3)
    silent = replace(machines[0], ready=False, overdue=True)
    assert control_plane_step([silent, *machines[1:]], 3, initialized=True) == Step(delete="m000")
    assert control_plane_step([silent, replace(machines[1], ready=False), machines[2]], 3, initialized=True) == Step()


def test_control_plane_machine_that_never_joined_is_replaced() -> None:
    machines = _machines(2)
    lost = replace(machines[1], ready=False, joined=False, overdue=True)
    assert control_plane_step([machines[0], lost], 3, initialized=True) == Step(delete="m001")
