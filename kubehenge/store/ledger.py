"""
The ledger: an append-only record, one chain of hashes per site (MODEL 10).

An entry's hash covers all of it and the hash of the entry before, so no entry can be changed, left out or moved without the rest
of the chain saying so. An entry is appended in the transaction of the thing that it records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from kubehenge.errors import InvariantError
from kubehenge.model.canon import digest
from kubehenge.store.bulk import insert_many
from kubehenge.store.rows import LedgerRow, SiteRow

BEGINNING = "0" * 64
"""Stands where the first entry names the one before it."""

BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest entry of a chain: what is published where the owner of the database cannot rewrite it."""

    position: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """The first position at which a chain does not hold, and why."""

    position: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    What one entry says.

    Shape: `event` is a past-tense word such as `plan_approved`, `subject` what it is about (`clusters/prod`, `site`, a source's
    name), `facts` digests and small facts, never a secret.
    """

    event: str
    subject: str
    who: str
    facts: Mapping[str, Any]


def append(
    session: Session, *, site_id: int, tick: int, event: str, subject: str, who: str, facts: Mapping[str, Any], at: datetime
) -> Head:
    """Append one entry in the session's transaction; as `append_all`."""
    return append_all(session, [Entry(event=event, subject=subject, who=who, facts=facts)], site_id=site_id, tick=tick, at=at)


def append_all(session: Session, entries: Iterable[Entry], *, site_id: int, tick: int, at: datetime) -> Head:
    """
    Append entries in their order in the session's transaction, and return the chain's new head.

    Appends to one site wait for each other until the transaction ends.
    """
    # SQLite's writer is alone already; on PostgreSQL the site's row is the lock. KEY SHARE leaves foreign keys to it free.
    locked = session.execute(select(SiteRow.id).where(SiteRow.id == site_id).with_for_update(key_share=True)).scalar()
    if locked is None:
        raise InvariantError(f"There is no site {site_id} to append to.")
    before = head(session, site_id)
    rows = []
    for entry in entries:
        said = {"tick": tick, "event": entry.event, "subject": entry.subject, "who": entry.who, "facts": entry.facts}
        position = before.position + 1
        hashed = _hash_of(site_id, position, at, said, before.hash)
        rows.append({"site_id": site_id, "position": position, "at": at, **said, "previous": before.hash, "hash": hashed})
        before = Head(position=position, hash=hashed)
    insert_many(session, LedgerRow, rows)
    return before


def head(session: Session, site_id: int) -> Head:
    """Return the newest entry of a site's chain; position 0 when there is none."""
    newest = select(LedgerRow.position, LedgerRow.hash).where(LedgerRow.site_id == site_id).order_by(LedgerRow.position.desc()).limit(1)
    found = session.execute(newest).one_or_none()
    return Head(position=found[0], hash=found[1]) if found else Head(position=0, hash=BEGINNING)


def verify(session: Session, site_id: int, *, expected: Head | None = None) -> Break | None:
    """
    Return the first position at which a site's chain does not hold, or None when all of it does.

    `expected` is a head that was published before: a chain that was cut off, or written anew as a whole, holds by itself and
    differs from that.
    """
    before = Head(position=0, hash=BEGINNING)
    for entry in _entries(session, site_id):
        if entry.position != before.position + 1:
            return Break(position=before.position + 1, reason=f"entry {before.position + 1} is missing")
        if entry.previous != before.hash:
            return Break(position=entry.position, reason=f"entry {entry.position} does not follow the one before it")
        if entry.hash != entry_hash(entry):
            return Break(position=entry.position, reason=f"entry {entry.position} was changed after it was written")
        before = Head(position=entry.position, hash=entry.hash)
        if expected and expected.position == before.position and expected.hash != before.hash:
            return Break(position=before.position, reason=f"entry {before.position} is not the one that was published")
    if expected and expected.position > before.position:
        return Break(position=before.position + 1, reason=f"the entries up to {expected.position}, which was published, are cut off")
    return None


def entry_hash(entry: LedgerRow) -> str:
    """Return the SHA-256 that an entry must bear."""
    said = {"tick": entry.tick, "event": entry.event, "subject": entry.subject, "who": entry.who, "facts": entry.facts}
    return _hash_of(entry.site_id, entry.position, entry.at, said, entry.previous)


def _hash_of(site_id: int, position: int, at: datetime, said: Mapping[str, Any], previous: str) -> str:
    """Hash an entry; its instant counts in whole microseconds, as both databases keep it."""
    instant = at.astimezone(UTC).isoformat(timespec="microseconds")
    return digest({"site": site_id, "position": position, "at": instant, **said, "previous": previous})


def _entries(session: Session, site_id: int) -> Iterator[LedgerRow]:
    """Read a chain in batches: a ledger is kept for ever."""
    after = -1
    while True:
        batch = list(
            session.scalars(
                select(LedgerRow).where(LedgerRow.site_id == site_id, LedgerRow.position > after).order_by(LedgerRow.position).limit(BATCH)
            )
        )
        for entry in batch:
            yield entry
            session.expunge(entry)
        if len(batch) < BATCH:
            return
        after = batch[-1].position
