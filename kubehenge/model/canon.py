"""
The canonical form of bodies: how they are written, hashed, projected and compared (MODEL 3 to 5, 7).

A body is plain JSON: dicts with text keys, lists, text, numbers, booleans, None. A list whose elements are all dicts with
a `name` is a map by that name: its order means nothing. Every other list is ordered, and compared as a whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""Plain JSON as Python's json module makes it."""

Body: TypeAlias = Mapping[str, Any]
"""The body of a resource."""

CANON = 1
"""Version of the canonical form; it goes into every hash, and stands beside every stored body (MODEL 7)."""

REF = "$ref"


class _Missing:
    """The one value of MISSING; a copy is the same one."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False

    def __copy__(self) -> _Missing:
        return self

    def __deepcopy__(self, _memo: object) -> _Missing:
        return self

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
"""Stands for a field that is not there, which differs from one that is null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field that differs: its path as people write it, and both values (MISSING where there is none)."""

    path: str
    before: Json
    after: Json


_CONTAINERS = (dict, list, tuple)
_name_of = itemgetter("name")
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical(body: Json) -> str:
    """Return the one text that stands for a body: keys sorted, named lists in the order of their names, no white space."""
    text = _encode(body)
    return _encode(_ordered(body)) if "[{" in text else text  # most bodies hold no list of dicts, so none to put in order


def body_hash(body: Json) -> str:
    """Return the SHA-256 of a body's canonical form, in hex."""
    return hashlib.sha256(f"{CANON}\n{canonical(body)}".encode()).hexdigest()


def digest(value: Json) -> str:
    """Return the SHA-256 of any canonical value that is no resource's body, such as the inputs of an expansion."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def is_named(items: Sequence[Json]) -> bool:
    """Tell whether a list is a map by name: not empty, and every element a dict with a text `name`."""
    for item in items:  # a loop: this is asked of every list that is hashed, and a generator costs three times as much
        if not (isinstance(item, dict) and isinstance(item.get("name"), str)):
            return False
    return bool(items)


def _ordered(value: Json) -> Json:
    """Put named lists in order."""
    if isinstance(value, dict):
        return {key: _ordered(item) if isinstance(item, _CONTAINERS) else item for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_ordered(item) if isinstance(item, _CONTAINERS) else item for item in value]
        return sorted(items, key=_name_of) if is_named(items) else items
    return value


def is_ref(value: Json) -> bool:
    """Tell whether a value is a reference, `{"$ref": "<kind>/<name>#<field>"}` (MODEL 5)."""
    return isinstance(value, dict) and len(value) == 1 and REF in value


def ref(target: str, field: str) -> dict[str, str]:
    """Make a reference to a field of another resource, written as `<kind>/<name>`."""
    return {REF: f"{target}#{field}"}


def refs_of(value: Json) -> Iterator[str]:
    """Yield the text of each reference in a body, in no particular order."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if REF in item and is_ref(item):
                yield item[REF]
            else:
                waiting += [one for one in item.values() if isinstance(one, _CONTAINERS)]
        elif isinstance(item, list | tuple):
            waiting += [one for one in item if isinstance(one, _CONTAINERS)]


def resolve(value: Json, lookup: Callable[[str], Json]) -> Json:
    """Replace each reference by what `lookup` answers for its text; what `lookup` raises passes through."""
    match value:
        case dict() if is_ref(value):
            return lookup(value[REF])
        case dict():
            return {key: resolve(item, lookup) for key, item in value.items()}
        case list() | tuple():
            return [resolve(item, lookup) for item in value]
        case _:
            return value


