"""Which distributions' controllers are to run: those that a cluster in any state uses, and for a while after the last (MODEL 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from kubehenge.engine.seen import Seen
from kubehenge.model.distribution import find_distribution
from kubehenge.model.resource import DesiredResource
from kubehenge.resources.providers import CONTROL_PLANES, SCALE, SERVING, VENDOR_PATCH, VENDOR_PATCHES, scale, vendor_patch
from kubehenge.store import clusters
from kubehenge.store.rows import SiteRow

IDLE = timedelta(minutes=1)
"""Two readings of everything at least: the controllers still have to finish what the last cluster leaves."""

STATUS = "kube.cluster_status"
_UNUSED_SINCE = "providers_unused_since"


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """
    What is to be of the providers that are installed.

    `used` are the distributions that a cluster uses, installed or not, and `serving` those whose controllers answer; `runs` tells of
    each installed one whether its controllers are to run; `patched` are the vendor patches whose objects are there.
    """

    used: frozenset[str] = frozenset()
    serving: frozenset[str] = frozenset()
    runs: tuple[tuple[str, bool], ...] = ()
    patched: tuple[str, ...] = ()

    def resources(self) -> tuple[DesiredResource, ...]:
        """Return them as the site asks for them."""
        scales = [scale(name, runs=runs) for name, runs in self.runs]
        return (*scales, *(vendor_patch(patch) for patch in VENDOR_PATCHES if patch.name in self.patched))


def look(session: Session, site: SiteRow, seen: Seen, now: datetime) -> Providers:
    """Return what is to be of the providers now; remembers since when one is not used."""
    installed = sorted(seen.of(SCALE))
    used = _used(session, site.id, seen, installed)
    since: Mapping[str, str] = site.facts.get(_UNUSED_SINCE, {})
    unused = {name: since.get(name, now.isoformat()) for name in installed if name not in used}
    if unused != since:
        site.facts = {**site.facts, _UNUSED_SINCE: unused}
    runs = tuple((name, name in used or now - datetime.fromisoformat(unused[name]) < IDLE) for name in installed)
    serving = frozenset(name for name, one in seen.of(SCALE).items() if one.outputs.get(SERVING))
    return Providers(used=used, serving=serving, runs=runs, patched=tuple(sorted(seen.of(VENDOR_PATCH))))


def _used(session: Session, site_id: int, seen: Seen, installed: Iterable[str]) -> frozenset[str]:
    """
    Return the distributions of all clusters that are not gone, those made elsewhere and of other classes among them.

    While Clusters were not read, and for one of another class that does not say which controllers it needs, that is all of them: what
    is not known is no reason to stop anything (MODEL 20).
    """
    found: set[str] = {str(one) for name in clusters.class_names_in_use(session, site_id) if (one := find_distribution(name))}
    if not seen.has_read(STATUS):
        return frozenset((*found, *installed))
    for status in seen.of(STATUS).values():
        one = CONTROL_PLANES.get(str(status.body.get("control_plane_kind", ""))) or find_distribution(str(status.body["class"]))
        found |= {str(one)} if one is not None else set(installed)
    return frozenset(found)
