"""Plans: the list with its counts and filters, and one plan with all that its page says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, func, or_, select
from sqlalchemy.orm import Session, aliased

from kubehenge.model.canon import MISSING, FieldChange, changes
from kubehenge.model.plan import Bill, Check, Obstacle, PlanState
from kubehenge.model.resource import ChangeClass, Lane, Verb
from kubehenge.plan.approval import Said
from kubehenge.store.plans import words_of
from kubehenge.store.reads.clusters import shortest
from kubehenge.store.reads.paging import Page, Query, page_of
from kubehenge.store.reads.sql import holds_text
from kubehenge.store.reads.values import bill_of, checks_of, field_changes, obstacles_of
from kubehenge.store.reads.visible import Visible
from kubehenge.store.reads.words import OPEN_WORDS, PlanWord, gravest_first, plan_word
from kubehenge.store.rows import ActionRow, ApprovalRow, ApprovalVerdict, BodyRow, ClusterRow, PlanRow, RunRow

DIGEST_DIGITS = 12
"""How many hex digits of its digest name a plan to people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFilter:
    """What a list is narrowed to; '' narrows nothing. `state` is a `PlanWord`, `open` or `closed`."""

    state: str = "open"
    text: str = ""
    change_class: str = ""
    author: str = ""
    lane: str = ""
    cluster_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLine:
    """One line of a list of plans."""

    id: int
    scope: str
    lane: Lane
    digest: str
    state: PlanState
    word: PlanWord
    title: str
    summary: str
    classes: tuple[ChangeClass, ...]
    bill: Bill
    author: str
    revision: str
    opened_at: datetime
    approved_at: datetime | None
    closed_at: datetime | None
    run_id: int | None
    run_ended_at: datetime | None
    cannot: str
    held: str
    retry_at: datetime | None
    cluster_id: int | None

    @property
    def short_digest(self) -> str:
        """The digits that name it to people."""
        return self.digest[:DIGEST_DIGITS]

    @property
    def is_open(self) -> bool:
        """Whether it is still to be decided or carried out."""
        return self.closed_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalLine:
    """What someone, or a rule, said of a plan."""

    id: int
    verdict: ApprovalVerdict
    who: str
    comment: str
    rules_version: int
    at: datetime
    inherited: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLine:
    """One action as planned; `fields` is what it writes, `drift` what others changed and it puts back."""

    id: int
    position: int
    kind: str
    name: str
    verb: Verb
    change_class: ChangeClass
    before_hash: str | None
    fields: tuple[FieldChange, ...]
    drift: tuple[FieldChange, ...]
    waits_for: tuple[int, ...]
    requires: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """One plan, whole but for its actions, which come in pages."""

    line: PlanLine
    obstacles: tuple[Obstacle, ...]
    checks: tuple[Check, ...]
    protected: bool
    rules_version: int
    opened_tick: int
    refreshed_at: datetime
    closed_reason: str
    documents: tuple[str, ...]
    class_counts: Mapping[ChangeClass, int]
    action_count: int
    approvals: tuple[ApprovalLine, ...]
    replaced_by: PlanLine | None
    replaces: PlanLine | None
    beside: PlanLine | None
    """The open plan of the same cluster's other lane (MODEL 11)."""


_RUN = aliased(RunRow)


def _plans(site_id: int, visible: Visible) -> Query:
    return (
        select(PlanRow, plan_word().label("word"), _RUN.id, _RUN.ended_at)
        .outerjoin(_RUN, _RUN.plan_id == PlanRow.id)
        .where(PlanRow.site_id == site_id, visible.scopes(PlanRow.scope))
    )


def plan_page(session: Session, site_id: int, visible: Visible, wanted: PlanFilter, number: int = 1) -> Page[PlanLine]:
    """Return a page of the plans that fit a filter, the newest first."""
    query = _plans(site_id, visible).where(*_conditions(wanted), _state_condition(wanted.state)).order_by(PlanRow.id.desc())
    return page_of(session, query, number).map(lambda rows: [_line(row) for row in rows])


def plan_counts(session: Session, site_id: int, visible: Visible, wanted: PlanFilter) -> Mapping[str, int]:
    """Count the plans that fit all of a filter but its state: `open`, `closed`, and each word of the open ones."""
    plans = select(PlanRow.id, PlanRow.closed_tick, plan_word().label("word")).where(
        PlanRow.site_id == site_id, visible.scopes(PlanRow.scope), *_conditions(wanted)
    )
    open_words = plans.where(PlanRow.closed_tick.is_(None)).subquery()
    counts: dict[str, int] = dict(session.execute(select(open_words.c.word, func.count()).group_by(open_words.c.word)).all())
    counts["open"] = sum(counts.values())
    counts["closed"] = (
        session.scalar(
            select(func.count())
            .select_from(PlanRow)
            .where(PlanRow.site_id == site_id, visible.scopes(PlanRow.scope), PlanRow.closed_tick.is_not(None), *_conditions(wanted))
        )
        or 0
    )
    return counts


