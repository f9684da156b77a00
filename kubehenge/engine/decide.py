"""
What people decide: approve, reject, withdraw, freeze, thaw, accept a rewritten history (MODEL 12, 15, 28).

Each decision is one short transaction that reads the plan's row as it is now; what was decided on something else is a conflict.
Privileges are asked before the transaction opens, since asking is a call outward.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from kubehenge.clock import Clock
from kubehenge.engine.needs import need_of_row, standing_of
from kubehenge.engine.record import SAID_BY
from kubehenge.engine.sources import spec_of
from kubehenge.engine.stored import rules_in_force, rules_of_version, settings_in_force
from kubehenge.errors import TransientError
from kubehenge.model.identity import Incarnation
from kubehenge.model.plan import CLOSED, PlanState
from kubehenge.model.site import ApprovalRules
from kubehenge.plan.approval import GRANTED, Need, Standing, judge
from kubehenge.source.git import Transport
from kubehenge.source.webhook import Delivery, OtherEvent, Refused, matches, verify
from kubehenge.store import ledger, plans
from kubehenge.store.database import Database
from kubehenge.store.reads.decision import Answer, AnswerKind, Person
from kubehenge.store.rows import ApprovalRow, ApprovalVerdict, FreezeRow, PlanRow, RunRow, SourceRow, SourceState, SuspicionRow
from kubehenge.store.ticks import last_tick

LONGEST_FULL_FREEZE = timedelta(hours=4)
REPLAYS_KEPT = 10_000
LOCAL = "local/"
"""Before the name of someone who acts on the appliance itself; holds every right (DESIGN, Who may do what)."""


@dataclass(slots=True)
class Decide:
    """The decisions of one site. `ring` wakes a loop; `webhook_secrets` are by source name."""

    db: Database
    site_id: int
    clock: Clock
    ring: Callable[[str], None] = lambda _name: None
    webhook_secrets: Mapping[str, Iterable[str]] = field(default_factory=dict)
    _replays: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    # -- plans

    def approve(self, plan_id: int, digest: str, person: Person, typed_name: str = "", comment: str = "") -> Answer:
        """Approve a plan's row; it starts when the rules have all that they ask for."""
        refused = self._refusal(plan_id, person)
        if refused is not None:
            return refused
        with self.db.write() as session:
            row = session.get(PlanRow, plan_id)
            if row is None or row.site_id != self.site_id:
                return _not_found()
            answer = _not_as_read(session, row, digest)
            if answer is not None:
                return answer
            if row.obstacles:
                return Answer(
                    kind=AnswerKind.REFUSED,
                    message="This plan cannot finish as things are; its page says what would let it.",
                    plan_id=row.id,
                )
            need = self._need(session, row)
            if need.typed_name and typed_name != row.scope:
                return Answer(
                    kind=AnswerKind.REFUSED, message=f"Type {row.scope} to approve this: what was typed is another name.", plan_id=row.id
                )
            said = self._say(session, row, person, ApprovalVerdict.APPROVE, typed_name, comment)
            answer = self._count(session, row)
            if said is not None and answer.kind is not AnswerKind.ACCEPTED:
                answer = said
        if answer.kind is AnswerKind.ACCEPTED:
            self.ring("apply")
        return answer

    def reject(self, plan_id: int, digest: str, person: Person, comment: str = "") -> Answer:
        """Reject a plan's row: it does not start until the rejection is withdrawn."""
        refused = self._refusal(plan_id, person)
        if refused is not None:
            return refused
        with self.db.write() as session:
            row = session.get(PlanRow, plan_id)
            if row is None or row.site_id != self.site_id:
                return _not_found()
            answer = _not_as_read(session, row, digest, approved_too=True)
            if answer is not None:
                return answer
            self._say(session, row, person, ApprovalVerdict.REJECT, "", comment)
            if row.state is PlanState.APPROVED:
                row.state, row.approved_at = PlanState.OPEN, None
            return Answer(kind=AnswerKind.ACCEPTED, message="Rejected. It does not start until you withdraw that.", plan_id=row.id)

    def withdraw(self, plan_id: int, person: Person) -> Answer:
        """Take back one's own word."""
        with self.db.write() as session:
            row = session.get(PlanRow, plan_id)
            if row is None or row.site_id != self.site_id:
                return _not_found()
            if row.state not in {PlanState.OPEN, PlanState.APPROVED}:
                return Answer(kind=AnswerKind.CONFLICT, message="It is too late: the plan runs or has ended.", plan_id=row.id)
            if not any(one.who == person.userid for one in plans.said_of(session, row.id)):
                return Answer(
                    kind=AnswerKind.REFUSED, message="You have said nothing of this plan that you could withdraw.", plan_id=row.id
                )
            self._say(session, row, person, ApprovalVerdict.WITHDRAW, "", "")
            _, standing = self._standing(session, row)
            if row.state is PlanState.APPROVED and standing is Standing.WAITING:
                row.state, row.approved_at = PlanState.OPEN, None
            may_start = row.state is PlanState.OPEN and not row.obstacles and self._granted_before(session, row)
            starts = may_start and self._count(session, row).kind is AnswerKind.ACCEPTED
        if starts:
            self.ring("apply")
        return Answer(kind=AnswerKind.ACCEPTED, message="Withdrawn. It starts now." if starts else "Withdrawn.", plan_id=plan_id)

    def _refusal(self, plan_id: int, person: Person) -> Answer | None:
        """Say why this person may not decide on this plan; None when they may."""
        with self.db.read() as session:
            row = session.get(PlanRow, plan_id)
            if row is None or row.site_id != self.site_id:
                return _not_found()
            need = self._need(session, row)
            path = self._path(session, row)
        if person.userid.startswith(LOCAL):
            if need.roles:
                return Answer(
                    kind=AnswerKind.REFUSED, message=f"The rules ask for people of the group {' and '.join(need.roles)}.", plan_id=plan_id
                )
            return None
        try:
            held = person.privileges(path)
        except TransientError as error:
            return Answer(kind=AnswerKind.REFUSED, message=f"Your rights could not be read, so nothing was done: {error}", plan_id=plan_id)
        if "VM.Audit" not in held:
            return _not_found()
        if need.privilege.value not in held:
            return Answer(kind=AnswerKind.REFUSED, message=f"Deciding on it needs {need.privilege.value} on {path}.", plan_id=plan_id)
        if missing := need.missing_roles(person.groups):
            return Answer(kind=AnswerKind.REFUSED, message=f"Deciding on it needs the group {' and '.join(missing)}.", plan_id=plan_id)
        return None

    def _path(self, session: Session, row: PlanRow) -> str:
        pool = settings_in_force(session, self.site_id).workload_pool
        if row.cluster_id is None:
            return f"/pool/{pool}"
        namespace, _, name = row.scope.partition("/")
        return f"/pool/{Incarnation(site='', namespace=namespace, name=name, number=0).pool(pool)}"

    def _standing(self, session: Session, row: PlanRow) -> tuple[Need, Standing]:
        return standing_of(session, row, *rules_in_force(session, self.site_id))

    def _granted_before(self, session: Session, row: PlanRow) -> bool:
        """Tell whether the rules under which a plan came to wait grant it as it stands (ACCEPTANCE 1.5)."""
        need = self._need(session, row, rules_of_version(session, self.site_id, row.rules_version))
        return judge(need, plans.said_of(session, row.id), scope=row.scope) in GRANTED

    def _need(self, session: Session, row: PlanRow, rules: ApprovalRules | None = None) -> Need:
        return need_of_row(session, row, rules or rules_in_force(session, self.site_id)[0])

    def _say(
        self, session: Session, row: PlanRow, person: Person, verdict: ApprovalVerdict, typed_name: str, comment: str
    ) -> Answer | None:
        """Keep someone's word with what it was said of; an approval that stands already, under these rules, is not kept twice."""
        _, version = rules_in_force(session, self.site_id)
        if verdict is ApprovalVerdict.APPROVE and any(
            one.who == person.userid
            and one.word.value == verdict.value
            and (one.typed_name or not typed_name)
            and one.rules_version == version
            for one in plans.said_of(session, row.id)
        ):
            return Answer(kind=AnswerKind.ALREADY, message="You have approved this plan already.", plan_id=row.id)
        now = self.clock.now()
        session.add(
            ApprovalRow(
                plan_id=row.id,
                digest=row.digest,
                verdict=verdict,
                who=person.userid,
                rules_version=version,
                typed_name=typed_name,
                comment=comment,
                at=now,
            )
        )
        session.flush()
        self._write(session, f"plan_{_PAST[verdict]}", row.scope, person, {"plan": row.digest, "row": row.id})
        return None

    def _count(self, session: Session, row: PlanRow) -> Answer:
        need, standing = self._standing(session, row)
        if standing in {Standing.APPROVED, Standing.BY_RULE}:
            row.state, row.approved_at = PlanState.APPROVED, self.clock.now()
            return Answer(kind=AnswerKind.ACCEPTED, message="Approved. It starts now.", plan_id=row.id)
        if standing is Standing.REJECTED:
            return Answer(
                kind=AnswerKind.COUNTED, message="Your approval is kept; someone's rejection still blocks the plan.", plan_id=row.id
            )
        return Answer(kind=AnswerKind.COUNTED, message=f"Your approval is kept; the rule asks for {need.approvers} people.", plan_id=row.id)

    # -- freezes

    def freeze(self, scope: str, person: Person, reason: str, *, duties: bool = False, hours: float | None = None) -> Answer:
        """Hold a cluster's plans, or the site's; duties go on unless they are named, for at most four hours (MODEL 28)."""
        needed = "Sys.Modify" if duties else "VM.Allocate"
        with self.db.read() as session:
            pool = settings_in_force(session, self.site_id).workload_pool
        path = f"/pool/{pool}/{scope.replace('/', '.', 1)}" if scope else f"/pool/{pool}"
        if not person.userid.startswith(LOCAL) and needed not in person.privileges(path):
            return Answer(kind=AnswerKind.REFUSED, message=f"Freezing needs {needed} on {path}.")
        now = self.clock.now()
        lasts = timedelta(hours=hours) if hours is not None else LONGEST_FULL_FREEZE if duties else None
        if duties and lasts is not None and lasts > LONGEST_FULL_FREEZE:
            return Answer(
                kind=AnswerKind.REFUSED,
                message="A freeze that holds duties too lasts four hours at most: placement and hooks keep running clusters alive.",
            )
        with self.db.write() as session:
            session.add(
                FreezeRow(
                    site_id=self.site_id,
                    scope=scope,
                    duties=duties,
                    who=person.userid,
                    reason=reason,
                    began_at=now,
                    until=None if lasts is None else now + lasts,
                )
            )
            self._write(session, "frozen", scope or "site", person, {"duties": duties, "reason": reason[:200]})
        self._ring_all()
        return Answer(kind=AnswerKind.ACCEPTED, message=f"Frozen: nothing of {scope or 'this site'} starts until it is thawed.")

    def thaw(self, freeze_id: int, person: Person) -> Answer:
        """End a freeze."""
        with self.db.read() as session:
            row = session.get(FreezeRow, freeze_id)
            if row is None or row.site_id != self.site_id:
                return _not_found()
            scope, needed = row.scope, "Sys.Modify" if row.duties else "VM.Allocate"
            pool = settings_in_force(session, self.site_id).workload_pool
        path = f"/pool/{pool}/{scope.replace('/', '.', 1)}" if scope else f"/pool/{pool}"
        if not person.userid.startswith(LOCAL) and needed not in person.privileges(path):
            return Answer(kind=AnswerKind.REFUSED, message=f"Thawing needs {needed} on {path}.")
        with self.db.write() as session:
            row = session.get(FreezeRow, freeze_id)
            if row is None or row.ended_at is not None:
                return Answer(kind=AnswerKind.ALREADY, message="It is thawed already.")
            row.ended_at, row.ended_by = self.clock.now(), person.userid
            self._write(session, "thawed", scope or "site", person, {"freeze": freeze_id})
        self._ring_all()
        return Answer(kind=AnswerKind.ACCEPTED, message="Thawed.")

    def _ring_all(self) -> None:
        """What may start and what is planned for upkeep both depend on freezes."""
        self.ring("tick")
        self.ring("apply")

    def confirm_missing(self, kind: str, names: Sequence[str], person: Person) -> Answer:
        """Say that what vanished at once of a kind, exactly these things, is really gone (MODEL 20)."""
        with self.db.read() as session:
            path = f"/pool/{settings_in_force(session, self.site_id).workload_pool}"
        if not person.userid.startswith(LOCAL) and "Sys.Modify" not in person.privileges(path):
            return Answer(kind=AnswerKind.REFUSED, message=f"Saying so needs Sys.Modify on {path}.")
        with self.db.write() as session:
            row = session.scalars(
                select(SuspicionRow).where(
                    SuspicionRow.site_id == self.site_id, SuspicionRow.kind == kind, SuspicionRow.closed_at.is_(None)
                )
            ).first()
            if row is None or sorted(row.missing) != sorted(names):
                return Answer(kind=AnswerKind.CONFLICT, message=f"Other things of kind {kind} are missing by now; read that first.")
            if row.outcome:
                return Answer(kind=AnswerKind.ALREADY, message="It counts as gone already.")
            row.outcome = f"{SAID_BY}{person.userid}"
            self._write(session, "missing_confirmed", kind, person, {"things": len(names), "first": names[0]})
        self.ring("tick")
        return Answer(kind=AnswerKind.ACCEPTED, message=f"{len(names)} things of kind {kind} count as gone; the next readings plan for it.")

    # -- sources

    def accept_rewritten(self, source_id: int, sha: str, person: Person) -> Answer:
        """Accept the head that a rewritten branch has now; refused when it moved on meanwhile (ACCEPTANCE 1.9)."""
        with self.db.write() as session:
            row = session.get(SourceRow, source_id)
            if row is None or row.site_id != self.site_id:
                return _not_found()
            if row.state is not SourceState.REWRITTEN:
                return Answer(kind=AnswerKind.ALREADY, message="Its history is not waiting for anyone.")
            if row.seen_sha != sha:
                return Answer(kind=AnswerKind.CONFLICT, message=f"The branch has moved on to {row.seen_sha[:7]}; read that first.")
            old = row.accepted_sha
            session.execute(
                update(SourceRow)
                .where(SourceRow.id == source_id)
                .values(accepted_sha=sha, state=SourceState.NEW, reason=f"accepted by {person.userid}", lost_commits=[])
            )
            self._write(session, "history_accepted", row.name, person, {"old": old, "new": sha})
        self.ring("tick")
        return Answer(kind=AnswerKind.ACCEPTED, message=f"Accepted: {sha[:7]} is read now.")

    def webhook(self, source: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Judge a signed notice of a push; a genuine one has the source read at once, and says who pushed (MODEL 16)."""
        judged = verify(headers, body, self.webhook_secrets.get(source, ()), now=self.clock.now())
        match judged:
            case Refused():
                return Answer(kind=AnswerKind.REFUSED, message=judged.message)
            case OtherEvent():
                return Answer(kind=AnswerKind.ALREADY, message=f"{judged.event} is no push; nothing was done.")
            case Delivery():
                if not self._is_new(judged.replay_key):
                    return Answer(kind=AnswerKind.ALREADY, message="This notice was here before.")
        with self.db.read() as session:
            row = session.scalars(select(SourceRow).where(SourceRow.site_id == self.site_id, SourceRow.name == source)).first()
        if row is None:
            return _not_found()
        spec = spec_of(row)
        if spec.url.transport is not Transport.FILE and not matches(spec, judged):  # a local path has no address that a host could name
            return Answer(kind=AnswerKind.ALREADY, message="It is about another repository or branch; nothing was done.")
        self.ring("tick")
        return Answer(kind=AnswerKind.ACCEPTED, message="The source is read now.")

    def nudge(self) -> None:
        """Have everything read and planned now."""
        self.ring("tick")

    def _is_new(self, key: str) -> bool:
        with self._lock:
            if key in self._replays:
                return False
            self._replays[key] = None
            while len(self._replays) > REPLAYS_KEPT:
                self._replays.popitem(last=False)
            return True

    def _write(self, session: Session, event: str, subject: str, person: Person, facts: Mapping[str, object]) -> None:
        ledger.append(
            session,
            site_id=self.site_id,
            tick=last_tick(session, self.site_id),
            event=event,
            subject=subject,
            who=person.userid,
            facts=facts,
            at=self.clock.now(),
        )


_PAST = {ApprovalVerdict.APPROVE: "approved", ApprovalVerdict.REJECT: "rejected", ApprovalVerdict.WITHDRAW: "withdrawn"}


def _not_found() -> Answer:
    return Answer(kind=AnswerKind.NOT_FOUND, message="There is no plan here that you may see.")


def _not_as_read(session: Session, row: PlanRow, digest: str, *, approved_too: bool = False) -> Answer | None:
    """
    Answer for a row that is not open any more, or is not what was read (ACCEPTANCE 1.3, 1.4).

    With `approved_too` one that is approved and has not started is open yet: it may still be rejected.
    """
    run_id = session.scalar(select(RunRow.id).where(RunRow.plan_id == row.id))
    if run_id is not None:
        return Answer(kind=AnswerKind.ALREADY, message=f"This plan was carried out already: run {run_id}.", plan_id=row.id, run_id=run_id)
    if row.state is PlanState.APPROVED and not approved_too:
        return Answer(kind=AnswerKind.ALREADY, message="This plan is approved already and starts soon.", plan_id=row.id)
    if row.state in CLOSED:
        replaced = row.replaced_by
        follow = f" Read plan {_digest_of(session, replaced)}." if replaced else ""
        return Answer(
            kind=AnswerKind.CONFLICT,
            message=f"Not approved: this plan was replaced while you read it. Your approval was not counted.{follow}",
            plan_id=row.id,
            replacement_id=replaced,
        )
    if row.digest != digest:
        return Answer(kind=AnswerKind.CONFLICT, message="Not approved: this is not the plan that you read.", plan_id=row.id)
    return None


def _digest_of(session: Session, plan_id: int) -> str:
    return str(session.scalar(select(PlanRow.digest).where(PlanRow.id == plan_id)))[:12]
