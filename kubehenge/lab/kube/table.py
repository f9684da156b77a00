"""Answers as clients ask for them: whole objects, metadata only, or a table for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from kubehenge.lab.kube.kinds import Kind, Obj
from kubehenge.lab.kube.listing import Page
from kubehenge.lab.kube.storage import Record


class Shape(StrEnum):
    """The form of an answer, as the Accept header names it in `as=`."""

    WHOLE = ""
    METADATA = "PartialObjectMetadata"
    TABLE = "Table"


def shape_of(accept: str) -> Shape:
    """The first form in an Accept header that is served here."""
    for part in accept.split(","):
        media, *parameters = [item.strip() for item in part.split(";")]
        wanted = dict(item.split("=", 1) for item in parameters if "=" in item)
        if media not in {"application/json", "*/*", "application/*"}:
            continue
        if "as" not in wanted:
            return Shape.WHOLE
        if wanted.get("g") == "meta.k8s.io" and wanted.get("v") == "v1":
            name = wanted["as"].removesuffix("List")
            if name in {Shape.METADATA.value, Shape.TABLE.value}:
                return Shape(name)
    return Shape.WHOLE


def one(record: Record, shape: Shape) -> bytes:
    """One object in a form."""
    match shape:
        case Shape.METADATA:
            return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":' + record.meta + b"}"
        case Shape.TABLE:
            return _table(record.kind, [record], {"resourceVersion": str(record.version)})
        case _:
            return record.raw


def many(kind: Kind, page: Page, shape: Shape) -> bytes:
    """A list in a form; the bytes of each object are those it was stored with."""
    meta: dict[str, Any] = {"resourceVersion": str(page.version)}
    if page.token:
        meta["continue"] = page.token
    if page.remaining is not None:
        meta["remainingItemCount"] = page.remaining
    if shape is Shape.TABLE:
        return _table(kind, page.records, meta)
    render: Callable[[Record], bytes] = (lambda record: one(record, shape)) if shape is Shape.METADATA else (lambda record: record.raw)
    api_version, name = (
        ("meta.k8s.io/v1", "PartialObjectMetadataList") if shape is Shape.METADATA else (kind.api_version, f"{kind.kind}List")
    )
    head = json.dumps({"kind": name, "apiVersion": api_version, "metadata": meta}, separators=(",", ":")).encode()
    return head[:-1] + b',"items":[' + b",".join(map(render, page.records)) + b"]}"


def _table(kind: Kind, records: Iterable[Record], meta: dict[str, Any]) -> bytes:
    titles = ["Name", *(title for title, _ in kind.columns), "Age"]
    now = datetime.now(UTC)
    columns = [
        {"name": title, "type": "string", "format": "name" if title == "Name" else "", "description": title, "priority": 0}
        for title in titles
    ]
    rows = []
    for record in records:
        obj = record.obj()
        cells = [record.name, *(_cell(obj, path) for _, path in kind.columns), _age(obj, now)]
        partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
        rows.append({"cells": cells, "object": partial})
    body = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": columns, "rows": rows}
    return json.dumps(body, separators=(",", ":")).encode()


def _cell(obj: Obj, path: str) -> Any:
    """The value at a path (`.a.b`), or the status of a condition (`?Type`)."""
    if path.startswith("?"):
        conditions = (obj.get("status") or {}).get("conditions") or []
        return next((entry["status"] for entry in conditions if entry["type"] == path[1:]), "")
    node: Any = obj
    for part in path.split(".")[1:]:
        node = node.get(part) if isinstance(node, dict) else None
    return "" if node is None else node


def _age(obj: Obj, now: datetime) -> str:
    made = datetime.fromisoformat(obj["metadata"]["creationTimestamp"])
    seconds = max(0, int((now - made).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 120 * 60:
        return f"{seconds // 60}m"
    return f"{seconds // 3600}h" if seconds < 48 * 3600 else f"{seconds // 86400}d"