def plan_authors(session: Session, site_id: int, visible: Visible) -> tuple[str, ...]:
    """Return who asked for the open plans."""
    query = (
        select(PlanRow.author)
        .where(PlanRow.site_id == site_id, PlanRow.closed_tick.is_(None), visible.scopes(PlanRow.scope), PlanRow.author != "")
        .distinct()
        .order_by(PlanRow.author)
    )
    return tuple(session.scalars(query))


def waiting_plans(session: Session, site_id: int, visible: Visible, *, limit: int = 500) -> tuple[PlanLine, ...]:
    """Return the plans that wait for someone's approval, the oldest first."""
    query = _plans(site_id, visible).where(
        PlanRow.closed_tick.is_(None), PlanRow.state == PlanState.OPEN, plan_word() == PlanWord.WAITING.value
    )
    return tuple(_line(row) for row in session.execute(query.order_by(PlanRow.id).limit(limit)))


def decided_plans(session: Session, site_id: int, visible: Visible, *, limit: int = 12) -> tuple[tuple[ApprovalLine, PlanLine], ...]:
    """Return what was decided last, by people or by rules, with the plans that it was about."""
    query = (
        select(ApprovalRow, PlanRow, plan_word().label("word"), _RUN.id, _RUN.ended_at)
        .join(PlanRow, PlanRow.id == ApprovalRow.plan_id)
        .outerjoin(_RUN, _RUN.plan_id == PlanRow.id)
        .where(PlanRow.site_id == site_id, visible.scopes(PlanRow.scope))
        .order_by(ApprovalRow.id.desc())
        .limit(limit)
    )
    return tuple((_approval(row[0]), _line(row[1:])) for row in session.execute(query))


def find_plan_id(session: Session, site_id: int, visible: Visible, digest: str) -> int | None:
    """Return the newest plan whose digest begins with at least 7 hex digits, None when there is none that may be seen."""
    if len(digest) < 7 or not set(digest.lower()) <= set("0123456789abcdef"):
        return None
    query = select(PlanRow.id).where(
        PlanRow.site_id == site_id, PlanRow.digest >= digest.lower(), PlanRow.digest < digest.lower() + "g", visible.scopes(PlanRow.scope)
    )
    return session.scalar(query.order_by(PlanRow.id.desc()).limit(1))


def find_plan(session: Session, site_id: int, visible: Visible, plan_id: int) -> PlanView | None:
    """Return one plan, None when there is none that may be seen."""
    found = session.execute(_plans(site_id, visible).where(PlanRow.id == plan_id)).first()
    if found is None:
        return None
    row: PlanRow = found[0]
    counts = session.execute(
        select(ActionRow.change_class, func.count()).where(ActionRow.plan_id == plan_id).group_by(ActionRow.change_class)
    )
    found_counts = dict(counts.all())
    class_counts = {one: found_counts[one] for one in gravest_first(found_counts)}
    line = _line(found)
    beside = and_(PlanRow.scope == row.scope, PlanRow.lane != row.lane, PlanRow.closed_tick.is_(None))
    return PlanView(
        line=line,
        obstacles=obstacles_of(row.obstacles),
        checks=checks_of(row.checks),
        protected=row.protected,
        rules_version=row.rules_version,
        opened_tick=row.opened_tick,
        refreshed_at=row.refreshed_at,
        closed_reason=row.closed_reason,
        documents=tuple(row.documents),
        class_counts=class_counts,
        action_count=sum(class_counts.values()),
        approvals=_approvals(session, plan_id),
        replaced_by=_one(session, site_id, visible, PlanRow.id == row.replaced_by) if row.replaced_by else None,
        replaces=_one(session, site_id, visible, PlanRow.replaced_by == plan_id),
        beside=_one(session, site_id, visible, beside) if row.closed_tick is None else None,
    )


def _one(session: Session, site_id: int, visible: Visible, condition: ColumnElement[bool]) -> PlanLine | None:
    found = session.execute(_plans(site_id, visible).where(condition).order_by(PlanRow.id.desc()).limit(1)).first()
    return _line(found) if found else None


def _approvals(session: Session, plan_id: int) -> tuple[ApprovalLine, ...]:
    query = select(ApprovalRow).where(ApprovalRow.plan_id == plan_id).order_by(ApprovalRow.id)
    return tuple(_approval(row) for row in session.scalars(query))


