"""Many rows at once: what a fleet's first plan, or a node's return, writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Dialect, Insert, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from kubehenge.store.rows import Row

CHUNK = 500
"""How many values go into one statement: well under both databases' limits."""


def chunks(items: Iterable[Any], size: int = CHUNK) -> Iterable[list[Any]]:
    """Yield the items in lists of at most `size`."""
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def insert_ignoring(session: Session, table: type[Row]) -> Insert:
    """Return an INSERT that leaves rows which are there already as they are, for either database."""
    return _ignoring(table_of(table), session.get_bind().dialect)


def insert_many(session: Session, table: type[Row], rows: Sequence[Mapping[str, Any]], *, ignoring: bool = False) -> None:
    """
    Insert rows, each of which names the same columns: all that the database does not fill itself.

    `ignoring` leaves rows that are there already as they are. SQLAlchemy's own way with a list of rows works out each row's
    parameters anew, and takes longer than the database then needs for it; here that is worked out once.
    """
    if not rows:
        return
    session.flush()  # what the rows refer to must be there
    connection = session.connection()
    statement = _statement(table_of(table), tuple(rows[0]), ignoring, connection.dialect)
    connection.exec_driver_sql(statement.text, [statement.parameters(row) for row in rows])


@dataclass(frozen=True, slots=True)
class _Statement:
    """An INSERT as the driver takes it, and for each value, in its order, what makes it one that the driver takes."""

    text: str
    positional: bool
    columns: tuple[tuple[str, Callable[[Any], Any] | None], ...]

    def parameters(self, row: Mapping[str, Any]) -> Any:
        if self.positional:
            return tuple([row[name] if process is None else process(row[name]) for name, process in self.columns])
        return {name: row[name] if process is None else process(row[name]) for name, process in self.columns}


@lru_cache(maxsize=64)
def _statement(table: Table, names: tuple[str, ...], ignoring: bool, dialect: Dialect) -> _Statement:
    insert = _ignoring(table, dialect) if ignoring else table.insert()
    compiled = insert.inline().values(dict.fromkeys(names)).compile(dialect=dialect)
    columns = [column for column in table.columns if column.name in names]  # the order in which they are compiled
    return _Statement(
        text=str(compiled),
        positional=dialect.positional,
        columns=tuple((column.name, column.type.dialect_impl(dialect).bind_processor(dialect)) for column in columns),
    )


def _ignoring(table: Table, dialect: Dialect) -> Insert:
    if dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def table_of(row: type[Row]) -> Table:
    """Return the table behind a row's class: what changes by it costs a third of what changes by the class, and no object follows."""
    table: Table = row.__table__  # type: ignore[assignment]  # a mapped class always has one
    return table
