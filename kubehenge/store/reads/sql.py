"""Small expressions that SQLite and PostgreSQL write differently, and text that people type into a filter."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Integer, func
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class json_length(FunctionElement[int]):  # noqa: N801  # reads as the SQL function that it is
    """How many elements a JSON list has."""

    type = Integer()
    inherit_cache = True
    name = "json_length"


@compiles(json_length, "sqlite")
def _sqlite_length(element: json_length, compiler: Any, **options: Any) -> str:
    return f"json_array_length({compiler.process(element.clauses, **options)})"


@compiles(json_length, "postgresql")
def _postgresql_length(element: json_length, compiler: Any, **options: Any) -> str:
    return f"jsonb_array_length({compiler.process(element.clauses, **options)})"


def scope_of(namespace: Any, name: Any) -> ColumnElement[str]:
    """Return the expression `<namespace>/<name>`."""
    scope: ColumnElement[str] = namespace + "/" + name
    return scope


def holds_text(column: Any, text: str) -> ColumnElement[bool]:
    """Return the condition that a column holds a text, without regard to case; `%` and `_` mean themselves."""
    escaped = text.lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    found: ColumnElement[bool] = func.lower(column).like(f"%{escaped}%", escape="\\")
    return found
