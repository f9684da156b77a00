"""
Readings into the database: what is void, what is suspect, what is fact (MODEL 4, 9, 20).

Absence is not deletion: a reading with fewer rights than before is void, one in which much vanished at once is kept aside, and a
single thing must be missed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from sqlalchemy import RowMapping, select, update
from sqlalchemy.orm import Session

from kubehenge.drivers.base import BulkReading
from kubehenge.engine.coverage import cover
from kubehenge.engine.projection import projected
from kubehenge.engine.seen import Moved, Seen
from kubehenge.model.canon import refs_of
from kubehenge.model.identity import parse_mark
from kubehenge.model.resource import ClusterState, Observed, ResourceRef
from kubehenge.resources.kinds import KINDS, OBSERVED_ONLY
from kubehenge.store import resources
from kubehenge.store.bodies import get_bodies
from kubehenge.store.resources import Found
from kubehenge.store.rows import ClusterRow, CoverageState, ResourceRow, RunRow, SiteRow, SuspicionRow

log = structlog.get_logger()

FEW = 3
SHARE = 0.02
AGREEING = 3
APART = timedelta(minutes=1)
CONFIRMED = "confirmed"
SAID_BY = "said by "
"""Before the name of the person who says that what is missing is gone."""
EXPLAINS_FOR = timedelta(minutes=10)
LAGS = {"proxmox.volume_owner": timedelta(seconds=15), "proxmox.vm": timedelta(seconds=15)}
"""/cluster/resources shows what pvestatd gathered, up to ten seconds late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A driver's family of kinds, by the name of its tier, and what it read; `error` when it could not be read at all."""

    family: str
    bulk: BulkReading | None
    error: str = ""


def lasting_rights(rights: Mapping[str, Iterable[str]], workload_pool: str) -> dict[str, list[str]]:
    """
    Return the rights that count, by path.

    Proxmox VE also lists the paths of pools' members; what comes and goes with clusters and their VMs does not count.
    """
    passing = (f"/pool/{workload_pool}/", "/vms/")
    return {path: sorted(privileges) for path, privileges in rights.items() if not path.startswith(passing)}


def vanished_rights(before: Mapping[str, Iterable[str]], now: Mapping[str, Iterable[str]], workload_pool: str) -> tuple[str, ...]:
    """Return the lasting rights that were there and are not any more, as `privilege on path`."""
    return tuple(
        f"{privilege} on {path}"
        for path, privileges in sorted(lasting_rights(before, workload_pool).items())
        for privilege in privileges
        if privilege not in now.get(path, ())
    )


def is_void(session: Session, site: SiteRow, reading: Reading, workload_pool: str, now: datetime) -> bool:
    """Tell whether a reading must not be used at all, and record that in the coverage; more rights than before are taken over."""
    bulk = reading.bulk
    if bulk is None:
        cover(session, site.id, reading.family, CoverageState.FAILED, now, reading.error)
        return True
    if bulk.rights is not None:
        lost = vanished_rights(site.rights, bulk.rights, workload_pool)
        if lost:
            reason = f"The token lost rights, so what it shows is not all there is: {', '.join(lost[:5])}. Give them back: `kubehenge doctor` says which it needs."
            cover(session, site.id, reading.family, CoverageState.SUSPECT, now, reason)
            return True
        rights = lasting_rights(bulk.rights, workload_pool)
        if rights != site.rights:
            session.execute(update(SiteRow).where(SiteRow.id == site.id).values(rights=rights))
    return False


def record(session: Session, site: SiteRow, seen: Seen, reading: BulkReading, draw_tick: Callable[[], int]) -> frozenset[int | None]:
    """
    Record what a reading changed, and take it over in memory; returns the clusters of which something changed.

    What a process that just started holds in memory comes from the database, reduced to our fields: it may differ from a reading of a
    world in which nothing moved, and then nothing is written.
    """
    moved: set[int | None] = set()
    for kind, items in reading.items.items():
        change = seen.compare(kind, items)
        missing = seen.missed_apart(_to_count(session, site.id, seen, kind, change, reading), reading.read_at)
        recorded = _record_kind(session, site.id, kind, change.found, missing, reading, draw_tick)
        if kind not in OBSERVED_ONLY:
            moved |= recorded.clusters
        seen.take(kind, {ref: item for ref, item in change.found.items() if ref in recorded.used}, recorded.gone)
    return frozenset(moved)


