"""
Writing objects by server-side apply with one field manager, never by force (MODEL 4, 21, 26).

An apply over an object that is there names its resourceVersion, so that a call which comes late is refused. Fields that another
manager owns are a refusal; only those of `TAKEN`, which are ours by name, are taken over by a change of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kubehenge.drivers.base import ActionContext
from kubehenge.drivers.kube import kinds
from kubehenge.drivers.kube.client import FIELD_MANAGER, JSON, METADATA, KubeClient, Written
from kubehenge.drivers.kube.errors import ChangedMeanwhileError, FieldConflictError, as_mapping, is_missing
from kubehenge.drivers.kube.reduce import Object, mark_of
from kubehenge.drivers.marks import require_ours
from kubehenge.errors import RefusedError, TransientError
from kubehenge.model import identity
from kubehenge.model.resource import ResourceRef

TAKEN = tuple(
    f".metadata.annotations.{name}"
    for name in (
        identity.ANNOTATION_SITE,
        identity.ANNOTATION_CLUSTER,
        identity.ANNOTATION_INCARNATION,
        identity.ANNOTATION_VM_ID_RANGE,
        identity.ANNOTATION_POOL,
        identity.ANNOTATION_ONLINE_NODES,
        identity.ANNOTATION_TOKEN_GENERATION,
        identity.ANNOTATION_TOKEN_ID,
        identity.ANNOTATION_TOKEN_HMAC,
        "kubehenge.dev/volume-owner",
    )
)
"""Fields that are taken over from whoever owns them; `kubehenge.dev/protect` is people's own and is none of them."""

_TRIES = 5
"""How often an apply is tried while somebody else keeps changing the object; Cluster API writes statuses all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What an apply left; `before` is the object that was there, None when it was made."""

    obj: Object
    before: Object | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What a deletion left: `obj` while something still holds it, None when it is gone."""

    obj: Object | None = None
    warnings: tuple[str, ...] = ()


def find(client: KubeClient, ref: ResourceRef, *, accept: str = "") -> Object | None:
    """Read one object, None when it is not there; a Secret as metadata only unless asked otherwise."""
    served, namespace, name = kinds.find_place(ref)
    try:
        return client.get(served.one(namespace, name), accept=accept or (METADATA if ref.kind == kinds.SECRET else JSON))
    except RefusedError as exc:
        if is_missing(exc):
            return None
        raise


def apply(
    client: KubeClient,
    ref: ResourceRef,
    compose: Callable[[], Mapping[str, Any]],
    context: ActionContext,
    *,
    create: bool,
) -> Applied:
    """
    Make the object, or bring it to what `compose` returns; that is asked for once it is certain that the object is ours.

    Errors: RefusedError for an object without our mark or with another's, for fields of another manager, and for one that is to
    be updated and is not there.
    """
    served, namespace, name = kinds.find_place(ref)
    for left in reversed(range(_TRIES)):
        found = find(client, ref)
        _require_ours(ref, found, context, create=create)
        body = dict(compose())
        if found is not None:
            body["metadata"] = {**body["metadata"], "resourceVersion": found["metadata"]["resourceVersion"]}
        try:
            written = _apply_or_take(client, served.one(namespace, name), body, whole=ref.kind in kinds.WHOLE)
        except ChangedMeanwhileError:
            if not left:
                raise
            continue
        if written is not None:
            return Applied(obj=written.obj, before=found, warnings=written.warnings)
    raise TransientError(f"{kinds.called(ref)} is written by somebody else again and again. It is tried again.")


def _require_ours(ref: ResourceRef, found: Object | None, context: ActionContext, *, create: bool) -> None:
    what = kinds.called(ref)
    if found is None:
        if not create:
            raise RefusedError(f"{what} is not there any more. The next plan makes it again.")
        return
    if "deletionTimestamp" in found["metadata"]:
        raise RefusedError(f"{what} is being deleted. What follows it is planned once it is gone.")
    if ref.kind in kinds.UNMARKED:
        return
    mark = mark_of(found)
    if create or mark is not None or not _is_written_by_us(found):
        require_ours(mark, context.mark, what, verb="changed")


def _is_written_by_us(found: Object) -> bool:
    """Tell whether we ever applied this very object: somebody may have taken our mark off it, or made another of its name."""
    managers = {entry.get("manager") for entry in found["metadata"].get("managedFields") or () if entry.get("operation") == "Apply"}
    return FIELD_MANAGER in managers


def _apply_or_take(client: KubeClient, path: str, body: Mapping[str, Any], *, whole: bool) -> Written | None:
    """Apply once, what is `whole` ours by force; None when fields had to be taken over first, and it is to be applied again."""
    try:
        return client.apply(path, body, force=whole)
    except FieldConflictError as conflict:
        theirs = {field for _, field in conflict.conflicts} - set(TAKEN)
        if theirs:
            raise conflict.only(theirs) from None
        _take(client, path, body, conflict)
    return None


def _take(client: KubeClient, path: str, body: Mapping[str, Any], conflict: FieldConflictError) -> None:
    """Write the fields in dispute by a change of their own, which makes us their owner; the apply after it meets no conflict."""
    version = body["metadata"].get("resourceVersion")
    if version is None:  # it was not there a moment ago: whose it is is looked at first
        raise ChangedMeanwhileError(f"{path} was made by somebody else at the same moment. It is looked at.")
    annotations = as_mapping(body["metadata"].get("annotations"))
    prefix = ".metadata.annotations."
    wanted = {field.removeprefix(prefix) for _, field in conflict.conflicts}
    taken = {name: annotations[name] for name in sorted(wanted & annotations.keys())}
    client.merge(path, {"metadata": {"annotations": taken, "resourceVersion": version}})


def delete(client: KubeClient, ref: ResourceRef, context: ActionContext) -> Deleted:
    """
    Delete the object after a look at its mark, by its UID.

    Errors: RefusedError for an object that is not marked as ours, and for kinds that bear no mark.
    """
    served, namespace, name = kinds.find_place(ref)
    what = kinds.called(ref)
    found = find(client, ref)
    if found is None:
        return Deleted()
    if ref.kind in kinds.UNMARKED:
        raise RefusedError(f"{what} is not deleted: it may hold what is others', and bears no mark of Kubehenge. Delete it by hand.")
    require_ours(mark_of(found), context.mark, what, verb="deleted")
    warnings: tuple[str, ...] = ()
    if "deletionTimestamp" not in found["metadata"]:
        try:
            warnings = client.delete(served.one(namespace, name), uid=found["metadata"]["uid"]).warnings
        except RefusedError as exc:
            if is_missing(exc):
                return Deleted()
            raise
    left = find(client, ref)
    held = left is not None and left["metadata"]["uid"] == found["metadata"]["uid"]
    return Deleted(obj=left if held else None, warnings=warnings)
