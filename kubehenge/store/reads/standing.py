"""
How a cluster stands, from what the management cluster said of it last.

That is `cluster.status`, a `kube.cluster_status` body: phase, available, rolling, deleting, version, endpoint, the counts
`control_plane` and `workers` (desired, ready), conditions and troubles. It is {} before the Cluster was seen for the first time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, and_, case, exists, false, func, or_, select
from sqlalchemy.orm import Session, aliased

from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ClusterState, Lane
from kubehenge.model.trouble import Trouble
from kubehenge.store.reads.sql import json_length
from kubehenge.store.reads.words import ClusterWord, Tone, condition_tone
from kubehenge.store.rows import BodyRow, ClusterRow, PlanRow, ResourceRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many machines of a role are wanted, and how many are ready."""

    desired: int = 0
    ready: int = 0

    @property
    def short(self) -> bool:
        """Whether some are not ready."""
        return self.ready < self.desired


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of a Cluster; `since` is its instant as text, '' when it is not known."""

    kind: str
    status: str
    reason: str
    message: str
    since: str

    @property
    def tone(self) -> Tone:
        """How much it wants attention."""
        return condition_tone(self.kind, self.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """That body, typed; `seen` says whether the management cluster has the Cluster at all."""

    seen: bool
    phase: str
    available: bool
    rolling: bool
    deleting: bool
    paused: bool
    version: str
    endpoint: str
    control_plane: Count
    workers: Count
    conditions: tuple[Condition, ...]
    troubles: tuple[Trouble, ...]

    @classmethod
    def of(cls, found: Mapping[str, Any] | None) -> ClusterStatus:
        """Read a status; what it does not say is empty."""
        status = found or {}
        return cls(
            seen=bool(status),
            phase=_text(status, "phase"),
            available=bool(status.get("available")),
            rolling=bool(status.get("rolling")),
            deleting=bool(status.get("deleting")),
            paused=bool(status.get("paused")),
            version=_text(status, "version"),
            endpoint=_text(status, "endpoint"),
            control_plane=_count(status.get("control_plane")),
            workers=_count(status.get("workers")),
            conditions=conditions_of(status),
            troubles=tuple(Trouble.of(one) for one in status.get("troubles") or ()),
        )


def conditions_of(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Return the conditions that a status holds, those worth a look first."""
    found = [
        Condition(
            kind=_text(one, "type"),
            status=_text(one, "status"),
            reason=_text(one, "reason"),
            message=_text(one, "message"),
            since=_text(one, "since"),
        )
        for one in status.get("conditions") or ()
        if isinstance(one, Mapping)
    ]
    return tuple(sorted(found, key=lambda one: one.tone not in {Tone.WARN, Tone.BAD}))


def worth_a_look(status: ClusterStatus, *, established: bool) -> tuple[str, ...]:
    """Return what is off with a cluster, in words, the gravest first; nothing while it is being made, rolled or deleted."""
    if not established or status.rolling or status.deleting:
        return ()
    found = [] if status.available else [_unavailable(status.conditions)]
    for count, what in ((status.control_plane, "control-plane nodes"), (status.workers, "workers")):
        if count.short:
            found.append(f"{count.desired - count.ready} of {count.desired} {what} not ready")
    if status.troubles:
        found.append("Cluster API cannot go on by itself")
    if status.paused:
        found.append("Paused: Cluster API changes nothing of it")
    return tuple(found)


def _unavailable(conditions: Sequence[Condition]) -> str:
    message = next((one.message for one in conditions if one.kind == "Available" and one.message), "")
    return f"Not available: {message}" if message else "Not available"


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""


def _count(value: Any) -> Count:
    if not isinstance(value, Mapping):
        return Count()
    return Count(desired=int(value.get("desired") or 0), ready=int(value.get("ready") or 0))


STATUS = ClusterRow.status


def _flag(name: str) -> ColumnElement[bool]:
    return func.coalesce(STATUS[name].as_boolean(), false())


def _number(*path: str) -> ColumnElement[int]:
    return func.coalesce(STATUS[path].as_integer(), 0)


