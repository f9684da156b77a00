"""
Holding a loop's lease: taken, renewed before it runs out, and judged before each changing call (MODEL 26).

What counts before a call is the boot-time clock of this machine; the instants in the database are for those who wait.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from threading import Lock

from kubehenge.clock import Clock
from kubehenge.errors import LeaseLostError
from kubehenge.store import leases
from kubehenge.store.database import Database
from kubehenge.store.leases import Lease

MARGIN_S = 5.0
"""A lease outlives a call's own time limit by this."""
RENEW_WITHIN_S = 20.0
"""A pass begins with a lease that was renewed so lately."""
LASTS = timedelta(seconds=60)
"""What a lease lasts at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """The time limit of a changing call (seconds), and the longest that it takes with connecting and an answer that dribbles."""

    call_s: float
    longest_s: float


@dataclass(slots=True, kw_only=True)
class Holding:
    """
    One loop's lease, held by this process or waited for.

    `settles` is how long after an earlier holder's end one of its calls may still arrive: 0 for a loop that changes nothing outside.
    `dead_since` is since when a lock says that no other process can hold it, None where there is no such lock (MODEL 27).
    """

    db: Database
    clock: Clock
    name: str
    holder: str
    lasts: timedelta
    settles: timedelta = timedelta(0)
    dead_since: datetime | None = None
    _lease: Lease | None = None
    _until: float = 0.0
    """By the boot-time clock."""
    _lock: Lock = field(default_factory=Lock)

    def take(self) -> Lease | None:
        """Return the lease, renewed where that is due; None while someone else holds it."""
        with self._lock:
            if self._lease is None or self._left() < self.lasts.total_seconds() - RENEW_WITHIN_S:
                self._renew()
            return self._lease

    def require(self, lease: Lease, longest_s: float) -> None:
        """
        Make sure that this very lease outlives a call that may take `longest_s` seconds, and raise LeaseLostError when it cannot.

        One that was lost and taken again meanwhile is another: what someone else settled in between must be read first. Asked when
        nothing but the sending is left to do; no transaction may be open.
        """
        with self._lock:
            if self._left() < longest_s + MARGIN_S and self._lease is not None:
                self._renew()
            if self._lease is None or self._lease.fence != lease.fence or self._left() < longest_s + MARGIN_S:
                raise LeaseLostError(f"Another process took over {self.name}, or soon may; this one sends nothing more.")

    def lose(self) -> None:
        """Take note that it is someone else's now."""
        with self._lock:
            self._lease, self._until = None, 0.0

    def give_back(self) -> None:
        """End it now, so that a successor need not wait; no call of ours may be on its way."""
        with self._lock:
            if self._lease is not None:
                with self.db.write() as session:
                    leases.give_back(session, self._lease, self.clock.now())
                self._lease = None

    def _left(self) -> float:
        return self._until - self.clock.boot()

    def _renew(self) -> None:
        begun = self.clock.boot()
        with self.db.write() as session:
            self._lease = leases.take(
                session,
                self.name,
                self.holder,
                now=self.clock.now(),
                lasts=self.lasts,
                settles=self.settles,
                dead_since=self.dead_since,
            )
        self._until = begun + self.lasts.total_seconds() if self._lease is not None else 0.0


def process_name() -> str:
    """Return a name for this process that no other has, also where every container's process has the same host name and number."""
    return f"{socket.gethostname()}:{os.getpid()}:{_drawn()}"


@cache
def _drawn() -> str:
    return secrets.token_hex(4)


def holding_of(db: Database, clock: Clock, site: str, loop: str, holder: str, *, calls: CallLimits, alone: bool) -> Holding:
    """
    Return the lease of a site's loop for `holder`, not taken yet. Only what `apply` sends can arrive late, so only its successor waits for that.

    `alone`: a lock says that no other process is there. Then nothing was sent since, and what was sent last ends with its time limit.
    """
    lasts, settles = LASTS, timedelta(0)
    if loop == "apply":
        lasts = max(LASTS, timedelta(seconds=calls.longest_s + MARGIN_S + RENEW_WITHIN_S))
        settles = timedelta(seconds=calls.call_s if alone else calls.longest_s)
    return Holding(
        db=db,
        clock=clock,
        name=f"{site}/{loop}",
        holder=holder,
        lasts=lasts,
        settles=settles,
        dead_since=clock.now() if alone else None,
    )
