"""Patches: JSON merge patch (RFC 7386), JSON patch (RFC 6902), and the strategic merge patch of the built-in kinds."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from kubehenge.lab.kube.errors import ApiError, bad_request
from kubehenge.lab.kube.schema import Form, Schema

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def merge_patch(value: Any, patch: Any) -> Any:
    """The value with a merge patch over it; null removes a field."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for name, item in patch.items():
        if item is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), item)
    return result


def strategic_patch(schema: Schema, value: Any, patch: Any) -> Any:
    """
    The value with a strategic merge patch over it: lists merge by their keys, `$patch` and its kin give orders.

    Errors: ApiError 400 for an order nobody knows.
    """
    if not isinstance(patch, dict):
        return patch
    match patch.get("$patch"):
        case None:
            pass
        case "replace":
            return {name: item for name, item in patch.items() if name != "$patch"}
        case "delete":
            return {}
        case other:
            raise bad_request(f"unknown patch type found: {other}")
    result = dict(value) if isinstance(value, dict) else {}
    for name, item in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            target = name.partition("/")[2]
            result[target] = [entry for entry in result.get(target) or [] if entry not in item]
        elif name.startswith("$"):
            continue  # $retainKeys and $setElementOrder order lists that have none here
        elif item is None:
            result.pop(name, None)
        else:
            below = schema.fields.get(name) or schema.items
            result[name] = _strategic_field(below, result.get(name), item)
    return result


def _strategic_field(schema: Schema | None, value: Any, item: Any) -> Any:
    if schema is None or schema.form is Form.ANY:
        return merge_patch(value, item)
    if isinstance(item, dict):
        return strategic_patch(schema, value, item)
    if isinstance(item, list) and schema.unique:
        return list(dict.fromkeys([*(value or []), *item]))
    if isinstance(item, list) and schema.keys:
        return _strategic_list(schema, value or [], item)
    return item


def _strategic_list(schema: Schema, value: Iterable[Any], items: Iterable[Any]) -> list[Any]:
    def key(entry: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(entry.get(name) for name in schema.keys)

    result = {key(entry): entry for entry in value}
    for entry in items:
        if entry.get("$patch") == "delete":
            result.pop(key(entry), None)
        else:
            result[key(entry)] = merge_patch(result.get(key(entry)), entry)
    return list(result.values())


def json_patch(value: Any, operations: Any) -> Any:
    """
    The value after a list of JSON patch operations.

    Errors: ApiError 400 for a patch that cannot be read, 422 for an operation that does not hold (a path that is not there, a failed test).
    """
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    document = copy.deepcopy(value)
    for operation in operations:
        name, path = operation.get("op"), operation.get("path")
        if not isinstance(path, str):
            raise bad_request(f"error decoding patch: operation {name!r} has no path")
        match name:
            case "add":
                document = _put(document, path, _value(operation), insert=True)
            case "replace":
                document = _put(document, path, _value(operation), insert=False)
            case "remove":
                document = _cut(document, path)
            case "move":
                moved = _get(document, _source(operation))
                document = _put(_cut(document, _source(operation)), path, moved, insert=True)
            case "copy":
                document = _put(document, path, copy.deepcopy(_get(document, _source(operation))), insert=True)
            case "test":
                if _get(document, path) != operation.get("value"):
                    raise _refused()
            case _:
                raise bad_request(f"Unexpected kind: {name}")
    return document


def _refused() -> ApiError:
    """422, and not a word about which operation did not hold."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def _value(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise bad_request(f"error decoding patch: operation {operation.get('op')!r} has no value")
    return operation["value"]


def _source(operation: Mapping[str, Any]) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise bad_request(f"error decoding patch: operation {operation.get('op')!r} has no from")
    return source


def _keys(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise bad_request(f"error decoding patch: {path!r} is no JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _index(holder: list[Any], key: str, *, end: bool) -> int:
    if key == "-" and end:
        return len(holder)
    if not key.isdigit() or int(key) > len(holder) - (0 if end else 1):
        raise _refused()
    return int(key)


def _holder(document: Any, path: str) -> tuple[Any, str]:
    *parents, last = _keys(path)
    node = document
    for key in parents:
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list):
            node = node[_index(node, key, end=False)]
        else:
            raise _refused()
    if not isinstance(node, dict | list):
        raise _refused()
    return node, last


def _get(document: Any, path: str) -> Any:
    if not path:
        return document
    holder, key = _holder(document, path)
    if isinstance(holder, list):
        return holder[_index(holder, key, end=False)]
    return holder.get(key)


def _put(document: Any, path: str, value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    holder, key = _holder(document, path)
    if isinstance(holder, list):
        at = _index(holder, key, end=insert)
        holder[at : at if insert else at + 1] = [value]
    else:
        holder[key] = value  # also where there was nothing to replace
    return document


def _cut(document: Any, path: str) -> Any:
    if not path:
        raise _refused()
    holder, key = _holder(document, path)
    if isinstance(holder, list):
        del holder[_index(holder, key, end=False)]
    elif key in holder:
        del holder[key]
    else:
        raise _refused()
    return document
