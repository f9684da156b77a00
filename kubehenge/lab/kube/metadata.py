"""The metadata that the API server itself keeps: names, uids, times, generations, finalizers; and checks on the rest."""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from kubehenge.lab.kube.errors import ApiError, Cause, FieldError, bad_request, conflict, invalid, modified
from kubehenge.lab.kube.kinds import Kind, Obj

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # of generated names: no vowels, nothing that looks like another
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_QUALIFIED = re.compile(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_ENDS = "and must start and end with an alphanumeric character"
_NAME_FORMS = {
    "subdomain": f", '-' or '.', {_ENDS} (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    "label": f" or '-', {_ENDS} (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
}
_KEY_FORM = (
    f"name part must consist of alphanumeric characters, '-', '_' or '.', {_ENDS} (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_FORM = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS} (e.g. 'MyValue',  or "
    "'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_LIVE_FIELDS = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "name", "namespace")


def timestamp(at: datetime) -> str:
    """A moment as Kubernetes writes it, in UTC, to the second."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def random_suffix(length: int = 5) -> str:
    """The random end of a generated name."""
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def without_nulls(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of metadata without its nulls (`creationTimestamp: null` is what many tools write)."""
    return {name: value for name, value in (meta or {}).items() if value is not None}


def begin(kind: Kind, namespace: str, body: Obj) -> Obj:
    """
    A body as it was sent, made ready to be stored under a namespace.

    Errors: ApiError 400 for another apiVersion, kind or namespace than the path's.
    """
    api_version, name = body.get("apiVersion", kind.api_version), body.get("kind", kind.kind)
    if api_version != kind.api_version:
        raise bad_request(f"the API version in the data ({api_version}) does not match the expected API version ({kind.api_version})")
    if name != kind.kind:
        raise bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: the data is a {name}')
    given = body.get("metadata")
    if given is not None and not isinstance(given, dict):
        raise bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: metadata is no object')
    meta = without_nulls(given)
    if kind.namespaced and meta.setdefault("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if not kind.namespaced:
        meta.pop("namespace", None)
    return {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}


def birth(kind: Kind, obj: Obj, now: str) -> None:
    """
    Give a new object what the server sets at creation, in place.

    Errors: ApiError 400 for a resourceVersion, 422 for a missing name.
    """
    meta = obj["metadata"]
    if meta.pop("resourceVersion", ""):
        raise bad_request("resourceVersion should not be set on objects to be created")
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"] + random_suffix()
    if not meta.get("name"):
        error = FieldError(field="metadata.name", cause=Cause.REQUIRED, detail="name or generateName is required")
        raise invalid(kind, "", [error])
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
        meta.pop(name, None)
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = now
    if kind.custom:
        meta["generation"] = 1


def carry_over(kind: Kind, live: Obj, new: Obj) -> None:
    """
    Keep, in place, what an update cannot change, after looking at its preconditions.

    Errors: ApiError 409 for another resourceVersion or uid, 422 for a finalizer added to an object that is being deleted.
    """
    old, meta = live["metadata"], new["metadata"]
    version = meta.pop("resourceVersion", "")
    if version and version != old["resourceVersion"]:
        raise modified(kind, old["name"])
    if meta.get("uid", old["uid"]) != old["uid"]:
        raise conflict(kind, old["name"], f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old['uid']}")
    for name in _LIVE_FIELDS:
        if name in old:
            meta[name] = old[name]
        else:
            meta.pop(name, None)
    added = [name for name in meta.get("finalizers") or () if name not in (old.get("finalizers") or ())]
    if added and "deletionTimestamp" in old:
        shown = ", ".join(f'"{name}"' for name in added)
        why = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
        raise invalid(kind, old["name"], [FieldError(field="metadata.finalizers", cause=Cause.FORBIDDEN, detail=why)])


def check(kind: Kind, obj: Obj) -> Iterator[FieldError]:
    """What is wrong with names, labels and annotations."""
    meta = obj["metadata"]
    name = meta["name"]
    pattern, most = (_SUBDOMAIN, 253) if kind.custom or kind.plural != "namespaces" else (_LABEL, 63)
    if not pattern.match(name):
        what = "subdomain" if pattern is _SUBDOMAIN else "label"
        detail = f"a lowercase RFC 1123 {what} must consist of lower case alphanumeric characters{_NAME_FORMS[what]}"
        yield FieldError(field="metadata.name", cause=Cause.INVALID, value=name, detail=detail)
    if len(name) > most:
        yield FieldError(field="metadata.name", cause=Cause.INVALID, value=name, detail=f"must be no more than {most} characters")
    for key, value in (meta.get("labels") or {}).items():
        if not _QUALIFIED.match(key):
            yield FieldError(
                field="metadata.labels",
                cause=Cause.INVALID,
                value=key,
                detail=_KEY_FORM,
            )
        if len(value) > 63 or not _LABEL_VALUE.match(value):
            yield FieldError(
                field="metadata.labels",
                cause=Cause.INVALID,
                value=value,
                detail=_VALUE_FORM,
            )
    for key in meta.get("annotations") or {}:
        if not _QUALIFIED.match(key.lower()):
            yield FieldError(
                field="metadata.annotations",
                cause=Cause.INVALID,
                value=key,
                detail=_KEY_FORM,
            )
    for owner in meta.get("ownerReferences") or ():
        if not owner.get("uid"):
            yield FieldError(field="metadata.ownerReferences.uid", cause=Cause.REQUIRED, detail="must not be empty")


def undecodable(kind: Kind, error: FieldError) -> ApiError:
    """400 for metadata of the wrong type, which cannot even be read."""
    where = error.field.removeprefix("metadata.")
    return bad_request(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: json: cannot unmarshal {error.value} into Go struct field '
        f"ObjectMeta.metadata.{where}"
    )
