"""Clusters: the list with its counts and filters, and one cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, case, exists, func, or_, select
from sqlalchemy.orm import Session, aliased

from kubehenge.model.distribution import FACTS, find_distribution
from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ChangeClass, ClusterState, Lane
from kubehenge.store.reads import standing
from kubehenge.store.reads.paging import Page, Query, page_of
from kubehenge.store.reads.sql import holds_text, scope_of
from kubehenge.store.reads.standing import STATUS, ClusterStatus
from kubehenge.store.reads.visible import Visible
from kubehenge.store.reads.words import ClusterWord, PlanWord, gravest_first, plan_word
from kubehenge.store.rows import BodyRow, ClusterRow, DocumentRow, PlanRow, RunRow, SourceRow, TickRow

SCOPE = scope_of(ClusterRow.namespace, ClusterRow.name)
_PRESENT = ClusterRow.state != ClusterState.GONE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFilter:
    """What a list is narrowed to; '' narrows nothing. `minor` is `1.36`, `order` a key of `ORDERS`, with `-` before it descending."""

    text: str = ""
    word: str = ""
    namespace: str = ""
    distribution: str = ""
    minor: str = ""
    plan: str = ""
    order: str = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMark:
    """What a list says of a cluster's asked plan; `id` is None without one."""

    word: PlanWord
    id: int | None = None
    run_id: int | None = None
    title: str = ""
    classes: tuple[ChangeClass, ...] = ()
    cannot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLine:
    """One line of the list of clusters."""

    id: int
    namespace: str
    name: str
    state: ClusterState
    word: ClusterWord
    class_name: str
    version: str
    status: ClusterStatus
    revision: str
    plan: PlanMark

    @property
    def scope(self) -> str:
        """`<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}"

    @property
    def distribution(self) -> str:
        """`RKE2`, or the class's name when it is none of ours."""
        return distribution_title(self.class_name)

    @property
    def read_only(self) -> bool:
        """Whether it was made elsewhere and is only looked at (DESIGN, Who may do what)."""
        return self.state is ClusterState.FOREIGN


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Where a cluster is declared: its source, file, and what was accepted last."""

    source: str
    source_id: int
    path: str
    position: int
    revision: str
    branch: str
    author: str
    subject: str
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """One cluster, with its declaration in force as it was read (None for one made elsewhere or on its way out)."""

    line: ClusterLine
    incarnation: int
    status: ClusterStatus
    look: tuple[str, ...]
    declaration: Mapping[str, Any] | None
    declared: Declared | None
    opened_at: Any
    removed_revision: str
    plan_counts: Mapping[str, int] = field(default_factory=dict)


def distribution_title(class_name: str) -> str:
    """Return what people call a class's distribution."""
    found = find_distribution(class_name)
    return FACTS[found].title if found else class_name or "–"


_VERSION = func.coalesce(func.nullif(STATUS["version"].as_string(), ""), BodyRow.content["spec", "topology", "version"].as_string(), "")

_PLAN = aliased(PlanRow)

_TOPOLOGY = BodyRow.content["spec", "topology"]

ORDERS: Mapping[str, ColumnElement[Any]] = {
    "name": SCOPE,
    "distribution": ClusterRow.class_name.expression,
    "version": _VERSION,
    "revision": ClusterRow.declared_revision.expression,
}


def _clusters(site_id: int, visible: Visible, *columns: Any) -> Query:
    return (
        select(*columns)
        .select_from(ClusterRow)
        .outerjoin(BodyRow, BodyRow.hash == ClusterRow.declared_hash)
        .where(ClusterRow.site_id == site_id, _PRESENT, visible.clusters(SCOPE))
    )


def cluster_page(session: Session, site_id: int, visible: Visible, wanted: ClusterFilter, number: int = 1) -> Page[ClusterLine]:
    """Return a page of the clusters that fit a filter."""
    query = _clusters(site_id, visible, ClusterRow, standing.list_word(), _VERSION, _TOPOLOGY).where(*_conditions(wanted))
    order = ORDERS.get(wanted.order.lstrip("-"), SCOPE)
    query = query.order_by(order.desc() if wanted.order.startswith("-") else order.asc(), SCOPE)
    return page_of(session, query, number).map(lambda rows: _lines(session, rows))


