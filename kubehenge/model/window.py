"""
Upgrade windows: when one is open, when it opens next, how long it lasts (reference: kubehenge-upgrading).

On nights when the clock changes: docs/decisions/0002-upgrade-windows-and-clock-changes.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo


class Weekday(StrEnum):
    """A day of the week, as files name it."""

    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


_DAYS = tuple(Weekday)
_LONGEST_GAP_DAYS = 63
"""The 31st of one month and of the next that has one are at most 62 days apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeWindow:
    """
    When automatic upgrades may start.

    A day listed in either list counts; every day when both are empty. `start` is a wall-clock time in `time_zone`, an IANA name;
    `duration_minutes` is elapsed time, so a window may run past midnight and then belongs to the day it opened on.
    """

    weekdays: frozenset[Weekday] = frozenset()
    month_days: frozenset[int] = frozenset()
    start: time = time(2, 0)
    duration_minutes: int = 240
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """One time that a window is open: from `opens_at`, included, to `closes_at`, left out; UTC instants."""

    opens_at: datetime
    closes_at: datetime


def is_open(window: UpgradeWindow, instant: datetime) -> bool:
    """Tell whether an automatic upgrade may start at an instant (with a time zone)."""
    return find_opening(window, instant) is not None


def find_opening(window: UpgradeWindow, instant: datetime) -> Opening | None:
    """Return the opening that holds an instant, the one that closes last if there are two, or None while the window is shut."""
    today = instant.astimezone(ZoneInfo(window.time_zone)).date()
    # 24 elapsed hours reach into the second day after, when the clock goes forward on the first.
    openings = [
        opening for opening in _openings(window, today - timedelta(days=2), days=3) if opening.opens_at <= instant < opening.closes_at
    ]
    return max(openings, key=lambda opening: opening.closes_at, default=None)


def next_opening(window: UpgradeWindow, instant: datetime) -> Opening:
    """Return the first opening that begins after an instant."""
    today = instant.astimezone(ZoneInfo(window.time_zone)).date()
    return next(opening for opening in _openings(window, today, days=_LONGEST_GAP_DAYS) if opening.opens_at > instant)


def minutes_left(window: UpgradeWindow, instant: datetime) -> int:
    """Return the whole minutes until the window shuts, 0 while it is shut."""
    opening = find_opening(window, instant)
    return 0 if opening is None else int((opening.closes_at - instant).total_seconds() // 60)


def _openings(window: UpgradeWindow, first_day: date, *, days: int) -> Iterator[Opening]:
    zone = ZoneInfo(window.time_zone)
    for offset in range(days):
        day = first_day + timedelta(days=offset)
        if _counts(window, day):
            # fold=0: of two equal wall-clock times the first; a time that the clock skips is read by the offset before.
            opens_at = datetime.combine(day, window.start, tzinfo=zone).replace(fold=0).astimezone(UTC)
            yield Opening(opens_at=opens_at, closes_at=opens_at + timedelta(minutes=window.duration_minutes))


def _counts(window: UpgradeWindow, day: date) -> bool:
    if not window.weekdays and not window.month_days:
        return True
    return _DAYS[day.weekday()] in window.weekdays or day.day in window.month_days
