"""
One action of a run: precondition, journal, call, result (MODEL 13, 25).

Nothing is sent before the journal holds the intent, and nothing counts as done before the journal holds the result. A call whose
answer is lost, or that an earlier process left without one, is settled by looking at the world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, assert_never

import structlog
from sqlalchemy import RowMapping, select, update
from sqlalchemy.orm import Session

from kubehenge.clock import Clock
from kubehenge.drivers.base import ActionContext, Done, Driver, Outcome, Pending, Vault
from kubehenge.engine import metrics
from kubehenge.engine.projection import projected
from kubehenge.errors import InvariantError, RefusedError, StaleError, TransientError, UncertainError
from kubehenge.model.canon import Body, body_hash
from kubehenge.model.plan import StepState
from kubehenge.model.resource import ClusterState, Observed, ResourceRef, Verb
from kubehenge.plan.planner import part_hash
from kubehenge.resources.kinds import KINDS, joined, part_of
from kubehenge.store import journal, leases, ledger, resources
from kubehenge.store.bodies import get_bodies
from kubehenge.store.database import Database
from kubehenge.store.journal import Run, Step
from kubehenge.store.leases import Lease
from kubehenge.store.resources import Found
from kubehenge.store.rows import ClusterRow, StepRow
from kubehenge.store.ticks import last_tick, next_tick

log = structlog.get_logger()

MOST_ATTEMPTS = 5
FIRST_WAIT = timedelta(seconds=2)


def wait_after(attempts: int) -> timedelta:
    """Return how long to wait before the next attempt: 2 s, doubling, at most a minute."""
    return min(FIRST_WAIT * int(2 ** max(attempts - 1, 0)), timedelta(minutes=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the database holds of a step's resource when it is taken up."""

    row: RowMapping
    applied: Body | None
    desired: Body | None
    outputs: Mapping[str, Mapping[str, Any]]
    mark: str


