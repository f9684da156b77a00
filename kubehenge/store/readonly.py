"""
Reports: one SQL statement that only reads, within a limit of time, rows and size that the database itself keeps (ACCEPTANCE 4.6).

The statement gets a connection of its own, which is thrown away: nothing that it sets or locks outlives it.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kubehenge.errors import UsageError
from kubehenge.store.database import Database

BATCH = 500
"""Rows fetched at once."""

MAX_BYTES = 32 * 1024 * 1024
"""Most text of one answer."""

MAX_VALUE_BYTES = 4 * 1024 * 1024
"""Most of one value on SQLite, also in between: what a statement can make memory out of."""

CHECK_EVERY = 1_000
"""SQLite looks at the clock after so many steps of its virtual machine."""

_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a statement found: plain values (text, numbers, truth values, None); `truncated` when a limit cut it off."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool


def ask(database: Database, statement: str, *, timeout_s: float, max_rows: int) -> Answer:
    """
    Run one statement that only reads.

    Errors: UsageError with the database's own words when it is wrong, writes, or takes too long.
    """
    wanted = statement.strip().rstrip(";").strip()
    if not wanted:
        raise UsageError("There is no statement to run. Write one, such as: SELECT scope, version FROM v_cluster")
    run = _ask_sqlite if database.is_sqlite else _ask_postgresql
    return run(database, wanted, time.monotonic() + timeout_s, timeout_s, max_rows)


def _ask_sqlite(database: Database, statement: str, deadline: float, timeout_s: float, max_rows: int) -> Answer:
    path = Path(database.engine.url.database or "").absolute()
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)) as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            connection.set_progress_handler(lambda: int(time.monotonic() > deadline), CHECK_EVERY)
            connection.set_authorizer(_authorize)
            cursor = connection.execute(statement)
            if cursor.description is None:
                raise UsageError("The statement answers nothing. Reports only read: begin with SELECT or WITH.")
            return _collect(tuple(column[0] for column in cursor.description), iter(lambda: cursor.fetchmany(BATCH), []), max_rows)
    except (sqlite3.Error, sqlite3.Warning) as error:
        text = str(error)
        if "interrupted" in text:
            raise _too_long(timeout_s) from None
        if "not authorized" in text or "prohibited" in text or "readonly" in text:
            raise UsageError(f"Reports only read: {text}. Begin with SELECT or WITH.") from None
        raise UsageError(f"SQLite says: {text}") from None


def _authorize(action: int, argument: str | None, function: str | None, _database: str | None, _trigger: str | None) -> int:
    """Let through what a SELECT needs, and nothing else: no ATTACH, PRAGMA, transaction or write."""
    if action not in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and "load_extension" in {argument, function}):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _ask_postgresql(database: Database, statement: str, deadline: float, timeout_s: float, max_rows: int) -> Answer:
    import psycopg
    from psycopg.raw_cursor import RawServerCursor

    with database.explained():
        pooled = database.engine.raw_connection()
    connection: psycopg.Connection[Any] = pooled.driver_connection  # type: ignore[assignment]
    pooled.detach()
    try:
        connection.rollback()
        connection.read_only = True

        def limit() -> None:
            left_ms = int((deadline - time.monotonic()) * 1000)
            if left_ms <= 0:
                raise _too_long(timeout_s)
            connection.execute(f"SET LOCAL statement_timeout = {left_ms}")

        def batches() -> Iterator[list[Any]]:
            while True:
                limit()  # anew each time: the statement may have changed it
                if not (batch := cursor.fetchmany(BATCH)):
                    return
                yield batch

        limit()
        with RawServerCursor(connection, name="report") as cursor:
            # A cursor takes SELECT, VALUES and WITH only, and one statement: psycopg declares it by the extended protocol
            cursor.execute(statement.encode())
            columns = tuple(column.name for column in cursor.description or ())
            return _collect(columns, batches(), max_rows)
    except psycopg.errors.QueryCanceled:
        raise _too_long(timeout_s) from None
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise UsageError(f"Reports only read: {_first_line(error)}.") from None
    except psycopg.Error as error:
        raise UsageError(f"PostgreSQL says: {_first_line(error)}") from None
    finally:
        pooled.close()  # detached, so this closes the connection itself


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _too_long(timeout_s: float) -> UsageError:
    return UsageError(
        f"The statement was stopped after {timeout_s:g} s, the limit of a report (KUBEHENGE_SQL_TIMEOUT_S). "
        "Narrow it with WHERE, on columns such as site, scope, kind and name."
    )


def _collect(columns: tuple[str, ...], batches: Iterator[list[Any]], max_rows: int) -> Answer:
    rows: list[tuple[Any, ...]] = []
    size = 0
    for batch in batches:
        for raw in batch:
            row = tuple(_plain(value) for value in raw)
            size += sum(len(value) for value in row if isinstance(value, str))
            if len(rows) == max_rows or size > MAX_BYTES:
                return Answer(columns=columns, rows=tuple(rows), truncated=True)
            rows.append(row)
    return Answer(columns=columns, rows=tuple(rows), truncated=False)


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime() | date():
            return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
        case _:
            return str(value)
