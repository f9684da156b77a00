"""Lists: which objects a query takes, page by page."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kubehenge.lab.kube.errors import bad_request, expired
from kubehenge.lab.kube.kinds import Kind
from kubehenge.lab.kube.selectors import LabelTest, field_matches
from kubehenge.lab.kube.storage import Key, Record, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which objects a list or watch is about. `limit` 0 is all; `token` continues an earlier list."""

    namespace: str = ""
    labels: LabelTest | None = None
    fields: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    limit: int = 0
    token: str = ""

    def takes(self, record: Record) -> bool:
        """Whether an object is one of them."""
        if self.namespace and record.namespace != self.namespace:
            return False
        if self.labels is not None and not self.labels(record.labels):
            return False
        return not self.fields or field_matches(self.fields, self._fields_of(record))

    def _fields_of(self, record: Record) -> Mapping[str, Any]:
        if all(path.startswith("metadata.") for path in self.fields):
            return {"metadata": {"name": record.name, "namespace": record.namespace}}
        return record.obj()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a list. `remaining` is None where the server cannot tell without looking."""

    records: tuple[Record, ...]
    version: int
    token: str = ""
    remaining: int | None = None


def list_page(store: Store, kind: Kind, query: Query) -> Page:
    """
    The objects a query takes, by namespace and name.

    Errors: ApiError 400 for a token that cannot be read, 410 for one that is too old.
    """
    version, after = store.version, None
    if query.token:
        version, after = _read_token(query.token)
        if store.since(kind, version) is None:
            raise expired("The provided continue parameter is too old to display a consistent list result.")
    found = (record for record in store.scan(kind, query.namespace, after) if query.takes(record))
    if not query.limit:
        return Page(records=tuple(found), version=version)
    records = tuple(islice(found, query.limit))
    rest = sum(1 for _ in found)
    if not rest:
        return Page(records=records, version=version)
    plain = query.labels is None and not query.fields
    return Page(records=records, version=version, token=_token(version, records[-1].key), remaining=rest if plain else None)


def _token(version: int, key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps([version, *key]).encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, Key]:
    try:
        version, namespace, name = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(version), (str(namespace), str(name))
    except (binascii.Error, ValueError, TypeError) as exc:
        raise bad_request(f"continue key is not valid: {exc}") from exc
