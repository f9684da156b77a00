"""Field schemas: which fields a kind has, what they may hold, and how lists merge; checks, unknown fields, pruning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from kubehenge.lab.kube.errors import Cause, FieldError


class Form(StrEnum):
    """The JSON type of a field; the value is its name in the real server's messages."""

    OBJECT = "object"
    LIST = "array"
    STRING = "string"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    INT_OR_STRING = "int-or-string"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """
    One field's schema.

    Shape: an object has either `fields` or, as a map, `items` for its values. A list is atomic unless it has `keys` (a list map) or
    is a `unique` set. An atomic value belongs to one field manager as a whole. ANY takes everything, maps in it merge by key.
    """

    form: Form
    fields: Mapping[str, Schema] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    items: Schema | None = None
    keys: tuple[str, ...] = ()
    unique: bool = False
    atomic: bool = False
    enum: tuple[str, ...] = ()
    pattern: str = ""
    minimum: int | None = None
    maximum: int | None = None
    min_size: int = 0
    max_size: int | None = None


STRING = Schema(form=Form.STRING)
INTEGER = Schema(form=Form.INTEGER)
BOOLEAN = Schema(form=Form.BOOLEAN)
INT_OR_STRING = Schema(form=Form.INT_OR_STRING)
ANY = Schema(form=Form.ANY)


def text(*, least: int = 0, most: int | None = None, pattern: str = "", enum: tuple[str, ...] = ()) -> Schema:
    """A string with bounds."""
    return Schema(form=Form.STRING, min_size=least, max_size=most, pattern=pattern, enum=enum)


def number(least: int | None = None, most: int | None = None) -> Schema:
    """An integer with bounds."""
    return Schema(form=Form.INTEGER, minimum=least, maximum=most)


def obj(fields: Mapping[str, Schema], *, least: int = 0, atomic: bool = False) -> Schema:
    """An object; a `!` behind a field's name makes it required."""
    return Schema(
        form=Form.OBJECT,
        fields={name.rstrip("!"): schema for name, schema in fields.items()},
        required=frozenset(name[:-1] for name in fields if name.endswith("!")),
        min_size=least,
        atomic=atomic,
    )


def map_of(items: Schema) -> Schema:
    """An object with free keys."""
    return Schema(form=Form.OBJECT, items=items)


def list_of(items: Schema, *, keys: tuple[str, ...] = (), unique: bool = False, least: int = 0) -> Schema:
    """A list: atomic, a map by `keys`, or a set."""
    return Schema(form=Form.LIST, items=items, keys=keys, unique=unique, atomic=not keys and not unique, min_size=least)


def optional(schema: Schema) -> Schema:
    """The same object with nothing required, as a template or partial form needs it."""
    return replace(schema, required=frozenset())


def type_name(value: Any) -> str:
    """The JSON type of a value, as messages name it."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _is_of(form: Form, value: Any) -> bool:
    actual = type_name(value)
    if form is Form.INT_OR_STRING:
        return actual in {"integer", "string"}
    return actual == form.value


def check(schema: Schema, value: Any, path: str = "") -> Iterator[FieldError]:
    """Every field of a value that its schema refuses, unknown fields aside."""
    if schema.form is Form.ANY:
        return
    if not _is_of(schema.form, value):
        actual = type_name(value)
        detail = f'{path} in body must be of type {schema.form.value}: "{actual}"'
        yield FieldError(field=path, cause=Cause.TYPE, value=actual, detail=detail)
        return
    yield from _check_bounds(schema, value, path)
    if schema.form is Form.OBJECT:
        yield from _check_object(schema, value, path)
    elif schema.form is Form.LIST and schema.items is not None:
        yield from _check_list(schema, schema.items, value, path)


def _check_object(schema: Schema, value: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    prefix = f"{path}." if path else ""
    for name in sorted(schema.required - value.keys()):
        yield FieldError(field=prefix + name, cause=Cause.REQUIRED)
    for name, item in value.items():
        below = schema.fields.get(name) or schema.items
        if below is not None:
            yield from check(below, item, prefix + name)


def _check_list(schema: Schema, items: Schema, value: list[Any], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        here = f"{path}[{index}]"
        yield from check(items, item, here)
        if schema.keys and isinstance(item, dict):
            mark = repr([item.get(key) for key in schema.keys])
            shown: Any = {key: item[key] for key in schema.keys if key in item}
        elif schema.unique:
            mark, shown = repr(item), item
        else:
            continue
        if mark in seen:
            yield FieldError(field=here, cause=Cause.DUPLICATE, value=shown)
        seen.add(mark)


def _check_bounds(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    def wrong(detail: str) -> FieldError:
        return FieldError(field=path, cause=Cause.INVALID, value=value, detail=f"{path} in body {detail}")

    if schema.enum and value not in schema.enum:
        supported = ", ".join(f'"{item}"' for item in schema.enum)
        yield FieldError(field=path, cause=Cause.NOT_SUPPORTED, value=value, detail=f"supported values: {supported}")
    if schema.pattern and not re.search(schema.pattern, value):
        yield wrong(f"should match '{schema.pattern}'")
    if schema.minimum is not None and value < schema.minimum:
        yield wrong(f"should be greater than or equal to {schema.minimum}")
    if schema.maximum is not None and value > schema.maximum:
        yield wrong(f"should be less than or equal to {schema.maximum}")
    if schema.max_size is not None and len(value) > schema.max_size:
        yield FieldError(field=path, cause=Cause.TOO_LONG, detail=f"may not be more than {schema.max_size} bytes")
    if schema.min_size and len(value) < schema.min_size:
        match schema.form:
            case Form.LIST:
                yield wrong(f"should have at least {schema.min_size} items")
            case Form.OBJECT:
                yield wrong(f"should have at least {schema.min_size} properties")
            case _:
                yield wrong(f"should be at least {schema.min_size} chars long")


def unknown_fields(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """The paths of a value that its schema does not declare: `spec.topology.x`, `spec.list[0].y`."""
    if schema.form is Form.OBJECT and isinstance(value, dict):
        for name, item in value.items():
            below = schema.fields.get(name) or schema.items
            here = f"{path}.{name}" if path else name
            if below is None:
                yield here
            else:
                yield from unknown_fields(below, item, here)
    elif schema.form is Form.LIST and schema.items is not None and isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(schema.items, item, f"{path}[{index}]")


def prune(schema: Schema, value: Any) -> Any:
    """The value without the fields that its schema does not declare."""
    if schema.form is Form.OBJECT and isinstance(value, dict):
        kept = {}
        for name, item in value.items():
            below = schema.fields.get(name) or schema.items
            if below is not None:
                kept[name] = prune(below, item)
        return kept
    if schema.form is Form.LIST and schema.items is not None and isinstance(value, list):
        return [prune(schema.items, item) for item in value]
    return value
