"""Plans, their actions, approvals, runs, the journal, edits and the ledger."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from kubehenge.model.plan import PlanState, StepState
from kubehenge.model.resource import ChangeClass, Lane, Verb
from kubehenge.store.rows.base import Hash, Id, Instant, JsonValue, Key, Row, words


class PlanRow(Row):
    """A plan for one scope and lane, opened at a tick; approvals, rejections and its one use belong to this row (MODEL 12)."""

    __tablename__ = "plan"
    __table_args__ = (
        Index(
            "uq_plan_one_open",
            "site_id",
            "scope",
            "lane",
            unique=True,
            sqlite_where=text("closed_tick IS NULL"),
            postgresql_where=text("closed_tick IS NULL"),
        ),
        Index(None, "site_id", "state", "id"),
        Index(None, "cluster_id", "id"),
        Index(None, "digest"),
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    cluster_id: Mapped[int | None] = mapped_column(ForeignKey("cluster.id"))
    scope: Mapped[str] = mapped_column(Key)
    """`<namespace>/<name>`, or `site:<what>` for shared things: `site:settings`, `site:rules`, `site:namespaces`, `site:classes`."""
    lane: Mapped[Lane] = mapped_column(words(Lane))
    digest: Mapped[str] = mapped_column(Hash)
    state: Mapped[PlanState] = mapped_column(words(PlanState))
    title: Mapped[str] = mapped_column(Text)
    summary: Mapped[str] = mapped_column(Text, default="")
    classes: Mapped[list[str]] = mapped_column(JsonValue)
    documents: Mapped[list[str]] = mapped_column(JsonValue)
    inputs: Mapped[str] = mapped_column(Hash)
    disruption: Mapped[dict[str, Any]] = mapped_column(JsonValue)
    revision: Mapped[str] = mapped_column(String(64), default="")
    author: Mapped[str] = mapped_column(Text, default="")
    """The author line of the newest commit that it stems from; shown, and proof of nothing (MODEL 16)."""
    bill: Mapped[dict[str, Any]] = mapped_column(JsonValue, default=dict)
    obstacles: Mapped[list[dict[str, Any]]] = mapped_column(JsonValue, default=list)
    checks: Mapped[list[dict[str, Any]]] = mapped_column(JsonValue, default=list)
    held: Mapped[str] = mapped_column(Text, default="")
    """Why the deletion guard or a freeze of its kind holds it, or ''."""
    protected: Mapped[bool] = mapped_column(default=False)
    retry_at: Mapped[datetime | None] = mapped_column(Instant)
    """The same plan failed before: rules let it start again from then on; a person may start it at once."""
    rules_version: Mapped[int] = mapped_column(default=0)
    opened_tick: Mapped[int] = mapped_column(Id)
    opened_at: Mapped[datetime] = mapped_column(Instant)
    refreshed_at: Mapped[datetime] = mapped_column(Instant)
    approved_at: Mapped[datetime | None] = mapped_column(Instant)
    closed_tick: Mapped[int | None] = mapped_column(Id)
    closed_at: Mapped[datetime | None] = mapped_column(Instant)
    closed_reason: Mapped[str] = mapped_column(Text, default="")
    replaced_by: Mapped[int | None] = mapped_column(ForeignKey("plan.id"))


class ActionRow(Row):
    """One verb on one resource, as planned."""

    __tablename__ = "action"
    __table_args__ = (UniqueConstraint("plan_id", "position"), Index(None, "site_id", "kind", "name"))

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    plan_id: Mapped[int] = mapped_column(ForeignKey("plan.id"))
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    position: Mapped[int]
    kind: Mapped[str] = mapped_column(Key)
    name: Mapped[str] = mapped_column(Key)
    verb: Mapped[Verb] = mapped_column(words(Verb))
    change_class: Mapped[ChangeClass] = mapped_column(words(ChangeClass))
    part: Mapped[Lane] = mapped_column(words(Lane))
    """The field group it is about; `before_hash` and `after_hash` are of that part (MODEL 11)."""
    before_hash: Mapped[str | None] = mapped_column(Hash)
    after_hash: Mapped[str | None] = mapped_column(ForeignKey("body.hash"))
    changes: Mapped[list[dict[str, Any]]] = mapped_column(JsonValue, default=list)
    """Fields that were asked for: path, before, after."""
    drift: Mapped[list[dict[str, Any]]] = mapped_column(JsonValue, default=list)
    """Fields that others changed and that this puts back."""
    waits_for: Mapped[list[int]] = mapped_column(JsonValue, default=list)
    requires: Mapped[list[str]] = mapped_column(JsonValue, default=list)
    reason: Mapped[str] = mapped_column(Text, default="")


class ApprovalVerdict(StrEnum):
    """What someone said of a plan's row."""

    APPROVE = "approve"
    REJECT = "reject"
    WITHDRAW = "withdraw"


