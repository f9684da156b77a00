"""Plans in the database: opened, refreshed, closed, and what was said of them (MODEL 12, 14)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import exists, select, update
from sqlalchemy.orm import Session

from kubehenge.model.canon import MISSING, FieldChange
from kubehenge.model.plan import Action, Plan, PlanState
from kubehenge.model.resource import Lane
from kubehenge.plan.approval import RULE, Said, Word, is_remainder
from kubehenge.store.bodies import put_bodies
from kubehenge.store.bulk import insert_many, table_of
from kubehenge.store.rows import ActionRow, ApprovalRow, ApprovalVerdict, PlanRow, RunRow

REMAINDER_LASTS = timedelta(hours=24)
"""How long what is left of an interrupted run keeps its approvals (MODEL 14)."""

ENDED_EARLY = (PlanState.FAILED, PlanState.STALE, PlanState.INTERRUPTED)


def open_plan(session: Session, site_id: int, scope: str, lane: Lane) -> PlanRow | None:
    """Return the open plan of a scope and lane."""
    return session.scalars(
        select(PlanRow).where(PlanRow.site_id == site_id, PlanRow.scope == scope, PlanRow.lane == lane, PlanRow.closed_tick.is_(None))
    ).first()


def open_plans(session: Session, site_id: int) -> Sequence[PlanRow]:
    """Return all open plans of a site."""
    return session.scalars(select(PlanRow).where(PlanRow.site_id == site_id, PlanRow.closed_tick.is_(None)).order_by(PlanRow.id)).all()


def scopes_with_open_run(session: Session, site_id: int) -> Mapping[tuple[str, Lane], int]:
    """Return the scopes and lanes that a run keeps (MODEL 14), with the run's id."""
    rows = session.execute(select(RunRow.scope, RunRow.lane, RunRow.id).where(RunRow.site_id == site_id, RunRow.ended_at.is_(None)))
    return {(row.scope, row.lane): row.id for row in rows}


def insert_plans(session: Session, opened: Sequence[tuple[PlanRow, Plan]]) -> None:
    """Open rows of plans with their actions; the bodies that they leave are kept with them."""
    session.add_all(row for row, _ in opened)
    session.flush()
    put_bodies(
        session,
        {action.after: action.target for _, plan in opened for action in plan.actions if action.after and action.target is not None},
    )
    insert_many(session, ActionRow, [_action(row.id, row.site_id, action) for row, plan in opened for action in plan.actions])


def new_row(plan: Plan, *, site_id: int, cluster_id: int | None, tick: int, now: datetime, **more: Any) -> PlanRow:
    """Return the row of a plan that is opened now; `more` are the columns that come from elsewhere, such as its revision."""
    return PlanRow(
        site_id=site_id,
        cluster_id=cluster_id,
        scope=plan.scope,
        lane=plan.lane,
        digest=plan.digest,
        state=PlanState.OPEN,
        title=plan.title,
        classes=sorted(plan.classes),
        documents=sorted(plan.documents),
        inputs=plan.inputs,
        disruption=_json(plan.disruption),
        opened_tick=tick,
        opened_at=now,
        refreshed_at=now,
        **_beside(plan),
        **more,
    )


def ended_early(session: Session, site_id: int, since: datetime) -> frozenset[tuple[str, Lane]]:
    """Return the scopes and lanes of which a plan ended early since then: what is opened there may be a remainder, or a retry."""
    rows = session.execute(
        select(PlanRow.scope, PlanRow.lane)
        .where(PlanRow.site_id == site_id, PlanRow.state.in_(ENDED_EARLY), PlanRow.closed_at >= since)
        .distinct()
    )
    return frozenset((row.scope, row.lane) for row in rows)


def _action(plan_id: int, site_id: int, action: Action) -> dict[str, Any]:
    return {
        "plan_id": plan_id,
        "site_id": site_id,
        "position": action.position,
        "kind": action.ref.kind,
        "name": action.ref.name,
        "verb": action.verb,
        "change_class": action.change_class,
        "part": action.part,
        "before_hash": action.before,
        "after_hash": action.after,
        "changes": [_change(one) for one in action.changes],
        "drift": [_change(one) for one in action.drift],
        "waits_for": list(action.waits_for),
        "requires": [str(one) for one in action.requires],
        "reason": action.reason,
    }


def refresh_plan(row: PlanRow, plan: Plan, now: datetime) -> bool:
    """Bring the bill and what else stands beside the digest up to date; tells whether anything moved."""
    moved = False
    for name, value in _beside(plan).items():
        if getattr(row, name) != value:
            setattr(row, name, value)
            moved = True
    if moved:
        row.refreshed_at = now
    return moved


def _beside(plan: Plan) -> dict[str, Any]:
    return {
        "summary": plan.summary,
        "bill": _json(plan.bill),
        "obstacles": [_json(one) for one in plan.obstacles],
        "checks": [_json(one) for one in plan.checks],
        "protected": plan.protected,
    }


def close_plan(
    session: Session, row: PlanRow, state: PlanState, *, tick: int, now: datetime, reason: str = "", replaced_by: int | None = None
) -> None:
    """Close a plan's row for good."""
    row.state, row.closed_tick, row.closed_at, row.closed_reason, row.replaced_by = state, tick, now, reason, replaced_by
    session.flush()


