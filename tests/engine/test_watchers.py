"""While the loops run, what can be followed is followed (MODEL 24, tier watch)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kubehenge.drivers.base import BulkReading
from kubehenge.engine.holding import CallLimits, Holding, holding_of
from kubehenge.engine.loops import Loops
from kubehenge.engine.wake import Bell
from kubehenge.engine.watch import Watch
from tests.engine.harness import Site


@dataclass(frozen=True, slots=True)
class Nothing:
    site: Site

    def read_fast(self) -> BulkReading:
        return BulkReading(items={}, read_at=self.site.clock.now())


@dataclass(slots=True)
class Follower:
    told: list[str] = field(default_factory=list)
    changed: Callable[[], None] = lambda: None

    def start_watching(self, changed: Callable[[], None]) -> None:
        self.told.append("start")
        self.changed = changed

    def stop(self) -> None:
        self.told.append("stop")


def test_the_loops_follow_the_management_cluster_while_they_run(site: Site) -> None:
    bell, follower = Bell(), Follower()
    watch = Watch(site.db, site.site_id, Nothing(site), site.clock, bell.ring)
    calls = CallLimits(call_s=30, longest_s=65)

    def hold(loop: str) -> Holding:
        return holding_of(site.db, site.clock, "default", loop, "test", calls=calls, alone=True)

    loops = Loops(site.folder, watch, site.tick_loop, site.apply_loop, bell, hold, watchers={"kube": follower})
    loops.start()
    assert follower.told == ["start"]
    loops.stop()
    assert follower.told == ["start", "stop"]
