"""Runs: one with its steps, counts and log, and the tasks along the bottom of every page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import Session

from kubehenge.model.plan import PlanState, StepState
from kubehenge.model.resource import ChangeClass, Lane, Verb
from kubehenge.store.reads.paging import Page, Query, page_of
from kubehenge.store.reads.sql import json_length
from kubehenge.store.reads.visible import Visible
from kubehenge.store.reads.words import gravest_first
from kubehenge.store.rows import ActionRow, ApprovalRow, ApprovalVerdict, PlanRow, RunRow, StepRow


class StepWord(StrEnum):
    """How an action of a run stands."""

    DONE = "Done"
    RUNNING = "Running"
    FAILED = "Failed"
    BLOCKED = "Blocked"
    NOT_STARTED = "Not started"
    UNKNOWN = "Unknown"


WORD_OF_STEP: Mapping[StepState, StepWord] = {
    StepState.NOT_STARTED: StepWord.NOT_STARTED,
    StepState.INTENDED: StepWord.RUNNING,
    StepState.PENDING: StepWord.RUNNING,
    StepState.DONE: StepWord.DONE,
    StepState.FAILED: StepWord.FAILED,
    StepState.BLOCKED: StepWord.BLOCKED,
    StepState.UNKNOWN: StepWord.UNKNOWN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """One line of a list of runs; `counts` has every word that occurs."""

    id: int
    plan_id: int
    plan_digest: str
    scope: str
    lane: Lane
    title: str
    classes: tuple[ChangeClass, ...]
    author: str
    started_at: datetime
    ended_at: datetime | None
    outcome: PlanState | None
    stop_reason: str
    counts: Mapping[StepWord, int]
    waits_on: str
    progress_done: int
    progress_all: int

    @property
    def is_open(self) -> bool:
        """Whether it is still under way."""
        return self.ended_at is None

    @property
    def actions(self) -> int:
        """How many actions it has."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """One action of a run and how it stands."""

    position: int
    kind: str
    name: str
    verb: Verb
    change_class: ChangeClass
    waits_for: tuple[int, ...]
    state: StepState
    word: StepWord
    waits_on: str
    progress_done: int
    progress_all: int
    attempts: int
    error: str
    reason: str
    intended_at: datetime | None
    looked_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a run's log, and which action it is about; `at` is an instant as text."""

    at: str
    level: str
    text: str
    position: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run, whole but for its steps, which come in pages."""

    line: RunLine
    cluster_id: int | None
    approved_by: str
    approved_at: datetime | None
    first_error: str
    family_counts: Mapping[str, Mapping[StepWord, int]]
    """Kind to the counts of its steps, for the stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """The line along the bottom: how many run, how many failed since midnight, and the latest."""

    running: int
    failed: int
    latest: tuple[RunLine, ...]


def _runs(site_id: int, visible: Visible) -> Query:
    return (
        select(RunRow, PlanRow).join(PlanRow, PlanRow.id == RunRow.plan_id).where(RunRow.site_id == site_id, visible.scopes(RunRow.scope))
    )


def run_page(session: Session, site_id: int, visible: Visible, number: int = 1, *, cluster_id: int | None = None) -> Page[RunLine]:
    """Return a page of runs, the newest first."""
    query = _runs(site_id, visible).order_by(RunRow.id.desc())
    if cluster_id is not None:
        query = query.where(PlanRow.cluster_id == cluster_id)
    return page_of(session, query, number).map(lambda rows: _lines(session, rows))


def tasks(session: Session, site_id: int, visible: Visible, since: datetime, *, limit: int = 6) -> Tasks:
    """Return what runs, what failed since an instant, and the latest runs, those under way first."""
    seen = [RunRow.site_id == site_id, visible.scopes(RunRow.scope)]
    running = session.scalar(select(func.count()).select_from(RunRow).where(*seen, RunRow.ended_at.is_(None))) or 0
    failed = (
        session.scalar(select(func.count()).select_from(RunRow).where(*seen, RunRow.ended_at >= since, RunRow.outcome == PlanState.FAILED))
        or 0
    )
    latest = session.execute(
        _runs(site_id, visible)
        .order_by(RunRow.ended_at.is_not(None), func.coalesce(RunRow.ended_at, RunRow.started_at).desc(), RunRow.id.desc())
        .limit(limit)
    ).all()
    return Tasks(running=running, failed=failed, latest=tuple(_lines(session, latest)))


