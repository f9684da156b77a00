"""Runs and their journal: a step is recorded before its call, and its result after (MODEL 25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, bindparam, func, insert, select, update
from sqlalchemy.orm import Session

from kubehenge.model.canon import Body
from kubehenge.model.identity import Incarnation
from kubehenge.model.plan import PlanState, StepState
from kubehenge.model.resource import ChangeClass, ClusterState, Lane, ResourceRef, Verb
from kubehenge.store import leases, sites
from kubehenge.store.bodies import get_bodies
from kubehenge.store.bulk import table_of
from kubehenge.store.leases import Lease
from kubehenge.store.rows import ActionRow, ClusterRow, PlanRow, RunRow, SiteMode, SiteRow, StepRow

LOG_LINES = 200
"""A step keeps this many of its newest lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action of a run, with what the journal says of it."""

    id: int
    position: int
    ref: ResourceRef
    verb: Verb
    change_class: ChangeClass
    part: Lane
    before: str | None
    target: Body | None
    waits_for: tuple[int, ...]
    requires: tuple[ResourceRef, ...]
    state: StepState
    handle: Mapping[str, Any] | None
    waits_on: str
    left_hash: str | None
    attempts: int
    looked_at: datetime | None
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as it is carried out: its plan, its steps by position, and whether it is to stop."""

    id: int
    plan_id: int
    site_id: int
    cluster_id: int | None
    cluster_state: ClusterState | None
    mark: str
    scope: str
    lane: Lane
    classes: frozenset[ChangeClass]
    stop_reason: str
    steps: Mapping[int, Step]

    @property
    def going(self) -> bool:
        """Whether this run takes the whole cluster away."""
        return any(step.ref.kind == "kube.cluster" and step.verb is Verb.DELETE for step in self.steps.values()) or (
            self.cluster_state is ClusterState.LEAVING
        )

    def after(self, step: Step) -> Run:
        """Return the run with one step as it stands now."""
        return replace(self, steps={**self.steps, step.position: step})


def start_run(session: Session, plan: PlanRow, lease: Lease, now: datetime) -> int:
    """
    Start the one run of an approved plan's row, with a step for each action.

    The unique key on the plan makes a second start fail, from any process (ACCEPTANCE 1.3).
    """
    leases.require(session, lease)
    run = RunRow(site_id=plan.site_id, plan_id=plan.id, scope=plan.scope, lane=plan.lane, fence=lease.fence, started_at=now)
    session.add(run)
    plan.state = PlanState.RUNNING
    session.flush()
    actions = session.execute(select(ActionRow.id, ActionRow.position).where(ActionRow.plan_id == plan.id)).all()
    if actions:
        session.execute(
            insert(StepRow),
            [{"run_id": run.id, "action_id": action.id, "position": action.position} for action in actions],
        )
    return run.id


def open_runs(session: Session, site_id: int) -> Sequence[int]:
    """Return the ids of the runs that are not ended."""
    return session.scalars(select(RunRow.id).where(RunRow.site_id == site_id, RunRow.ended_at.is_(None)).order_by(RunRow.id)).all()


def count_building(session: Session, site_id: int, *, since: datetime) -> int:
    """Count the runs that make a cluster and asked for it, or, while they have not, began, after `since`."""
    made = (
        select(StepRow.run_id)
        .join(ActionRow, ActionRow.id == StepRow.action_id)
        .where(
            StepRow.run_id == RunRow.id,
            ActionRow.kind == "kube.cluster",
            ActionRow.verb == Verb.CREATE,
            StepRow.state != StepState.DONE,
            func.coalesce(StepRow.intended_at, RunRow.started_at) > since,
        )
    )
    found = session.scalar(
        select(func.count()).select_from(RunRow).where(RunRow.site_id == site_id, RunRow.ended_at.is_(None), made.exists())
    )
    return found or 0


def load_run(session: Session, run_id: int) -> Run:
    """Return a run with its steps and the bodies that they leave."""
    run = session.execute(_RUN, {"run": run_id}).one()
    rows = session.execute(_STEPS, {"run": run_id}).all()
    bodies = get_bodies(session, (row.after_hash for row in rows))
    mark = ""
    if run.cluster_id is not None:
        mark = Incarnation(site=run.site, namespace=run.namespace, name=run.name, number=run.incarnation).mark
    return Run(
        id=run.id,
        plan_id=run.plan_id,
        site_id=run.site_id,
        cluster_id=run.cluster_id,
        cluster_state=run.state,
        mark=mark,
        scope=run.scope,
        lane=run.lane,
        classes=frozenset(ChangeClass(one) for one in run.classes),
        stop_reason=run.stop_reason,
        steps={row.position: _step(row, bodies) for row in rows},
    )


