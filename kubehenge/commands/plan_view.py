"""A plan, whole, as commands show it: found by its number or digest, and as plain JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from kubehenge.commands.output import as_plain
from kubehenge.errors import UsageError
from kubehenge.model.canon import MISSING, FieldChange
from kubehenge.store.reads import plans
from kubehenge.store.reads.plans import ActionLine, PlanView
from kubehenge.store.reads.visible import EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class WholePlan:
    """A plan with all of its actions."""

    view: PlanView
    actions: tuple[ActionLine, ...]


def find(session: Session, site_id: int, text: str) -> WholePlan:
    """Return the plan that someone names by its number or by at least 7 digits of its digest. Errors: UsageError."""
    # A number of a plan is shorter than the digits of a digest that count, so the two cannot be taken for each other.
    plan_id = int(text) if text.isdecimal() and len(text) < 7 else plans.find_plan_id(session, site_id, EVERYTHING, text)
    found = None if plan_id is None else load(session, site_id, plan_id)
    if found is None:
        raise UsageError(f"There is no plan {text}. Name one by its number or its digest, as `kubehenge plans` lists them.")
    return found


def load(session: Session, site_id: int, plan_id: int) -> WholePlan | None:
    """Return a plan by its number, None when there is none."""
    view = plans.find_plan(session, site_id, EVERYTHING, plan_id)
    return None if view is None else WholePlan(view=view, actions=tuple(_actions(session, plan_id)))


def _actions(session: Session, plan_id: int) -> Iterator[ActionLine]:
    number = 1
    while True:
        page = plans.plan_actions(session, plan_id, number)
        yield from page.items
        if number >= page.pages:
            return
        number += 1


def as_json(plan: WholePlan) -> dict[str, Any]:
    """Return a plan as plain JSON, for programs."""
    line, view = plan.view.line, plan.view
    found: dict[str, Any] = {
        "plan": line.id,
        "digest": line.digest,
        "scope": line.scope,
        "lane": line.lane,
        "state": line.state,
        "word": line.word,
        "title": line.title,
        "summary": line.summary,
        "classes": line.classes,
        "revision": line.revision,
        "author": line.author,
        "opened_at": line.opened_at,
        "approved_at": line.approved_at,
        "closed_at": line.closed_at,
        "closed_reason": view.closed_reason,
        "run": line.run_id,
        "held": line.held,
        "protected": view.protected,
        "can_finish": not view.obstacles,
        "bill": line.bill,
        "obstacles": [
            {
                "what": one.what,
                "asked": one.asked,
                "there_is": one.there_is,
                "short_by": one.short_by,
                "remedies": [
                    {"text": remedy.text, "cost": remedy.cost, "changes": changes_json(remedy.changes)} for remedy in one.remedies
                ],
            }
            for one in view.obstacles
        ],
        "checks": view.checks,
        "approvals": [
            {"verdict": one.verdict, "who": one.who, "comment": one.comment, "at": one.at, "inherited": one.inherited}
            for one in view.approvals
        ],
        "actions": [
            {
                "position": one.position,
                "verb": one.verb,
                "kind": one.kind,
                "name": one.name,
                "class": one.change_class,
                "fields": changes_json(one.fields),
                "drift": changes_json(one.drift),
                "waits_for": one.waits_for,
                "requires": one.requires,
                "reason": one.reason,
            }
            for one in plan.actions
        ],
    }
    plain: dict[str, Any] = as_plain(found)
    return plain


def changes_json(changes: Sequence[FieldChange]) -> list[dict[str, Any]]:
    """Return fields that differ as plain JSON; a side that has no such field is left out."""
    return [
        {"path": one.path, **{side: value for side, value in (("before", one.before), ("after", one.after)) if value is not MISSING}}
        for one in changes
    ]