@dataclass(frozen=True, slots=True)
class Hands:
    """What carrying out needs: the database, the driver of each kind, the clock and the lease."""

    db: Database
    drivers: Mapping[str, Driver]
    clock: Clock
    lease: Lease

    def take_up(self, run: Run, step: Step, vault: Vault) -> Step:
        """Carry out a step that is ready; returns it as it stands then. Raises StaleError when the world is not as planned."""
        known = self._known(run, step)
        try:
            found = self._read(step, known)
        except TransientError as error:
            return self._try_again(replace(step, attempts=step.attempts + 1), str(error))
        except RefusedError as error:
            return self._fail(step, str(error), refused=True)
        if self._is_done(step, found, known):
            return self._record_done(run, step, known, Done(left=found, note="it was so already"))
        if found is not None and step.attempts and _is_token_creation(step) and found.mark == known.mark:
            return self._keep_lost_token(step, known, found)
        self._require_as_planned(run, step, found, known)
        intended = self._intend(run, step)
        return step if intended is None else self._call(run, intended, known, found, vault)

    def look(self, run: Run, step: Step, vault: Vault) -> Step:
        """Look how a pending step stands."""
        known = self._known(run, step)
        assert step.handle is not None  # noqa: S101 - a pending step has one
        try:
            outcome = self.drivers[step.ref.kind].look(step.ref, step.handle, self._context(known, vault))
        except TransientError as error:
            return self._note(step, str(error), level="warning", looked_at=self.clock.now())
        except RefusedError as error:
            return self._fail(step, str(error), refused=True)
        return self._record(run, step, known, outcome)

    def settle(self, run: Run, step: Step) -> Step:
        """Settle a call without a result: done if the world is as the step leaves it, to be sent again if it is as before."""
        known = self._known(run, step)
        try:
            found = self._read(step, known)
        except TransientError as error:
            return self._note(step, str(error), level="warning", looked_at=self.clock.now())
        if found is not None and _is_token_creation(step) and found.mark == known.mark:
            return self._keep_lost_token(step, known, found)
        if self._is_done(step, found, known):
            return self._record_done(run, step, known, Done(left=found, note="the call had succeeded"))
        if self._may_go_on(step, found, known):
            return self._try_again(step, "An answer is lost; the call is sent again.")
        return self._note(
            step,
            f"{step.ref} is neither as before nor as planned after a call whose answer is lost. Look at it; the next plan starts from what is there.",
            level="error",
            state=StepState.UNKNOWN,
            ended_at=self.clock.now(),
        )

    # -- the world

    def _read(self, step: Step, known: Known) -> Observed | None:
        body = self._whole_target(step, known) or known.desired or known.applied
        return self.drivers[step.ref.kind].read(step.ref, body)

    def _whole_target(self, step: Step, known: Known, found: Observed | None = None) -> Body | None:
        """
        Return the whole body to write: this step's part over what is there of the other lane's (MODEL 11).

        What is there is what was just read, where it was: the other lane may have written since the database was.
        """
        if step.target is None or step.verb is Verb.CREATE:
            return step.target
        there = known.applied or {}
        if found is not None:
            there = projected(found.body, known.desired, known.applied, known.outputs)
        return joined(KINDS[step.ref.kind], step.target, step.part, there)

    def _projected(self, step: Step, found: Observed | None, known: Known) -> Body | None:
        """Reduce what was read to our fields (MODEL 4), with references put back (MODEL 5)."""
        if found is None:
            return None
        wanted = self._whole_target(step, known) or known.desired
        return projected(found.body, wanted, known.applied, known.outputs)

    def _hash_of(self, step: Step, found: Observed | None, known: Known) -> str | None:
        return part_hash(KINDS[step.ref.kind], self._projected(step, found, known), step.part)

    def _is_done(self, step: Step, found: Observed | None, known: Known) -> bool:
        """Tell whether the world already is as the step leaves it, by its own hand or another's, and bears our mark."""
        if step.verb is Verb.DELETE:
            return found is None
        if found is None or step.target is None:
            return False
        kind = KINDS[step.ref.kind]
        if step.verb is Verb.CREATE and (step.ref.kind == "proxmox.token" or (kind.marked and found.mark != known.mark)):
            return False
        return step.ref.kind not in _PENDING_KINDS and self._hash_of(step, found, known) == _target_hash(step)

    def _may_go_on(self, step: Step, found: Observed | None, known: Known) -> bool:
        """Tell whether the world is as planned on, or as an earlier attempt of this very step left it (MODEL 13)."""
        now = self._hash_of(step, found, known)
        if now == step.before:
            return True
        if not step.attempts:
            return False
        half_made = step.verb is Verb.CREATE and found is not None and found.mark == known.mark
        return half_made or (now is not None and now in {step.left_hash, _target_hash(step)})

    def _require_as_planned(self, run: Run, step: Step, found: Observed | None, known: Known) -> None:
        if self._may_go_on(step, found, known):
            return
        self._keep_what_was_read(run, step, found, known)
        now = self._hash_of(step, found, known)
        was = "absent" if step.before is None else step.before[:12]
        seen = "absent" if now is None else now[:12]
        raise StaleError(
            f"{step.ref} was {was} when this was planned and is {seen} now; nothing more is written, and a fresh plan follows."
        )

    def _keep_what_was_read(self, run: Run, step: Step, found: Observed | None, known: Known) -> None:
        """
        The next plan is made on what was just read, not on the older reading that this one was made on.

        That something is not there is for the readings of everything to say, which know whether to trust it (MODEL 20).
        """
        if found is None:
            return
        seen = Found(body=self._projected(step, found, known), mark=found.mark, outputs=found.outputs)
        with self.db.write() as session:
            leases.require(session, self.lease)
            resources.set_observed(session, run.site_id, {step.ref: seen}, {}, self._next_tick(session, run))

    def _next_tick(self, session: Session, run: Run) -> Callable[[], int]:
        return lambda: next_tick(session, run.site_id, self.clock.now())

    def _call(self, run: Run, step: Step, known: Known, found: Observed | None, vault: Vault) -> Step:
        driver, context = self.drivers[step.ref.kind], self._context(known, vault)
        body = self._whole_target(step, known, found)
        try:
            match step.verb:
                case Verb.CREATE:
                    outcome = driver.create(step.ref, body or {}, context)
                case Verb.UPDATE:
                    outcome = driver.update(step.ref, body or {}, context)
                case Verb.DELETE:
                    outcome = driver.delete(step.ref, known.applied or known.desired or {}, context)
                case _:
                    assert_never(step.verb)
        except UncertainError as error:
            return self._note(step, str(error), level="warning", looked_at=self.clock.now())
        except TransientError as error:
            return self._try_again(step, str(error))
        except RefusedError as error:
            return self._fail(step, str(error), refused=True)
        for warning in outcome.warnings:
            self._note(step, f"Warning: {warning}", level="warning")
        return self._record(run, step, known, outcome)

    def _context(self, known: Known, vault: Vault) -> ActionContext:
        return ActionContext(mark=known.mark, vault=vault, outputs=known.outputs)

    # -- the journal

    def _known(self, run: Run, step: Step) -> Known:
        with self.db.read() as session:
            rows = resources.rows_of_cluster(session, run.cluster_id) if run.cluster_id else {}
            row = rows.get(step.ref) or resources.find_row(session, run.site_id, step.ref)
            if row is None:
                raise InvariantError(f"{step.ref} has a step in run {run.id} and no row.")
            bodies = get_bodies(session, (row["applied_hash"], row["desired_hash"]))
        return Known(
            row=row,
            applied=bodies.get(row["applied_hash"] or ""),
            desired=bodies.get(row["desired_hash"] or ""),
            outputs={str(ref): one["outputs"] for ref, one in rows.items() if one["outputs"]},
            mark=run.mark,
        )

    def _intend(self, run: Run, step: Step) -> Step | None:
        """
        Record the intent, unless the run is to stop or hold by now, which is None: then the call may not be sent.

        What was read before may be minutes old: whether the run stops, is frozen, or takes a cluster away whose file came back is
        looked at in this very transaction. The first destroy of a cluster that goes makes it `leaving` here (MODEL 14, 19, 28).
        """
        now = self.clock.now()
        with self.db.write() as session:
            if not journal.may_send(session, run, now):
                return None
            intended = journal.write_step(
                session,
                step,
                self.lease,
                now,
                state=StepState.INTENDED,
                attempts=step.attempts + 1,
                intended_at=now,
                waits_on="",
                error="",
            )
            if step.verb is Verb.DELETE and run.going and run.cluster_state is ClusterState.DECLARED:
                self._begin_to_leave(session, run, step, now)
        return intended

    def _begin_to_leave(self, session: Session, run: Run, step: Step, now: datetime) -> None:
        left = session.execute(
            update(ClusterRow)
            .where(ClusterRow.id == run.cluster_id, ClusterRow.state == ClusterState.DECLARED)
            .values(state=ClusterState.LEAVING)
        )
        if left.rowcount:  # type: ignore[attr-defined]  # an UPDATE's result has it
            ledger.append(
                session,
                site_id=run.site_id,
                tick=last_tick(session, run.site_id),
                event="cluster_leaving",
                subject=run.scope,
                who="kubehenge",
                facts={"run": run.id, "first": str(step.ref)},
                at=now,
            )

    def _record(self, run: Run, step: Step, known: Known, outcome: Outcome) -> Step:
        match outcome:
            case Done():
                return self._record_done(run, step, known, outcome)
            case Pending():
                return self._record_pending(step, known, outcome)
            case _:
                assert_never(outcome)

    def _record_done(self, run: Run, step: Step, known: Known, outcome: Done) -> Step:
        now = self.clock.now()
        known = _with_outputs(step.ref, known, outcome.left)
        left = self._projected(step, outcome.left, known)
        hashed = part_hash(KINDS[step.ref.kind], left, step.part)
        with self.db.write() as session:
            resources.set_applied(session, known.row["id"], left, found=outcome.left, now=now)
            if hashed != _target_hash(step):
                return journal.write_step(
                    session,
                    step,
                    self.lease,
                    now,
                    state=StepState.FAILED,
                    left_hash=hashed,
                    ended_at=now,
                    refused=True,
                    error=f"{step.ref} was written and reads back differently. The next plan shows the difference.",
                    line="It was written and reads back differently.",
                    level="error",
                )
            done = journal.write_step(
                session,
                step,
                self.lease,
                now,
                line=outcome.note or "Done.",
                state=StepState.DONE,
                left_hash=hashed,
                handle=None,
                waits_on="",
                error="",
                ended_at=now,
            )
        metrics.ACTIONS.labels(step.ref.kind, step.verb.value, "done").inc()
        log.info("action_applied", verb=step.verb.value, resource=str(step.ref), run=run.id, scope=run.scope)
        return done

    def _record_pending(self, step: Step, known: Known, outcome: Pending) -> Step:
        now = self.clock.now()
        with self.db.write() as session:
            values: dict[str, Any] = {}
            if outcome.left is not None:
                known = _with_outputs(step.ref, known, outcome.left)
                left = self._projected(step, outcome.left, known)
                resources.set_applied(session, known.row["id"], left, found=outcome.left, now=now)
                values["left_hash"] = part_hash(KINDS[step.ref.kind], left, step.part)
            return journal.write_step(
                session,
                step,
                self.lease,
                now,
                line=outcome.waits_on if outcome.waits_on != step.waits_on else "",
                state=StepState.PENDING,
                handle={**outcome.handle, "abandonable": outcome.abandonable},
                waits_on=outcome.waits_on,
                progress_done=outcome.done,
                progress_all=outcome.of,
                looked_at=now,
                **values,
            )

    def _keep_lost_token(self, step: Step, known: Known, found: Observed) -> Step:
        """A token whose making was cut off is ours, and lost: it goes into the inventory, and the next generation replaces it (MODEL 8)."""
        left = self._projected(step, found, known)
        with self.db.write() as session:
            leases.require(session, self.lease)
            resources.set_applied(session, known.row["id"], left, found=found, now=self.clock.now())
        return self._fail(
            step, f"{step.ref} was made, and its secret is lost with the process that made it. A new generation follows.", refused=False
        )

    def stumble(self, step: Step, error: Exception) -> None:
        """Count an unexpected error before the call as an attempt, so that no run tries for ever; after the intent, `settle` looks."""
        with self.db.read() as session:
            state = session.scalars(select(StepRow.state).where(StepRow.id == step.id)).one()
        if state is StepState.NOT_STARTED:
            self._try_again(replace(step, attempts=step.attempts + 1), f"An unexpected error, {type(error).__name__}; the log holds it.")

    def _try_again(self, step: Step, words: str) -> Step:
        """Leave a step for a later pass, a few times; this attempt is counted in it already."""
        if step.attempts >= MOST_ATTEMPTS:
            return self._fail(step, words, refused=False)
        now = self.clock.now()
        return self._note(step, words, level="warning", state=StepState.NOT_STARTED, attempts=step.attempts, looked_at=now)

    def _fail(self, step: Step, error: str, *, refused: bool) -> Step:
        failed = self._note(step, error, level="error", state=StepState.FAILED, error=error, refused=refused, ended_at=self.clock.now())
        metrics.ACTIONS.labels(step.ref.kind, step.verb.value, "failed").inc()
        log.warning("action_failed", verb=step.verb.value, resource=str(step.ref), error=error)
        return failed

    def _note(self, step: Step, line: str, *, level: str = "info", **values: Any) -> Step:
        with self.db.write() as session:
            return journal.write_step(session, step, self.lease, self.clock.now(), line=line, level=level, **values)


_PENDING_KINDS = frozenset({"kube.cluster"})
"""Kinds whose object being as asked does not mean that the work is over: they are always written, and then looked at."""


def _is_token_creation(step: Step) -> bool:
    return step.ref.kind == "proxmox.token" and step.verb is Verb.CREATE


def _target_hash(step: Step) -> str | None:
    return None if step.target is None else body_hash(part_of(KINDS[step.ref.kind], step.target, step.part))


def _with_outputs(ref: ResourceRef, known: Known, found: Observed | None) -> Known:
    if found is None or not found.outputs:
        return known
    mine = {**known.outputs.get(str(ref), {}), **found.outputs}
    return replace(known, outputs={**known.outputs, str(ref): mine})