def reproject(session: Session, site_id: int, seen: Seen, refs: Iterable[ResourceRef], draw_tick: Callable[[], int]) -> None:
    """Reduce what was read last once more: what is asked for changed, and so did the fields that count (MODEL 4)."""
    found = {ref: seen.of(ref.kind)[ref.name] for ref in refs if ref.name in seen.of(ref.kind)}
    if not found:
        return
    rows = resources.find_rows(session, site_id, found)
    reduce = _Reducer(session, site_id, rows, found)
    values = {ref: Found(body=reduce(ref, item), mark=item.mark, outputs=item.outputs) for ref, item in found.items()}
    resources.set_observed(session, site_id, values, {}, draw_tick)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    clusters: frozenset[int | None]
    used: frozenset[ResourceRef]
    gone: tuple[ResourceRef, ...]


def _record_kind(
    session: Session,
    site_id: int,
    kind: str,
    found: Mapping[ResourceRef, Observed],
    missing: Iterable[ResourceRef],
    reading: BulkReading,
    draw_tick: Callable[[], int],
) -> _Recorded:
    lost = tuple(missing)
    if not found and not lost:
        return _Recorded(clusters=frozenset(), used=frozenset(), gone=())
    rows = resources.find_rows(session, site_id, (*found, *lost))
    lag = LAGS.get(kind, timedelta(0))
    newer = {ref for ref, row in rows.items() if row["touched_at"] is not None and reading.read_at <= row["touched_at"] + lag}
    values: dict[ResourceRef, Found] = {}
    reduce = _Reducer(session, site_id, rows, found)
    for ref, item in found.items():
        if ref not in newer:
            values[ref] = Found(body=reduce(ref, item), mark=item.mark, outputs=item.outputs)
    for ref in lost:
        if ref not in newer:
            values[ref] = Found(body=None, mark=None, outputs={})
    clusters = resources.set_observed(session, site_id, values, _clusters_of(session, site_id, found, rows), draw_tick)
    after = resources.find_rows(session, site_id, lost)
    gone = tuple(ref for ref in lost if ref not in newer and (ref not in after or after[ref]["observed_hash"] is None))
    return _Recorded(clusters=clusters, used=frozenset(ref for ref in found if ref not in newer), gone=gone)


class _Reducer:
    """Projects what was read, with the bodies of its rows, and the outputs that they refer to, loaded at once."""

    def __init__(
        self, session: Session, site_id: int, rows: Mapping[ResourceRef, RowMapping], found: Mapping[ResourceRef, Observed]
    ) -> None:
        self._rows = rows
        kept = [row for ref, row in rows.items() if ref.kind in KINDS]
        self._bodies = get_bodies(session, (row[side] for row in kept for side in ("desired_hash", "applied_hash")))
        named = {ResourceRef.parse(text.partition("#")[0]) for body in self._bodies.values() for text in refs_of(body)}
        known = resources.find_rows(session, site_id, named)
        self._outputs = {
            str(ref): {**(known[ref]["outputs"] if ref in known else {}), **(found[ref].outputs if ref in found else {})} for ref in named
        }

    def __call__(self, ref: ResourceRef, item: Observed) -> Mapping[str, object]:
        row = self._rows.get(ref)
        if ref.kind not in KINDS or row is None:
            return item.body
        desired, applied = self._bodies.get(row["desired_hash"] or ""), self._bodies.get(row["applied_hash"] or "")
        if desired is None and applied is None:
            return item.body
        return projected(item.body, desired, applied, self._outputs)


def _clusters_of(
    session: Session, site_id: int, found: Mapping[ResourceRef, Observed], rows: Mapping[ResourceRef, RowMapping]
) -> Mapping[ResourceRef, int]:
    """Say to which living cluster each thing belongs that has none yet: by our mark, its pool, or the cluster that it names."""
    fresh = {ref: item for ref, item in found.items() if ref not in rows or rows[ref]["cluster_id"] is None}
    if not fresh:
        return {}
    living = {
        f"{row.namespace}/{row.name}": row.id
        for row in session.execute(
            select(ClusterRow.id, ClusterRow.namespace, ClusterRow.name).where(
                ClusterRow.site_id == site_id, ClusterRow.state != ClusterState.GONE
            )
        )
    }
    owners: dict[ResourceRef, int] = {}
    for ref, item in fresh.items():
        scope = _scope_of(ref, item)
        if scope in living:
            owners[ref] = living[scope]
    return owners


def _scope_of(ref: ResourceRef, item: Observed) -> str:
    who = parse_mark(item.mark)
    if who:
        return who.scope
    if ref.kind == "kube.machine":
        return str(item.body["cluster"])
    if ref.kind == "proxmox.vm":
        return str(item.body["pool"]).rpartition("/")[2].replace(".", "/", 1)
    return ref.name


