"""The site as every page shows it: its tree, how fresh what stands there is, freezes, and leases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from kubehenge.model.resource import ClusterState
from kubehenge.store.reads import standing
from kubehenge.store.reads.clusters import SCOPE
from kubehenge.store.reads.visible import Visible
from kubehenge.store.reads.words import ClusterWord
from kubehenge.store.rows import (
    ClusterRow,
    CoverageRow,
    CoverageState,
    DocumentRow,
    FreezeRow,
    LeaseRow,
    PlanRow,
    SiteMode,
    SiteRow,
    SuspicionRow,
    Verdict,
)

BRANCH_LIMIT = 100
"""How many clusters of one namespace the tree shows; the list has the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteView:
    """The site itself; `mode_reason` says why it only observes."""

    id: int
    name: str
    observing: bool
    mode_reason: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCluster:
    """One cluster as the tree shows it."""

    namespace: str
    name: str
    word: ClusterWord
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One namespace of the tree: how many clusters it has, and those of them that are shown."""

    namespace: str
    count: int
    clusters: tuple[TreeCluster, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The tree on the left."""

    branches: tuple[Branch, ...]
    open_plans: int
    refused_documents: int

    @property
    def clusters(self) -> int:
        """How many clusters there are in all."""
        return sum(branch.count for branch in self.branches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How one tier of readings stands: when it was read last, and why not since then."""

    tier: str
    state: CoverageState
    read_at: datetime | None
    since: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A freeze in force or past (MODEL 28); `scope` is '' for the whole site."""

    id: int
    scope: str
    duties: bool
    who: str
    reason: str
    began_at: datetime
    until: datetime | None
    ended_at: datetime | None
    ended_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """A reading kept aside, since too much vanished at once (MODEL 20)."""

    kind: str
    names: tuple[str, ...]
    opened_at: datetime
    readings: int

    @property
    def missing(self) -> int:
        """How many things are missing."""
        return len(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease: who holds it, and until when."""

    name: str
    holder: str
    renewed_at: datetime
    expires_at: datetime


def find_site(session: Session, name: str) -> SiteView | None:
    """Return a site by its name, None while the database has none."""
    row = session.scalar(select(SiteRow).where(SiteRow.name == name))
    if row is None:
        return None
    return SiteView(
        id=row.id, name=row.name, observing=row.mode is SiteMode.OBSERVING, mode_reason=row.mode_reason, created_at=row.created_at
    )


def tree(session: Session, site_id: int, visible: Visible, *, current: str = "", whole_up_to: int = 50) -> Tree:
    """
    Return the tree: every namespace with its count, and the clusters of the one in view.

    A fleet of at most `whole_up_to` clusters is shown whole.
    """
    present = (ClusterRow.site_id == site_id, ClusterRow.state != ClusterState.GONE, visible.clusters(SCOPE))
    counts = session.execute(
        select(ClusterRow.namespace, func.count()).where(*present).group_by(ClusterRow.namespace).order_by(ClusterRow.namespace)
    ).all()
    small = sum(count for _namespace, count in counts) <= whole_up_to
    shown = branch_clusters(session, site_id, visible, None if small else current) if small or current else {}
    return Tree(
        branches=tuple(
            Branch(namespace=namespace, count=count, clusters=shown.get(namespace) if small or namespace == current else None)
            for namespace, count in counts
        ),
        open_plans=session.scalar(
            select(func.count())
            .select_from(PlanRow)
            .where(PlanRow.site_id == site_id, PlanRow.closed_tick.is_(None), visible.scopes(PlanRow.scope))
        )
        or 0,
        refused_documents=_refused(session, site_id, visible),
    )


def branch_clusters(session: Session, site_id: int, visible: Visible, namespace: str | None) -> Mapping[str, tuple[TreeCluster, ...]]:
    """Return the clusters of one namespace, or of all, by namespace; at most 100 of each."""
    columns = (ClusterRow.namespace, ClusterRow.name, ClusterRow.state, standing.list_word())
    query = select(*columns).where(ClusterRow.site_id == site_id, ClusterRow.state != ClusterState.GONE, visible.clusters(SCOPE))
    if namespace is not None:
        query = query.where(ClusterRow.namespace == namespace)
    found: dict[str, list[TreeCluster]] = {}
    for its_namespace, name, state, word in session.execute(query.order_by(ClusterRow.namespace, ClusterRow.name).limit(BRANCH_LIMIT)):
        found.setdefault(its_namespace, []).append(
            TreeCluster(namespace=its_namespace, name=name, word=ClusterWord(word), read_only=state is ClusterState.FOREIGN)
        )
    return {its_namespace: tuple(clusters) for its_namespace, clusters in found.items()}


def _refused(session: Session, site_id: int, visible: Visible) -> int:
    scope = DocumentRow.namespace + "/" + DocumentRow.name
    seen = visible.clusters(scope) & (DocumentRow.kind == "Cluster")
    query = (
        select(func.count())
        .select_from(DocumentRow)
        .where(DocumentRow.site_id == site_id, DocumentRow.to_tick.is_(None), DocumentRow.verdict == Verdict.REFUSED)
    )
    return session.scalar(query.where(or_(seen, DocumentRow.kind != "Cluster") if visible.site else seen)) or 0


def readings(session: Session, site_id: int) -> tuple[Reading, ...]:
    """Return how each tier stands: the newest stretch of it, and when it was last read well (MODEL 9)."""
    newest = select(func.max(CoverageRow.id)).where(CoverageRow.site_id == site_id).group_by(CoverageRow.tier)
    well = (
        select(func.max(CoverageRow.id))
        .where(CoverageRow.site_id == site_id, CoverageRow.state == CoverageState.OK)
        .group_by(CoverageRow.tier)
    )
    read_at = {row.tier: row.to_at for row in session.scalars(select(CoverageRow).where(CoverageRow.id.in_(well)))}
    return tuple(
        Reading(tier=row.tier, state=row.state, read_at=read_at.get(row.tier), since=row.from_at, reason=row.reason)
        for row in session.scalars(select(CoverageRow).where(CoverageRow.id.in_(newest)).order_by(CoverageRow.tier))
    )


def freezes_in_force(session: Session, site_id: int, visible: Visible, now: datetime) -> tuple[Freeze, ...]:
    """Return the freezes that hold something that someone sees, the site's own first."""
    query = select(FreezeRow).where(
        FreezeRow.site_id == site_id,
        FreezeRow.ended_at.is_(None),
        or_(FreezeRow.until.is_(None), FreezeRow.until > now),
        or_(FreezeRow.scope == "", visible.clusters(FreezeRow.scope)),
    )
    return tuple(_freeze(row) for row in session.scalars(query.order_by(FreezeRow.scope, FreezeRow.id)))


def past_freezes(session: Session, site_id: int, visible: Visible, now: datetime, *, limit: int = 20) -> tuple[Freeze, ...]:
    """Return the freezes that have ended, the newest first."""
    query = select(FreezeRow).where(
        FreezeRow.site_id == site_id,
        or_(FreezeRow.ended_at.is_not(None), FreezeRow.until <= now),
        or_(FreezeRow.scope == "", visible.clusters(FreezeRow.scope)),
    )
    return tuple(_freeze(row) for row in session.scalars(query.order_by(FreezeRow.id.desc()).limit(limit)))


def find_freeze(session: Session, site_id: int, freeze_id: int) -> Freeze | None:
    """Return one freeze."""
    row = session.scalar(select(FreezeRow).where(FreezeRow.site_id == site_id, FreezeRow.id == freeze_id))
    return _freeze(row) if row else None


def _freeze(row: FreezeRow) -> Freeze:
    return Freeze(
        id=row.id,
        scope=row.scope,
        duties=row.duties,
        who=row.who,
        reason=row.reason,
        began_at=row.began_at,
        until=row.until,
        ended_at=row.ended_at,
        ended_by=row.ended_by,
    )


def suspicions(session: Session, site_id: int) -> tuple[Suspicion, ...]:
    """Return the readings that are kept aside now."""
    rows = session.scalars(
        select(SuspicionRow).where(SuspicionRow.site_id == site_id, SuspicionRow.closed_at.is_(None)).order_by(SuspicionRow.kind)
    )
    return tuple(Suspicion(kind=row.kind, names=tuple(row.missing), opened_at=row.opened_at, readings=len(row.readings)) for row in rows)


def leases(session: Session) -> tuple[Lease, ...]:
    """Return all leases."""
    return tuple(
        Lease(name=row.name, holder=row.holder, renewed_at=row.renewed_at, expires_at=row.expires_at)
        for row in session.scalars(select(LeaseRow).order_by(LeaseRow.name))
    )
