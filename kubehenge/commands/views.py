"""Reading from the reporting views, whose names and columns are stable (docs/reports.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import column, select, table

from kubehenge.commands.opening import open_reading
from kubehenge.store.views import VIEWS

_JSON = frozenset({"desired", "applied", "observed", "body", "facts", "value"})


def select_from(view: str, wanted: Mapping[str, str | None], *, order: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of a view for this site; None in `wanted` narrows nothing."""
    columns = next(one.columns for one in VIEWS if one.name == view)
    source = table(view, *(column(name) for name in columns))
    query = select(*(source.c[name] for name in columns if name != "site")).order_by(*(source.c[name] for name in order))
    for name, value in wanted.items():
        if value is not None:
            query = query.where(source.c[name] == value)
    with open_reading() as reading:
        rows = reading.session.execute(query.where(source.c.site == reading.settings.site)).mappings().all()
    return [{name: _loaded(name, value) for name, value in row.items()} for row in rows]


def _loaded(name: str, value: Any) -> Any:
    return json.loads(value) if name in _JSON and isinstance(value, str) else value
