"""A small validator for the parts of JSON Schema (2020-12) that our schemas use; an unknown keyword is an error."""

from __future__ import annotations

import re
from typing import Any

ANNOTATIONS = {"$schema", "$defs", "title", "description", "default", "examples"}
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def errors(schema: dict[str, Any], value: Any, *, root: dict[str, Any] | None = None, path: str = "") -> list[str]:
    """Return where and by which keyword a value breaks a schema."""
    root = root or schema
    if "$ref" in schema:
        target = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        rest = {key: item for key, item in schema.items() if key != "$ref"}
        return errors(target, value, root=root, path=path) + errors(rest, value, root=root, path=path)
    found: list[str] = []
    for keyword, rule in schema.items():
        if keyword not in ANNOTATIONS and keyword not in {"then", "else"}:
            found += _check(keyword, rule, schema, value, root, path)
    return found


def _fits(schema: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    return not errors(schema, value, root=root)


def _check(keyword: str, rule: Any, schema: dict[str, Any], value: Any, root: dict[str, Any], path: str) -> list[str]:
    wrong = [f"{path or '$'}: {keyword}"]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match keyword:
        case "type":
            fits = isinstance(value, TYPES[rule]) and (rule == "boolean" or not isinstance(value, bool))
            return [] if fits else wrong
        case "const":
            return [] if value == rule and type(value) is type(rule) else wrong
        case "enum":
            return [] if any(value == item and type(value) is type(item) for item in rule) else wrong
        case "pattern":
            return [] if not isinstance(value, str) or re.search(rule.replace("$", r"\Z"), value, re.ASCII) else wrong
        case "maxLength":
            return [] if not isinstance(value, str) or len(value) <= rule else wrong
        case "minimum":
            return [] if not number or value >= rule else wrong
        case "maximum":
            return [] if not number or value <= rule else wrong
        case "multipleOf":
            return [] if not number or value % rule == 0 else wrong
        case "minItems":
            return [] if not isinstance(value, list) or len(value) >= rule else wrong
        case "maxItems":
            return [] if not isinstance(value, list) or len(value) <= rule else wrong
        case "items":
            items = value if isinstance(value, list) else []
            return [error for index, item in enumerate(items) for error in errors(rule, item, root=root, path=f"{path}[{index}]")]
        case "contains":
            return [] if not isinstance(value, list) or any(_fits(rule, item, root) for item in value) else wrong
        case "required":
            return [f"{path}.{name}: required" for name in rule if isinstance(value, dict) and name not in value]
        case "properties":
            fields = value if isinstance(value, dict) else {}
            return [
                e for name, inner in rule.items() if name in fields for e in errors(inner, fields[name], root=root, path=f"{path}.{name}")
            ]
        case "additionalProperties":
            others = [name for name in value if name not in schema.get("properties", {})] if isinstance(value, dict) else []
            if rule is True or rule is False:
                return [] if rule else [f"{path}.{name}: unknown" for name in others]
            return [error for name in others for error in errors(rule, value[name], root=root, path=f"{path}.{name}")]
        case "allOf":
            return [error for inner in rule for error in errors(inner, value, root=root, path=path)]
        case "oneOf":
            return [] if sum(_fits(inner, value, root) for inner in rule) == 1 else wrong
        case "if":
            branch = schema.get("then" if _fits(rule, value, root) else "else", {})
            return errors(branch, value, root=root, path=path)
        case _:
            raise AssertionError(f"{keyword} is not known here")
