"""
Server-side apply and the keeping of `metadata.managedFields`: who owns which field of an object.

Source: the rules of Kubernetes 1.36: an apply owns what it names, loses what it no longer names, conflicts where another
manager's value differs; an update owns what it changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from kubehenge.lab.kube import fieldset
from kubehenge.lab.kube.errors import apply_conflict
from kubehenge.lab.kube.fieldset import Path, Paths
from kubehenge.lab.kube.kinds import Kind, Obj

KUBECTL = "kubectl"
_BEFORE = "before-first-apply"  # who owns what is there when nobody is known to
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_UNOWNED = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "managedFields",
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """Who owns fields: the name, how it writes, and through which subresource."""

    name: str
    operation: str  # Apply, Update
    api_version: str
    subresource: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells two managers apart: an apply counts as the same in every version."""
        return (self.name, self.operation, "" if self.operation == "Apply" else self.api_version, self.subresource)

    def __str__(self) -> str:
        text = json.dumps(self.name)
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owned:
    manager: Manager
    fields: Paths
    at: str


_Entries = dict[tuple[str, str, str, str], _Owned]


def _read(obj: Obj) -> _Entries:
    entries: _Entries = {}
    for entry in obj.get("metadata", {}).get("managedFields") or ():
        manager = Manager(
            name=entry.get("manager", ""),
            operation=entry.get("operation", ""),
            api_version=entry.get("apiVersion", ""),
            subresource=entry.get("subresource", ""),
        )
        fields = frozenset(fieldset.from_fields_v1(entry.get("fieldsV1") or {}))
        if manager.operation in {"Apply", "Update"}:
            entries[manager.key] = _Owned(manager=manager, fields=fields, at=entry.get("time", ""))
    return entries


def _write(obj: Obj, entries: _Entries) -> Obj:
    meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    owned = sorted(
        (entry for entry in entries.values() if entry.fields),
        key=lambda entry: (entry.manager.operation, entry.at, entry.manager.name, entry.manager.api_version, entry.manager.subresource),
    )
    if owned:
        meta["managedFields"] = [
            {
                "manager": entry.manager.name,
                "operation": entry.manager.operation,
                "apiVersion": entry.manager.api_version,
                "time": entry.at,
                "fieldsType": "FieldsV1",
                "fieldsV1": fieldset.to_fields_v1(entry.fields),
                **({"subresource": entry.manager.subresource} if entry.manager.subresource else {}),
            }
            for entry in owned
        ]
    return {**obj, "metadata": meta}


def _without_managed_fields(obj: Obj) -> Obj:
    meta = {name: value for name, value in obj.get("metadata", {}).items() if name != "managedFields"}
    return {**obj, "metadata": meta}


def writable(kind: Kind, subresource: str) -> Callable[[Path], bool]:
    """Which fields a write through the object itself, or through its status, may change and own."""

    def allowed(path: Path) -> bool:
        if path in _UNOWNED:
            return False
        if subresource == "status":
            return path[0] == "f:status"
        return not (kind.has_status and path[0] == "f:status")

    return allowed


def _keep(paths: Iterable[Path], allowed: Callable[[Path], bool]) -> Paths:
    return frozenset(path for path in paths if allowed(path))


def _take(entries: _Entries, keep: tuple[str, str, str, str], lost: Paths) -> _Entries:
    """The other managers without the fields that this write took or removed."""
    return {
        key: entry if key == keep or not entry.fields & lost else replace(entry, fields=entry.fields - lost)
        for key, entry in entries.items()
    }