_RUN = (
    select(
        *(RunRow.id, RunRow.plan_id, RunRow.site_id, RunRow.scope, RunRow.lane, RunRow.stop_reason),
        *(PlanRow.cluster_id, PlanRow.classes, SiteRow.name.label("site")),
        *(ClusterRow.state, ClusterRow.namespace, ClusterRow.name, ClusterRow.incarnation),
    )
    .join(PlanRow, PlanRow.id == RunRow.plan_id)
    .join(SiteRow, SiteRow.id == RunRow.site_id)
    .outerjoin(ClusterRow, ClusterRow.id == PlanRow.cluster_id)
    .where(RunRow.id == bindparam("run"))
)
_STEPS = (
    select(
        *(StepRow.id, StepRow.position, StepRow.state, StepRow.handle, StepRow.waits_on, StepRow.left_hash, StepRow.attempts),
        *(StepRow.looked_at, StepRow.refused, ActionRow.kind, ActionRow.name, ActionRow.verb, ActionRow.change_class, ActionRow.part),
        *(ActionRow.before_hash, ActionRow.after_hash, ActionRow.waits_for, ActionRow.requires),
    )
    .join(ActionRow, ActionRow.id == StepRow.action_id)
    .where(StepRow.run_id == bindparam("run"))
    .order_by(StepRow.position)
)


def _step(row: Row[Any], bodies: Mapping[str, Body]) -> Step:
    return Step(
        id=row.id,
        position=row.position,
        ref=ResourceRef(kind=row.kind, name=row.name),
        verb=row.verb,
        change_class=row.change_class,
        part=row.part,
        before=row.before_hash,
        target=bodies.get(row.after_hash or ""),
        waits_for=tuple(row.waits_for),
        requires=tuple(ResourceRef.parse(one) for one in row.requires),
        state=row.state,
        handle=row.handle,
        waits_on=row.waits_on,
        left_hash=row.left_hash,
        attempts=row.attempts,
        looked_at=row.looked_at,
        refused=row.refused,
    )


_STANDING = (
    select(RunRow.stop_reason, RunRow.ended_at, SiteRow.mode)
    .join(SiteRow, SiteRow.id == RunRow.site_id)
    .where(RunRow.id == bindparam("run"))
    .with_for_update(of=RunRow)
)


def may_send(session: Session, run: Run, now: datetime) -> bool:
    """
    Tell whether a run may send a call now: it is not to stop, nothing holds it, and what it takes away is still not declared.

    Called in the transaction that records the intent, so that nothing that was decided meanwhile is passed over.
    """
    row = session.execute(_STANDING, {"run": run.id}).one()
    if row.stop_reason or row.ended_at is not None:
        return False
    held = sites.freezes(session, run.site_id, now)
    if row.mode is not SiteMode.ACTING or sites.is_frozen(held, run.scope, duty_only=run.classes <= {ChangeClass.DUTY}):
        return False
    if not run.going or run.cluster_id is None:
        return True
    cluster = session.execute(
        select(ClusterRow.state, ClusterRow.declared_hash).where(ClusterRow.id == run.cluster_id).with_for_update()
    ).one()
    return cluster.state is ClusterState.LEAVING or cluster.declared_hash is None


_LOG = select(StepRow.log, leases.FENCE.label("fence")).where(StepRow.id == bindparam("step"))


def write_step(session: Session, step: Step, lease: Lease, now: datetime, *, line: str = "", level: str = "info", **values: Any) -> Step:
    """Change a step under the lease, and add a line to its log; returns the step as it stands then."""
    row = session.execute(_LOG, {"step": step.id, **leases.given(lease)}).one()
    leases.check(row.fence, lease)
    if line:
        values["log"] = [*(row.log or ()), {"at": now.isoformat(), "level": level, "text": line}][-LOG_LINES:]
    session.execute(update(table_of(StepRow)).where(StepRow.id == step.id).values(**values))
    return replace(step, **{name: value for name, value in values.items() if name in Step.__slots__})


def end_run(session: Session, run: Run, lease: Lease, outcome: PlanState, now: datetime) -> PlanRow:
    """End a run and return its plan's row, which the caller closes in the same transaction."""
    leases.require(session, lease)
    session.execute(update(RunRow).where(RunRow.id == run.id).values(ended_at=now, outcome=outcome))
    plan = session.get(PlanRow, run.plan_id)
    assert plan is not None  # noqa: S101 - a run has a foreign key to its plan
    return plan


def stop_run(session: Session, run_id: int, reason: str) -> None:
    """Ask a run to stop at its next action boundary (MODEL 14)."""
    session.execute(
        update(RunRow).where(RunRow.id == run_id, RunRow.stop_reason == "", RunRow.ended_at.is_(None)).values(stop_reason=reason)
    )
