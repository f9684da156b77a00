"""
The table of kinds: what follows what, which fields belong to which lane, and how serious a change is.

Adding a feature means adding a kind here, its desired form beside it, and its four verbs in `drivers/` (DESIGN, Planning is a join).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubehenge.model.canon import MISSING, Body, FieldChange, Path, get_path, with_path
from kubehenge.model.identity import ANNOTATION_ONLINE_NODES
from kubehenge.model.resource import ChangeClass, Lane
from kubehenge.resources.risk import (
    classify_class,
    classify_cluster,
    classify_plain,
    classify_rules,
    classify_secret,
    classify_token,
)

Classify = Callable[[Body | None, Body | None, Sequence[FieldChange]], ChangeClass]
"""How serious it is to bring a resource from one body to another; None stands for absence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """
    One sort of resource.

    `create_after` names the kinds that must stand before it, `delete_after` those that must be gone before it (both within one
    cluster). `upkeep` are the paths that belong to the upkeep lane; all else is the asked lane's. `marked` says that a bulk
    reading shows our mark. `keeps` says that it is never deleted.
    """

    name: str
    classify: Classify = classify_plain
    create_after: tuple[str, ...] = ()
    delete_after: tuple[str, ...] = ()
    upkeep: tuple[Path, ...] = ()
    marked: bool = True
    keeps: bool = False


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name="site.setting", marked=False, keeps=True),
        Kind(name="site.rules", classify=classify_rules, marked=False, keeps=True),
        Kind(name="kube.namespace", marked=False, keeps=True),
        # Named by their content, so that whoever finds one of that name may use it; Cluster API refuses to delete one in use.
        Kind(name="kube.class_template", classify=classify_class, marked=False, keeps=True),
        Kind(name="kube.class", classify=classify_class, create_after=("kube.class_template",), marked=False, keeps=True),
        Kind(name="kube.class_alias", classify=classify_class, marked=False, keeps=True),
        Kind(name="kube.provider_scale", marked=False, keeps=True),
        Kind(name="kube.vendor_patch", marked=False, keeps=True),
        Kind(name="proxmox.pool", delete_after=("kube.cluster", "proxmox.volume_owner", "proxmox.acl")),
        Kind(name="proxmox.user", delete_after=("proxmox.token", "proxmox.acl")),
        Kind(
            name="proxmox.acl",
            create_after=("proxmox.pool", "proxmox.user"),
            delete_after=("kube.cluster", "proxmox.volume_owner", "proxmox.token"),
            marked=False,
        ),
        Kind(name="proxmox.volume_owner", create_after=("proxmox.pool",), delete_after=("kube.cluster",), marked=False),
        # A token's secret is shown once: it is made last, right before the Secret that holds it.
        Kind(
            name="proxmox.token",
            classify=classify_token,
            create_after=("proxmox.user", "proxmox.acl", "proxmox.volume_owner"),
            delete_after=("kube.cluster", "kube.secret", "proxmox.volume_owner"),
        ),
        Kind(
            name="kube.secret",
            classify=classify_secret,
            create_after=("proxmox.token", "proxmox.acl", "proxmox.volume_owner"),
            delete_after=("kube.cluster", "kube.resource_set", "proxmox.volume_owner"),
        ),
        # Cluster API makes the set an owner of the Secrets that it hands over: they go with it, so it stays as long as they must.
        Kind(name="kube.resource_set", create_after=("kube.secret",), delete_after=("kube.cluster", "proxmox.volume_owner")),
        Kind(
            name="kube.cluster",
            classify=classify_cluster,
            create_after=("proxmox.pool", "proxmox.acl", "proxmox.volume_owner", "kube.secret", "kube.resource_set"),
            upkeep=(("metadata", "annotations", ANNOTATION_ONLINE_NODES),),
        ),
    )
}
"""The kinds that Kubehenge keeps."""

OBSERVED_ONLY = frozenset({"proxmox.node", "proxmox.vm", "proxmox.storage", "kube.machine", "kube.cluster_status"})
"""Kinds that are read for facts and history, and never written."""


def part_of(kind: Kind, body: Body, lane: Lane) -> Body:
    """Return the fields of a body that belong to one lane's group."""
    if not kind.upkeep:
        return body if lane is Lane.ASKED else {}
    if lane is Lane.ASKED:
        rest = body
        for path in kind.upkeep:
            rest = with_path(rest, path, MISSING)
        return rest
    part: Body = {}
    for path in kind.upkeep:
        value = get_path(body, path)
        if value is not MISSING:
            part = with_path(part, path, value)
    return part


def joined(kind: Kind, part: Body, lane: Lane, whole: Body) -> Body:
    """Return `whole` with one lane's fields taken from `part`: what is written when that lane acts (MODEL 11)."""
    if not kind.upkeep:
        return part
    asked, upkeep = (part, whole) if lane is Lane.ASKED else (whole, part)
    body = part_of(kind, asked, Lane.ASKED)
    for path in kind.upkeep:
        body = with_path(body, path, get_path(upkeep, path))
    return body