def track_update(kind: Kind, live: Obj | None, new: Obj, manager: Manager, now: str) -> Obj:
    """The new object with the fields that this create or update changed made its manager's."""
    declared = new.get("metadata", {}).get("managedFields")
    if declared == [{}]:  # how a client drops all ownership
        entries: _Entries = {}
    else:
        entries = _read(new) or (_read(live) if live is not None else {})
    old = _without_managed_fields(live) if live is not None else {}
    difference = fieldset.compare(kind.schema, old, _without_managed_fields(new))
    allowed = writable(kind, manager.subresource)
    changed = _keep(difference.added | difference.modified, allowed)
    entries = _take(entries, manager.key, changed | difference.removed)
    mine = entries.get(manager.key)
    fields = ((mine.fields if mine else frozenset()) | changed) - difference.removed
    if fields and (mine is None or changed or fields != mine.fields):
        entries[manager.key] = _Owned(manager=manager, fields=fields, at=now)
    elif mine is not None:
        entries[manager.key] = replace(mine, fields=fields)
    return _write(new, entries)


def apply(kind: Kind, live: Obj, config: Obj, manager: Manager, now: str, *, force: bool) -> Obj:
    """
    The object after an apply of `config` over `live` (which has at least apiVersion, kind and metadata).

    Errors: ApiError 409 that names each other manager and field, unless `force` takes them.
    """
    schema = kind.schema
    allowed = writable(kind, manager.subresource)
    entries = _read(live)
    last = entries.get(manager.key)
    applied = _keep(fieldset.fields_of(schema, _without_managed_fields(config)), allowed)
    before = _without_managed_fields(live)
    # A namespace that was applied with nothing but its name has only what the server filled in, which is nobody's.
    if not entries and "uid" in live["metadata"] and kind.plural != "namespaces":
        first = Manager(name=_BEFORE, operation="Update", api_version=kind.api_version)
        held = _keep(fieldset.fields_of(schema, before), writable(kind, ""))
        entries[first.key] = _Owned(manager=first, fields=held, at=now)
    merged = fieldset.merge(schema, before, _without_managed_fields(config))
    entries[manager.key] = _Owned(manager=manager, fields=applied, at=now)
    if last is not None and last.fields:
        merged = _prune(kind, merged, last.fields, _UNOWNED.union(*(entry.fields for entry in entries.values())))
    difference = fieldset.compare(schema, before, merged)
    changed = _keep(difference.added | difference.modified, allowed)
    conflicts = [
        (str(entry.manager), path)
        for key, entry in sorted(entries.items())
        if key != manager.key
        for path in sorted(entry.fields & changed)
    ]
    if conflicts and not force:
        allowed_conflicts = _last_applied(kind, before) if manager.name == KUBECTL else frozenset()
        if left := [(name, fieldset.show(path)) for name, path in conflicts if path not in allowed_conflicts]:
            raise apply_conflict(left)
    entries = _take(entries, manager.key, changed | difference.removed)
    if last is not None and last.fields == applied and not changed and not difference.removed:
        entries[manager.key] = replace(entries[manager.key], at=last.at)
    return _write({**merged, "metadata": dict(merged["metadata"])}, entries)


def _last_applied(kind: Kind, live: Obj) -> Paths:
    """What kubectl itself applied from the client's side and nobody has changed since: its server-side apply may take that over."""
    text = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    try:
        last = json.loads(text or "")
    except ValueError:
        return frozenset()
    difference = fieldset.compare(kind.schema, live, last)
    return fieldset.fields_of(kind.schema, last) - difference.modified - difference.added


def _prune(kind: Kind, merged: Any, last: Paths, owned: Paths) -> Any:
    """Take out what this manager applied last and nobody owns now."""
    schema = kind.schema

    def every(value: Any) -> Paths:
        return fieldset.with_parents(schema, fieldset.fields_of(schema, value))

    last_named = fieldset.with_parents(schema, last)
    everything = every(merged)
    pruned = fieldset.remove(schema, merged, last_named)
    # Back in: what any manager owns, then what this manager never had.
    pruned = fieldset.remove(schema, merged, everything - (every(pruned) | fieldset.with_parents(schema, owned)))
    return fieldset.remove(schema, merged, (everything - every(pruned)) & last_named)
