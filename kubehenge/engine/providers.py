"""Which distributions' controllers are to run: those that a cluster in any state uses, and for a while after the last (MODEL 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from kubehenge.engine.seen import Seen
from kubehenge.model.distribution import Distribution, find_distribution
from kubehenge.model.resource import DesiredResource
from kubehenge.resources.providers import CONTROL_PLANES, SCALE, VENDOR_PATCH, VENDOR_PATCHES, scale, vendor_patch
from kubehenge.store import clusters
from kubehenge.store.rows import SiteRow

IDLE = timedelta(minutes=1)
"""Two readings of everything at least: the controllers still have to finish what the last cluster leaves."""

_UNUSED_SINCE = "providers_unused_since"


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """
    What is to be of the providers that are installed.

    `used` are the distributions that a cluster uses, installed or not; `runs` tells of each installed one whether its controllers are
    to run; `patched` are the vendor patches whose objects are there.
    """

    used: frozenset[str] = frozenset()
    runs: tuple[tuple[str, bool], ...] = ()
    patched: tuple[str, ...] = ()

    def resources(self) -> tuple[DesiredResource, ...]:
        """Return them as the site asks for them."""
        scales = [scale(name, runs=runs) for name, runs in self.runs]
        return (*scales, *(vendor_patch(patch) for patch in VENDOR_PATCHES if patch.name in self.patched))


def look(session: Session, site: SiteRow, seen: Seen, now: datetime) -> Providers:
    """Return what is to be of the providers now; remembers since when one is not used."""
    used = _used(session, site.id, seen)
    since: Mapping[str, str] = site.facts.get(_UNUSED_SINCE, {})
    installed = sorted(seen.of(SCALE))
    unused = {name: since.get(name, now.isoformat()) for name in installed if name not in used}
    if unused != since:
        site.facts = {**site.facts, _UNUSED_SINCE: unused}
    runs = tuple((name, name in used or now - datetime.fromisoformat(unused[name]) < IDLE) for name in installed)
    return Providers(used=used, runs=runs, patched=tuple(sorted(seen.of(VENDOR_PATCH))))


def _used(session: Session, site_id: int, seen: Seen) -> frozenset[str]:
    """Return the distributions of all clusters that are not gone, those made elsewhere and of other classes among them."""
    found: set[Distribution | None] = {find_distribution(name) for name in clusters.class_names_in_use(session, site_id)}
    found |= {CONTROL_PLANES.get(str(status.body.get("control_plane_kind"))) for status in seen.of("kube.cluster_status").values()}
    return frozenset(str(one) for one in found if one is not None)
