"""Leases: the right to act, with a fence that every write under it must match (MODEL 26)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from kubehenge.errors import LeaseLostError
from kubehenge.store.bulk import insert_ignoring
from kubehenge.store.rows import LeaseRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease that we hold until `expires_at`."""

    name: str
    holder: str
    fence: int
    expires_at: datetime


def take(
    session: Session,
    name: str,
    holder: str,
    *,
    now: datetime,
    lasts: timedelta,
    settles: timedelta = timedelta(0),
    dead_since: datetime | None = None,
) -> Lease | None:
    """
    Take or renew a lease; None while someone else holds it, or a call that was sent under it may still be on its way.

    `settles` is how long such a call may take after its holder's end. `dead_since` is for a caller who knows by a lock since when no
    other process is there, whatever the lease says (MODEL 26, 27). A lease that was given back is free at once.

    The fence rises whenever the holder changes, so what an earlier holder still writes matches nothing.
    """
    session.execute(
        insert_ignoring(session, LeaseRow).values(name=name, holder="", fence=0, expires_at=now - lasts, renewed_at=now - lasts)
    )
    row = session.execute(select(LeaseRow.holder, LeaseRow.fence, LeaseRow.expires_at).where(LeaseRow.name == name).with_for_update()).one()
    ends = row.expires_at if dead_since is None else min(row.expires_at, dead_since)
    if row.holder not in {holder, ""} and ends + settles > now:
        return None
    fence = row.fence if row.holder == holder else row.fence + 1
    expires_at = now + lasts
    session.execute(update(LeaseRow).where(LeaseRow.name == name).values(holder=holder, fence=fence, expires_at=expires_at, renewed_at=now))
    return Lease(name=name, holder=holder, fence=fence, expires_at=expires_at)


def require(session: Session, lease: Lease) -> None:
    """Raise LeaseLostError unless the lease is still ours: called in the transaction of every write under it."""
    check(session.scalar(select(FENCE), given(lease)), lease)


FENCE = select(LeaseRow.fence).where(LeaseRow.name == bindparam("lease"), LeaseRow.holder == bindparam("holder")).scalar_subquery()
"""The fence that stands under a lease's name and holder, as a part of a query whose parameters hold `given(lease)`; for `check`."""


def given(lease: Lease) -> dict[str, str]:
    """Return the parameters that FENCE needs."""
    return {"lease": lease.name, "holder": lease.holder}


def check(fence: int | None, lease: Lease) -> None:
    """Raise LeaseLostError unless this is the lease's fence."""
    if fence != lease.fence:
        raise LeaseLostError(f"Another process took over {lease.name}; this one writes nothing more.")


def give_back(session: Session, lease: Lease, now: datetime) -> None:
    """End a lease now, so that a successor need not wait."""
    session.execute(
        update(LeaseRow)
        .where(LeaseRow.name == lease.name, LeaseRow.fence == lease.fence, LeaseRow.holder == lease.holder)
        .values(expires_at=now, holder="")
    )
