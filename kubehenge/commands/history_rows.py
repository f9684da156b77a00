"""The past of a cluster: its versions, its plans and its runs, by ticks (MODEL 9)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import aliased

from kubehenge.commands.opening import Reading
from kubehenge.commands.plan_text import arrow
from kubehenge.errors import UsageError
from kubehenge.model.canon import MISSING, changes
from kubehenge.store.rows import BodyRow, ClusterRow, LedgerRow, ResourceRow, TickRow, VersionRow
from kubehenge.store.ticks import as_of as tick_as_of

SHOWN_FIELDS = 3
"""Fields of one change that a line names."""


def changes_of(reading: Reading, scope: str, *, kind: str | None, side: str | None, limit: int) -> list[dict[str, Any]]:
    """Return what changed, the newest first: bodies of its resources, and what the ledger says of it."""
    rows = [*_versions(reading, scope, kind, side, limit), *([] if kind or side else _entries(reading, scope, limit))]
    return sorted(rows, key=lambda row: (row["at"], row["order"]), reverse=True)[:limit]


def as_of(reading: Reading, scope: str, moment: datetime, *, kind: str | None, side: str) -> list[dict[str, Any]]:
    """Return the bodies of a cluster's resources as they were known at a moment."""
    tick = tick_as_of(reading.session, reading.site_id, moment)
    query = (
        select(ResourceRow.kind, ResourceRow.name, BodyRow.content, TickRow.at)
        .join(VersionRow, VersionRow.resource_id == ResourceRow.id)
        .join(BodyRow, BodyRow.hash == VersionRow.body_hash)
        .join(TickRow, and_(TickRow.site_id == ResourceRow.site_id, TickRow.number == VersionRow.from_tick))
        .where(
            ResourceRow.cluster_id.in_(_lives(reading, scope)),
            VersionRow.side == side,
            VersionRow.from_tick <= tick,
            or_(VersionRow.to_tick.is_(None), VersionRow.to_tick > tick),
            *([ResourceRow.kind == kind] if kind else []),
        )
        .order_by(ResourceRow.kind, ResourceRow.name)
    )
    return [
        {"kind": row.kind, "name": row.name, "side": side, "since": row.at, "body": row.content} for row in reading.session.execute(query)
    ]


def _lives(reading: Reading, scope: str) -> list[int]:
    """Return the ids of all lives of a cluster's name. Errors: UsageError when it never was."""
    namespace, _, name = scope.partition("/")
    query = select(ClusterRow.id).where(ClusterRow.site_id == reading.site_id, ClusterRow.namespace == namespace, ClusterRow.name == name)
    found = list(reading.session.scalars(query))
    if not found:
        raise UsageError(f"There is no cluster {scope}, and there never was. `kubehenge get clusters` lists those that there are.")
    return found


def _versions(reading: Reading, scope: str, kind: str | None, side: str | None, limit: int) -> list[dict[str, Any]]:
    earlier, before = aliased(VersionRow), aliased(BodyRow)
    query = (
        select(
            TickRow.at,
            VersionRow.id,
            VersionRow.side,
            ResourceRow.kind,
            ResourceRow.name,
            VersionRow.body_hash,
            BodyRow.content,
            earlier.body_hash.label("before_hash"),
            before.content.label("before"),
        )
        .join(ResourceRow, ResourceRow.id == VersionRow.resource_id)
        .join(TickRow, and_(TickRow.site_id == ResourceRow.site_id, TickRow.number == VersionRow.from_tick))
        .outerjoin(BodyRow, BodyRow.hash == VersionRow.body_hash)
        .outerjoin(
            earlier,
            and_(earlier.resource_id == VersionRow.resource_id, earlier.side == VersionRow.side, earlier.to_tick == VersionRow.from_tick),
        )
        .outerjoin(before, before.hash == earlier.body_hash)
        .where(
            ResourceRow.cluster_id.in_(_lives(reading, scope)),
            *([ResourceRow.kind == kind] if kind else []),
            *([VersionRow.side == side] if side else []),
        )
        .order_by(VersionRow.from_tick.desc(), VersionRow.id.desc())
        .limit(limit)
    )
    return [
        {
            "at": row.at,
            "order": (0, row.id),
            "side": row.side.value,
            "what": row.kind,
            "name": row.name,
            "change": _change(row.before_hash, row.before, row.body_hash, row.content),
            "body": row.content,
        }
        for row in reading.session.execute(query)
    ]


def _change(before_hash: str | None, before: Any, after_hash: str | None, after: Any) -> str:
    if before_hash is None:
        return "appeared" if after_hash else "absent"
    if after_hash is None:
        return "went"
    found = list(changes(before, after if after is not None else MISSING))
    named = "; ".join(f"{one.path}: {arrow(one, full=False)}" for one in found[:SHOWN_FIELDS])
    return named + (f"; {len(found) - SHOWN_FIELDS} more" if len(found) > SHOWN_FIELDS else "")


def _entries(reading: Reading, scope: str, limit: int) -> list[dict[str, Any]]:
    query = (
        select(LedgerRow)
        .where(LedgerRow.site_id == reading.site_id, LedgerRow.subject == scope)
        .order_by(LedgerRow.position.desc())
        .limit(limit)
    )
    return [
        {
            "at": row.at,
            "order": (1, row.position),
            "side": "ledger",
            "what": row.event,
            "name": row.who,
            "change": ", ".join(f"{key}: {value}" for key, value in row.facts.items() if not isinstance(value, dict | list)),
            "body": None,
        }
        for row in reading.session.scalars(query)
    ]
