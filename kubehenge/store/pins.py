"""Which ClusterClass each declared cluster runs, and which one each plain name stands for (MODEL 31)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from kubehenge.store.bulk import chunks, insert_many
from kubehenge.store.clusters import LIVING
from kubehenge.store.rows import ClassAliasRow, ClassPinRow, ClusterRow


def pins_of(session: Session, cluster_ids: Iterable[int]) -> dict[int, str]:
    """Return the content name of the class that each of some clusters is pinned to; one without a pin is left out."""
    found: dict[int, str] = {}
    for batch in chunks(cluster_ids):
        rows = session.execute(select(ClassPinRow.cluster_id, ClassPinRow.class_name).where(ClassPinRow.cluster_id.in_(batch)))
        found |= {row.cluster_id: row.class_name for row in rows}
    return found


def add_pins(session: Session, pins: Mapping[int, str]) -> None:
    """Pin clusters that have no pin yet."""
    insert_many(session, ClassPinRow, [{"cluster_id": cluster_id, "class_name": name} for cluster_id, name in pins.items()])


def move_pin(session: Session, cluster_id: int, class_name: str) -> None:
    """Pin a cluster to another class."""
    row = session.get(ClassPinRow, cluster_id)
    if row is None:
        session.add(ClassPinRow(cluster_id=cluster_id, class_name=class_name))
    else:
        row.class_name = class_name


def aliases(session: Session, site_id: int) -> dict[str, str]:
    """Return the content name of the class that each plain name stands for."""
    rows = session.execute(select(ClassAliasRow.alias, ClassAliasRow.class_name).where(ClassAliasRow.site_id == site_id))
    return {row.alias: row.class_name for row in rows}


def set_alias(session: Session, site_id: int, alias: str, class_name: str) -> None:
    """Let a plain name stand for a class."""
    row = session.get(ClassAliasRow, (site_id, alias))
    if row is None:
        session.add(ClassAliasRow(site_id=site_id, alias=alias, class_name=class_name))
    else:
        row.class_name = class_name


def classes_in_use(session: Session, site_id: int) -> frozenset[str]:
    """Return the classes that a cluster which is not gone, or a plain name, stands on."""
    pinned = (
        select(ClassPinRow.class_name)
        .join(ClusterRow, ClusterRow.id == ClassPinRow.cluster_id)
        .where(ClusterRow.site_id == site_id, ClusterRow.state.in_(LIVING))
        .distinct()
    )
    return frozenset((*session.scalars(pinned), *aliases(session, site_id).values()))


def standing(session: Session, site_id: int) -> tuple[tuple[str, str], ...]:
    """Return each declared cluster and each plain name with the class that it stands on, clusters first."""
    rows = session.execute(
        select(ClusterRow.namespace, ClusterRow.name, ClassPinRow.class_name)
        .join(ClassPinRow, ClassPinRow.cluster_id == ClusterRow.id)
        .where(ClusterRow.site_id == site_id, ClusterRow.state.in_(LIVING))
        .order_by(ClusterRow.namespace, ClusterRow.name)
    )
    pinned = tuple((f"{row.namespace}/{row.name}", row.class_name) for row in rows)
    return (*pinned, *sorted(aliases(session, site_id).items()))
