"""
Two ways to do one job, timed side by side in one run: interleaved, the minimum of each, CPU time beside wall time (ACCEPTANCE 5).

The CPU time is that of this process and of all children it has waited for, user and system together.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement: seconds of the fastest run of each side (wall and CPU apart), and the ratio that is aimed at, if any."""

    name: str
    ours_wall_s: float
    peer_wall_s: float
    ours_cpu_s: float
    peer_cpu_s: float
    runs: int
    target: float | None = None

    @property
    def wall_ratio(self) -> float:
        return self.ours_wall_s / self.peer_wall_s

    @property
    def cpu_ratio(self) -> float:
        return self.ours_cpu_s / self.peer_cpu_s if self.peer_cpu_s else float("inf")

    def __str__(self) -> str:
        aim = "" if self.target is None else f", target {self.target:.2f}"
        return (
            f"{self.name}: wall {self.wall_ratio:.2f} ({shown(self.ours_wall_s)} / {shown(self.peer_wall_s)}), "
            f"CPU {self.cpu_ratio:.2f} ({shown(self.ours_cpu_s)} / {shown(self.peer_cpu_s)}){aim}, minimum of {self.runs}"
        )


def compare(
    name: str,
    ours: Callable[[], object],
    peer: Callable[[], object],
    runs: int = 5,
    *,
    before: Callable[[], object] | None = None,
    target: float | None = None,
) -> Row:
    """
    Time `ours` and `peer` alternately, `runs` times each, print one line and return it.

    `before` runs before each round, untimed: both sides of a round meet the same world. Which side goes first alternates too.
    """
    sides: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    for number in range(runs):
        if before is not None:
            before()
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            sides[side].append(_timed((ours, peer)[side]))
    (ours_wall, ours_cpu), (peer_wall, peer_cpu) = ((min(wall for wall, _ in times), min(cpu for _, cpu in times)) for times in sides)
    row = Row(name=name, ours_wall_s=ours_wall, peer_wall_s=peer_wall, ours_cpu_s=ours_cpu, peer_cpu_s=peer_cpu, runs=runs, target=target)
    print(row, flush=True)
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """One measurement without a peer in the same run: seconds of the fastest run."""

    wall_s: float
    cpu_s: float


def measure(name: str, work: Callable[[], object], runs: int = 5, *, before: Callable[[], object] | None = None) -> Alone:
    """Time `work` alone as `compare` does each side, print one line and return it."""
    times = []
    for _ in range(runs):
        if before is not None:
            before()
        times.append(_timed(work))
    found = Alone(wall_s=min(wall for wall, _ in times), cpu_s=min(cpu for _, cpu in times))
    print(f"{name}: wall {shown(found.wall_s)}, CPU {shown(found.cpu_s)}, minimum of {runs}", flush=True)
    return found


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    cpu, wall = _cpu_s(), time.perf_counter()
    work()
    return time.perf_counter() - wall, _cpu_s() - cpu


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def shown(seconds: float) -> str:
    """Write a duration for people."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