def _to_count(session: Session, site_id: int, seen: Seen, kind: str, change: Moved, reading: BulkReading) -> tuple[ResourceRef, ...]:
    """Return the missing things that count: all of few, and many only once enough readings agree (MODEL 20)."""
    open_row = session.scalars(
        select(SuspicionRow).where(SuspicionRow.site_id == site_id, SuspicionRow.kind == kind, SuspicionRow.closed_at.is_(None))
    ).first()
    unexplained = _unexplained(session, site_id, change.missing, reading.read_at) if change.missing else ()
    many = len(unexplained) > max(FEW, int(len(seen.of(kind)) * SHARE))
    if not many:
        if open_row is not None:
            open_row.closed_at, open_row.outcome = reading.read_at, "they were there again"
        return change.missing
    names = [ref.name for ref in unexplained]
    evidence = {"at": reading.read_at.isoformat(), "node": reading.endpoint}
    if open_row is None or set(open_row.missing) != set(names):
        if open_row is not None:
            open_row.closed_at, open_row.outcome = reading.read_at, "other things were missing then"
        session.add(SuspicionRow(site_id=site_id, kind=kind, missing=names, readings=[evidence], opened_at=reading.read_at))
        log.warning("reading_suspected", kind=kind, missing=len(names), known=len(seen.of(kind)))
    elif open_row.outcome == CONFIRMED:
        open_row.closed_at = reading.read_at
        return change.missing
    elif open_row.outcome:  # a person says so: this reading counts, and the next one closes it
        open_row.outcome = CONFIRMED
        return change.missing
    elif _adds(open_row, reading):
        open_row.readings = [*open_row.readings, evidence]
        if _agree(open_row, reading):
            open_row.outcome = CONFIRMED  # and closed by the next reading, which is the second that counts
            return change.missing
    aside = set(unexplained)
    return tuple(ref for ref in change.missing if ref not in aside)


def _adds(row: SuspicionRow, reading: BulkReading) -> bool:
    return reading.quorate and reading.read_at - datetime.fromisoformat(row.readings[-1]["at"]) >= APART


def _agree(row: SuspicionRow, reading: BulkReading) -> bool:
    """
    Tell whether enough readings agree, of two nodes where there are two.

    The management cluster has one API server for all of them: restored from an old backup it would agree with itself, and a Cluster
    that counts as deleted cannot be taken back. There a person says so.
    """
    nodes = {one["node"] for one in row.readings}
    return not row.kind.startswith("kube.") and len(row.readings) >= AGREEING and (len(nodes) > 1 or len(reading.endpoints) < 2)


def _unexplained(session: Session, site_id: int, missing: Iterable[ResourceRef], now: datetime) -> tuple[ResourceRef, ...]:
    """
    Leave out what our journal explains.

    That is what belongs to clusters that leave, and machines and VMs of clusters that a run touches now or touched lately: Cluster
    API replaces those. Of what we keep ourselves a run records every deletion, so nothing else explains its absence.
    """
    refs = tuple(missing)
    rows = resources.find_rows(session, site_id, refs)
    busy = (
        set()
        if refs and refs[0].kind in KINDS
        else set(
            session.scalars(
                select(ClusterRow.id)
                .join(RunRow, (RunRow.scope == ClusterRow.namespace + "/" + ClusterRow.name) & (RunRow.site_id == ClusterRow.site_id))
                .where(ClusterRow.site_id == site_id, RunRow.ended_at.is_(None) | (RunRow.ended_at > now - EXPLAINS_FOR))
            )
        )
    )
    going = set(
        session.scalars(
            select(ClusterRow.id).where(ClusterRow.site_id == site_id, ClusterRow.state.in_((ClusterState.LEAVING, ClusterState.GONE)))
        )
    )
    return tuple(
        ref for ref in refs if ref in rows and rows[ref]["observed_hash"] is not None and rows[ref]["cluster_id"] not in busy | going
    )


def load_seen(session: Session, site_id: int, seen: Seen) -> None:
    """Take over what the database knows, so that the first reading finds what went while nobody looked."""
    rows = session.execute(
        select(
            ResourceRow.kind, ResourceRow.name, ResourceRow.observed_hash, ResourceRow.mark, ResourceRow.outputs, ResourceRow.missing_reads
        ).where(ResourceRow.site_id == site_id, ResourceRow.observed_hash.is_not(None))
    ).all()
    bodies = get_bodies(session, (row.observed_hash for row in rows))
    by_kind: dict[str, list[Observed]] = {kind: [] for kind in (*OBSERVED_ONLY, *KINDS)}
    missed: dict[str, list[ResourceRef]] = {kind: [] for kind in by_kind}
    for row in rows:
        ref = ResourceRef(kind=row.kind, name=row.name)
        by_kind[row.kind].append(Observed(ref=ref, body=bodies[row.observed_hash], mark=row.mark, outputs=row.outputs))
        if row.missing_reads:
            missed[row.kind].append(ref)
    for kind, items in by_kind.items():
        seen.load(kind, items, missed[kind])
