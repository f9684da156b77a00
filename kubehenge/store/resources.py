"""Resources as planning and carrying-out need them: states by cluster, and the writes of the three sides (MODEL 3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, bindparam, func, or_, select, tuple_, update
from sqlalchemy.orm import Session

from kubehenge.model.canon import Body, body_hash
from kubehenge.model.resource import DesiredResource, Observed, ResourceRef, ResourceState
from kubehenge.resources.kinds import KINDS
from kubehenge.resources.providers import SERVING
from kubehenge.resources.site import SHARED
from kubehenge.store.bodies import begin_versions, get_bodies, hashed, put_bodies, record_versions
from kubehenge.store.bulk import chunks, insert_many, table_of
from kubehenge.store.rows import ResourceRow, VersionSide
from kubehenge.store.ticks import last_tick_of

MISSING_READS = 2
"""So many readings in a row must miss a thing before its absence counts (MODEL 20)."""

_COLUMNS = (
    ResourceRow.id,
    ResourceRow.cluster_id,
    ResourceRow.kind,
    ResourceRow.name,
    ResourceRow.desired_hash,
    ResourceRow.applied_hash,
    ResourceRow.observed_hash,
    ResourceRow.mark,
    ResourceRow.outputs,
    ResourceRow.requires,
    ResourceRow.missing_reads,
    ResourceRow.touched_at,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a reading makes of one resource: its projected body (None: not found), its mark and its outputs."""

    body: Body | None
    mark: str | None
    outputs: Mapping[str, Any]


