"""
Protobuf bodies of the built-in kinds, as far as kubectl sends them (`kubectl create secret`, `namespace`, `configmap`).

Source: the field numbers of Kubernetes' published messages, which never change.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubehenge.lab.kube.errors import bad_request, unsupported_media

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """Field number to (name, what it holds); `repeated` fields are lists, `maps` have string keys."""

    fields: Mapping[int, tuple[str, Any]]
    repeated: frozenset[str] = field(default_factory=frozenset)
    maps: frozenset[str] = field(default_factory=frozenset)


_TEXT, _BYTES, _NUMBER, _BOOL = "text", "bytes", "number", "bool"
_META = _Message(
    fields={
        1: ("name", _TEXT),
        2: ("generateName", _TEXT),
        3: ("namespace", _TEXT),
        5: ("uid", _TEXT),
        6: ("resourceVersion", _TEXT),
        11: ("labels", _TEXT),
        12: ("annotations", _TEXT),
        14: ("finalizers", _TEXT),
    },
    repeated=frozenset({"finalizers"}),
    maps=frozenset({"labels", "annotations"}),
)
_MESSAGES = {
    "Namespace": _Message(fields={1: ("metadata", _META)}),
    "ConfigMap": _Message(
        fields={1: ("metadata", _META), 2: ("data", _TEXT), 3: ("binaryData", _BYTES), 4: ("immutable", _BOOL)},
        maps=frozenset({"data", "binaryData"}),
    ),
    "Secret": _Message(
        fields={1: ("metadata", _META), 2: ("data", _BYTES), 3: ("type", _TEXT), 4: ("stringData", _TEXT), 5: ("immutable", _BOOL)},
        maps=frozenset({"data", "stringData"}),
    ),
}
_RESOURCE = _Message(
    fields=dict(enumerate((("namespace", _TEXT), ("verb", _TEXT), ("group", _TEXT), ("version", _TEXT), ("resource", _TEXT)), 1))
)
_REVIEW = _Message(fields={1: ("resourceAttributes", _RESOURCE)})
_MESSAGES["SelfSubjectAccessReview"] = _Message(fields={1: ("metadata", _META), 2: ("spec", _REVIEW)})
_TYPE_META = _Message(fields={1: ("apiVersion", _TEXT), 2: ("kind", _TEXT)})
_ENVELOPE = _Message(fields={1: ("typeMeta", _TYPE_META), 2: ("raw", _BYTES)})


def decode(content: bytes) -> dict[str, Any]:
    """
    The object in a protobuf body.

    Errors: ApiError 400 for bytes that are none, 415 for a kind that is only taken as JSON.
    """
    if not content.startswith(_MAGIC):
        raise bad_request("the object provided is unrecognized (must be of type Protobuf)")
    try:
        envelope = _decode(_ENVELOPE, content[len(_MAGIC) :])
        kind, api_version = envelope["typeMeta"]["kind"], envelope["typeMeta"]["apiVersion"]
        if kind not in _MESSAGES:
            raise unsupported_media(["application/json", "application/yaml"])
        return {"apiVersion": api_version, "kind": kind, **_decode(_MESSAGES[kind], base64.b64decode(envelope["raw"]))}
    except (ValueError, KeyError, IndexError) as exc:
        raise bad_request(f"the object provided is unrecognized (must be of type Protobuf): {exc}") from exc


def _decode(message: _Message, content: bytes) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for number, value in _fields(content):
        if number not in message.fields:
            continue
        name, kind = message.fields[number]
        if name in message.maps:
            entry = dict(_fields(_chunk(value)))
            result.setdefault(name, {})[_chunk(entry.get(1, b"")).decode()] = _value(kind, entry.get(2, b""))
        elif name in message.repeated:
            result.setdefault(name, []).append(_value(kind, value))
        else:
            result[name] = _value(kind, value)
    return {name: value for name, value in result.items() if value != ""}


def _value(kind: Any, value: int | bytes) -> Any:
    if isinstance(kind, _Message):
        return _decode(kind, _chunk(value))
    match kind:
        case "text":
            return _chunk(value).decode()
        case "bytes":
            return base64.b64encode(_chunk(value)).decode()
        case "bool":
            return bool(value)
        case _:
            return value


def _chunk(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes belong")  # noqa: TRY004 - wrong content, not a wrong call
    return value


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(content):
        tag, at = _varint(content, at)
        match tag & 7:
            case 0:
                value, at = _varint(content, at)
                yield tag >> 3, value
            case 2:
                size, at = _varint(content, at)
                if at + size > len(content):
                    raise ValueError("cut off")
                yield tag >> 3, content[at : at + size]
                at += size
            case other:
                raise ValueError(f"wire type {other}")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
