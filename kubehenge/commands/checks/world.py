"""What `doctor` finds out about the other systems, by asking each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kubehenge import wiring
from kubehenge.clock import SystemClock
from kubehenge.drivers.findings import Finding
from kubehenge.engine.stored import settings_in_force
from kubehenge.errors import KubehengeError
from kubehenge.settings import Settings
from kubehenge.store.database import Database
from kubehenge.store.reads.site import find_site


def systems(settings: Settings, database: Database) -> Iterator[Finding]:
    """Ask Proxmox VE and the management cluster."""
    with database.read() as session:
        found = find_site(session, settings.site)
        site = settings_in_force(session, found.id) if found else None
    if found is None or site is None:
        return
    core = wiring.Core(settings=settings, db=database, site_id=found.id, clock=SystemClock())
    try:
        families = wiring.drivers(core)
    except KubehengeError as error:
        yield Finding(what="Proxmox VE and the management cluster", ok=False, detail=str(error))
        return
    asked: dict[str, dict[str, Any]] = {
        "proxmox": {"group": site.cluster_group, "template_pool": site.template_pool, "storages": site.storages},
        "kube": {},
    }
    for family, arguments in asked.items():
        yield from _probe(family, getattr(families[family], "probe", None), arguments)


def _probe(family: str, probe: Callable[..., Sequence[Finding]] | None, arguments: dict[str, Any]) -> Iterator[Finding]:
    if probe is None:
        return
    try:
        yield from probe(**arguments)
    except KubehengeError as error:
        yield Finding(what=family, ok=False, detail=str(error))
