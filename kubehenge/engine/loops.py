"""The three loops as threads of one process, each under its own lease (MODEL 23, 26, 27)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from kubehenge.drivers.guard import guarded
from kubehenge.engine import metrics
from kubehenge.engine.apply import Apply
from kubehenge.engine.holding import Holding
from kubehenge.engine.tick import Tick
from kubehenge.engine.wake import Bell, Doorbell
from kubehenge.engine.watch import Watch
from kubehenge.errors import KubehengeError, LeaseLostError
from kubehenge.store.leases import Lease

log = structlog.get_logger()

BUSY_S = 1.0
"""How soon the apply loop looks again while a run is open."""
IDLE_S = 15.0
FOLLOWED_S = 5.0
"""How soon after each other what is followed is read at most: while clusters are built, something changes all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Seconds between the passes of each loop when nothing wakes them."""

    watch_s: float = 15.0
    bulk_s: float = 30.0
    git_s: float = 30.0


class Watcher(Protocol):
    """A driver that can follow its system in the background, so that a reading costs no request (MODEL 24, tier watch)."""

    def start_watching(self, changed: Callable[[], None]) -> None:
        """Begin, and call `changed` whenever a reading would show something new."""

    def stop(self) -> None:
        """End."""


@dataclass(slots=True)
class Loops:
    """Runs watch, tick and apply until told to stop."""

    state_dir: Path
    watch: Watch
    tick: Tick
    apply: Apply
    bell: Bell
    hold: Callable[[str], Holding]
    """Returns the lease of a loop, by its name."""
    intervals: Intervals = field(default_factory=Intervals)
    watchers: Mapping[str, Watcher] = field(default_factory=dict)
    """The drivers that are followed, by family."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _doorbell: Doorbell | None = None
    _world_due: float = 0.0
    _sources_due: float = 0.0
    _followed_due: float = 0.0
    """When the tick reads the world, the sources, or what is followed next; by the monotonic clock."""
    _news: threading.Event = field(default_factory=threading.Event)
    """What is followed has changed."""

    def start(self) -> None:
        """Start the loops; a doorbell lets other processes wake them."""
        self._doorbell = Doorbell(self.state_dir, self.bell)
        for watcher in self.watchers.values():
            watcher.start_watching(self._tell)
        for name, body in (("watch", self._watch), ("tick", self._tick), ("apply", self._apply)):
            thread = threading.Thread(target=self._run, args=(name, body), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, timeout_s: float = 30.0) -> None:
        """Let each loop end its pass, and give back the leases."""
        self._stop.set()
        for name in ("watch", "tick", "apply"):
            self.bell.ring(name)
        for thread in self._threads:
            thread.join(timeout_s)
        for watcher in self.watchers.values():
            watcher.stop()
        if self._doorbell is not None:
            self._doorbell.close()

    def _tell(self) -> None:
        self._news.set()
        self.bell.nudge("tick")

    def _run(self, name: str, body: Callable[[Lease, bool], float]) -> None:
        """Hold the loop's lease and do pass after pass; an error ends a pass, never the loop."""
        holding = self.hold(name)
        wait_s = 0.0
        while not self._stop.is_set():
            rung = self.bell.rung(name, wait_s) if wait_s else False
            if self._stop.is_set():
                break
            wait_s = BUSY_S * 5
            outcome = "failed"
            try:
                lease = holding.take()
                if lease is not None:
                    with metrics.PASS_SECONDS.labels(name).time(), guarded(partial(holding.require, lease)):
                        wait_s = body(lease, rung)
                else:
                    log.info("lease_awaited", loop=name)
                outcome = "done" if lease is not None else "not the holder"
            except LeaseLostError as error:
                holding.lose()
                log.warning("lease_lost", loop=name, error=str(error))
            except KubehengeError as error:
                log.warning("pass_failed", loop=name, error=str(error))
            except Exception:
                log.exception("pass_failed", loop=name)
            metrics.PASSES.labels(name, outcome).inc()
        if name == "apply":
            self.apply.close()
        holding.give_back()

    def _watch(self, lease: Lease, _rung: bool) -> float:
        self.watch.run_pass(lease)
        return self.intervals.watch_s

    def _tick(self, lease: Lease, rung: bool) -> float:
        """
        Read what is due.

        Who rings has something new in the sources or the database, and the world need not be read for it; news of what is followed
        cost no request, and only that is read.
        """
        now = time.monotonic()
        world, sources = now >= self._world_due, rung or now >= self._sources_due
        followed = self._news.is_set() and now >= self._followed_due
        if world or sources or followed:
            self._pass(lease, now, world=world, sources=sources, followed=followed)
        due = [self._world_due, self._sources_due, *([self._followed_due] if self._news.is_set() else [])]
        return max(min(due) - time.monotonic(), 0.1)

    def _pass(self, lease: Lease, now: float, *, world: bool, sources: bool, followed: bool) -> None:
        # Set before the pass: a run that ends meanwhile asks for the world to be read once more.
        self._world_due = now + self.intervals.bulk_s if world else self._world_due
        self._sources_due = now + self.intervals.git_s if sources else self._sources_due
        families = None if world else tuple(self.watchers) if followed else ()
        if world or followed:
            self._news.clear()
            self._followed_due = now + FOLLOWED_S
        try:
            result = self.tick.run_pass(lease, families=families, read_sources=sources)
        except BaseException:
            self._world_due = self._sources_due = 0.0
            raise
        if result.approved:
            metrics.PLANS_APPROVED.inc(len(result.approved))
            self.bell.ring("apply")

    def _apply(self, lease: Lease, _rung: bool) -> float:
        busy = self.apply.run_pass(lease, wait_s=BUSY_S)
        if self.apply.ended:
            self.apply.ended = False
            self._world_due = 0.0
            self.bell.ring("tick")
        return BUSY_S if busy else IDLE_S
