"""
Sets of field paths, as `managedFields` hold them, and what server-side apply does with typed values by them.

A path is a tuple of elements in the notation of FieldsV1: `f:name`, `k:{"name":"x"}` (an item of a list map), `v:"x"` (of a set).
Source: the structured merge rules of Kubernetes 1.36 as its API server shows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubehenge.lab.kube.schema import ANY, Form, Schema

Path = tuple[str, ...]
Paths = frozenset[Path]
_MISSING = object()
_EXPECTED: dict[Form, tuple[str, type]] = {
    Form.OBJECT: ("map", dict),
    Form.LIST: ("list", list),
    Form.STRING: ("string", str),
    Form.INTEGER: ("numeric (int or float)", int),
    Form.BOOLEAN: ("boolean", bool),
}


def to_fields_v1(paths: Iterable[Path]) -> dict[str, Any]:
    """The set as a FieldsV1 tree; `.` marks a member that has children."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return _fold(tree)


def _fold(node: dict[str, Any]) -> dict[str, Any]:
    if node.keys() == {"."}:
        return {}
    return {element: _fold(below) if below else {} for element, below in node.items()}


def from_fields_v1(tree: Mapping[str, Any], prefix: Path = ()) -> Iterator[Path]:
    """The members of a FieldsV1 tree."""
    for element, below in tree.items():
        if element == ".":
            yield prefix
        elif below:
            yield from from_fields_v1(below, (*prefix, element))
        else:
            yield (*prefix, element)


def show(path: Path) -> str:
    """A path as messages have it: `.spec.list[name="x"].value`."""
    parts = []
    for element in path:
        tag, _, rest = element.partition(":")
        match tag:
            case "f":
                parts.append(f".{rest}")
            case "k":
                keys = json.loads(rest)
                parts.append("[" + ",".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()) + "]")
            case _:
                parts.append(f"[={rest}]")
    return "".join(parts)


def _item_element(schema: Schema, item: Any) -> str:
    if schema.keys:
        keys = {key: item.get(key) if isinstance(item, Mapping) else None for key in sorted(schema.keys)}
        return "k:" + json.dumps(keys, separators=(",", ":"), ensure_ascii=False)
    return "v:" + json.dumps(item, separators=(",", ":"), ensure_ascii=False)


def _below(schema: Schema, element: str) -> Schema:
    if element.startswith("f:") and schema.form is Form.OBJECT:
        return schema.fields.get(element[2:]) or schema.items or ANY
    return schema.items or ANY


def _declared(schema: Schema, element: str) -> bool:
    return element.startswith("f:") and element[2:] in schema.fields


def _children(schema: Schema, value: Any) -> dict[str, Any] | None:
    """The elements below a value that can be owned one by one; None for a leaf (scalar, atomic, null)."""
    if schema.atomic:
        return None
    if isinstance(value, dict) and schema.form in {Form.OBJECT, Form.ANY}:
        return {f"f:{name}": item for name, item in value.items()}
    if isinstance(value, list) and schema.form is Form.LIST:
        return {_item_element(schema, item): item for item in value}
    return None


def fields_of(schema: Schema, value: Any) -> Paths:
    """The fields that applying this value would own."""
    found: set[Path] = set()
    _collect(schema, value, (), found)
    return frozenset(found)