class ApprovalRow(Row):
    """Someone's, or a rule's, word on one plan's row and its digest (ACCEPTANCE 1.5)."""

    __tablename__ = "approval"
    __table_args__ = (Index(None, "plan_id", "id"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    plan_id: Mapped[int] = mapped_column(ForeignKey("plan.id"))
    digest: Mapped[str] = mapped_column(Hash)
    verdict: Mapped[ApprovalVerdict] = mapped_column(words(ApprovalVerdict))
    who: Mapped[str] = mapped_column(Text)
    """`maria@corp`, `local/root`, or `rule/<name>`."""
    rules_version: Mapped[int]
    typed_name: Mapped[str] = mapped_column(Text, default="")
    comment: Mapped[str] = mapped_column(Text, default="")
    inherited_from: Mapped[int | None] = mapped_column(ForeignKey("approval.id"))
    at: Mapped[datetime] = mapped_column(Instant)


class RunRow(Row):
    """One carrying-out of a plan; a plan's row has at most one."""

    __tablename__ = "run"
    __table_args__ = (Index(None, "site_id", "ended_at", "id"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    plan_id: Mapped[int] = mapped_column(ForeignKey("plan.id"), unique=True)
    scope: Mapped[str] = mapped_column(Key)
    lane: Mapped[Lane] = mapped_column(words(Lane))
    fence: Mapped[int] = mapped_column(Id)
    started_at: Mapped[datetime] = mapped_column(Instant)
    ended_at: Mapped[datetime | None] = mapped_column(Instant)
    stop_reason: Mapped[str] = mapped_column(Text, default="")
    """Set when it is to stop at the next action boundary (MODEL 14)."""
    outcome: Mapped[PlanState | None] = mapped_column(words(PlanState))


class StepRow(Row):
    """The journal: one action of a run. Written before the call, and again with its result (MODEL 25)."""

    __tablename__ = "step"
    __table_args__ = (UniqueConstraint("run_id", "position"), Index(None, "state", "run_id"))

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id"))
    action_id: Mapped[int] = mapped_column(ForeignKey("action.id"))
    position: Mapped[int]
    state: Mapped[StepState] = mapped_column(words(StepState), default=StepState.NOT_STARTED)
    handle: Mapped[dict[str, Any] | None] = mapped_column(JsonValue)
    """What a pending step waits on: a UPID, or an object and its generation."""
    waits_on: Mapped[str] = mapped_column(Text, default="")
    """The same in words: `2 of 3 control-plane nodes`."""
    progress_done: Mapped[int] = mapped_column(default=0)
    progress_all: Mapped[int] = mapped_column(default=0)
    left_hash: Mapped[str | None] = mapped_column(Hash)
    """The hash of the state that it left."""
    attempts: Mapped[int] = mapped_column(default=0)
    error: Mapped[str] = mapped_column(Text, default="")
    refused: Mapped[bool] = mapped_column(default=False)
    """The failure stays until something changes; otherwise it may pass by itself."""
    log: Mapped[list[dict[str, str]]] = mapped_column(JsonValue, default=list)
    """Lines for people: `at`, `level`, `text`."""
    intended_at: Mapped[datetime | None] = mapped_column(Instant)
    looked_at: Mapped[datetime | None] = mapped_column(Instant)
    ended_at: Mapped[datetime | None] = mapped_column(Instant)


class EditState(StrEnum):
    """Where a change made in the page is on its way into Git (MODEL 33)."""

    WANTED = "wanted"
    PUSHED = "pushed"
    DONE = "done"
    REFUSED = "refused"
    SUPERSEDED = "superseded"


class EditRow(Row):
    """A change that the page or an automatic upgrade writes to Git."""

    __tablename__ = "edit"
    __table_args__ = (Index(None, "site_id", "state"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    source_id: Mapped[int] = mapped_column(ForeignKey("source.id"))
    cluster_id: Mapped[int | None] = mapped_column(ForeignKey("cluster.id"))
    path: Mapped[str] = mapped_column(Text)
    change: Mapped[dict[str, Any]] = mapped_column(JsonValue)
    author: Mapped[str] = mapped_column(Text)
    message: Mapped[str] = mapped_column(Text)
    state: Mapped[EditState] = mapped_column(words(EditState), default=EditState.WANTED)
    sha: Mapped[str] = mapped_column(String(64), default="")
    reason: Mapped[str] = mapped_column(Text, default="")
    wanted_at: Mapped[datetime] = mapped_column(Instant)
    ended_at: Mapped[datetime | None] = mapped_column(Instant)


class LedgerRow(Row):
    """One entry of a site's ledger: append-only, each holding the hash of the one before (MODEL 10)."""

    __tablename__ = "ledger"

    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"), primary_key=True)
    position: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    at: Mapped[datetime] = mapped_column(Instant)
    tick: Mapped[int] = mapped_column(Id)
    event: Mapped[str] = mapped_column(Key)
    """A past-tense event such as `plan_approved`."""
    subject: Mapped[str] = mapped_column(Key)
    """What it is about: `clusters/prod`, `site`, a source's name."""
    who: Mapped[str] = mapped_column(Text)
    facts: Mapped[dict[str, Any]] = mapped_column(JsonValue)
    """Digests and small facts; never a body, never a secret."""
    previous: Mapped[str] = mapped_column(Hash)
    hash: Mapped[str] = mapped_column(Hash, unique=True)

    __table_args__ = (Index(None, "site_id", "subject", "position"),)
