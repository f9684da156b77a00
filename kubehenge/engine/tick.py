"""
The tick: read everything, accept what is declared, expand, plan (DESIGN, The one flow; MODEL 23).

All reads come first and outside of any transaction; what they change is recorded, expanded and planned in one transaction. A tick
in which nothing changed writes no row.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from kubehenge.clock import Clock
from kubehenge.drivers.base import Driver
from kubehenge.engine.classes import Classes
from kubehenge.engine.coverage import cover
from kubehenge.engine.desired import expand_due
from kubehenge.engine.documents import Documents
from kubehenge.engine.opening import Context
from kubehenge.engine.planning import Planner
from kubehenge.engine.record import Reading, is_void, load_seen, record, reproject
from kubehenge.engine.seen import Seen
from kubehenge.engine.sources import SourceReading, Sources
from kubehenge.engine.statuses import bury, follow_statuses
from kubehenge.engine.stored import rules_in_force, rules_of_version, settings_in_force
from kubehenge.errors import KubehengeError
from kubehenge.model.canon import digest
from kubehenge.model.facts import SiteFacts
from kubehenge.model.resource import ResourceRef
from kubehenge.model.site import SiteSettings
from kubehenge.store import clusters, leases, ticks
from kubehenge.store.database import Database
from kubehenge.store.leases import Lease
from kubehenge.store.rows import CoverageState, SiteRow, SourceRow, SuspicionRow

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capmox:
    """The token that Cluster API's Proxmox provider uses: its id, and the HMAC that stands for its secret."""

    token_id: str = ""
    hmac: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickResult:
    """What a tick came to: its number (None: nothing changed), and the plans that rules approved in it."""

    number: int | None
    approved: tuple[int, ...] = ()


