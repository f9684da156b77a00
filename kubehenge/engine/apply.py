"""
The apply loop: approved plans become runs, runs are carried out step by step, pending steps are looked at (MODEL 14, 23 to 26).

A pass never waits for long work: what goes on elsewhere is a pending step that a later pass looks at.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event, Lock

import structlog
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from kubehenge.clock import Clock
from kubehenge.drivers.base import Driver, Vault
from kubehenge.engine import metrics
from kubehenge.engine.needs import need_of_row, standing_of
from kubehenge.engine.step import Hands, wait_after
from kubehenge.engine.stored import rules_in_force
from kubehenge.errors import KubehengeError, LeaseLostError, StaleError, TransientError
from kubehenge.model.plan import PlanState, StepState
from kubehenge.model.resource import ChangeClass, ClusterState, Lane, ResourceRef
from kubehenge.model.site import ApprovalRules
from kubehenge.plan.approval import GRANTED
from kubehenge.store import clusters, journal, leases, ledger, plans, resources, sites
from kubehenge.store.database import Database
from kubehenge.store.journal import Run, Step
from kubehenge.store.leases import Lease
from kubehenge.store.rows import ActionRow, ClusterRow, PlanRow, SiteMode, SiteRow, StepRow
from kubehenge.store.ticks import last_tick

log = structlog.get_logger()

LOOK_EVERY = timedelta(seconds=2)
"""A pending step is looked at about this often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many runs are advanced side by side, and how many clusters are built at once (`concurrentClusters`)."""

    workers: int = 8
    building: int = 5


BUILDS_FOR = timedelta(minutes=30)
"""A cluster that is not available by then is stuck rather than building, and holds up no other."""


@dataclass(slots=True)
class Apply:
    """Carries out approved plans of one site."""

    db: Database
    site_id: int
    drivers: Mapping[str, Driver]
    clock: Clock
    limits: Limits = field(default_factory=Limits)
    ended: bool = False
    """A run has ended since this was last looked at: the tick has something to plan."""
    _vaults: dict[int, Vault] = field(default_factory=dict)
    _locks: dict[str, Lock] = field(default_factory=dict)
    _locks_guard: Lock = field(default_factory=Lock)
    _pool: ThreadPoolExecutor | None = None
    _closing: Event = field(default_factory=Event)
    _under_way: dict[int, Future[None]] = field(default_factory=dict)
    """Runs that a worker advances now."""

    def run_pass(self, lease: Lease, *, wait_s: float | None = None) -> bool:
        """
        Start what is approved and advance every open run once; tells whether any run is still open.

        With `wait_s` a run that takes longer goes on behind this pass, and holds up neither the others nor the next pass.
        """
        self._start_approved(lease)
        with self.db.read() as session:
            ids = journal.open_runs(session, self.site_id)
        for gone in set(self._vaults) - set(ids):
            del self._vaults[gone]
        self._pool = self._pool or ThreadPoolExecutor(max_workers=self.limits.workers, thread_name_prefix="apply")
        for run_id in ids:
            if run_id not in self._under_way:
                # A copy of the context each: the check of the lease goes with the work (MODEL 26).
                self._under_way[run_id] = self._pool.submit(copy_context().run, self._advance_safely, run_id, lease)
        done, _ = wait(self._under_way.values(), timeout=wait_s)
        self._under_way = {run_id: future for run_id, future in self._under_way.items() if future not in done}
        for future in done:
            future.result()
        with self.db.read() as session:
            return bool(journal.open_runs(session, self.site_id))

    def close(self) -> None:
        """Start no further step, wait for the calls that are on their way, and end the workers."""
        self._closing.set()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool, self._under_way = None, {}

    # -- starting

    def _start_approved(self, lease: Lease) -> None:
        with self.db.read() as session:
            if _mode(session, self.site_id) is not SiteMode.ACTING:
                return
            waiting = self._startable(session)
        for plan_id in waiting:
            try:
                with self.db.write() as session:
                    plan = session.get(PlanRow, plan_id)
                    if plan is None or plan.state is not PlanState.APPROVED or not self._still_granted(session, plan):
                        continue
                    run_id = journal.start_run(session, plan, lease, self.clock.now())
                    _write_ledger(session, plan, "run_started", {"run": run_id, "plan": plan.digest[:12]}, self.clock.now())
            except IntegrityError:
                log.debug("run_already_started", plan=plan_id)

    def _still_granted(self, session: Session, plan: PlanRow) -> bool:
        """Tell whether the rules in force grant it; what they do not, the next tick takes back (ACCEPTANCE 1.5)."""
        rules, version = rules_in_force(session, self.site_id)
        need, standing = standing_of(session, plan, rules, version)
        return standing in GRANTED and need.may_start(self.clock.now())

    def _startable(self, session: Session) -> Sequence[int]:
        now = self.clock.now()
        held = sites.freezes(session, self.site_id, now)
        rows = session.scalars(
            select(PlanRow).where(PlanRow.site_id == self.site_id, PlanRow.state == PlanState.APPROVED).order_by(PlanRow.id)
        ).all()
        rules, _ = rules_in_force(session, self.site_id) if rows else (ApprovalRules(), 0)
        building = journal.count_building(session, self.site_id, since=now - BUILDS_FOR)
        found = []
        for row in rows:
            if row.obstacles or sites.is_frozen(held, row.scope, duty_only=set(row.classes) <= {ChangeClass.DUTY}):
                continue
            if not need_of_row(session, row, rules).may_start(now):
                continue
            builds = ChangeClass.CREATE.value in row.classes and "kube.cluster" in _kinds(session, row.id)
            if builds and building >= self.limits.building:
                continue
            building += builds
            found.append(row.id)
        return found

    # -- advancing

    def _advance_safely(self, run_id: int, lease: Lease) -> None:
        try:
            self.advance(run_id, lease)
        except LeaseLostError:
            log.warning("lease_lost", run=run_id)
        except TransientError as error:
            log.warning("run_held_up", run=run_id, error=str(error))
        except Exception:
            log.exception("run_pass_failed", run=run_id)

    def advance(self, run_id: int, lease: Lease) -> None:
        """Take a run as far as it goes now."""
        hands = Hands(self.db, self.drivers, self.clock, lease)
        vault = self._vaults.setdefault(run_id, Vault())
        with self.db.read() as session:
            run = journal.load_run(session, run_id)
            held = sites.freezes(session, self.site_id, self.clock.now())
            there = resources.those_there(session, run.site_id, (ref for step in run.steps.values() for ref in step.requires))
        frozen = sites.is_frozen(held, run.scope, duty_only=run.classes <= {ChangeClass.DUTY})
        run = self._look_at_what_is_under_way(run, hands, vault)
        # What is decided meanwhile is seen where each intent is recorded; nothing but this pass changes the steps.
        while not self._ends(run, lease) and not (run.stop_reason or frozen or self._closing.is_set()):
            step = self._next(run, there)
            if step is None:
                self._note_what_is_missing(run, there, lease)
                return
            taken_up = self._take_up(run, step, hands, vault, lease)
            if taken_up is None or taken_up.state is StepState.NOT_STARTED:
                return
            run = run.after(taken_up)

    def _take_up(self, run: Run, step: Step, hands: Hands, vault: Vault, lease: Lease) -> Step | None:
        """Carry out one step; None when the run does not go on now. The two lanes of a cluster never write at the same moment."""
        try:
            with self._lock_of(run.scope):
                return hands.take_up(run, step, vault)
        except StaleError as error:
            if any(one.state in {StepState.INTENDED, StepState.PENDING} and not _abandonable(one) for one in run.steps.values()):
                with self.db.write() as session:
                    leases.require(session, lease)
                    journal.stop_run(session, run.id, str(error))  # what is under way is followed to its end
            else:
                self._close(run, lease, PlanState.STALE, str(error))
        except KubehengeError:
            raise
        except Exception as error:
            log.exception("step_stumbled", run=run.id, resource=str(step.ref))
            hands.stumble(step, error)
        return None

    def _lock_of(self, scope: str) -> Lock:
        with self._locks_guard:
            return self._locks.setdefault(scope, Lock())

    def _look_at_what_is_under_way(self, run: Run, hands: Hands, vault: Vault) -> Run:
        now = self.clock.now()
        for step in run.steps.values():
            waited = step.looked_at is None or now - step.looked_at >= LOOK_EVERY
            if step.state is StepState.PENDING and waited:
                run = run.after(hands.look(run, step, vault))
            elif step.state is StepState.INTENDED and (step.looked_at is None or now - step.looked_at >= wait_after(step.attempts)):
                run = run.after(hands.settle(run, step))
        return run

    def _next(self, run: Run, there: Container[ResourceRef]) -> Step | None:
        """Return a step that may start; what the site must have for it is there. Unmet is waiting, never failure (MODEL 6)."""
        now = self.clock.now()
        for step in run.steps.values():
            if step.attempts and step.looked_at is not None and now - step.looked_at < wait_after(step.attempts):
                continue
            if _is_free(run, step) and all(ref in there for ref in step.requires):
                return step
        return None

    def _note_what_is_missing(self, run: Run, there: Container[ResourceRef], lease: Lease) -> None:
        for step in run.steps.values():
            missing = [str(ref) for ref in step.requires if ref not in there] if _is_free(run, step) else []
            waits_on = f"waits for {', '.join(missing)}"
            if missing and waits_on != step.waits_on:
                with self.db.write() as session:
                    leases.require(session, lease)
                    session.execute(update(StepRow).where(StepRow.id == step.id).values(waits_on=waits_on))

    # -- ending

    def _ends(self, run: Run, lease: Lease) -> bool:
        """End a run that has nothing left to do, and tell whether it ended."""
        states = [step.state for step in run.steps.values()]
        under_way = [step for step in run.steps.values() if step.state in {StepState.INTENDED, StepState.PENDING}]
        if run.stop_reason and all(_abandonable(step) for step in under_way):
            self._close(run, lease, PlanState.SUPERSEDED, run.stop_reason)
            return True
        if under_way:
            return False
        if all(state is StepState.DONE for state in states):
            self._close(run, lease, PlanState.DONE, "")
            return True
        if run.stop_reason or not self._can_go_on(run):
            failed = [step for step in run.steps.values() if step.state in {StepState.FAILED, StepState.UNKNOWN}]
            self._close(run, lease, PlanState.FAILED, "; ".join(str(step.ref) for step in failed))
            return True
        return False

    def _can_go_on(self, run: Run) -> bool:
        """Tell whether a step is left that no failure blocks (ACCEPTANCE 1.11)."""
        return any(step.state is StepState.NOT_STARTED and not _blocked(run, step) for step in run.steps.values())

    def _close(self, run: Run, lease: Lease, outcome: PlanState, reason: str) -> None:
        now = self.clock.now()
        with self.db.write() as session:
            plan = journal.end_run(session, run, lease, outcome, now)
            tick = last_tick(session, run.site_id)
            blocked = [step.id for step in run.steps.values() if step.state is StepState.NOT_STARTED and _blocked(run, step)]
            if blocked:
                session.execute(update(StepRow).where(StepRow.id.in_(blocked)).values(state=StepState.BLOCKED))
            plans.close_plan(session, plan, outcome, tick=tick, now=now, reason=reason)
            done = sum(1 for step in run.steps.values() if step.state is StepState.DONE)
            facts = {"run": run.id, "plan": plan.digest[:12], "done": done, "of": len(run.steps), "reason": reason[:200]}
            if outcome is not PlanState.DONE or run.lane is Lane.ASKED or done:
                _write_ledger(session, plan, f"run_{outcome.value}", facts, now)
            if run.cluster_id is None:
                clusters.make_due(session, run.site_id)  # settings may be other ones now
            else:
                clusters.make_due(session, run.site_id, [run.cluster_id])
                if outcome is PlanState.DONE and run.going and clusters.is_empty(session, run.cluster_id):
                    _bury(session, run, plan, tick, now)
        self.ended = True
        metrics.RUNS.labels(outcome.value).inc()
        log.info("run_ended", run=run.id, scope=run.scope, outcome=outcome.value, reason=reason)


def _abandonable(step: Step) -> bool:
    """Tell whether only someone else's controller still works on it: the intent is in its object, and the next plan starts from there."""
    return step.state is StepState.PENDING and bool((step.handle or {}).get("abandonable"))


