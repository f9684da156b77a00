"""What wakes which loop, and what it reads then (MODEL 23, 24)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from kubehenge.drivers.base import BulkReading
from kubehenge.engine.holding import CallLimits, Holding, holding_of
from kubehenge.engine.loops import Intervals, Loops
from kubehenge.engine.wake import Bell
from kubehenge.engine.watch import Watch
from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ResourceRef
from tests.engine.harness import ROOT, Site, cluster

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Fast:
    site: Site

    def read_fast(self) -> BulkReading:
        nodes = tuple(self.site.world.all("proxmox.node").values())
        return BulkReading(items={"proxmox.node": nodes}, read_at=self.site.clock.now(), endpoint="pve1", endpoints=("pve1",))


@dataclass(slots=True)
class Follower:
    """What is followed, by the loops' own word for it."""

    changed: Callable[[], None] = field(default=lambda: None)

    def start_watching(self, changed: Callable[[], None]) -> None:
        self.changed = changed

    def stop(self) -> None:
        pass


@pytest.fixture
def follower() -> Follower:
    return Follower()


@pytest.fixture
def loops(site: Site, follower: Follower) -> Iterator[Loops]:
    bell = Bell()
    watch = Watch(site.db, site.site_id, Fast(site), site.clock, bell.ring)
    hourly = Intervals(watch_s=HOUR, bulk_s=HOUR, git_s=HOUR)
    calls = CallLimits(call_s=30, longest_s=65)

    def hold(loop: str) -> Holding:
        return holding_of(site.db, site.clock, "default", loop, "test", calls=calls, alone=True)

    made = Loops(site.folder, watch, site.tick_loop, site.apply_loop, bell, hold, hourly, watchers={"kube": follower})
    site.decide.freeze("", ROOT, "until the test says so")
    made.start()
    until(lambda: site.world.asked)
    until(lambda: site.counts()["tick"])
    yield made
    made.stop()


def until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not look():
        assert time.monotonic() < deadline, "nothing came of it within 30 s"
        time.sleep(0.02)


def test_a_push_is_planned_without_reading_the_world_again(site: Site, loops: Loops) -> None:
    before = len(site.world.asked)
    site.repo.push({"prod.yaml": cluster()})
    loops.bell.ring("tick")
    until(site.open_plan)
    assert len(site.world.asked) == before


def test_the_world_is_read_again_once_a_run_has_ended(site: Site, loops: Loops) -> None:
    site.repo.push({"prod.yaml": cluster()})
    loops.bell.ring("tick")
    until(site.open_plan)
    before = len(site.world.asked)
    site.decide.thaw(1, ROOT)
    loops.bell.ring("apply")
    until(lambda: [plan for plan in site.plans() if plan.state is PlanState.DONE])
    until(lambda: len(site.world.asked) > before)


def test_news_of_what_is_followed_wake_the_tick_which_reads_that_and_nothing_else(
    site: Site, loops: Loops, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubehenge.engine.loops.FOLLOWED_S", 0.0)
    loops._followed_due = 0.0
    site.repo.push({"prod.yaml": cluster()})
    before = len(site.world.asked)
    body = {"class": "kubehenge-rke2", "phase": "Provisioning", "available": False, "deleting": False}
    site.world.put(ResourceRef(kind="kube.cluster_status", name="tenants/theirs"), body)
    follower.changed()
    until(lambda: "tenants/theirs#1" in site.clusters())
    # Proxmox VE was not asked: that would have been a second reading.
    assert len(site.world.asked) == before + 1
    assert site.open_plan() is None  # nobody has rung for the sources
    site.world.remove(ResourceRef(kind="kube.cluster_status", name="tenants/theirs"))


def test_news_that_come_thick_and_fast_are_read_together(
    site: Site, loops: Loops, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubehenge.engine.loops.FOLLOWED_S", HOUR)
    loops._followed_due = 0.0
    before = len(site.world.asked)
    follower.changed()
    until(lambda: len(site.world.asked) == before + 1)
    for _ in range(20):
        follower.changed()
    site.repo.push({"prod.yaml": cluster()})
    loops.bell.ring("tick")
    until(site.open_plan)  # the pass after all of them
    assert len(site.world.asked) == before + 1
