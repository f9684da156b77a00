"""What time it is, as an argument: code that needs a clock is given one, so tests can turn it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that people read, and one that only ever runs forward."""

    def now(self) -> datetime:
        """Return the instant, aware and in UTC; it may step when the machine's clock is set."""

    def boot(self) -> float:
        """Return seconds since the machine started, sleep included; never steps (leases are judged by it, MODEL 26)."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        """Return the instant, aware and in UTC."""
        return datetime.now(UTC)

    def boot(self) -> float:
        """Return seconds since the machine started: CLOCK_BOOTTIME counts suspended time, CLOCK_MONOTONIC would not."""
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