def word_counts(session: Session, site_id: int, visible: Visible, wanted: ClusterFilter) -> Mapping[ClusterWord, int]:
    """Count the clusters that fit all of a filter but its word, by word."""
    others = ClusterFilter(
        text=wanted.text, namespace=wanted.namespace, distribution=wanted.distribution, minor=wanted.minor, plan=wanted.plan
    )
    words = _clusters(site_id, visible, standing.list_word().label("word")).where(*_conditions(others)).subquery()
    rows = session.execute(select(words.c.word, func.count()).group_by(words.c.word))
    return {ClusterWord(word): count for word, count in rows}


def filter_choices(session: Session, site_id: int, visible: Visible) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the namespaces and the minor versions that a filter can offer."""
    namespaces = session.scalars(_clusters(site_id, visible, ClusterRow.namespace).distinct().order_by(ClusterRow.namespace)).all()
    versions = session.scalars(_clusters(site_id, visible, _VERSION).distinct()).all()
    minors = {minor for version in versions if (minor := _minor(version))}
    return tuple(namespaces), tuple(sorted(minors, key=lambda text: [int(part) for part in text.split(".")], reverse=True))


def _minor(version: str) -> str:
    parts = version.lstrip("v").split(".")
    return f"{parts[0]}.{parts[1]}" if len(parts) > 2 and parts[0].isdigit() and parts[1].isdigit() else ""


def find_cluster(session: Session, site_id: int, visible: Visible, namespace: str, name: str) -> ClusterView | None:
    """Return one cluster in its newest life, None when there is none that may be seen; one that is gone is found too."""
    if not visible.sees(f"{namespace}/{name}"):
        return None
    columns = (ClusterRow, standing.standing_word(), _VERSION, BodyRow.content, standing.established())
    query = (
        select(*columns)
        .select_from(ClusterRow)
        .outerjoin(BodyRow, BodyRow.hash == ClusterRow.declared_hash)
        .where(ClusterRow.site_id == site_id, ClusterRow.namespace == namespace, ClusterRow.name == name)
        .order_by(ClusterRow.incarnation.desc())
        .limit(1)
    )
    found = session.execute(query).first()
    if found is None:
        return None
    row, word, version, declaration, established = found
    (line,) = _lines(session, [(row, word, version, ((declaration or {}).get("spec") or {}).get("topology"))])
    return ClusterView(
        line=line,
        incarnation=row.incarnation,
        status=line.status,
        look=standing.worth_a_look(line.status, established=bool(established)),
        declaration=declaration,
        declared=_declared(session, row),
        opened_at=session.scalar(select(TickRow.at).where(TickRow.site_id == site_id, TickRow.number == row.opened_tick)),
        removed_revision=row.removed_revision,
        plan_counts=_plan_counts(session, row.id),
    )


def _declared(session: Session, row: ClusterRow) -> Declared | None:
    if row.holder_source_id is None:
        return None
    source = session.get_one(SourceRow, row.holder_source_id)
    verdict = session.scalar(
        select(DocumentRow.verdict).where(
            DocumentRow.source_id == source.id,
            DocumentRow.path == row.holder_path,
            DocumentRow.position == row.holder_position,
            DocumentRow.to_tick.is_(None),
        )
    )
    return Declared(
        source=source.name,
        source_id=source.id,
        path=row.holder_path,
        position=row.holder_position,
        revision=row.declared_revision,
        branch=source.branch,
        author=source.accepted_author if source.accepted_sha == row.declared_revision else "",
        subject=source.accepted_subject if source.accepted_sha == row.declared_revision else "",
        refused=verdict is not None and verdict.value == "refused",
    )


def _plan_counts(session: Session, cluster_id: int) -> Mapping[str, int]:
    is_open = PlanRow.closed_tick.is_(None)
    rows = session.execute(
        select(case((is_open, "open"), else_="closed"), func.count()).where(PlanRow.cluster_id == cluster_id).group_by(is_open)
    )
    return dict(rows.all())


def _conditions(wanted: ClusterFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.text:
        found.append(or_(holds_text(SCOPE, wanted.text), holds_text(func.coalesce(STATUS["endpoint"].as_string(), ""), wanted.text)))
    if wanted.namespace:
        found.append(ClusterRow.namespace == wanted.namespace)
    if wanted.distribution:
        found.append(
            or_(
                ClusterRow.class_name == f"kubehenge-{wanted.distribution}",
                holds_text(ClusterRow.class_name, f"kubehenge-{wanted.distribution}-"),
            )
        )
    if wanted.minor:
        found.append(_VERSION.like(f"v{wanted.minor}.%"))
    if wanted.word:
        found.append(standing.list_word() == wanted.word)
    if wanted.plan:
        found.append(_plan_condition(wanted.plan))
    return found


def _plan_condition(word: str) -> ColumnElement[bool]:
    is_open = exists(
        select(PlanRow.id).where(PlanRow.cluster_id == ClusterRow.id, PlanRow.closed_tick.is_(None), PlanRow.lane == Lane.ASKED)
    ).correlate(ClusterRow)
    if word == PlanWord.UP_TO_DATE.value:
        return ~is_open & ~standing.last_run_failed() & (ClusterRow.state == ClusterState.DECLARED)
    if word == PlanWord.RUN_FAILED.value:
        return ~is_open & standing.last_run_failed()
    return exists(
        select(PlanRow.id).where(
            PlanRow.cluster_id == ClusterRow.id, PlanRow.closed_tick.is_(None), PlanRow.lane == Lane.ASKED, plan_word() == word
        )
    ).correlate(ClusterRow)


def _lines(session: Session, rows: Sequence[Any]) -> list[ClusterLine]:
    plans = _plan_marks(session, [row[0].id for row in rows])
    return [
        ClusterLine(
            id=row.id,
            namespace=row.namespace,
            name=row.name,
            state=row.state,
            word=ClusterWord(word),
            class_name=row.class_name,
            version=version,
            status=ClusterStatus.of(row.status) if row.status else _as_declared(topology),
            revision=row.declared_revision,
            plan=plans.get(row.id, PlanMark(word=PlanWord.UP_TO_DATE)),
        )
        for row, word, version, topology in rows
    ]


def _as_declared(topology: Mapping[str, Any] | None) -> ClusterStatus:
    """Return the status of a cluster that the management cluster has not seen yet: nothing is ready of what its file asks for."""
    asked = topology or {}
    deployments = (asked.get("workers") or {}).get("machineDeployments") or ()
    counts = {
        "control_plane": {"desired": (asked.get("controlPlane") or {}).get("replicas", 1) if asked else 0},
        "workers": {"desired": sum(one.get("replicas") or 0 for one in deployments)},
    }
    return replace(ClusterStatus.of(counts), seen=False)


def _plan_marks(session: Session, cluster_ids: Sequence[int]) -> Mapping[int, PlanMark]:
    """Return the newest asked plan of each cluster, as far as it is open or failed."""
    newest = (
        select(func.max(PlanRow.id)).where(PlanRow.cluster_id.in_(cluster_ids), PlanRow.lane == Lane.ASKED).group_by(PlanRow.cluster_id)
    )
    rows = session.execute(
        select(_PLAN, plan_word(_PLAN), RunRow.id)
        .outerjoin(RunRow, RunRow.plan_id == _PLAN.id)
        .where(_PLAN.id.in_(newest), or_(_PLAN.closed_tick.is_(None), _PLAN.state == PlanState.FAILED))
    )
    return {
        found.cluster_id: PlanMark(
            word=PlanWord.RUN_FAILED if found.state is PlanState.FAILED else PlanWord(word),
            id=found.id,
            run_id=run_id,
            title=found.title,
            classes=gravest_first(found.classes),
            cannot=shortest(found.obstacles),
        )
        for found, word, run_id in rows
        if found.cluster_id is not None
    }


def shortest(obstacles: Sequence[Mapping[str, Any]]) -> str:
    """Return what a plan that cannot finish lacks, in a few words: `addresses: 3 short`."""
    first = next((one for one in obstacles if one.get("short_by")), None) or next(iter(obstacles), None)
    if first is None:
        return ""
    return f"{first['what']}: {first['short_by']}" if first.get("short_by") else str(first["what"])
