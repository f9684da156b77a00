"""Which ClusterClasses the site keeps: those of this release, and the older ones that a cluster still runs (MODEL 31)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from kubehenge.engine.providers import Providers
from kubehenge.model.canon import Body
from kubehenge.model.distribution import find_distribution
from kubehenge.model.resource import DesiredResource, ResourceRef
from kubehenge.resources.class_objects import (
    CLASS,
    TEMPLATE,
    alias_resource,
    class_resources,
    is_of_proxmox,
    provider_templates,
    templates_of,
)
from kubehenge.resources.classes import RenderedClass
from kubehenge.store import pins, resources
from kubehenge.store.bodies import get_bodies


def _by_ref(items: Iterable[DesiredResource]) -> dict[ResourceRef, DesiredResource]:
    return {item.ref: item for item in items}


@dataclass(slots=True)
class Classes:
    """
    The classes of this release, by their plain names.

    `stands_for` is what each plain name stood for when the site was expanded last, and `providers` what was to be of those; None says
    that this process has not yet.
    """

    rendered: Mapping[str, RenderedClass] = field(default_factory=dict)
    stands_for: Mapping[str, str] | None = None
    providers: Providers = field(default_factory=Providers)

    def moved(self, session: Session, site_id: int, providers: Providers) -> bool:
        """Tell whether other things may be wanted than those that the site was expanded for last."""
        return self.stands_for is None or providers != self.providers or pins.aliases(session, site_id) != self.stands_for

    def newest(self, named: str) -> str:
        """Return the content name of the newest class for a plain name, '' for any other name."""
        found = self.rendered.get(named)
        return found.name if found else ""

    def wanted(self, session: Session, site_id: int, providers: Providers) -> tuple[DesiredResource, ...]:
        """
        Return the classes and templates that are wanted now, and the plain names, which stand for what they stood for.

        Control-plane and bootstrap templates come once a cluster uses the distribution and its controllers serve; without them they
        cannot be made, and would hold up the classes of all others.
        """
        self.providers = providers
        ready = providers.used & providers.serving
        kept = self._kept(session, site_id)
        bodies: dict[str, Body] = {ref.name.partition("/")[2]: body for ref, body in kept.items() if ref.kind == CLASS}
        wanted: dict[ResourceRef, DesiredResource] = {}
        for one in self.rendered.values():
            bodies[one.name] = one.cluster_class
            wanted |= _by_ref(class_resources(one.cluster_class, one.templates))
            theirs = {ref for ref in templates_of(one.cluster_class) if not is_of_proxmox(ref)}
            if one.distribution in ready or theirs <= kept.keys():
                wanted |= _by_ref(provider_templates(one.distribution, one.provider_templates))
        for name in sorted(pins.classes_in_use(session, site_id) & bodies.keys()):
            refs = [ref for ref in templates_of(bodies[name]) if ref in kept]
            wanted = _by_ref(class_resources(bodies[name], [kept[ref] for ref in refs if is_of_proxmox(ref)])) | wanted
            distribution = str(find_distribution(name))
            wanted = _by_ref(provider_templates(distribution, [kept[ref] for ref in refs if not is_of_proxmox(ref)])) | wanted
        self.stands_for = self._aliases(session, site_id)
        for alias, one in self.rendered.items():
            named = alias_resource(alias, bodies.get(self.stands_for[alias], one.cluster_class))
            wanted[named.ref] = named
        return tuple(wanted.values())

    def _aliases(self, session: Session, site_id: int) -> Mapping[str, str]:
        """Return what each plain name stands for; a new one stands for the newest class."""
        known = pins.aliases(session, site_id)
        for alias, one in self.rendered.items():
            if alias not in known:
                pins.set_alias(session, site_id, alias, one.name)
        return {alias: one.name for alias, one in self.rendered.items()} | known

    def _kept(self, session: Session, site_id: int) -> Mapping[ResourceRef, Body]:
        """Return the bodies of classes and templates as they were asked for last."""
        rows = [row for row in resources.rows_of_site(session, site_id) if row["kind"] in {CLASS, TEMPLATE} and row["desired_hash"]]
        bodies = get_bodies(session, (row["desired_hash"] for row in rows))
        return {ResourceRef(kind=row["kind"], name=row["name"]): bodies[row["desired_hash"]] for row in rows}
