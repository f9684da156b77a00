"""
How fast one target may be called, and how many of its tasks may run at once (ACCEPTANCE 1.15).

Everything that talks to a target shares one `Politeness`, whatever thread it runs in. After a burst of trouble the whole target
rests for a while that doubles with each burst, with jitter, then takes up speed again: at full rate two minutes after the last
trouble at the latest. Clock, sleep and randomness are passed in.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from kubehenge.errors import TransientError

BURST_OF_TROUBLE = 3
"""So many troubled answers within `TROUBLE_WINDOW_S` make the target rest; one "too many requests" is enough."""

TROUBLE_WINDOW_S = 10.0
LONGEST_REST_S = 30.0
LONGEST_ASKED_REST_S = 60.0
"""The longest rest that a server's Retry-After is granted."""

RECOVERY_S = 60.0
"""From the end of a rest to full rate; with the longest rest it ends within two minutes."""

SLOWEST = 0.1
"""The part of the full rate at which a target is taken up again."""

FORGOTTEN_TASK_S = 3600.0
"""A task that nobody has looked at for so long no longer takes a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    What one target is burdened with at most.

    Units: requests per second, averaged over more than a second; `burst` requests may be sent at once after a pause. `tasks` is
    the number of tasks of ours that run at once. Infinity switches the rate off.
    """

    requests_per_s: float = 20.0
    burst: int = 20
    tasks: int = 4

    def __post_init__(self) -> None:
        if self.requests_per_s <= 0 or self.burst < 1 or self.tasks < 1:
            raise ValueError("requests_per_s must be positive, burst and tasks at least 1")


class Politeness:
    """The limiter of one target."""

    def __init__(
        self,
        target: str,
        limits: Limits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
        rests: bool = True,
    ) -> None:
        self.target = target
        self.limits = limits or Limits()
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._rests = rests
        self._lock = threading.Lock()
        self._next_due = -math.inf  # when the bucket is full again
        self._rest_until = -math.inf
        self._level = 0
        self._troubles: deque[float] = deque(maxlen=BURST_OF_TROUBLE)
        self._tasks: dict[str, float] = {}

    def turn(self, *, within_s: float) -> None:
        """Wait until a request may be sent; TransientError when that is longer than `within_s`, and nothing is taken then."""
        with self._lock:
            now = self._clock()
            start = max(now, self._rest_until)
            pace = self._pace(start)
            gap = 1.0 / (self.limits.requests_per_s * pace)
            allowance = (max(1.0, self.limits.burst * pace) - 1.0) * gap if math.isfinite(gap) else 0.0
            due = max(self._next_due, start)
            wait = max(start, due - allowance) - now
            if wait > within_s:
                raise TransientError(
                    f"{self.target} is called no faster for now: the next request may go out in {wait:.0f} s. "
                    "It had trouble answering, or more is waiting than its limit allows; this is tried again by itself."
                )
            self._next_due = due + gap
        if wait > 0:
            self._sleep(wait)

    def _pace(self, at: float) -> float:
        """The part of the full rate that is used at an instant, 0.1 to 1."""
        since = at - self._rest_until
        return 1.0 if since >= RECOVERY_S else SLOWEST + (1.0 - SLOWEST) * max(0.0, since) / RECOVERY_S

    def troubled(self, *, too_many: bool = False, retry_after_s: float = 0.0) -> None:
        """Note an answer that shows the target overburdened or unwell: 429, 5xx that is no refusal, no answer at all."""
        with self._lock:
            now = self._clock()
            self._troubles.append(now)
            burst = len(self._troubles) == BURST_OF_TROUBLE and now - self._troubles[0] <= TROUBLE_WINDOW_S
            if not self._rests or now < self._rest_until or not (too_many or burst):
                return  # calls that were under way when the rest began do not lengthen it
            self._level = min(5, self._level + 1) if now - self._rest_until < RECOVERY_S else 1
            rest = min(LONGEST_REST_S, 2.0**self._level * (0.5 + self._chance()))
            self._rest_until = now + max(rest, min(retry_after_s, LONGEST_ASKED_REST_S))
            self._troubles.clear()

    @property
    def resting_s(self) -> float:
        """How long the target still rests, 0 when it does not."""
        with self._lock:
            return max(0.0, self._rest_until - self._clock())

    def claim_task(self, key: str, *, runs_already: bool = False) -> bool:
        """Take a place for a task of ours, named by its resource; False when all are taken. A task that runs already always gets one."""
        with self._lock:
            now = self._clock()
            self._tasks = {name: seen for name, seen in self._tasks.items() if now - seen < FORGOTTEN_TASK_S}
            if key not in self._tasks and not runs_already and len(self._tasks) >= self.limits.tasks:
                return False
            self._tasks[key] = now
            return True

    def release_task(self, key: str) -> None:
        """Give a task's place back; harmless when it has none."""
        with self._lock:
            self._tasks.pop(key, None)

    @property
    def tasks_running(self) -> int:
        """How many places are taken."""
        with self._lock:
            return len(self._tasks)
