"""Simulated time: how long a Proxmox VE second takes here."""

from __future__ import annotations

import asyncio
import time


class SimClock:
    """
    A clock that runs `speed` times as fast as the real one; at speed 0 nothing takes any time ("instant").

    Units: `now` and `sleep` in simulated seconds. Changing the speed also hurries or slows what is already waiting.
    """

    def __init__(self, speed: float, *, started_at: float | None = None) -> None:
        self._speed = _checked(speed)
        self._changed = asyncio.Event()
        self._base = time.time() if started_at is None else started_at
        self._since = time.monotonic()

    @property
    def speed(self) -> float:
        """Simulated seconds in a real one; 0 is instant."""
        return self._speed

    @property
    def scale(self) -> float:
        """Real seconds in a simulated one; 0 is instant."""
        return 1 / self._speed if self._speed else 0.0

    def now(self) -> float:
        """The simulated instant, as seconds since the epoch."""
        return self._base + (time.monotonic() - self._since) * (self._speed or 1.0)

    def set_speed(self, speed: float) -> None:
        """Run at another speed from now on."""
        checked = _checked(speed)
        self._base, self._since = self.now(), time.monotonic()
        self._speed = checked
        self._changed.set()
        self._changed = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Wait for that many simulated seconds."""
        left = seconds
        while left > 0 and self._speed:
            speed, changed, began = self._speed, self._changed, time.monotonic()
            try:
                await asyncio.wait_for(changed.wait(), left / speed)
            except TimeoutError:
                return
            left -= (time.monotonic() - began) * speed


def _checked(speed: float) -> float:
    if not 0 <= speed <= 100_000:
        raise ValueError(f"speed {speed}: between 0 (instant) and 100000; 60 makes a minute of a second")
    return float(speed)
