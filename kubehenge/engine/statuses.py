"""What the management cluster says of its Clusters: statuses for lists, clusters made elsewhere, deletions from outside (MODEL 2, 22)."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from datetime import datetime

from sqlalchemy import and_, exists, or_, select, update
from sqlalchemy.orm import Session

from kubehenge.engine.seen import Seen
from kubehenge.model.resource import ClusterState
from kubehenge.resources.topology import KUBEHENGE_CLASSES
from kubehenge.store import clusters, ledger
from kubehenge.store.resources import MISSING_READS
from kubehenge.store.rows import ClusterRow, ResourceRow, RunRow


def follow_statuses(
    session: Session, site_id: int, seen: Seen, present: AbstractSet[str], draw_tick: Callable[[], int], now: datetime
) -> None:
    """Bring the clusters' rows to what was read last; `present` are the Clusters that this very reading shows."""
    rows = {
        f"{row.namespace}/{row.name}": row
        for row in session.execute(
            select(ClusterRow.id, ClusterRow.namespace, ClusterRow.name, ClusterRow.state, ClusterRow.status).where(
                ClusterRow.site_id == site_id, ClusterRow.state.in_(clusters.LIVING)
            )
        )
    }
    statuses = seen.of("kube.cluster_status")
    for scope, item in statuses.items():
        known = rows.get(scope)
        if known is not None:
            if known.status != item.body:
                session.execute(update(ClusterRow).where(ClusterRow.id == known.id).values(status=dict(item.body)))
        elif scope in present and str(item.body.get("class", "")).startswith(KUBEHENGE_CLASSES):
            _add_foreign(session, site_id, scope, dict(item.body), draw_tick())
    for scope, known in rows.items():
        if scope not in statuses:
            if known.state is ClusterState.FOREIGN:
                session.execute(
                    update(ClusterRow).where(ClusterRow.id == known.id).values(state=ClusterState.GONE, closed_tick=draw_tick(), due=False)
                )
            elif known.status:
                session.execute(update(ClusterRow).where(ClusterRow.id == known.id).values(status={}))
    _follow_deletions(session, site_id, draw_tick, now)


def bury(session: Session, site_id: int, draw_tick: Callable[[], int], now: datetime) -> None:
    """
    End the lives of clusters that nothing is left of: those that leave, and those whose file went before anything was made.

    A run that takes the last thing away ends them itself; this is for what went by another hand.
    """
    left = exists().where(
        ResourceRow.cluster_id == ClusterRow.id, or_(ResourceRow.applied_hash.is_not(None), ResourceRow.desired_hash.is_not(None))
    )
    running = exists().where(
        RunRow.site_id == ClusterRow.site_id, RunRow.ended_at.is_(None), RunRow.scope == ClusterRow.namespace + "/" + ClusterRow.name
    )
    going = or_(
        ClusterRow.state == ClusterState.LEAVING, and_(ClusterRow.state == ClusterState.DECLARED, ClusterRow.declared_hash.is_(None))
    )
    rows = session.execute(
        select(ClusterRow.id, ClusterRow.namespace, ClusterRow.name).where(
            ClusterRow.site_id == site_id, going, ClusterRow.due.is_(False), ~left, ~running
        )
    ).all()
    for row in rows:
        session.execute(
            update(ClusterRow).where(ClusterRow.id == row.id).values(state=ClusterState.GONE, closed_tick=draw_tick(), due=False)
        )
        ledger.append(
            session,
            site_id=site_id,
            tick=draw_tick(),
            event="cluster_gone",
            subject=f"{row.namespace}/{row.name}",
            who="kubehenge",
            facts={},
            at=now,
        )


def _add_foreign(session: Session, site_id: int, scope: str, status: dict[str, object], tick: int) -> None:
    namespace, _, name = scope.partition("/")
    session.add(
        ClusterRow(
            site_id=site_id,
            namespace=namespace,
            name=name,
            incarnation=clusters.last_incarnations(session, site_id).get((namespace, name), 0) + 1,
            state=ClusterState.FOREIGN,
            class_name=str(status.get("class", "")),
            status=status,
            due=False,
            opened_tick=tick,
        )
    )
    session.flush()


def _follow_deletions(session: Session, site_id: int, draw_tick: Callable[[], int], now: datetime) -> None:
    """
    A declared cluster that someone deleted in the management cluster is leaving: nothing of it is made again (MODEL 22).

    Its absence must be confirmed, and a run of ours must have made it.
    """
    lost = session.execute(
        select(ClusterRow.id, ClusterRow.namespace, ClusterRow.name)
        .join(ResourceRow, ResourceRow.cluster_id == ClusterRow.id)
        .where(
            ClusterRow.site_id == site_id,
            ClusterRow.state == ClusterState.DECLARED,
            ResourceRow.kind == "kube.cluster",
            ResourceRow.applied_hash.is_not(None),
            ResourceRow.observed_hash.is_(None),
            ResourceRow.missing_reads >= MISSING_READS,
        )
    ).all()
    for row in lost:
        session.execute(update(ClusterRow).where(ClusterRow.id == row.id).values(state=ClusterState.LEAVING, due=True))
        ledger.append(
            session,
            site_id=site_id,
            tick=draw_tick(),
            event="cluster_deleted_outside",
            subject=f"{row.namespace}/{row.name}",
            who="unknown",
            facts={},
            at=now,
        )
