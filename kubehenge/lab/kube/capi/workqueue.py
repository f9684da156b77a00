"""A work queue of keys: each is worked on by one worker at a time, again when it was woken meanwhile, later when it asks for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog

from kubehenge.lab.kube.capi.pace import BACK_OFF_FIRST_S, BACK_OFF_MOST_S, Pace

KeyT = TypeVar("KeyT", bound=Hashable)
log = structlog.get_logger()


class Retry(Exception):  # noqa: N818 - an answer, not a fault
    """The key cannot be brought further now; it is tried again with a growing delay, or at once when something wakes it."""


class WorkQueue(Generic[KeyT]):
    """
    Calls `work(key)` for every key added.

    Shape: `work` answers when it wants to be called again (simulated seconds, None: only when woken), or raises Retry.
    """

    def __init__(
        self, work: Callable[[KeyT], Awaitable[float | None]], pace: Pace, *, workers: int = 8, show: Callable[[KeyT], str] = str
    ) -> None:
        self._work = work
        self._show = show
        self._pace = pace
        self._count = workers
        self._waiting: asyncio.Queue[KeyT] = asyncio.Queue()
        self._queued: set[KeyT] = set()
        self._busy: set[KeyT] = set()
        self._again: set[KeyT] = set()
        self._timers: dict[KeyT, asyncio.TimerHandle] = {}
        self._failures: dict[KeyT, int] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the workers."""
        self._tasks = [asyncio.create_task(self._run()) for _ in range(self._count)]

    async def stop(self) -> None:
        """Stop the workers wherever they are: nothing is lost, the next start looks at everything again."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    def add(self, key: KeyT) -> None:
        """Work on a key as soon as possible."""
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key in self._busy:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._waiting.put_nowait(key)

    def add_after(self, key: KeyT, seconds: float) -> None:
        """Work on a key after that many simulated seconds, or sooner when something wakes it."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._pace.real(seconds)
        known = self._timers.get(key)
        if key in self._queued or (known is not None and known.when() <= due):
            return
        if known is not None:
            known.cancel()
        self._timers[key] = loop.call_at(due, self._due, key)

    def _due(self, key: KeyT) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def _run(self) -> None:
        while True:
            key = await self._waiting.get()
            self._queued.discard(key)
            self._busy.add(key)
            try:
                after = await self._work(key)
                self._failures.pop(key, None)
            except Retry as exc:
                after = self._back_off(key)
                log.info("lab_reconcile_waits", key=self._show(key), reason=str(exc), again_s=after)
            except Exception:
                after = self._back_off(key)
                log.exception("lab_reconcile_failed", key=self._show(key))
            finally:
                self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)
            elif after is not None:
                self.add_after(key, after)

    def _back_off(self, key: KeyT) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(BACK_OFF_FIRST_S * 2.0 ** min(failures, 30), BACK_OFF_MOST_S)