def differing(session: Session, site_id: int) -> Mapping[int | str, tuple[tuple[Any, ...], ...]]:
    """
    Return the hashes of each resource that is not as it should be, by cluster; shared things of the site by their kind.

    This is the join of DESIGN; it uses the partial index `ix_resource_differs`, so what is settled costs nothing.
    """
    kept = or_(ResourceRow.desired_hash.is_not(None), ResourceRow.applied_hash.is_not(None))
    differs = or_(
        ResourceRow.desired_hash.is_distinct_from(ResourceRow.applied_hash),
        ResourceRow.observed_hash.is_distinct_from(ResourceRow.applied_hash),
    )
    rows = session.execute(
        select(
            ResourceRow.cluster_id,
            ResourceRow.kind,
            ResourceRow.id,
            ResourceRow.desired_hash,
            ResourceRow.applied_hash,
            ResourceRow.observed_hash,
            ResourceRow.missing_reads,
            ResourceRow.mark,
        )
        .where(ResourceRow.site_id == site_id, differs, kept)
        .order_by(ResourceRow.cluster_id, ResourceRow.id)
    )
    found: dict[int | str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        found[row.kind if row.cluster_id is None else row.cluster_id].append(tuple(row[2:]))
    return {key: tuple(value) for key, value in found.items()}


_KEPT = or_(ResourceRow.desired_hash.is_not(None), ResourceRow.applied_hash.is_not(None))


def rows_of_clusters(session: Session, cluster_ids: Iterable[int]) -> Sequence[RowMapping]:
    """Return the rows of some clusters that are kept."""
    found: list[RowMapping] = []
    for batch in chunks(cluster_ids):
        # The site is not named: SQLite would then go through all of the site's rows.
        found += session.execute(select(*_COLUMNS).where(ResourceRow.cluster_id.in_(batch), _KEPT)).mappings()
    return found


def rows_of_site(session: Session, site_id: int) -> Sequence[RowMapping]:
    """Return the rows of the site's shared things that are kept."""
    of_site = (ResourceRow.site_id == site_id, ResourceRow.kind.in_(SHARED), ResourceRow.cluster_id.is_(None))
    return session.execute(select(*_COLUMNS).where(*of_site, _KEPT)).mappings().all()


def states(session: Session, rows: Sequence[RowMapping]) -> tuple[ResourceState, ...]:
    """Return rows with their bodies, as planning sees them."""
    bodies = get_bodies(session, (row[side] for row in rows for side in ("desired_hash", "applied_hash", "observed_hash")))
    return tuple(
        ResourceState(
            ref=ResourceRef(kind=row["kind"], name=row["name"]),
            desired=bodies.get(row["desired_hash"] or ""),
            applied=bodies.get(row["applied_hash"] or ""),
            observed=bodies.get(row["observed_hash"] or ""),
            desired_hash=row["desired_hash"],
            applied_hash=row["applied_hash"],
            observed_hash=row["observed_hash"],
            absent=row["observed_hash"] is None and (row["applied_hash"] is None or row["missing_reads"] >= MISSING_READS),
            mark=row["mark"],
            requires=tuple(ResourceRef.parse(text) for text in row["requires"]),
        )
        for row in rows
    )


_OF_CLUSTER = select(*_COLUMNS).where(ResourceRow.cluster_id == bindparam("cluster"), ResourceRow.kind.in_(KINDS))


def rows_of_cluster(session: Session, cluster_id: int) -> Mapping[ResourceRef, RowMapping]:
    """Return the rows of one cluster of the kinds that are kept, by their keys; what is gone already may still be referred to."""
    rows = session.execute(_OF_CLUSTER, {"cluster": cluster_id}).mappings()
    return {ResourceRef(kind=row["kind"], name=row["name"]): row for row in rows}


def find_row(session: Session, site_id: int, ref: ResourceRef) -> RowMapping | None:
    """Return one resource's row."""
    return (
        session.execute(select(*_COLUMNS).where(ResourceRow.site_id == site_id, ResourceRow.kind == ref.kind, ResourceRow.name == ref.name))
        .mappings()
        .first()
    )


def find_rows(session: Session, site_id: int, refs: Iterable[ResourceRef]) -> Mapping[ResourceRef, RowMapping]:
    """Return the rows of many resources."""
    found: dict[ResourceRef, RowMapping] = {}
    for batch in chunks((ref.kind, ref.name) for ref in refs):
        rows = session.execute(
            select(*_COLUMNS).where(ResourceRow.site_id == site_id, tuple_(ResourceRow.kind, ResourceRow.name).in_(batch))
        ).mappings()
        found.update((ResourceRef(kind=row["kind"], name=row["name"]), row) for row in rows)
    return found


def those_there(session: Session, site_id: int, refs: Iterable[ResourceRef]) -> frozenset[ResourceRef]:
    """Return those of some resources that were there, and served where they can, when they were read last (MODEL 6)."""
    found = find_rows(session, site_id, set(refs))
    return frozenset(ref for ref, row in found.items() if row["observed_hash"] is not None and row["outputs"].get(SERVING, True))


def set_desired(
    session: Session, site_id: int, wanted: Mapping[int | None, Iterable[DesiredResource]], draw_tick: Callable[[], int]
) -> frozenset[ResourceRef]:
    """
    Make these the desired bodies of clusters (None: the site); what is no longer among a cluster's is asked for no more.

    Shape: the resources whose desired body changed. A tick is drawn only when there is one.
    """
    owner = {one.ref: (cluster_id, one) for cluster_id, resources in wanted.items() for one in resources}
    hashes = {ref: body_hash(one.body) for ref, (_, one) in owner.items()}
    have = {ResourceRef(kind=row["kind"], name=row["name"]): row for row in _kept_rows(session, site_id, wanted)}
    have |= dict(find_rows(session, site_id, [ref for ref in owner if ref not in have]))
    fresh = [ref for ref in owner if ref not in have]
    changed = {ref: hashes.get(ref) for ref, row in have.items() if row["desired_hash"] != hashes.get(ref)}
    if not fresh and not changed:
        return frozenset()
    tick = draw_tick()
    put_bodies(session, {hashes[ref]: owner[ref][1].body for ref in (*fresh, *changed) if ref in owner})
    ids = _insert(session, site_id, {ref: _wanted_values(owner[ref][0], owner[ref][1], hashes[ref]) for ref in fresh})
    begin_versions(session, VersionSide.DESIRED, {ids[ref]: hashes[ref] for ref in fresh}, tick)
    updates = []
    for ref, left in changed.items():
        values: dict[str, Any] = {"id": have[ref]["id"], "desired_hash": left, "cluster_id": have[ref]["cluster_id"]}
        values["requires"] = have[ref]["requires"]
        if ref in owner:
            values |= {"cluster_id": owner[ref][0], "requires": [str(one) for one in owner[ref][1].requires]}
        updates.append(values)
    if updates:
        session.execute(update(ResourceRow), updates)
        record_versions(session, (VersionSide.DESIRED,), {have[ref]["id"]: left for ref, left in changed.items()}, tick)
    return frozenset((*fresh, *changed))


def _insert(session: Session, site_id: int, values: Mapping[ResourceRef, Mapping[str, Any]]) -> Mapping[ResourceRef, int]:
    """Insert resources that have no row yet, and return their ids."""
    if not values:
        return {}
    before = session.scalar(select(func.max(ResourceRow.id))) or 0
    insert_many(
        session, ResourceRow, [{"site_id": site_id, "kind": ref.kind, "name": ref.name, **_NEW, **more} for ref, more in values.items()]
    )
    made = session.execute(
        select(ResourceRow.id, ResourceRow.kind, ResourceRow.name).where(ResourceRow.id > before, ResourceRow.site_id == site_id)
    )
    return {ResourceRef(kind=row.kind, name=row.name): row.id for row in made}


_NEW: Mapping[str, Any] = {"desired_hash": None, "observed_hash": None, "mark": None, "outputs": {}, "requires": [], "missing_reads": 0}


def _wanted_values(cluster_id: int | None, one: DesiredResource, desired_hash: str) -> Mapping[str, Any]:
    return {"cluster_id": cluster_id, "desired_hash": desired_hash, "requires": [str(ref) for ref in one.requires]}


def _kept_rows(session: Session, site_id: int, cluster_ids: Iterable[int | None]) -> list[RowMapping]:
    found = [] if None not in cluster_ids else list(rows_of_site(session, site_id))
    for batch in chunks(one for one in cluster_ids if one is not None):
        found += rows_of_clusters(session, batch)
    return found


def set_observed(
    session: Session, site_id: int, found: Mapping[ResourceRef, Found], clusters: Mapping[ResourceRef, int], draw_tick: Callable[[], int]
) -> frozenset[int | None]:
    """
    Record what a reading found; a body of None counts one more reading that missed it. A tick is drawn only when something is written.

    Shape: the ids of the clusters (None: the site) of which something changed. `clusters` says to which cluster a thing belongs that
    has no row yet.
    """
    have = find_rows(session, site_id, found)
    hashes = {ref: None if one.body is None else body_hash(one.body) for ref, one in found.items()}
    put_bodies(
        session,
        {
            key: one.body
            for ref, one in found.items()
            if one.body is not None and (key := hashes[ref]) and (ref not in have or have[ref]["observed_hash"] != key)
        },
    )
    fresh = [ref for ref, one in found.items() if ref not in have and one.body is not None]
    ids = _insert(session, site_id, {ref: _found_values(clusters.get(ref), found[ref], hashes[ref]) for ref in fresh})
    if fresh:
        begin_versions(session, VersionSide.OBSERVED, {ids[ref]: hashes[ref] for ref in fresh}, draw_tick())
    versions: dict[int, str | None] = {}
    moved: set[int | None] = {clusters.get(ref) for ref in fresh}
    updates = []
    for ref, row in have.items():
        values = _observed_values(row, found[ref], hashes[ref])
        if not values:
            continue
        values["cluster_id"] = row["cluster_id"] or clusters.get(ref)
        updates.append({"id": row["id"], **values})
        if values["observed_hash"] != row["observed_hash"]:
            versions[row["id"]] = values["observed_hash"]
            moved.add(row["cluster_id"])
        elif values["mark"] != row["mark"] or values["missing_reads"] != row["missing_reads"]:
            moved.add(row["cluster_id"])
    if updates:
        session.execute(update(ResourceRow), updates)
        record_versions(session, (VersionSide.OBSERVED,), versions, draw_tick())
    return frozenset(moved)


def _found_values(cluster_id: int | None, one: Found, observed_hash: str | None) -> Mapping[str, Any]:
    return {"cluster_id": cluster_id, "observed_hash": observed_hash, "mark": one.mark, "outputs": dict(one.outputs)}


def _observed_values(row: RowMapping, found: Found, seen_hash: str | None) -> dict[str, Any]:
    """Return what changes in a row, {} when nothing does."""
    if found.body is None:
        if row["observed_hash"] is None and row["missing_reads"] >= MISSING_READS:
            return {}
        reads = min(row["missing_reads"] + 1, MISSING_READS)
        gone = reads >= MISSING_READS
        return {
            "observed_hash": None if gone else row["observed_hash"],
            "missing_reads": reads,
            "mark": None if gone else row["mark"],
            "outputs": row["outputs"],
        }
    mark = found.mark if found.mark is not None else row["mark"]
    outputs = {**row["outputs"], **found.outputs}
    same = row["observed_hash"] == seen_hash and row["mark"] == mark and row["outputs"] == outputs and row["missing_reads"] == 0
    return {} if same else {"observed_hash": seen_hash, "missing_reads": 0, "mark": mark, "outputs": outputs}


def set_applied(session: Session, resource_id: int, body: Body | None, *, found: Observed | None, now: datetime) -> None:
    """Record what a successful write left: the applied body, and with it the observed one; None when it is gone."""
    row = session.execute(_BEFORE_IT_WAS_APPLIED, {"id": resource_id}).one()
    left = None if body is None else body_hash(body)
    if body is not None and left not in {row.desired_hash, row.applied_hash, row.observed_hash}:
        put_bodies(session, hashed((body,)))
    values: dict[str, Any] = {"applied_hash": left, "observed_hash": left, "touched_at": now}
    values["missing_reads"] = MISSING_READS if left is None else 0
    if found is not None:
        values["outputs"] = {**row.outputs, **found.outputs}
        if found.mark is not None:
            values["mark"] = found.mark
    elif left is None:
        values["mark"] = None
    session.execute(update(table_of(ResourceRow)).where(ResourceRow.id == resource_id).values(**values))
    before = {VersionSide.APPLIED: row.applied_hash, VersionSide.OBSERVED: row.observed_hash}
    sides = [side for side, hashed_before in before.items() if hashed_before != left]
    if sides:
        record_versions(session, sides, {resource_id: left}, row.tick or 0)


_BEFORE_IT_WAS_APPLIED = select(
    ResourceRow.desired_hash,
    ResourceRow.applied_hash,
    ResourceRow.observed_hash,
    ResourceRow.outputs,
    last_tick_of(ResourceRow.site_id).label("tick"),
).where(ResourceRow.id == bindparam("id"))


def settle(session: Session, rows: Iterable[RowMapping], tick: int) -> None:
    """Let `applied` follow `observed`: only our own record was behind (see `planner.settled`)."""
    changed = {row["id"]: row["observed_hash"] for row in rows}
    session.execute(update(ResourceRow), [{"id": key, "applied_hash": left} for key, left in changed.items()])
    record_versions(session, (VersionSide.APPLIED,), changed, tick)
