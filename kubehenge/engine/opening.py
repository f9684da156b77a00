"""Plans become rows: kept, refreshed, replaced or opened; retried, held, and approved where the rules say so (MODEL 12, 14, 15, 18)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from kubehenge.engine.needs import need_of_row, standing_of
from kubehenge.model.facts import SiteFacts
from kubehenge.model.plan import Plan, PlanState, StepState
from kubehenge.model.resource import ChangeClass, Verb
from kubehenge.model.site import ApprovalRules, SiteSettings
from kubehenge.plan.approval import GRANTED, RULE, Said, Standing, judge
from kubehenge.plan.guard import CommitSum, hold_reason
from kubehenge.store import ledger, plans
from kubehenge.store.rows import ActionRow, ApprovalRow, ClusterRow, PlanRow, SiteRow, StepRow

log = structlog.get_logger()

FIRST_RETRY = timedelta(seconds=30)
LONGEST_RETRY = timedelta(minutes=10)
FIRST_REFUSED_RETRY = timedelta(minutes=1)
LONGEST_REFUSED_RETRY = timedelta(hours=1)
FORGET_FAILURES = timedelta(hours=6)
MOST_FAILURES = 12
_DESTRUCTIVE = frozenset({ChangeClass.DELETE.value, ChangeClass.SHRINK.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """
    What one pass of planning has in hand.

    `draw_tick` draws this pass's number once, at the first thing that changes. `signature` stands for the site's facts and rules.
    `authors` are by revision; `held` are the revisions of which every deletion is held, with the reason (ACCEPTANCE 1.7).
    """

    now: datetime
    draw_tick: Callable[[], int]
    settings: SiteSettings
    rules: ApprovalRules
    rules_version: int
    rules_of: Callable[[int], ApprovalRules]
    facts: SiteFacts
    signature: str
    authors: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A plan's row that this pass opens, and the one that it replaces; `kept` are approvals of what an interrupted run left."""

    row: PlanRow
    plan: Plan
    replaces: PlanRow | None
    kept: list[ApprovalRow] = field(default_factory=list)


