"""Tick numbers, and coverage: which tiers were read when (MODEL 9)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ScalarSelect, func, select, update
from sqlalchemy.orm import Session

from kubehenge.store.rows import CoverageRow, CoverageState, TickRow

SEEN_EVERY = timedelta(seconds=15)
"""An idle pass moves times forward at most this often."""


def last_tick(session: Session, site_id: int) -> int:
    """Return the number of the last tick, 0 before the first."""
    return session.scalar(select(last_tick_of(site_id))) or 0


def last_tick_of(site_id: Any) -> ScalarSelect[Any]:
    """Return the last tick's number as a part of another query; NULL before the first. `site_id` may be a column of that query."""
    return select(func.max(TickRow.number)).where(TickRow.site_id == site_id).scalar_subquery()


def next_tick(session: Session, site_id: int, now: datetime) -> int:
    """
    Draw the next tick.

    Its instant is forced to rise, whatever the clock says; so "as of T" never depends on a clock that was set back.
    """
    last = session.execute(
        select(TickRow.number, TickRow.at, TickRow.seen_at).where(TickRow.site_id == site_id).order_by(TickRow.number.desc()).limit(1)
    ).first()
    number = last.number + 1 if last else 1
    at = max(now, last.at + timedelta(microseconds=1)) if last else now
    session.add(TickRow(site_id=site_id, number=number, at=at, seen_at=at))
    session.flush()
    return number


def as_of(session: Session, site_id: int, instant: datetime) -> int:
    """Return the last tick at or before an instant, 0 when there is none."""
    return (
        session.scalar(select(TickRow.number).where(TickRow.site_id == site_id, TickRow.at <= instant).order_by(TickRow.at.desc()).limit(1))
        or 0
    )


def cover(session: Session, site_id: int, tier: str, state: CoverageState, now: datetime, reason: str = "") -> bool:
    """
    Record that a tier was read, or was not: the last row is extended in place while nothing changed.

    Shape: whether it is another state or reason than before. An extension happens at most every 15 s.
    """
    tick = last_tick(session, site_id)
    last = session.scalars(
        select(CoverageRow).where(CoverageRow.site_id == site_id, CoverageRow.tier == tier).order_by(CoverageRow.id.desc()).limit(1)
    ).first()
    if last is not None and last.state is state and last.reason == reason:
        if last.to_tick != tick or now - last.to_at >= SEEN_EVERY:
            last.to_tick, last.to_at = max(last.to_tick, tick), max(last.to_at, now)
        return False
    session.add(CoverageRow(site_id=site_id, tier=tier, state=state, reason=reason, from_tick=tick, to_tick=tick, from_at=now, to_at=now))
    return True


def seen(session: Session, site_id: int, now: datetime) -> None:
    """Move the last tick's time forward: nothing has changed since."""
    tick = last_tick(session, site_id)
    session.execute(update(TickRow).where(TickRow.site_id == site_id, TickRow.number == tick, TickRow.seen_at < now).values(seen_at=now))