def supersede(session: Session, closed: Iterable[tuple[PlanRow, str]], *, tick: int, now: datetime) -> None:
    """Close the rows of plans that no longer say what there is to do, each for its reason."""
    for row, reason in closed:
        row.state, row.closed_tick, row.closed_at, row.closed_reason = PlanState.SUPERSEDED, tick, now, reason
    session.flush()


def name_replacement(session: Session, closed_id: int, replacement_id: int) -> None:
    """Say which plan took a closed one's place."""
    session.execute(update(table_of(PlanRow)).where(PlanRow.id == closed_id).values(replaced_by=replacement_id))


def said_of(session: Session, plan_id: int) -> tuple[Said, ...]:
    """Return each person's word that still counts on a plan's row."""
    return words_of(session.scalars(select(ApprovalRow).where(ApprovalRow.plan_id == plan_id).order_by(ApprovalRow.id)))


def words_of(rows: Iterable[ApprovalRow]) -> tuple[Said, ...]:
    """Return each person's last word, of words in the order in which they were said."""
    latest: dict[str, Said] = {}
    for row in rows:
        if row.verdict is ApprovalVerdict.WITHDRAW:
            latest.pop(row.who, None)
        else:
            latest[row.who] = Said(who=row.who, word=Word(row.verdict.value), typed_name=row.typed_name, rules_version=row.rules_version)
    return tuple(latest.values())


def approvals_of_remainder(session: Session, row: PlanRow, plan: Plan, now: datetime) -> Sequence[ApprovalRow]:
    """
    Return the approvals that a plan about to be opened keeps, as what is left of a run that ended early.

    Source: MODEL 14, remainder: the same documents, every action contained in an approved row that closed early, within 24 hours.
    """
    earlier = session.scalars(
        select(PlanRow)
        .where(
            PlanRow.site_id == row.site_id,
            PlanRow.scope == row.scope,
            PlanRow.lane == row.lane,
            PlanRow.state.in_(ENDED_EARLY),
            PlanRow.closed_at >= now - REMAINDER_LASTS,
            exists().where(ApprovalRow.plan_id == PlanRow.id),
        )
        .order_by(PlanRow.id.desc())
        .limit(1)
    ).first()
    if earlier is None or earlier.documents != row.documents or earlier.cluster_id != row.cluster_id:
        return ()
    if not is_remainder((_key(action) for action in plan.actions), _keys(session, earlier.id)):
        return ()
    # What a rule said is asked of the rules again; a word that was withdrawn is none.
    standing = {one.who for one in said_of(session, earlier.id) if one.word is Word.APPROVE and not one.who.startswith(RULE)}
    return session.scalars(
        select(ApprovalRow)
        .where(ApprovalRow.plan_id == earlier.id, ApprovalRow.verdict == ApprovalVerdict.APPROVE, ApprovalRow.who.in_(standing))
        .order_by(ApprovalRow.id)
    ).all()


def take_over(session: Session, row: PlanRow, kept: Iterable[ApprovalRow], now: datetime) -> None:
    """Give a plan's row approvals of an earlier one, with the rules under which they were given."""
    for one in kept:
        session.add(
            ApprovalRow(
                plan_id=row.id,
                digest=row.digest,
                verdict=ApprovalVerdict.APPROVE,
                who=one.who,
                rules_version=one.rules_version,
                typed_name=one.typed_name,
                comment="",
                inherited_from=one.id,
                at=now,
            )
        )


def approve_by_rule(session: Session, approved: Iterable[tuple[PlanRow, str]], rules_version: int, now: datetime) -> None:
    """Record what rules approved, each with the rules' names."""
    said = {"verdict": ApprovalVerdict.APPROVE, "rules_version": rules_version, "typed_name": "", "comment": "", "at": now}
    insert_many(session, ApprovalRow, [{"plan_id": row.id, "digest": row.digest, "who": who, **said} for row, who in approved])


def _key(action: Action) -> tuple[str, ...]:
    values = (action.ref.kind, action.ref.name, action.verb, action.part, action.before, action.after, action.change_class)
    return tuple(str(value) for value in values)


def _keys(session: Session, plan_id: int) -> Iterable[tuple[str, ...]]:
    rows = session.execute(
        select(
            ActionRow.kind,
            ActionRow.name,
            ActionRow.verb,
            ActionRow.part,
            ActionRow.before_hash,
            ActionRow.after_hash,
            ActionRow.change_class,
        ).where(ActionRow.plan_id == plan_id)
    )
    return [tuple(str(value) for value in row) for row in rows]


def _change(change: FieldChange) -> dict[str, Any]:
    """Write a field change as JSON; a side that is not there is left out."""
    sides = {"before": change.before, "after": change.after}
    return {"path": change.path, **{side: value for side, value in sides.items() if value is not MISSING}}


_PLAIN = frozenset({str, int, bool, type(None)})


def _json(value: Any) -> Any:
    """Write a frozen value of the model, and what it holds, as JSON; a field that is MISSING is left out."""
    if type(value) in _PLAIN:  # most are, and a bill holds hundreds of them
        return value
    match value:
        case StrEnum():
            return value.value
        case list() | tuple():
            return [_json(item) for item in value]
        case dict():
            return {key: _json(item) for key, item in value.items() if item is not MISSING}
        case _:
            return {name: _json(item) for name in value.__slots__ if (item := getattr(value, name)) is not MISSING}