def project(observed: Json, desired: Json, applied: Json, lookup: Callable[[str], Json] | None = None) -> Json:
    """
    Reduce what was observed to the paths of the desired and the applied body (MODEL 4).

    A value that equals what a reference resolves to becomes that reference again (MODEL 5); `lookup` answers MISSING for
    what is not known yet. Without a desired and an applied body nothing is ours, and the observed one is kept whole.
    """
    if desired is MISSING and applied is MISSING:
        return observed
    for shape in (desired, applied):
        if is_ref(shape):
            known = lookup(shape[REF]) if lookup else MISSING
            return shape if known is not MISSING and known == observed else observed
    if isinstance(observed, dict) and (isinstance(desired, dict) or isinstance(applied, dict)):
        wanted = desired if isinstance(desired, dict) else {}
        left = applied if isinstance(applied, dict) else {}
        return {
            key: project(item, wanted.get(key, MISSING), left.get(key, MISSING), lookup)
            for key, item in observed.items()
            if key in wanted or key in left
        }
    if isinstance(observed, list) and (isinstance(desired, list) or isinstance(applied, list)):
        return _project_list(observed, desired, applied, lookup)
    return observed


def _project_list(observed: list[Json], desired: Json, applied: Json, lookup: Callable[[str], Json] | None) -> list[Json]:
    wanted = desired if isinstance(desired, list) else []
    left = applied if isinstance(applied, list) else []
    if is_named(observed) and (is_named(wanted) or is_named(left)):
        by_name = {item["name"]: item for item in wanted} if is_named(wanted) else {}
        left_by_name = {item["name"]: item for item in left} if is_named(left) else {}
        return [
            project(item, by_name.get(item["name"], MISSING), left_by_name.get(item["name"], MISSING), lookup)
            for item in observed
            if item["name"] in by_name or item["name"] in left_by_name
        ]
    for shape in (wanted, left):
        if len(shape) == len(observed) and any(isinstance(item, dict) for item in shape):
            return [project(item, like, MISSING, lookup) for item, like in zip(observed, shape, strict=True)]
    return observed


def changes(before: Json, after: Json, path: str = "") -> Iterator[FieldChange]:
    """Yield the fields that differ between two bodies, in the order of their paths; named lists are compared by name."""
    if before is MISSING and isinstance(after, dict) and after and not is_ref(after):
        before = {}
    if after is MISSING and isinstance(before, dict) and before and not is_ref(before):
        after = {}
    if isinstance(before, dict) and isinstance(after, dict) and not (is_ref(before) or is_ref(after)):
        for key in sorted(before.keys() | after.keys()):
            step = key if key.replace("_", "").replace("-", "").isalnum() else f'["{key}"]'
            joined = step if not path else f"{path}{step}" if step.startswith("[") else f"{path}.{step}"
            yield from changes(before.get(key, MISSING), after.get(key, MISSING), joined)
        return
    if _both_by_name(before, after):
        old, new = {item["name"]: item for item in before}, {item["name"]: item for item in after}
        for name in sorted(old.keys() | new.keys()):
            yield from changes(old.get(name, MISSING), new.get(name, MISSING), f"{path}[{name}]")
        return
    if before is MISSING or after is MISSING or canonical(before) != canonical(after):
        yield FieldChange(path=path, before=before, after=after)


def _both_by_name(before: Json, after: Json) -> bool:
    if not (isinstance(before, list) and isinstance(after, list)):
        return False
    return (is_named(before) or is_named(after)) and all(not items or is_named(items) for items in (before, after))


Path: TypeAlias = tuple[str, ...]
"""Keys from the root of a body; dicts only, since field groups never lie inside lists."""


def get_path(body: Json, path: Path) -> Json:
    """Return the value at a path, or MISSING."""
    for key in path:
        if not isinstance(body, Mapping) or key not in body:
            return MISSING
        body = body[key]
    return body


def with_path(body: Body, path: Path, value: Json) -> dict[str, Any]:
    """Return a copy of a body in which the path holds the value, or holds nothing when the value is MISSING."""
    copy = dict(body)
    key, rest = path[0], path[1:]
    if rest:
        inner = copy.get(key)
        if value is MISSING and not isinstance(inner, Mapping):
            return copy
        copy[key] = with_path(inner if isinstance(inner, Mapping) else {}, rest, value)
        if value is MISSING and not copy[key]:
            del copy[key]
    elif value is MISSING:
        copy.pop(key, None)
    else:
        copy[key] = value
    return copy
