"""The words for how clusters, plans and conditions stand, and the expressions that find them in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, and_, case, exists, func, or_, select
from sqlalchemy.orm import aliased

from kubehenge.model.plan import PlanState
from kubehenge.model.resource import SERIOUSNESS, ChangeClass
from kubehenge.store.reads.sql import json_length
from kubehenge.store.rows import ApprovalRow, ApprovalVerdict, FreezeRow, PlanRow


class ClusterWord(StrEnum):
    """How a cluster stands; LOOK is a mark of lists for one that is available and yet worth a look."""

    PROVISIONING = "Provisioning"
    AVAILABLE = "Available"
    UPGRADING = "Upgrading"
    RECONCILING = "Reconciling"
    DELETING = "Deleting"
    FAILED = "Failed"
    LOOK = "Needs a look"


class PlanWord(StrEnum):
    """
    How a plan stands.

    HELD is approved and waits for the end of a freeze. RETRY failed before, and rules start it again after a while. UP_TO_DATE is for a cluster without an open plan, RUN_FAILED for one whose
    newest run failed.
    """

    WAITING = "Waiting for approval"
    APPROVED = "Approved"
    RUNNING = "Running"
    DONE = "Done"
    FAILED = "Failed in part"
    CANNOT_FINISH = "Cannot finish"
    HELD = "Held back"
    SUPERSEDED = "Superseded"
    STALE = "Stale"
    REJECTED = "Rejected"
    RETRY = "Waits to try again"
    INTERRUPTED = "Interrupted"
    UP_TO_DATE = "Up to date"
    RUN_FAILED = "Run failed"


OPEN_WORDS = (
    PlanWord.WAITING,
    PlanWord.APPROVED,
    PlanWord.RUNNING,
    PlanWord.CANNOT_FINISH,
    PlanWord.HELD,
    PlanWord.REJECTED,
    PlanWord.RETRY,
)
"""The words that an open plan can have."""

_WORD_OF_STATE: Mapping[PlanState, PlanWord] = {
    PlanState.APPROVED: PlanWord.APPROVED,
    PlanState.RUNNING: PlanWord.RUNNING,
    PlanState.DONE: PlanWord.DONE,
    PlanState.FAILED: PlanWord.FAILED,
    PlanState.STALE: PlanWord.STALE,
    PlanState.SUPERSEDED: PlanWord.SUPERSEDED,
    PlanState.INTERRUPTED: PlanWord.INTERRUPTED,
}


@cache
def rejected(plan: Any = PlanRow) -> ColumnElement[bool]:
    """Return the condition that someone's rejection of a plan stands: it is their last word on it (ACCEPTANCE 1.6)."""
    said, later = aliased(ApprovalRow), aliased(ApprovalRow)
    replaced = exists().where(later.plan_id == said.plan_id, later.who == said.who, later.id > said.id)
    return exists(select(said.id).where(said.plan_id == plan.id, said.verdict == ApprovalVerdict.REJECT, ~replaced).correlate(plan))


@cache
def frozen(plan: Any = PlanRow) -> ColumnElement[bool]:
    """Return the condition that a freeze in force holds a plan (MODEL 28)."""
    return exists(
        select(FreezeRow.id)
        .where(
            FreezeRow.site_id == plan.site_id,
            FreezeRow.ended_at.is_(None),
            or_(FreezeRow.until.is_(None), FreezeRow.until > func.current_timestamp()),
            FreezeRow.scope.in_(("", plan.scope)),
        )
        .correlate(plan)
    )


@cache
def plan_word(plan: Any = PlanRow) -> ColumnElement[str]:
    """Return the expression for a plan's word."""
    is_open = plan.state == PlanState.OPEN
    return case(
        (and_(is_open, rejected(plan)), PlanWord.REJECTED.value),
        (and_(is_open, json_length(plan.obstacles) > 0), PlanWord.CANNOT_FINISH.value),
        (and_(plan.state == PlanState.APPROVED, frozen(plan)), PlanWord.HELD.value),
        (and_(is_open, plan.retry_at > func.current_timestamp()), PlanWord.RETRY.value),
        (is_open, PlanWord.WAITING.value),
        *((plan.state == state, word.value) for state, word in _WORD_OF_STATE.items()),
        else_=PlanWord.WAITING.value,
    )


def gravest_first(classes: Iterable[str]) -> tuple[ChangeClass, ...]:
    """Return change classes with the most serious one first, as people must see them."""
    return tuple(sorted((ChangeClass(one) for one in classes), key=SERIOUSNESS.index, reverse=True))


class Tone(StrEnum):
    """How much something wants attention; each has a colour and an icon on pages."""

    GOOD = "good"
    INFO = "info"
    WARN = "warn"
    BAD = "bad"
    OFF = "off"


_NEGATIVE = frozenset({"Paused", "RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting"})
"""Conditions of Cluster API's v1beta2 contract that are True while something is going on; all others are True when all is well."""


def condition_tone(kind: str, status: str) -> Tone:
    """
    Return how much a condition of a Cluster wants attention.

    Source: Cluster API's v1beta2 conditions; Unknown is always worth a look, Paused and Remediating are when they are True.
    """
    if status == "Unknown":
        return Tone.WARN
    if kind in _NEGATIVE:
        if status != "True":
            return Tone.OFF
        return Tone.WARN if kind in {"Paused", "Remediating"} else Tone.INFO
    return Tone.GOOD if status == "True" else Tone.WARN
