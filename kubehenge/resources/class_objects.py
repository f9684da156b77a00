"""ClusterClasses as the site keeps them: the classes with their templates, and the plain names that stand for them (MODEL 31)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kubehenge.model.canon import Body
from kubehenge.model.distribution import CLASS_NAMESPACE, is_content_name
from kubehenge.model.resource import DesiredResource, ResourceRef
from kubehenge.resources.credentials import namespace_ref
from kubehenge.resources.providers import scale_ref

CLASS = "kube.class"
TEMPLATE = "kube.class_template"
ALIAS = "kube.class_alias"


def class_ref(name: str) -> ResourceRef:
    """Return the key of a class: of one named by its content, or of a plain name."""
    return ResourceRef(kind=CLASS if is_content_name(name) else ALIAS, name=f"{CLASS_NAMESPACE}/{name}")


def template_ref(kind: str, name: str) -> ResourceRef:
    """Return the key of a template; templates of several kinds are one kind of resource."""
    return ResourceRef(kind=TEMPLATE, name=f"{kind}/{CLASS_NAMESPACE}/{name}")


def is_of_proxmox(ref: ResourceRef) -> bool:
    """Tell whether a template is one of Proxmox VE's, and not of a distribution's controllers."""
    return ref.name.startswith("Proxmox")


def templates_of(cluster_class: Body) -> Iterator[ResourceRef]:
    """Yield the keys of the templates that a class refers to."""
    for part in _references(cluster_class["spec"]):
        yield template_ref(part["kind"], part["name"])


def _references(node: object) -> Iterator[Mapping[str, str]]:
    if isinstance(node, Mapping):
        for key, item in node.items():
            if key == "templateRef" and isinstance(item, Mapping):
                yield item
            else:
                yield from _references(item)
    elif isinstance(node, list | tuple):
        for item in node:
            yield from _references(item)


def class_resources(cluster_class: Body, templates: Sequence[Body]) -> tuple[DesiredResource, ...]:
    """
    Return a class named by its content with its Proxmox VE templates, as the site asks for them.

    The class is there whether or not the distribution's controllers run; Cluster API goes on with it once all its templates are there.
    """
    space = (namespace_ref(CLASS_NAMESPACE),)
    wanted = [_template(body, space) for body in templates]
    refs = tuple(one.ref for one in wanted)
    return (*wanted, DesiredResource(ref=class_ref(cluster_class["metadata"]["name"]), body=cluster_class, requires=(*space, *refs)))


def provider_templates(distribution: str, templates: Sequence[Body]) -> tuple[DesiredResource, ...]:
    """Return control-plane and bootstrap templates, which only the distribution's controllers can admit, so they have to serve (MODEL 36)."""
    return tuple(_template(body, (namespace_ref(CLASS_NAMESPACE), scale_ref(distribution))) for body in templates)


def _template(body: Body, requires: tuple[ResourceRef, ...]) -> DesiredResource:
    return DesiredResource(ref=template_ref(body["kind"], body["metadata"]["name"]), body=body, requires=requires)


def alias_resource(alias: str, cluster_class: Body) -> DesiredResource:
    """Return the class under its plain name: the same content, once the class itself is there with its templates."""
    body = {**cluster_class, "metadata": {**cluster_class["metadata"], "name": alias}}
    return DesiredResource(ref=class_ref(alias), body=body, requires=(class_ref(cluster_class["metadata"]["name"]),))
