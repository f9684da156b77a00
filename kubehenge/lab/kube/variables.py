"""Variables of a ClusterClass: their schema (a subset of OpenAPI 3), defaults, and the webhook's verdict on a Cluster's values."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kubehenge.lab.kube.errors import Cause, FieldError
from kubehenge.lab.kube.schema import type_name

Definition = Mapping[str, Any]  # one entry of ClusterClass.spec.variables
IMMUTABLE_RULE = "self == oldSelf"  # the one rule of x-kubernetes-validations that is understood here


def default_values(definitions: Iterable[Definition], values: list[dict[str, Any]], *, add: bool = True) -> list[dict[str, Any]]:
    """The values with the defaults of their schemas, inside objects too; variables that only have a default are added, and come last."""
    by_name = {definition["name"]: definition["schema"]["openAPIV3Schema"] for definition in definitions}
    filled = [
        {**entry, "value": _fill(by_name[entry["name"]], entry.get("value"))} if entry.get("name") in by_name else entry for entry in values
    ]
    given = {entry.get("name") for entry in values}
    missing = [
        {"name": name, "value": _fill(schema, schema["default"])}
        for name, schema in by_name.items()
        if add and name not in given and "default" in schema
    ]
    return filled + missing


def _fill(schema: Mapping[str, Any], value: Any) -> Any:
    if isinstance(value, dict):
        filled = dict(value)
        for name, below in (schema.get("properties") or {}).items():
            if name in filled:
                filled[name] = _fill(below, filled[name])
            elif "default" in below:
                filled[name] = _fill(below, below["default"])
        return filled
    if isinstance(value, list):
        return [_fill(schema.get("items") or {}, item) for item in value]
    return value


def check_values(
    definitions: Iterable[Definition],
    values: Iterable[Mapping[str, Any]],
    old: Iterable[Mapping[str, Any]],
    path: str,
    *,
    needed: bool = True,
) -> Iterator[FieldError]:
    """What the class's schemas refuse in a Cluster's variables; `old` are the values before, for rules that compare; overrides are not `needed`."""
    by_name = {definition["name"]: definition for definition in definitions}
    given = [entry["name"] for entry in values]
    before = {entry["name"]: entry.get("value") for entry in old}
    for name, definition in by_name.items():
        if needed and definition.get("required") and name not in given:
            yield FieldError(field=path, cause=Cause.REQUIRED, detail=f'required variable "{name}" must be set')
    for entry in values:
        name, value = entry["name"], entry.get("value")
        raw = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        here = f"{path}[{name}]"
        if name not in by_name:
            yield FieldError(field=here, cause=Cause.INVALID, value=raw, detail="variable is not defined")
            continue
        schema = by_name[name]["schema"]["openAPIV3Schema"]
        wrong = [*check(schema, value, f"{here}.value"), *_rules(schema, value, before.get(name), f"{here}.value")]
        unknown = list(_unknown(schema, value, ""))
        if not wrong and unknown:
            fields = ",".join(unknown)
            detail = f'failed validation: "{fields}" field(s) are not specified in the variable schema of variable "{name}"'
            wrong = [FieldError(field=here, cause=Cause.INVALID, value=raw, detail=detail)]
        yield from (replace(error, value=raw) for error in wrong)


def check(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[FieldError]:
    """What a schema refuses in a value, unknown fields aside."""
    wanted, actual = schema.get("type", ""), type_name(value)
    if wanted and actual != wanted and not (wanted == "number" and actual == "integer"):
        yield FieldError(field=path, cause=Cause.TYPE, value=actual, detail=f'must be of type {wanted}: "{actual}"')
        return
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(json.dumps(item) for item in schema["enum"])
        yield FieldError(field=path, cause=Cause.NOT_SUPPORTED, value=value, detail=f"supported values: {supported}")
    for detail in _bounds(schema, value):
        yield FieldError(field=path, cause=Cause.INVALID, value=value, detail=detail)
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name in schema.get("required") or ():
            if name not in value:
                yield FieldError(field=f"{path}.{name}", cause=Cause.REQUIRED)
        for name, item in value.items():
            if name in properties:
                yield from check(properties[name], item, f"{path}.{name}")
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from check(schema["items"], item, f"{path}[{index}]")


def _bounds(schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _text_bounds(schema, value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield f"should be greater than or equal to {schema['minimum']}"
        if value > schema.get("maximum", value):
            yield f"should be less than or equal to {schema['maximum']}"
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"should have at least {schema['minItems']} items"
        if len(value) > schema.get("maxItems", len(value)):
            yield f"should have at most {schema['maxItems']} items"
        if schema.get("uniqueItems") and len({repr(item) for item in value}) < len(value):
            yield "shouldn't contain duplicates"


def _text_bounds(schema: Mapping[str, Any], value: str) -> Iterator[str]:
    if len(value) < schema.get("minLength", 0):
        yield f"should be at least {schema['minLength']} chars long"
    if len(value) > schema.get("maxLength", len(value)):
        yield f"should be at most {schema['maxLength']} chars long"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"should match '{schema['pattern']}'"
    if schema.get("format") == "ipv4":
        try:
            ipaddress.IPv4Address(value)
        except ValueError:
            yield f'must be of type ipv4: "{value}"'


def _rules(schema: Mapping[str, Any], value: Any, old: Any, path: str) -> Iterator[FieldError]:
    for rule in schema.get("x-kubernetes-validations") or ():
        if rule.get("rule") == IMMUTABLE_RULE and old is not None and value != old:
            yield FieldError(field=path, cause=Cause.INVALID, value=value, detail=rule.get("message") or f"failed rule: {IMMUTABLE_RULE}")


def _unknown(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, dict) and not isinstance(schema.get("additionalProperties"), dict):
        properties = schema.get("properties") or {}
        for name, item in value.items():
            here = f"{path}.{name}" if path else name
            if name not in properties:
                yield here
            else:
                yield from _unknown(properties[name], item, here)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _unknown(schema["items"], item, f"{path}[{index}]")
