"""What one plan does differently from another, for whoever read the earlier one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from kubehenge.model.canon import MISSING
from kubehenge.model.resource import Verb
from kubehenge.store.reads.values import field_changes
from kubehenge.store.rows import ActionRow

MOST_ACTIONS = 2000
"""So many actions of each plan are compared; more could not be read anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that two plans do differently, in words; '' where a plan does nothing about it."""

    what: str
    before: str
    after: str


def differences(session: Session, before_id: int, after_id: int, *, limit: int = 50) -> tuple[Difference, ...]:
    """Return what a plan does differently from the one that it replaced, field by field."""
    before, after = _deeds(session, before_id), _deeds(session, after_id)
    found = [
        Difference(what=what, before=before.get(what, ""), after=after.get(what, ""))
        for what in sorted(before.keys() | after.keys())
        if before.get(what) != after.get(what)
    ]
    return tuple(found[:limit])


def _deeds(session: Session, plan_id: int) -> dict[str, str]:
    """Return what a plan does: a resource, or one field of it, to a few words."""
    query = select(ActionRow.kind, ActionRow.name, ActionRow.verb, ActionRow.change_class, ActionRow.changes).where(
        ActionRow.plan_id == plan_id
    )
    deeds: dict[str, str] = {}
    for kind, name, verb, change_class, stored in session.execute(query.order_by(ActionRow.position).limit(MOST_ACTIONS)):
        deeds[f"{kind} {name}"] = change_class.value if verb is Verb.UPDATE else verb.value
        for one in field_changes(stored):
            deeds[f"{kind} {name}: {one.path}"] = f"{_plain(one.before)} to {_plain(one.after)}"
    return deeds


def _plain(value: Any) -> str:
    return "not set" if value is MISSING else str(value)