def _approval(row: ApprovalRow) -> ApprovalLine:
    return ApprovalLine(
        id=row.id,
        verdict=row.verdict,
        who=row.who,
        comment=row.comment,
        rules_version=row.rules_version,
        at=row.at,
        inherited=row.inherited_from is not None,
    )


def said_of_plans(session: Session, plan_ids: Sequence[int]) -> Mapping[int, tuple[Said, ...]]:
    """Return each person's word that still counts, by plan; a later word of one person replaces the earlier."""
    found: dict[int, list[ApprovalRow]] = {}
    for row in session.scalars(select(ApprovalRow).where(ApprovalRow.plan_id.in_(plan_ids)).order_by(ApprovalRow.id)):
        found.setdefault(row.plan_id, []).append(row)
    return {plan_id: words_of(rows) for plan_id, rows in found.items()}


def labels_of_clusters(session: Session, cluster_ids: Sequence[int]) -> Mapping[int, tuple[tuple[str, str], ...]]:
    """Return the labels that clusters are declared with, as sorted pairs; approval rules may name them."""
    query = select(ClusterRow.id, BodyRow.content["metadata", "labels"]).join(BodyRow, BodyRow.hash == ClusterRow.declared_hash)
    return {
        cluster_id: tuple(sorted((labels or {}).items()))
        for cluster_id, labels in session.execute(query.where(ClusterRow.id.in_(cluster_ids)))
    }


def plan_actions(session: Session, plan_id: int, number: int = 1) -> Page[ActionLine]:
    """Return a page of a plan's actions in their order."""
    query = (
        select(ActionRow, BodyRow.content)
        .outerjoin(BodyRow, BodyRow.hash == ActionRow.after_hash)
        .where(ActionRow.plan_id == plan_id)
        .order_by(ActionRow.position)
    )
    return page_of(session, query, number).map(lambda rows: [_action(row, content) for row, content in rows])


def find_action(session: Session, plan_id: int, position: int) -> ActionLine | None:
    """Return one action of a plan, None when it has none at that position."""
    query = (
        select(ActionRow, BodyRow.content)
        .outerjoin(BodyRow, BodyRow.hash == ActionRow.after_hash)
        .where(ActionRow.plan_id == plan_id, ActionRow.position == position)
    )
    found = session.execute(query).first()
    return _action(found[0], found[1]) if found else None


def _action(row: ActionRow, content: Mapping[str, Any] | None) -> ActionLine:
    fields = field_changes(row.changes)
    if row.verb is Verb.CREATE and not fields and content is not None:
        fields = tuple(changes(MISSING, content))
    return ActionLine(
        id=row.id,
        position=row.position,
        kind=row.kind,
        name=row.name,
        verb=row.verb,
        change_class=row.change_class,
        before_hash=row.before_hash,
        fields=fields,
        drift=field_changes(row.drift),
        waits_for=tuple(row.waits_for),
        requires=tuple(row.requires),
        reason=row.reason,
    )


def _conditions(wanted: PlanFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.text:
        text = wanted.text.lower()
        found.append(
            or_(holds_text(PlanRow.scope, text), holds_text(PlanRow.title, text), PlanRow.digest.startswith(text, autoescape=True))
        )
    if wanted.change_class:
        found.append(exists().where(ActionRow.plan_id == PlanRow.id, ActionRow.change_class == wanted.change_class))
    if wanted.author:
        found.append(PlanRow.author == wanted.author)
    if wanted.lane:
        found.append(PlanRow.lane == wanted.lane)
    if wanted.cluster_id is not None:
        found.append(PlanRow.cluster_id == wanted.cluster_id)
    return found


def _state_condition(state: str) -> ColumnElement[bool]:
    if state == "closed":
        return PlanRow.closed_tick.is_not(None)
    if state in {word.value for word in OPEN_WORDS}:
        return and_(PlanRow.closed_tick.is_(None), plan_word() == state)
    if state == "all":
        return PlanRow.id.is_not(None)
    if state in {word.value for word in PlanWord}:
        return plan_word() == state
    return PlanRow.closed_tick.is_(None)


def _line(found: Any) -> PlanLine:
    row, word, run_id, run_ended_at = found
    return PlanLine(
        id=row.id,
        scope=row.scope,
        lane=row.lane,
        digest=row.digest,
        state=row.state,
        word=PlanWord(word),
        title=row.title,
        summary=row.summary,
        classes=gravest_first(row.classes),
        bill=bill_of(row.bill),
        author=row.author,
        revision=row.revision,
        opened_at=row.opened_at,
        approved_at=row.approved_at,
        closed_at=row.closed_at,
        run_id=run_id,
        run_ended_at=run_ended_at,
        cannot=shortest(row.obstacles),
        held=row.held,
        retry_at=row.retry_at,
        cluster_id=row.cluster_id,
    )
