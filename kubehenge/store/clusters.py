"""Clusters and their incarnations in the database (MODEL 2, 35)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from kubehenge.model.identity import Incarnation
from kubehenge.model.resource import ClusterState
from kubehenge.model.site import VmIdBlock
from kubehenge.store.bulk import insert_many
from kubehenge.store.rows import BodyRow, ClusterRow, ResourceRow, SiteRow

LIVING = (ClusterState.DECLARED, ClusterState.FOREIGN, ClusterState.LEAVING)


def incarnation_of(session: Session, cluster_id: int) -> Incarnation:
    """Return the identity of a cluster's row."""
    row = session.execute(
        select(SiteRow.name.label("site"), ClusterRow.namespace, ClusterRow.name, ClusterRow.incarnation)
        .join(SiteRow, SiteRow.id == ClusterRow.site_id)
        .where(ClusterRow.id == cluster_id)
    ).one()
    return Incarnation(site=row.site, namespace=row.namespace, name=row.name, number=row.incarnation)


def namespaces_in_use(session: Session, site_id: int) -> Sequence[str]:
    """Return the namespaces of the clusters that are declared or leave."""
    kept = (ClusterState.DECLARED, ClusterState.LEAVING)
    return session.scalars(select(ClusterRow.namespace).where(ClusterRow.site_id == site_id, ClusterRow.state.in_(kept)).distinct()).all()


def class_names_in_use(session: Session, site_id: int) -> Sequence[str]:
    """Return the names of the classes of all clusters that are not gone, as their files or, made elsewhere, they themselves say."""
    living = (ClusterRow.site_id == site_id, ClusterRow.state.in_(LIVING))
    return session.scalars(select(ClusterRow.class_name).where(*living).distinct()).all()


@dataclass(slots=True, kw_only=True)
class Holding:
    """A living cluster as its documents concern it: which of them holds it, and what is in force; as in its row."""

    namespace: str
    name: str
    incarnation: int
    state: ClusterState
    id: int | None = None
    holder_source_id: int | None = None
    holder_path: str = ""
    holder_position: int = 0
    declared_hash: str | None = None
    declared_blob: str = ""
    declared_revision: str = ""
    removed_revision: str = ""
    class_name: str = ""
    due: bool = False
    """It is to be expanded again; not as in its row, where that may be so for other reasons too."""

    @property
    def scope(self) -> str:
        """`<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}"


_HELD = tuple(name for name in Holding.__slots__ if name not in {"id", "due"})


def holdings(session: Session, site_id: int) -> Sequence[Holding]:
    """Return every cluster of a site that is not gone, as its documents concern it."""
    names = ("id", *_HELD)
    columns = (getattr(ClusterRow, name) for name in names)
    rows = session.execute(select(*columns).where(ClusterRow.site_id == site_id, ClusterRow.state.in_(LIVING)).order_by(ClusterRow.id))
    return [Holding(**dict(zip(names, row, strict=True))) for row in rows]


def keep_holdings(session: Session, site_id: int, kept: Iterable[Holding], tick: int) -> None:
    """Write clusters as their documents have them now; new ones begin at this tick."""
    fresh, still, due = [], [], []
    for one in kept:
        values = {name: getattr(one, name) for name in _HELD}
        if one.id is None:
            fresh.append({"site_id": site_id, "opened_tick": tick, **values, **_BEGINNING})
        elif one.due:
            due.append({"id": one.id, "due": True, **values})
        else:
            still.append({"id": one.id, **values})
    insert_many(session, ClusterRow, fresh)
    for rows in (still, due):
        if rows:
            session.execute(update(ClusterRow), rows)


_BEGINNING: Mapping[str, Any] = {"vm_id_first": None, "vm_id_last": None, "fixed": {}, "inputs": {}, "status": {}, "due": True}


def due(session: Session, site_id: int) -> Sequence[ClusterRow]:
    """Return the clusters that are to be expanded again."""
    return session.scalars(select(ClusterRow).where(ClusterRow.site_id == site_id, ClusterRow.due).order_by(ClusterRow.id)).all()


def make_due(session: Session, site_id: int, ids: Sequence[int] | None = None) -> None:
    """Have clusters expanded again: some, or all that are declared."""
    statement = update(ClusterRow).where(ClusterRow.site_id == site_id, ClusterRow.due.is_(False))
    if ids is None:
        statement = statement.where(ClusterRow.state.in_((ClusterState.DECLARED, ClusterState.LEAVING)))
    else:
        statement = statement.where(ClusterRow.id.in_(ids))
    session.execute(statement.values(due=True))


def last_incarnations(session: Session, site_id: int) -> Mapping[tuple[str, str], int]:
    """Return the number of the last life of each name that ever was."""
    rows = session.execute(
        select(ClusterRow.namespace, ClusterRow.name, func.max(ClusterRow.incarnation))
        .where(ClusterRow.site_id == site_id)
        .group_by(ClusterRow.namespace, ClusterRow.name)
    )
    return {(namespace, name): number for namespace, name, number in rows}


def free_vm_ids(session: Session, site_id: int, block: VmIdBlock) -> Iterator[tuple[int, int]]:
    """
    Yield ranges of VM ids that no cluster holds, the lowest first.

    A cluster that is gone has left no trace, so its range may be given again; one that is leaving still holds it (MODEL 35).
    """
    taken = sorted(
        (row.vm_id_first, row.vm_id_last)
        for row in session.execute(
            select(ClusterRow.vm_id_first, ClusterRow.vm_id_last).where(
                ClusterRow.site_id == site_id, ClusterRow.state.in_(LIVING), ClusterRow.vm_id_first.is_not(None)
            )
        )
    )
    first = block.first
    for low, high in taken:
        while first + block.per_cluster <= low:
            yield first, first + block.per_cluster - 1
            first += block.per_cluster
        first = max(first, high + 1)
    while True:
        yield first, first + block.per_cluster - 1
        first += block.per_cluster


def is_empty(session: Session, cluster_id: int) -> bool:
    """Tell whether nothing is left of what was made for a cluster."""
    left = session.scalar(
        select(func.count())
        .select_from(ResourceRow)
        .where(ResourceRow.cluster_id == cluster_id, (ResourceRow.applied_hash.is_not(None)) | (ResourceRow.desired_hash.is_not(None)))
    )
    return not left


def labels_of(session: Session, cluster_id: int | None) -> tuple[tuple[str, str], ...]:
    """
    Return the labels that rules may name, sorted: those of the declaration in force, and those that the cluster has now.

    Both count, so neither removing a file nor changing a label in it escapes a rule.
    """
    if cluster_id is None:
        return ()
    declared = select(BodyRow.content).join(ClusterRow, ClusterRow.declared_hash == BodyRow.hash).where(ClusterRow.id == cluster_id)
    applied = (
        select(BodyRow.content)
        .join(ResourceRow, ResourceRow.applied_hash == BodyRow.hash)
        .where(ResourceRow.cluster_id == cluster_id, ResourceRow.kind == "kube.cluster")
    )
    found: set[tuple[str, str]] = set()
    for content in (*session.scalars(declared), *session.scalars(applied)):
        labels = (content.get("metadata") or {}).get("labels") or {}
        found |= {(str(key), str(value)) for key, value in labels.items()}
    return tuple(sorted(found))
