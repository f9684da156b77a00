"""The watch loop: which Proxmox VE nodes are online, every 15 seconds (MODEL 23, 30)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from kubehenge.clock import Clock
from kubehenge.drivers.base import BulkReading
from kubehenge.engine.coverage import cover
from kubehenge.errors import KubehengeError
from kubehenge.store import leases
from kubehenge.store.database import Database
from kubehenge.store.leases import Lease
from kubehenge.store.rows import CoverageState, SiteRow

log = structlog.get_logger()

AWAY_READINGS = 2
BACK_FOR = timedelta(minutes=1)


class FastReader(Protocol):
    """Reads nodes and quorum with two requests."""

    def read_fast(self) -> BulkReading:
        """Read them now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWatch:
    """What is known of one node: whether it counts as online, readings in a row that it was away, since when it is back."""

    online: bool
    away: int = 0
    back_since: datetime | None = None


def judge_nodes(before: Mapping[str, NodeWatch], reading: Mapping[str, bool], now: datetime) -> dict[str, NodeWatch]:
    """
    Return how each node counts: away twice to go, a minute online to come back (MODEL 30).

    A node that is seen for the first time counts as it is; one that no reading shows any more is no node.
    """
    judged = {}
    for name, up in reading.items():
        known = before.get(name)
        if known is None:
            judged[name] = NodeWatch(online=up)
        elif not up:
            away = known.away + 1
            judged[name] = NodeWatch(online=known.online and away < AWAY_READINGS, away=min(away, AWAY_READINGS))
        elif known.online:
            judged[name] = NodeWatch(online=True)
        else:
            since = known.back_since or now
            judged[name] = NodeWatch(online=now - since >= BACK_FOR, away=0, back_since=since)
    return judged


@dataclass(slots=True)
class Watch:
    """Keeps the judgement of one site in memory, and what changes of it in the database."""

    db: Database
    site_id: int
    reader: FastReader
    clock: Clock
    ring: Callable[[str], None] = lambda _name: None
    _nodes: dict[str, NodeWatch] = field(default_factory=dict)

    def run_pass(self, lease: Lease | None = None) -> None:
        """Read once; a change of who is online wakes the tick. Everything is written under `lease`; None is for a caller that is alone."""
        now = self.clock.now()
        try:
            reading = self.reader.read_fast()
        except KubehengeError as error:
            with self._write(lease) as session:
                cover(session, self.site_id, "fast", CoverageState.FAILED, now, str(error))
            return
        if not reading.quorate or not reading.items.get("proxmox.node"):
            # A node without quorum takes all others for gone; what it says of them is no judgement (MODEL 20).
            with self._write(lease) as session:
                reason = f"{reading.endpoint} has no quorum, so what it says of the other nodes does not count."
                cover(session, self.site_id, "fast", CoverageState.SUSPECT, now, reason)
            return
        if not self._nodes:
            self._load()
        up = {item.ref.name: bool(item.body["online"]) for item in reading.items.get("proxmox.node", ())}
        self._nodes = judge_nodes(self._nodes, up, now)
        online = sorted(name for name, node in self._nodes.items() if node.online)
        with self.db.read() as session:
            facts = dict(session.scalars(select(SiteRow.facts).where(SiteRow.id == self.site_id)).one())
        changed = facts.get("online") != online or facts.get("quorate") != reading.quorate
        with self._write(lease) as session:
            if changed:
                facts |= {"online": online, "quorate": reading.quorate, "nodes": sorted(self._nodes)}
                session.execute(update(SiteRow).where(SiteRow.id == self.site_id).values(facts=facts))
            cover(session, self.site_id, "fast", CoverageState.OK, now)
        if changed:
            log.info("nodes_changed", online=online, quorate=reading.quorate)
            self.ring("tick")

    @contextmanager
    def _write(self, lease: Lease | None) -> Iterator[Session]:
        with self.db.write() as session:
            if lease is not None:
                leases.require(session, lease)
            yield session

    def _load(self) -> None:
        with self.db.read() as session:
            facts = session.scalars(select(SiteRow.facts).where(SiteRow.id == self.site_id)).one()
        online = set(facts.get("online", ()))
        self._nodes = {name: NodeWatch(online=name in online) for name in facts.get("nodes", ())}