def find_run(session: Session, site_id: int, visible: Visible, run_id: int) -> RunView | None:
    """Return one run, None when there is none that may be seen."""
    found = session.execute(_runs(site_id, visible).where(RunRow.id == run_id)).first()
    if found is None:
        return None
    run, plan = found
    (line,) = _lines(session, [found])
    approval = session.execute(
        select(ApprovalRow.who, ApprovalRow.at)
        .where(ApprovalRow.plan_id == run.plan_id, ApprovalRow.verdict == ApprovalVerdict.APPROVE)
        .order_by(ApprovalRow.id.desc())
        .limit(1)
    ).first()
    error = session.scalar(
        select(StepRow.error).where(StepRow.run_id == run_id, StepRow.state == StepState.FAILED).order_by(StepRow.position).limit(1)
    )
    return RunView(
        line=line,
        cluster_id=plan.cluster_id,
        approved_by=approval[0] if approval else "",
        approved_at=approval[1] if approval else plan.approved_at,
        first_error=error or "",
        family_counts=_kind_counts(session, run_id),
    )


def _kind_counts(session: Session, run_id: int) -> Mapping[str, Mapping[StepWord, int]]:
    query = (
        select(ActionRow.kind, StepRow.state, func.count())
        .join(ActionRow, ActionRow.id == StepRow.action_id)
        .where(StepRow.run_id == run_id)
        .group_by(ActionRow.kind, StepRow.state)
    )
    counts: dict[str, dict[StepWord, int]] = {}
    for kind, state, count in session.execute(query):
        word = WORD_OF_STEP[state]
        of_kind = counts.setdefault(kind, {})
        of_kind[word] = of_kind.get(word, 0) + count
    return counts


def run_steps(session: Session, run_id: int, number: int = 1, *, word: StepWord | None = None) -> Page[StepLine]:
    """Return a page of a run's steps in their order, those of one word only when it is given."""
    query = select(StepRow, ActionRow).join(ActionRow, ActionRow.id == StepRow.action_id).where(StepRow.run_id == run_id)
    if word is not None:
        query = query.where(StepRow.state.in_([state for state, its in WORD_OF_STEP.items() if its is word]))
    return page_of(session, query.order_by(StepRow.position), number).map(lambda rows: [_step(step, action) for step, action in rows])


def run_log(session: Session, run_id: int, *, limit: int = 100) -> tuple[LogLine, ...]:
    """Return the last lines of a run's log, the oldest first."""
    query = (
        select(StepRow.position, StepRow.log, ActionRow.kind, ActionRow.name)
        .join(ActionRow, ActionRow.id == StepRow.action_id)
        .where(StepRow.run_id == run_id, json_length(StepRow.log) > 0)
    )
    lines = [
        LogLine(at=one.get("at", ""), level=one.get("level", "info"), text=one.get("text", ""), position=position, what=f"{kind} {name}")
        for position, log, kind, name in session.execute(query.order_by(StepRow.looked_at.desc(), StepRow.position.desc()).limit(limit))
        for one in log
    ]
    return tuple(sorted(lines, key=lambda line: line.at)[-limit:])


def _lines(session: Session, rows: Sequence[Any]) -> list[RunLine]:
    ids = [run.id for run, _plan in rows]
    counts: dict[int, dict[StepWord, int]] = {}
    for run_id, state, count in session.execute(
        select(StepRow.run_id, StepRow.state, func.count()).where(StepRow.run_id.in_(ids)).group_by(StepRow.run_id, StepRow.state)
    ):
        words = counts.setdefault(run_id, {})
        words[WORD_OF_STEP[state]] = words.get(WORD_OF_STEP[state], 0) + count
    pending = _pending(session, and_(StepRow.run_id.in_(ids), StepRow.state == StepState.PENDING))
    return [_line(run, plan, counts.get(run.id, {}), pending.get(run.id)) for run, plan in rows]


def _pending(session: Session, condition: ColumnElement[bool]) -> Mapping[int, StepRow]:
    return {step.run_id: step for step in session.scalars(select(StepRow).where(condition).order_by(StepRow.position.desc()))}


def _line(run: RunRow, plan: PlanRow, counts: Mapping[StepWord, int], pending: StepRow | None) -> RunLine:
    return RunLine(
        id=run.id,
        plan_id=plan.id,
        plan_digest=plan.digest,
        scope=run.scope,
        lane=run.lane,
        title=plan.title,
        classes=gravest_first(plan.classes),
        author=plan.author,
        started_at=run.started_at,
        ended_at=run.ended_at,
        outcome=run.outcome,
        stop_reason=run.stop_reason,
        counts=counts,
        waits_on=pending.waits_on if pending else "",
        progress_done=pending.progress_done if pending else 0,
        progress_all=pending.progress_all if pending else 0,
    )


def _step(step: StepRow, action: ActionRow) -> StepLine:
    return StepLine(
        position=step.position,
        kind=action.kind,
        name=action.name,
        verb=action.verb,
        change_class=action.change_class,
        waits_for=tuple(action.waits_for),
        state=step.state,
        word=WORD_OF_STEP[step.state],
        waits_on=step.waits_on,
        progress_done=step.progress_done,
        progress_all=step.progress_all,
        attempts=step.attempts,
        error=step.error,
        reason=action.reason,
        intended_at=step.intended_at,
        looked_at=step.looked_at,
        ended_at=step.ended_at,
    )