@dataclass(slots=True)
class Tick:
    """The tick of one site; keeps what it read in memory between passes."""

    db: Database
    site_id: int
    families: Mapping[str, Driver]
    sources: Sources
    clock: Clock
    capmox: Capmox = field(default_factory=Capmox)
    classes: Classes = field(default_factory=Classes)
    _seen: Seen = field(default_factory=Seen)
    _documents: Documents | None = None
    _planner: Planner | None = None
    _fence: int = 0

    def run_pass(self, lease: Lease | None = None, *, families: Collection[str] | None = None, read_sources: bool = True) -> TickResult:
        """
        Do one pass over these families, None for all; what is not read now stays as it was read last.

        Everything is written under `lease` (None for a caller that is alone), and what is in memory belongs to it: under another fence
        someone else may have ticked meanwhile.
        """
        if lease is not None and lease.fence != self._fence:
            self._seen, self._documents, self._planner = Seen(), None, None
            self.classes.stands_for = None
            self.sources.forget_all()
            self._fence = lease.fence
        with self.db.read() as session:
            sources = session.scalars(select(SourceRow).where(SourceRow.site_id == self.site_id).order_by(SourceRow.id)).all()
            asked = self._asked_already(session)
            if self._documents is None:
                load_seen(session, self.site_id, self._seen)
                name = session.scalars(select(SiteRow.name).where(SiteRow.id == self.site_id)).one()
                self._documents = Documents(self.site_id, name)
        try:
            readings, polled = self._read(sources if read_sources else (), self.families if families is None else families, asked)
            with _uncollected():
                return self._record(lease, readings, polled)
        except BaseException:
            self._forget(sources)
            raise

    # -- reading, outside of any transaction

    def _read(
        self, sources: Sequence[SourceRow], families: Iterable[str], asked: frozenset[str]
    ) -> tuple[tuple[Reading, ...], tuple[SourceReading, ...]]:
        """Read the sources and these families side by side."""
        # Proxmox VE before the management cluster, in whose objects its ids stand and are put back to references (MODEL 5).
        ordered = sorted(families, reverse=True)
        with ThreadPoolExecutor(max_workers=len(ordered) + 1, thread_name_prefix="read") as pool:
            polled = pool.submit(self.sources.poll, sources)
            readings = pool.map(lambda family: self._read_family(family, asked), ordered)
            return tuple(readings), polled.result()

    def _read_family(self, family: str, asked: frozenset[str]) -> Reading:
        driver = self.families[family]
        error = ""
        for endpoint in (*(one for one in driver.endpoints if asked and one not in asked), ""):
            try:
                return Reading(family=family, bulk=driver.read_bulk(endpoint=endpoint))
            except KubehengeError as failed:
                error = str(failed)  # a node that would be a second opinion may be the one that is down
        return Reading(family=family, bulk=None, error=error)

    def _asked_already(self, session: Session) -> frozenset[str]:
        """Return the nodes that have shown what is suspected, so that another is asked before it counts (MODEL 20)."""
        rows = session.scalars(
            select(SuspicionRow).where(
                SuspicionRow.site_id == self.site_id, SuspicionRow.closed_at.is_(None), SuspicionRow.kind.startswith("proxmox.")
            )
        )
        return frozenset(str(one["node"]) for row in rows for one in row.readings)

    # -- one transaction

    def _record(self, lease: Lease | None, readings: tuple[Reading, ...], polled: tuple[SourceReading, ...]) -> TickResult:
        now = self.clock.now()
        drawn: list[int] = []
        assert self._documents is not None  # noqa: S101 - made by run_pass
        with self.db.write() as session:

            def draw_tick() -> int:
                if not drawn:
                    drawn.append(ticks.next_tick(session, self.site_id, now))
                return drawn[0]

            if lease is not None:
                leases.require(session, lease)
            site = session.get_one(SiteRow, self.site_id)
            settings = settings_in_force(session, self.site_id)
            self._record_world(session, site, readings, settings, draw_tick, now)
            self._documents.take_states(session, polled, now)
            self._documents.accept(session, polled, settings, draw_tick, now)
            facts = self._facts(site)
            self._follow_nodes(session, site, facts)
            changed = expand_due(session, site, settings, facts, self._seen, self._documents, self.classes, draw_tick, now)
            self._project_again(session, changed, draw_tick)
            approved = self._plan(session, site, settings, facts, draw_tick, now)
            bury(session, self.site_id, draw_tick, now)
            if not drawn:
                ticks.seen(session, self.site_id, now)
        if drawn:
            log.info("tick_recorded", tick=drawn[0], approved=len(approved))
        return TickResult(number=drawn[0] if drawn else None, approved=approved)

    def _record_world(
        self,
        session: Session,
        site: SiteRow,
        readings: tuple[Reading, ...],
        settings: SiteSettings,
        draw_tick: Callable[[], int],
        now: datetime,
    ) -> None:
        for reading in readings:
            if is_void(session, site, reading, settings.workload_pool, now) or reading.bulk is None:
                continue
            if any(self._seen.compare(kind, items) for kind, items in reading.bulk.items.items()):
                moved = record(session, site, self._seen, reading.bulk, draw_tick)
                present = {item.ref.name for item in reading.bulk.items.get("kube.cluster_status", ())}
                follow_statuses(session, self.site_id, self._seen, present, draw_tick, now)
                clusters.make_due(session, self.site_id, [one for one in moved if one is not None])
            reason = _reason(reading.bulk.failed)
            cover(session, site.id, reading.family, CoverageState.FAILED if reason else CoverageState.OK, now, reason)

    def _project_again(self, session: Session, changed: frozenset[ResourceRef], draw_tick: Callable[[], int]) -> None:
        """What is asked for changed, and so did the fields that count: reduce what was read last once more (MODEL 4)."""
        if changed:
            reproject(session, self.site_id, self._seen, changed, draw_tick)

    def _facts(self, site: SiteRow) -> SiteFacts:
        online = site.facts.get("online")
        return self._seen.site_facts(
            online=frozenset(online) if online is not None else None,
            capmox_token_id=self.capmox.token_id,
            capmox_token_hmac=self.capmox.hmac,
            proxmox_url=self.capmox.url,
        )

    def _follow_nodes(self, session: Session, site: SiteRow, facts: SiteFacts) -> None:
        """Other nodes are online than the clusters were expanded for: expand them again (MODEL 30)."""
        online = list(facts.online_nodes)
        if online and site.facts.get("expanded_for") != online:
            site.facts = {**site.facts, "expanded_for": online}
            clusters.make_due(session, self.site_id)

    def _plan(
        self, session: Session, site: SiteRow, settings: SiteSettings, facts: SiteFacts, draw_tick: Callable[[], int], now: datetime
    ) -> tuple[int, ...]:
        assert self._documents is not None  # noqa: S101 - made by run_pass
        if self._planner is None:
            self._planner = Planner(site, self._seen)
        rules, version = rules_in_force(session, self.site_id)
        context = Context(
            now=now,
            draw_tick=draw_tick,
            settings=settings,
            rules=rules,
            rules_version=version,
            facts=facts,
            rules_of=lambda earlier: rules_of_version(session, self.site_id, earlier),
            signature=digest([_plain(facts), version]),
            authors=self._documents.authors,
            held=self._documents.held,
        )
        return self._planner.plan_all(session, context)

    def _forget(self, sources: Iterable[SourceRow]) -> None:
        """After a failed transaction nothing in memory may be ahead of the database."""
        self._seen, self._documents, self._planner = Seen(), None, None
        self.classes.stands_for = None
        for source in sources:
            self.sources.forget(source.id)


@contextmanager
def _uncollected() -> Iterator[None]:
    """
    Hold off the collector of circular garbage for a while.

    A pass that plans a whole fleet makes hundreds of thousands of values that stay; looking through all of them again and again costs a
    fifth of its time and finds nothing.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _reason(failed: Mapping[str, str]) -> str:
    """Why kinds could not be read, each reason once."""
    kinds: dict[str, list[str]] = {}
    for kind, why in sorted(failed.items()):
        kinds.setdefault(why, []).append(kind)
    return "; ".join(f"{', '.join(those)}: {why}" for why, those in kinds.items())


def _plain(facts: SiteFacts) -> object:
    return [
        [[node.name, node.online, node.cores, node.memory_mib] for node in facts.nodes],
        sorted(facts.memory_taken_mib.items()),
        [[vm.vmid, vm.name, sorted(vm.tags)] for vm in facts.templates],
    ]
