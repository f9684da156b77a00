"""Simulated time for the model: how long its own steps take, and what counts as overdue."""

from __future__ import annotations

from datetime import UTC, datetime

BOOT_S = 30.0  # from a started VM to a node that has joined
CONTROL_PLANE_BOOT_S = 45.0  # the first one makes the cluster
DRAIN_S = 5.0
CONSUMER_ROLL_S = 15.0  # CCM or CSI take up a new token
TASK_POLL_S = 2.0
NODE_STARTUP_TIMEOUT_S = 1200.0
UNHEALTHY_NODE_S = 300.0
HEARTBEAT_S = 10.0
BACK_OFF_FIRST_S = 0.5
BACK_OFF_MOST_S = 1000.0  # controller-runtime's own

_INSTANT = 0.005
_INSTANT_MOST_S = 0.5


class Pace:
    """
    Runs `speed` times as fast as the clock; at speed 0 nothing takes any time, and looking again waits a moment only.

    Units: simulated seconds in, real seconds out.
    """

    def __init__(self, speed: float) -> None:
        self.speed = speed

    def real(self, seconds: float) -> float:
        """How long that many simulated seconds take."""
        return seconds / self.speed if self.speed else min(seconds * _INSTANT, _INSTANT_MOST_S)

    def elapsed(self, since: str) -> float:
        """Simulated seconds since a timestamp of an object."""
        return (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds() * (self.speed or 1.0)

    def left(self, since: str, seconds: float) -> float:
        """Simulated seconds until `seconds` have passed since a timestamp; 0 when they have, or nothing takes time."""
        return max(0.0, seconds - self.elapsed(since)) if self.speed else 0.0