def troubled(session: Session, site_id: int, now: datetime) -> Sequence[tuple[str, tuple[str, ...]]]:
    """Return the clusters that something keeps from going on, by name, with what it is."""
    rows = session.execute(
        select(ClusterRow.namespace, ClusterRow.name, ClusterRow.status)
        .where(ClusterRow.site_id == site_id, ClusterRow.state != ClusterState.GONE, func.coalesce(json_length(STATUS["troubles"]), 0) > 0)
        .order_by(ClusterRow.namespace, ClusterRow.name)
    )
    found = ((f"{row.namespace}/{row.name}", ClusterStatus.of(row.status).troubles) for row in rows)
    said = ((scope, tuple(one.text for one in troubles if one.counts(now))) for scope, troubles in found)
    return [(scope, texts) for scope, texts in said if texts]


@cache
def established() -> ColumnElement[bool]:
    """Return the condition that a cluster has been made: a plan of it is done, or it was made elsewhere and has its machines."""
    made = exists(
        select(PlanRow.id).where(PlanRow.cluster_id == ClusterRow.id, PlanRow.lane == Lane.ASKED, PlanRow.state == PlanState.DONE)
    ).correlate(ClusterRow)
    return or_(_flag("available"), made, and_(ClusterRow.state == ClusterState.FOREIGN, STATUS["phase"].as_string() == "Provisioned"))


@cache
def last_run_failed() -> ColumnElement[bool]:
    """Return the condition that the newest asked plan of a cluster failed."""
    newer = aliased(PlanRow)
    return exists(
        select(PlanRow.id).where(
            PlanRow.cluster_id == ClusterRow.id,
            PlanRow.lane == Lane.ASKED,
            PlanRow.state == PlanState.FAILED,
            ~exists().where(newer.cluster_id == PlanRow.cluster_id, newer.lane == Lane.ASKED, newer.id > PlanRow.id),
        )
    ).correlate(ClusterRow)


@cache
def _upgrading() -> ColumnElement[bool]:
    """Return the condition that a machine of the cluster runs another version than the cluster asks for."""
    return exists(
        select(ResourceRow.id)
        .join(BodyRow, BodyRow.hash == ResourceRow.observed_hash)
        .where(
            ResourceRow.cluster_id == ClusterRow.id,
            ResourceRow.kind == "kube.machine",
            BodyRow.content["version"].as_string() != STATUS["version"].as_string(),
        )
    ).correlate(ClusterRow)


@cache
def needs_a_look() -> ColumnElement[bool]:
    """Return the condition that `worth_a_look` finds something."""
    short = or_(
        _number("control_plane", "ready") < _number("control_plane", "desired"),
        _number("workers", "ready") < _number("workers", "desired"),
    )
    troubled = func.coalesce(json_length(STATUS["troubles"]), 0) > 0
    off = or_(short, ~_flag("available"), _flag("paused"), troubled)
    return and_(established(), ~_flag("rolling"), ~_flag("deleting"), ClusterRow.state != ClusterState.LEAVING, off)


@cache
def list_word() -> ColumnElement[str]:
    """Return the expression for a cluster's word in lists (reference: kubehenge-clusters, The cluster page)."""
    return case((and_(standing_word() == ClusterWord.AVAILABLE.value, needs_a_look()), ClusterWord.LOOK.value), else_=standing_word())


@cache
def standing_word() -> ColumnElement[str]:
    """Return the expression for a cluster's status."""
    available = _flag("available")
    return case(
        (or_(ClusterRow.state.in_((ClusterState.LEAVING, ClusterState.GONE)), _flag("deleting")), ClusterWord.DELETING.value),
        (STATUS["phase"].as_string() == "Failed", ClusterWord.FAILED.value),
        (and_(~available, last_run_failed()), ClusterWord.FAILED.value),
        (and_(~available, ~established()), ClusterWord.PROVISIONING.value),
        (and_(_flag("rolling"), _upgrading()), ClusterWord.UPGRADING.value),
        (or_(_flag("rolling"), ~available), ClusterWord.RECONCILING.value),
        else_=ClusterWord.AVAILABLE.value,
    )