@dataclass(slots=True)
class Opening:
    """Gathers what one pass plans, decides what starts by itself, and writes it all at once."""

    site: SiteRow
    machines: int
    context: Context
    _closed: list[tuple[PlanRow, str]] = field(default_factory=list)
    _opened: list[_Opened] = field(default_factory=list)
    _open: list[PlanRow] = field(default_factory=list)

    def put(self, cluster: ClusterRow | None, plan: Plan | None, current: PlanRow | None, why_none: str = "nothing is left to do") -> bool:
        """Take up the plan that a lane has now beside the row that is open: keep, refresh, replace or close it; tells whether it is another."""
        if plan is None:
            if current is not None:
                self._closed.append((current, why_none))
            return current is not None
        if current is not None and current.digest == plan.digest:
            plans.refresh_plan(current, plan, self.context.now)
            self._open.append(current)
            return False
        if current is not None:
            self._closed.append((current, "replaced by a newer plan"))
        row = self._new_row(cluster, plan)
        self._opened.append(_Opened(row=row, plan=plan, replaces=current))
        self._open.append(row)
        return True

    def _new_row(self, cluster: ClusterRow | None, plan: Plan) -> PlanRow:
        context = self.context
        revision = "" if cluster is None else cluster.removed_revision or cluster.declared_revision
        return plans.new_row(
            plan,
            site_id=self.site.id,
            cluster_id=None if cluster is None else cluster.id,
            tick=context.draw_tick(),
            now=context.now,
            revision=revision,
            author=context.authors.get(revision, ""),
            rules_version=context.rules_version,
            held=context.held.get(revision, "") if plan.classes & {ChangeClass.DELETE, ChangeClass.SHRINK} else "",
        )

    def write(self, session: Session) -> tuple[int, ...]:
        """Write it all; returns the plans that rules approved."""
        now = self.context.now
        if self._closed:
            plans.supersede(session, self._closed, tick=self.context.draw_tick(), now=now)
        self._look_back(session)
        self._guard_commits(session)
        approved = self._approve(session)
        plans.insert_plans(session, [(one.row, one.plan) for one in self._opened])
        for one in self._opened:
            if one.replaces is not None:
                plans.name_replacement(session, one.replaces.id, one.row.id)
            plans.take_over(session, one.row, one.kept, now)
        plans.approve_by_rule(session, [(row, who) for row, who in approved if who.startswith(RULE)], self.context.rules_version, now)
        entries = [*map(self._opened_entry, self._opened), *(self._approved_entry(row, who) for row, who in approved)]
        if entries:
            ledger.append_all(session, entries, site_id=self.site.id, tick=self.context.draw_tick(), at=now)
        return tuple(row.id for row, _ in approved)

    def _opened_entry(self, one: _Opened) -> ledger.Entry:
        row, plan = one.row, one.plan
        log.info("plan_opened", scope=plan.scope, lane=plan.lane.value, plan=plan.digest[:12], title=plan.title)
        facts = {"plan": plan.digest, "row": row.id, "lane": plan.lane.value, "actions": len(plan.actions), "revision": row.revision}
        return ledger.Entry(event="plan_opened", subject=plan.scope, who="kubehenge", facts=facts)

    def _approved_entry(self, row: PlanRow, who: str) -> ledger.Entry:
        facts = {"plan": row.digest, "row": row.id, "rules": self.context.rules_version}
        return ledger.Entry(event="plan_approved", subject=row.scope, who=who, facts=facts)

    def _look_back(self, session: Session) -> None:
        """Where a plan ended early: say when its like is tried again, and keep the approvals of what is left of it (MODEL 14)."""
        if not self._opened:
            return
        now = self.context.now
        early = plans.ended_early(session, self.site.id, now - max(FORGET_FAILURES, plans.REMAINDER_LASTS))
        for one in self._opened:
            if (one.row.scope, one.row.lane) in early:
                one.row.retry_at = _retry_at(session, one.row, one.plan, now)
                one.kept.extend(plans.approvals_of_remainder(session, one.row, one.plan, now))

    def _guard_commits(self, session: Session) -> None:
        """Hold the deleting plans of a commit that takes much at once for a typed name (ACCEPTANCE 1.7)."""
        for revision in {row.revision for row in self._open if row.revision and _DESTRUCTIVE & set(row.classes)}:
            before = session.scalars(
                select(PlanRow).where(PlanRow.site_id == self.site.id, PlanRow.revision == revision, PlanRow.state != PlanState.SUPERSEDED)
            )
            rows = [*before, *(one.row for one in self._opened if one.row.revision == revision)]
            removed = sum(row.bill.get("machines_removed", 0) for row in rows)
            reason = hold_reason(CommitSum(machines_before=self.machines, machines_removed=removed))
            for row in rows:
                if reason and row.closed_tick is None and not row.held and _DESTRUCTIVE & set(row.classes):
                    row.held = reason
                    if row.state is PlanState.APPROVED:
                        self._judge_again(session, row)

    def _approve(self, session: Session) -> list[tuple[PlanRow, str]]:
        """Approve what the rules approve by themselves, and what inherited all that they ask for (MODEL 14, 15, 18); says by whom."""
        approved = []
        fresh = {id(one.row): one.kept for one in self._opened}
        for row in self._open:
            if row.state is PlanState.APPROVED:
                self._judge_again(session, row)
            if row.state is not PlanState.OPEN or row.obstacles or (row.retry_at is not None and row.retry_at > self.context.now):
                continue
            said = plans.words_of(fresh[id(row)]) if id(row) in fresh else plans.said_of(session, row.id)
            need, standing = standing_of(session, row, self.context.rules, self.context.rules_version, said)
            if standing not in GRANTED or not self._granted_before(session, row, said):
                continue
            who = RULE + "+".join(need.rules) if standing is Standing.BY_RULE else "inherited"
            row.state, row.approved_at = PlanState.APPROVED, self.context.now
            approved.append((row, who))
        return approved

    def _judge_again(self, session: Session, row: PlanRow) -> None:
        """What is approved and has not started waits again where the rules, or the guard, ask for more by now (ACCEPTANCE 1.5)."""
        need, standing = standing_of(session, row, self.context.rules, self.context.rules_version)
        if standing in GRANTED:
            return
        row.state, row.approved_at = PlanState.OPEN, None
        facts = {"plan": row.digest, "row": row.id, "rules": self.context.rules_version}
        entry = ledger.Entry(event="approval_void", subject=row.scope, who=RULE + "+".join(need.rules), facts=facts)
        ledger.append_all(session, [entry], site_id=self.site.id, tick=self.context.draw_tick(), at=self.context.now)

    def _granted_before(self, session: Session, row: PlanRow, said: Sequence[Said]) -> bool:
        """Tell whether the rules under which a plan came to wait grant it, too: a change of rules never does by itself (ACCEPTANCE 1.5)."""
        if row.rules_version == self.context.rules_version:
            return True
        return judge(need_of_row(session, row, self.context.rules_of(row.rules_version)), said, scope=row.scope) in GRANTED


