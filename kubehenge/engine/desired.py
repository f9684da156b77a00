"""Expansion: clusters of which an input changed are expanded again, and their desired bodies recorded (DESIGN, Planning is a join)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from kubehenge.engine import providers
from kubehenge.engine.classes import Classes
from kubehenge.engine.documents import Documents
from kubehenge.engine.seen import Seen
from kubehenge.errors import InvariantError
from kubehenge.model.canon import Body
from kubehenge.model.distribution import CLASS_NAMESPACE
from kubehenge.model.facts import SiteFacts, TokenFact
from kubehenge.model.identity import ANNOTATION_TOKEN_ID, Incarnation, token_generation
from kubehenge.model.resource import ClusterState, DesiredResource, Lane, ResourceRef
from kubehenge.model.site import SiteSettings, VmIdRange
from kubehenge.resources.clusters import fixed_for
from kubehenge.resources.credentials import token_secret_name
from kubehenge.resources.expand import ClusterInput, expand
from kubehenge.resources.site import RULES, SETTING, expand_site
from kubehenge.store import clusters, pins, resources
from kubehenge.store.bodies import get_bodies
from kubehenge.store.rows import ClusterRow, SiteRow
from kubehenge.store.sites import setting_in_force


def expand_due(
    session: Session,
    site: SiteRow,
    settings: SiteSettings,
    facts: SiteFacts,
    seen: Seen,
    documents: Documents,
    classes: Classes,
    draw_tick: Callable[[], int],
    now: datetime,
) -> frozenset[ResourceRef]:
    """
    Expand the clusters that are due, and the site when any was; returns the resources whose desired body changed.

    A cluster whose holder is gone asks for nothing: its inventory says what goes (MODEL 19).
    """
    unsettled = documents.site_body is not None and documents.site_body != _in_force(session, site.id, SETTING)
    # A new cluster is made where the settings that Git asks for say, once they are in force; until then it stays due.
    rows = [row for row in clusters.due(session, site.id) if row.fixed or not unsettled or row.state is not ClusterState.DECLARED]
    wanted_of_providers = providers.look(session, site, seen, now)
    if not rows and not documents.settings_moved and not classes.moved(session, site.id, wanted_of_providers):
        return frozenset()
    bodies = get_bodies(session, (row.declared_hash for row in rows))
    _fix(session, rows, bodies, settings, classes)
    pinned = pins.pins_of(session, (row.id for row in rows))
    _give_vm_ids(session, site.id, rows, settings)
    held = _tokens_held(session, site, rows)
    wanted: dict[int | None, Sequence[DesiredResource]] = {}
    for row in rows:
        row.due = False
        if row.state in {ClusterState.FOREIGN, ClusterState.GONE}:
            continue
        if row.declared_hash is None or row.state is ClusterState.LEAVING:
            wanted[row.id] = ()
            continue
        own = ClusterInput(
            incarnation=_who(site, row),
            body=bodies[row.declared_hash],
            vm_ids=_vm_ids_of(row),
            fixed=row.fixed,
            pinned=pinned.get(row.id, ""),
        )
        wanted[row.id] = _expand(row, own, settings, facts, seen, held.get(row.id))
    wanted[None] = expand_site(
        (CLASS_NAMESPACE, *clusters.namespaces_in_use(session, site.id)),
        classes=classes.wanted(session, site.id, wanted_of_providers),
        providers=wanted_of_providers.resources(),
        setting=documents.site_body or _in_force(session, site.id, SETTING),
        rules=documents.rules_body or _in_force(session, site.id, RULES),
    )
    documents.settings_moved = False
    return resources.set_desired(session, site.id, wanted, draw_tick)


def _fix(session: Session, rows: Iterable[ClusterRow], bodies: Mapping[str, Body], settings: SiteSettings, classes: Classes) -> None:
    """Copy onto the clusters that are planned first what holds for their life, and pin them to their class (MODEL 19, 31)."""
    fresh = [row for row in rows if row.state is ClusterState.DECLARED and row.declared_hash and not row.fixed]
    for row in fresh:
        row.fixed = {**_fixed_by(settings), **fixed_for(bodies[row.declared_hash or ""], settings.identity_providers)}
    pinned = pins.pins_of(session, (row.id for row in fresh))  # a person may have moved one before it was planned first
    pins.add_pins(session, {row.id: name for row in fresh if row.id not in pinned and (name := classes.newest(row.class_name))})


def _fixed_by(settings: SiteSettings) -> dict[str, Any]:
    """What a cluster keeps from its first expansion on: another pool would mean other VMs and other volumes (MODEL 19)."""
    owners = settings.owner_vm_ids
    return {
        "workload_pool": settings.workload_pool,
        "cluster_group": settings.cluster_group,
        "owner_vm_ids": [owners.first, owners.last],
    }


def kept_settings(settings: SiteSettings, fixed: Mapping[str, Any]) -> SiteSettings:
    """Return the settings as they hold for one cluster."""
    if not fixed:
        return settings
    first, last = fixed["owner_vm_ids"]
    return replace(
        settings,
        workload_pool=fixed["workload_pool"],
        cluster_group=fixed["cluster_group"],
        owner_vm_ids=VmIdRange(first=first, last=last),
    )


def _give_vm_ids(session: Session, site_id: int, rows: Iterable[ClusterRow], settings: SiteSettings) -> None:
    """Give each declared cluster that has none a range of VM ids of its own, the lowest free one first (MODEL 35)."""
    without = [row for row in rows if row.vm_id_first is None and row.state is ClusterState.DECLARED and row.declared_hash]
    if without:
        free = clusters.free_vm_ids(session, site_id, settings.vm_ids)
        for row in without:
            row.vm_id_first, row.vm_id_last = next(free)


def _tokens_held(session: Session, site: SiteRow, rows: Iterable[ClusterRow]) -> Mapping[int, int]:
    """
    Return the generation of the token that each cluster's Secret holds, where both are there (MODEL 8).

    As recorded, not as read last: a reading may be older than what a run has written since, and absence counts only once it is
    confirmed (MODEL 20).
    """
    secrets = {
        ResourceRef(kind="kube.secret", name=f"{row.namespace}/{token_secret_name(row.name)}"): row
        for row in rows
        if row.state is ClusterState.DECLARED
    }
    found = {ref: row["observed_hash"] for ref, row in resources.find_rows(session, site.id, secrets).items() if row["observed_hash"]}
    bodies = get_bodies(session, found.values())
    named = {secrets[ref]: _token_named(bodies[hashed]) for ref, hashed in found.items()}
    tokens = resources.find_rows(session, site.id, (ResourceRef(kind="proxmox.token", name=name) for name in named.values()))
    there = {ref.name for ref, row in tokens.items() if row["observed_hash"]}
    return {
        row.id: generation
        for row, name in named.items()
        if name in there and name.startswith(f"{_who(site, row).user}!") and (generation := token_generation(name)) is not None
    }


def _token_named(secret: Body) -> str:
    return str((secret["metadata"].get("annotations") or {}).get(ANNOTATION_TOKEN_ID, ""))


def _who(site: SiteRow, row: ClusterRow) -> Incarnation:
    return Incarnation(site=site.name, namespace=row.namespace, name=row.name, number=row.incarnation)


def _in_force(session: Session, site_id: int, ref: ResourceRef) -> Body | None:
    """Return a setting as it is in force: no document asking for it is no reason to change it."""
    found = setting_in_force(session, site_id, ref.name)
    return found.value if found.version else None


def _vm_ids_of(row: ClusterRow) -> tuple[int, int]:
    if row.vm_id_first is None or row.vm_id_last is None:
        raise InvariantError(f"{row.namespace}/{row.name} is expanded without a range of VM ids.")
    return row.vm_id_first, row.vm_id_last


def _expand(
    row: ClusterRow, cluster: ClusterInput, settings: SiteSettings, facts: SiteFacts, seen: Seen, held: int | None
) -> tuple[DesiredResource, ...]:
    who = cluster.incarnation
    settings = kept_settings(settings, row.fixed)
    own = seen.cluster_facts(who, who.pool(settings.workload_pool), token_secret_name(who.name))
    existing = own.token.existing if held is None else tuple(sorted({*own.token.existing, held}))
    expansion = expand(cluster, settings, facts, replace(own, token=TokenFact(existing=existing, held=held)))
    row.inputs = {lane.value: expansion.inputs[lane] for lane in Lane}
    return expansion.resources
