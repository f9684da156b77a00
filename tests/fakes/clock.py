"""A clock that tests turn by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2025, 3, 10, 8, 0, tzinfo=UTC)


class FakeClock:
    """Stands still until it is turned; `step` sets the people's clock only, as an administrator would."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._boot = 1000.0

    def now(self) -> datetime:
        return self._now

    def boot(self) -> float:
        return self._boot

    def forward(self, seconds: float) -> None:
        """Let time pass: both clocks move."""
        if seconds < 0:
            raise ValueError("time does not pass backwards; use step")
        self._now += timedelta(seconds=seconds)
        self._boot += seconds

    def step(self, seconds: float) -> None:
        """Set the people's clock forward or back, while no time passes."""
        self._now += timedelta(seconds=seconds)