def _retry_at(session: Session, row: PlanRow, plan: Plan, now: datetime) -> datetime | None:
    """
    Return when rules may start a plan whose like has just failed; None when none has.

    It is like it when it comes from the same documents and does again what failed. What may pass by itself is tried again after
    half a minute, doubling up to ten; what was refused after a minute, doubling up to an hour. A person may start it at any time.
    """
    earlier = session.execute(
        select(PlanRow.id, PlanRow.state, PlanRow.documents, PlanRow.closed_at)
        .where(
            PlanRow.site_id == row.site_id,
            PlanRow.scope == row.scope,
            PlanRow.lane == row.lane,
            PlanRow.closed_at > now - FORGET_FAILURES,
        )
        .order_by(PlanRow.id.desc())
        .limit(MOST_FAILURES)
    ).all()
    ended = {PlanState.FAILED, PlanState.STALE}
    failures = list(takewhile(lambda one: one.state in ended and one.documents == row.documents, earlier))
    if not failures:
        return None
    closed_at: datetime = failures[0].closed_at
    if failures[0].state is PlanState.STALE:  # once is the world's right; again and again is a reading that is not what it seems
        stale = len(list(takewhile(lambda one: one.state is PlanState.STALE, failures)))
        return None if stale == 1 else closed_at + min(FIRST_RETRY * int(2 ** (stale - 2)), LONGEST_RETRY)
    failed = _failed_actions(session, failures[0].id)
    if not failed.keys() & {_likeness(action.ref.kind, action.ref.name, action.verb) for action in plan.actions}:
        return None
    first, longest = (FIRST_REFUSED_RETRY, LONGEST_REFUSED_RETRY) if any(failed.values()) else (FIRST_RETRY, LONGEST_RETRY)
    return closed_at + min(first * int(2 ** (len(failures) - 1)), longest)


def _failed_actions(session: Session, plan_id: int) -> dict[tuple[str, str, str], bool]:
    """Return what failed in a plan's run, and whether it was refused."""
    rows = session.execute(
        select(ActionRow.kind, ActionRow.name, ActionRow.verb, StepRow.refused)
        .join(StepRow, StepRow.action_id == ActionRow.id)
        .where(ActionRow.plan_id == plan_id, StepRow.state.in_((StepState.FAILED, StepState.UNKNOWN)))
    )
    return {_likeness(row.kind, row.name, row.verb): row.refused for row in rows}


def _likeness(kind: str, name: str, verb: Verb) -> tuple[str, str, str]:
    """A token's next generation is like the one before it."""
    return kind, name.partition("!")[0] if kind == "proxmox.token" else name, verb.value
