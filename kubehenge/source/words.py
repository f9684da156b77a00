"""Turns what pydantic found into findings in our own words: what was read, and how to write it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from pydantic import ValidationError

from kubehenge.model.document import ProblemKind
from kubehenge.source.findings import Finding, find_mark
from kubehenge.source.shape import Shape, json_schema, quoted
from kubehenge.source.yaml_values import FAULT_LIMIT, Marks, Path

_KINDS = {kind.value: kind for kind in ProblemKind}
_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


_Model = TypeVar("_Model", bound=Shape)


def validate(
    shape: type[_Model],
    value: Any,
    *,
    at: Path,
    document: Any,
    find_marks: Callable[[], Marks],
    examples: Mapping[Path, str] | None = None,
) -> tuple[_Model | None, list[Finding]]:
    """
    Hold a value against a shape: the model, or None and what is wrong with it.

    `at` is the value's path in the document, whose marks are looked up only when something is wrong. `examples` go before those of the
    shape in messages about single fields, by their path in the value.
    """
    try:
        return shape.model_validate(value), []
    except ValidationError as error:
        return None, list(_findings_of(error, shape, at, document, find_marks(), examples or {}))


def _findings_of(
    error: ValidationError, shape: type[Shape], at: Path, document: Any, marks: Marks, examples: Mapping[Path, str]
) -> Iterator[Finding]:
    for item in islice(error.errors(include_url=False, include_context=True), FAULT_LIMIT):
        inner: Path = item["loc"]
        path = (*at, *inner)
        schema = _schema_at(shape, inner)
        if inner in examples:
            schema = {**schema, "examples": [examples[inner]]}
        match item["type"]:
            case "extra_forbidden":
                yield Finding(path=path, kind=ProblemKind.UNKNOWN, message=_unknown(shape, inner), on_key=True)
            case "missing":
                yield Finding(path=path, kind=ProblemKind.REQUIRED, message=_missing(inner, schema), on_key=True)
            case "enum" | "literal_error":
                yield _not_one_of(path, schema, item["input"], _written(path, document, marks))
            case "too_short":
                yield Finding(path=path, kind=ProblemKind.LENGTH, message="The list is empty. Write at least one, or take the line out.")
            case "too_long":
                most, there_are = item["ctx"]["max_length"], item["ctx"]["actual_length"]
                yield Finding(path=path, kind=ProblemKind.LENGTH, message=f"The list holds {there_are}. Write at most {most}.")
            case kind if kind in _KINDS:
                yield Finding(path=path, kind=_KINDS[kind], message=item["msg"])
            case kind:
                wanted = _WANTED.get(kind, "something else")
                message = describe_type(wanted, schema, item["input"], _written(path, document, marks))
                yield Finding(path=path, kind=ProblemKind.TYPE, message=message)


def describe_type(wanted: str, schema: dict[str, Any], value: Any, written: str) -> str:
    """Say what was read instead of what is wanted, and how to write it: '`off` is a boolean in YAML. Write `"off"`.'"""
    match value:
        case bool() | int() | float() if wanted == "text":
            word = "a boolean" if isinstance(value, bool) else "a number"
            shown = written or _as_written(value)
            return f"`{shown}` is {word} in YAML. Write {_text_instead(shown, schema)}."
        case float():
            return f"{quoted(written or value)} is no whole number. Write one without a point."
        case str() if wanted in {"a whole number", "true or false"} and value in {"true", "false"} | {value if value.isdecimal() else ""}:
            return f'"{value}" is text. Write {value} without quotes.'
        case str():
            return f"{quoted(value)} is text. Write {wanted}."
        case None:
            return f"Nothing is written here. Write {wanted}, or take the line out."
        case list():
            return f"This is a list. Write {wanted}."
        case dict():
            return f"This is a mapping. Write {wanted}."
        case _:
            word = "a boolean" if isinstance(value, bool) else "a number"
            return f"`{written or _as_written(value)}` is {word} in YAML. Write {wanted}."


def _as_written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text_instead(shown: str, schema: dict[str, Any]) -> str:
    """Return what to write for a number or boolean where text belongs: the same in quotes, if that would do."""
    options = schema.get("enum")
    if options and shown not in options:
        return _listed(options)
    examples = schema.get("examples")
    return f'text, such as `"{examples[0]}"`' if examples and not options else f'`"{shown}"`'


def _not_one_of(path: Path, schema: dict[str, Any], value: Any, written: str) -> Finding:
    options = schema.get("enum") or [schema.get("const")]
    if isinstance(value, str):
        near = difflib.get_close_matches(value, options, n=1)
        hint = f"Did you mean {near[0]}?" if near and len(options) > 3 else f"Write {_listed(options)}."
        return Finding(path=path, kind=ProblemKind.NOT_ALLOWED, message=f"{quoted(value)} is not allowed here. {hint}")
    return Finding(path=path, kind=ProblemKind.TYPE, message=describe_type("text", {**schema, "enum": options}, value, written))


def _listed(options: list[Any]) -> str:
    *first, last = (f'`"{option}"`' if option in {"off", "on"} else str(option) for option in options)
    return f"{', '.join(first)} or {last}" if first else last


def _missing(inner: Path, schema: dict[str, Any]) -> str:
    description = schema.get("description", "").rstrip(".")
    explained = f" It is {description[0].lower()}{description[1:]}." if description else ""
    return f"`{inner[-1]}` is missing.{explained}"


def _unknown(shape: type[Shape], inner: Path) -> str:
    known = list(_schema_at(shape, inner[:-1]).get("properties", {}))
    name = str(inner[-1])
    by_lower = {field.lower(): field for field in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    hint = f"Did you mean `{by_lower[near[0]]}`?" if near else f"Known here: {', '.join(known)}."
    return f"{quoted(name)} is not known here. {hint}"


def _written(path: Path, document: Any, marks: Marks) -> str:
    mark, there = find_mark(path, document, marks)
    return mark.written if there else ""


def _schema_at(shape: type[Shape], inner: Path) -> dict[str, Any]:
    """Return the JSON Schema of a field of a shape, {} where there is none."""
    root = json_schema(shape)
    found: dict[str, Any] = root
    for step in inner:
        found = _resolved(root, found)
        if isinstance(step, int):
            found = found.get("items", {})
        else:
            others = found.get("additionalProperties")
            found = found.get("properties", {}).get(step) or (others if isinstance(others, dict) else {})
    return _resolved(root, found)


def _resolved(root: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference; what stands beside it, such as a description, goes before what it names."""
    if "$ref" not in schema:
        return schema
    return {**root["$defs"][schema["$ref"].removeprefix("#/$defs/")], **schema}