def _collect(schema: Schema, value: Any, path: Path, found: set[Path]) -> None:
    children = _children(schema, value)
    if children is None:
        if path:
            found.add(path)
        return
    for element, item in children.items():
        below = (*path, element)
        _collect(_below(schema, element), item, below, found)
        if item in (None, {}) or not _declared(schema, element):
            found.add(below)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Paths by what happened to them between two values."""

    added: Paths
    modified: Paths
    removed: Paths


def compare(schema: Schema, old: Any, new: Any) -> Difference:
    """What an update changed, down to the fields that can be owned."""
    added: set[Path] = set()
    modified: set[Path] = set()
    removed: set[Path] = set()

    def walk(node: Schema, left: Any, right: Any, path: Path) -> None:
        mine = None if left is _MISSING else _children(node, left)
        theirs = None if right is _MISSING else _children(node, right)
        if path:
            if left is _MISSING:
                added.add(path)
            elif right is _MISSING:
                removed.add(path)
            elif (mine is None or theirs is None or not (mine or theirs)) and left != right:
                modified.add(path)
        for element in {**(mine or {}), **(theirs or {})}:
            walk(_below(node, element), (mine or {}).get(element, _MISSING), (theirs or {}).get(element, _MISSING), (*path, element))

    walk(schema, old, new, ())
    return Difference(added=frozenset(added), modified=frozenset(modified), removed=frozenset(removed))


def merge(schema: Schema, live: Any, config: Any) -> Any:
    """The live value with an applied one laid over it; lists by their keys, in the live order."""
    mine, theirs = _children(schema, live), _children(schema, config)
    if mine is None or theirs is None:
        return config
    merged = {element: merge(_below(schema, element), mine[element], item) if element in mine else item for element, item in theirs.items()}
    if isinstance(config, dict):
        return {element[2:]: item for element, item in {**mine, **merged}.items()}
    return [*_in_order(list(mine), merged, mine)]


def _in_order(live: list[str], merged: Mapping[str, Any], mine: Mapping[str, Any]) -> Iterator[Any]:
    """Items only in the live list keep their place; the applied ones keep the order in which they were applied."""
    applied = list(merged)
    at = 0
    for element in live:
        if element not in merged:
            yield mine[element]
        elif at < len(applied) and element in applied[at:]:
            stop = applied.index(element) + 1
            yield from (merged[name] for name in applied[at:stop])
            at = stop
    yield from (merged[name] for name in applied[at:])


def with_parents(schema: Schema, paths: Paths) -> Paths:
    """The set with those declared fields that have members below them."""
    found = set(paths)
    for path in paths:
        node = schema
        for depth, element in enumerate(path):
            if _declared(node, element):
                found.add(path[: depth + 1])
            node = _below(node, element)
    return frozenset(found)


def remove(schema: Schema, value: Any, paths: Paths) -> Any:
    """The value without the fields of the set, and without what lies below them."""
    return _remove(schema, value, (), paths) if paths else value


def _remove(schema: Schema, value: Any, path: Path, paths: Paths) -> Any:
    children = _children(schema, value)
    if children is None:
        return value
    kept = {
        element: _remove(_below(schema, element), item, (*path, element), paths)
        for element, item in children.items()
        if (*path, element) not in paths
    }
    if isinstance(value, dict):
        return {element[2:]: item for element, item in kept.items()}
    return list(kept.values())


def mistakes(schema: Schema, value: Any, path: Path = ()) -> Iterator[str]:
    """What keeps a value from being applied: undeclared fields, wrong types, list items with the same key."""
    here = show(path)
    expected = _EXPECTED.get(schema.form)
    if expected is not None and not isinstance(value, expected[1]):
        yield f"{here}: expected {expected[0]}, got &value.valueUnstructured{{Value:{json.dumps(value, ensure_ascii=False)}}}"
        return
    if schema.form is Form.OBJECT and isinstance(value, dict):
        for name, item in value.items():
            below = schema.fields.get(name) or schema.items
            if below is None:
                yield f"{here}.{name}: field not declared in schema"
            elif item is not None:
                yield from mistakes(below, item, (*path, f"f:{name}"))
    elif schema.form is Form.LIST and schema.items is not None and isinstance(value, list):
        seen: set[str] = set()
        for item in value:
            element = _item_element(schema, item)
            if element in seen and not schema.atomic:
                yield f"{here}: duplicate entries for key {show((element,))}"
            seen.add(element)
            yield from mistakes(schema.items, item, (*path, element))