def _is_free(run: Run, step: Step) -> bool:
    """Tell whether a step has not started and everything before it is done."""
    return step.state is StepState.NOT_STARTED and all(run.steps[other].state is StepState.DONE for other in step.waits_for)


def _blocked(run: Run, step: Step) -> bool:
    bad = {StepState.FAILED, StepState.UNKNOWN, StepState.BLOCKED}
    return any(run.steps[other].state in bad or _blocked(run, run.steps[other]) for other in step.waits_for)


def _bury(session: Session, run: Run, plan: PlanRow, tick: int, now: datetime) -> None:
    session.execute(
        update(ClusterRow)
        .where(ClusterRow.id == run.cluster_id, ClusterRow.state == ClusterState.LEAVING)
        .values(state=ClusterState.GONE, closed_tick=tick, due=False)
    )
    _write_ledger(session, plan, "cluster_gone", {"run": run.id}, now)


def _write_ledger(session: Session, plan: PlanRow, event: str, facts: Mapping[str, object], now: datetime) -> None:
    ledger.append(
        session,
        site_id=plan.site_id,
        tick=last_tick(session, plan.site_id),
        event=event,
        subject=plan.scope,
        who="kubehenge",
        facts=facts,
        at=now,
    )


def _mode(session: Session, site_id: int) -> SiteMode:
    return session.scalars(select(SiteRow.mode).where(SiteRow.id == site_id)).one()


def _kinds(session: Session, plan_id: int) -> frozenset[str]:
    return frozenset(session.scalars(select(ActionRow.kind).where(ActionRow.plan_id == plan_id).distinct()))
