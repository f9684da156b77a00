"""The ledger: who asked, who agreed, what was done, what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from kubehenge.store.reads.paging import Page, page_of
from kubehenge.store.reads.sql import holds_text
from kubehenge.store.reads.visible import SITE, Visible
from kubehenge.store.rows import LedgerRow


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFilter:
    """What the list is narrowed to; '' or None narrows nothing."""

    text: str = ""
    who: str = ""
    event: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """One entry; `facts` are digests and small facts."""

    position: int
    at: datetime
    event: str
    subject: str
    who: str
    facts: Mapping[str, Any]
    hash: str


def ledger_page(session: Session, site_id: int, visible: Visible, wanted: LedgerFilter, number: int = 1) -> Page[LedgerLine]:
    """Return a page of the entries that fit a filter, the newest first."""
    query = select(LedgerRow).where(LedgerRow.site_id == site_id, _seen(visible), *_conditions(wanted))
    return page_of(session, query.order_by(LedgerRow.position.desc()), number).map(lambda rows: [_line(row[0]) for row in rows])


def ledger_events(session: Session, site_id: int) -> tuple[str, ...]:
    """Return the events that the ledger knows."""
    return tuple(session.scalars(select(LedgerRow.event).where(LedgerRow.site_id == site_id).distinct().order_by(LedgerRow.event)))


def _seen(visible: Visible) -> ColumnElement[bool]:
    """An entry about a cluster names it `<namespace>/<name>`; all others are about what clusters share."""
    about_cluster = LedgerRow.subject.contains("/") & ~LedgerRow.subject.startswith(f"{SITE}:", autoescape=True)
    clusters = about_cluster & visible.clusters(LedgerRow.subject)
    return or_(clusters, ~about_cluster) if visible.site else clusters


def _conditions(wanted: LedgerFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.text:
        found.append(or_(holds_text(LedgerRow.subject, wanted.text), holds_text(LedgerRow.event, wanted.text)))
    if wanted.who:
        found.append(holds_text(LedgerRow.who, wanted.who))
    if wanted.event:
        found.append(LedgerRow.event == wanted.event)
    if wanted.since is not None:
        found.append(LedgerRow.at >= wanted.since)
    if wanted.until is not None:
        found.append(LedgerRow.at < wanted.until)
    return found


def _line(row: LedgerRow) -> LedgerLine:
    return LedgerLine(position=row.position, at=row.at, event=row.event, subject=row.subject, who=row.who, facts=row.facts, hash=row.hash)
