"""
The state database: one SQLite file, or PostgreSQL by URL (DESIGN, Parts; MODEL 27).

`read()` gives one consistent view and refuses writes; `write()` is one transaction that takes the right to write at once, so what
it reads is still so when it commits. Neither may stay open across a call outward.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from kubehenge.errors import SettingsError
from kubehenge.store import versions
from kubehenge.store.trouble import DatabaseError, explain

BUSY_TIMEOUT_MS = 10_000
"""How long a write waits for another one on SQLite."""

CONNECT_TIMEOUT_S = 10
"""How long PostgreSQL may take to accept a connection."""

WRITES = "kubehenge_writes"

WRITE_LOCK = 0x6B686E67
"""PostgreSQL's advisory lock under which writing transactions of one database follow each other, from whichever process."""


class Database:
    """An open state database; `where` names it for people, without a password."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.where = engine.url.database or "" if self.is_sqlite else engine.url.render_as_string(hide_password=True)
        readers: dict[str, Any] = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._reader = engine.execution_options(**readers)
        self._writer = engine.execution_options(**{WRITES: True})

    @property
    def is_sqlite(self) -> bool:
        """Whether this is the one file of an appliance."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Open a session on one view of the database as it is now; writes are refused by the database itself."""
        with self.explained(), Session(self._reader, autoflush=False, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open a session that may write; commits at its end, and rolls back when anything is raised."""
        with self.explained(), Session(self._writer, expire_on_commit=False) as session, session.begin():
            session.connection()  # takes the one right to write before the first read
            yield session

    @contextmanager
    def rehearse(self) -> Iterator[Session]:
        """Open a session that may write and whose changes are always undone: to see what would become of them."""
        with self.explained(), Session(self._writer, expire_on_commit=False) as session:
            session.connection()
            yield session

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open a bare connection in a writing transaction, for migrations."""
        with self.explained(), self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections; the database itself stays as it is."""
        self.engine.dispose()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the database's own errors into DatabaseError and DatabaseBusyError, in words."""
        try:
            yield
        except (DBAPIError, PoolTimeoutError) as error:
            explained = explain(error, self.where)
            if explained is None:
                raise
            raise explained from error


def open_database(url: str, *, check: bool = True) -> Database:
    """
    Open the state database at `url`: `sqlite:////var/lib/kubehenge/state.db` or `postgresql://user@host/name`.

    With `check` it must stand at the version that this Kubehenge knows. Without, an SQLite file that is not there is made.
    Errors: SettingsError for a URL that cannot be used; DatabaseError for one that cannot be opened, or is older or newer.
    """
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        _prepare_file(Path(parsed.database or ""), must_exist=check)
        database = Database(_open_sqlite(parsed))
    else:
        database = Database(_open_postgresql(parsed))
    if check:
        try:
            with database.read() as session:
                versions.require_current(session.connection(), database.where)
        except BaseException:
            database.close()
            raise
    return database


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _write_json(value: Any) -> str:
    """Write a JSON column's value; of most rows most of them are empty."""
    if value == []:
        return "[]"
    return "{}" if value == {} else _encode(value)


def _read_json(text: str | bytes) -> Any:
    if text == "[]":
        return []
    return {} if text == "{}" else json.loads(text)


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = {"postgres": "postgresql", "postgresql": "postgresql", "postgresql+psycopg": "postgresql", "sqlite": "sqlite"}.get(
            parsed.drivername
        )
    except (ArgumentError, ValueError):
        backend = None
    if backend is None:
        raise SettingsError(
            "KUBEHENGE_DATABASE_URL is no address of a database that Kubehenge can use: "
            "write sqlite:////path/to/state.db or postgresql://user:password@host/name."
        )
    if backend == "sqlite" and not (parsed.database and parsed.database != ":memory:"):
        raise SettingsError(
            "KUBEHENGE_DATABASE_URL names no file: write sqlite:////path/to/state.db, with four slashes before an absolute path."
        )
    return parsed.set(drivername="postgresql+psycopg" if backend == "postgresql" else "sqlite")


def _prepare_file(path: Path, *, must_exist: bool) -> None:
    """Make the file, readable by its owner only, so that SQLite does not make it readable by all."""
    if path.exists():
        return
    if must_exist:
        raise DatabaseError(f"There is no state database at {path} yet. Make it with `kubehenge db upgrade`.")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise DatabaseError(
            f"The state database cannot be made at {path}: {error.strerror}. Give Kubehenge a directory that it may write to."
        ) from error


def _open_sqlite(url: URL) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,
        json_serializer=_write_json,
        json_deserializer=_read_json,
        pool_size=8,
        max_overflow=32,
        pool_timeout=30,
        connect_args={"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin where _on_begin says, not where the sqlite3 module guesses
        for pragma in (
            f"busy_timeout = {BUSY_TIMEOUT_MS}",
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
        ):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        writes = bool(connection.get_execution_options().get(WRITES))
        cursor = connection.connection.cursor()  # past SQLAlchemy, which takes ten times as long for each of these
        cursor.execute(f"PRAGMA query_only = {'OFF' if writes else 'ON'}")
        if writes:
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # may find the database busy, which SQLAlchemy's errors say
        else:
            cursor.execute("BEGIN")
        cursor.close()

    return engine


def _open_postgresql(url: URL) -> Engine:
    try:
        engine = create_engine(
            url,
            hide_parameters=True,
            json_serializer=_write_json,
            json_deserializer=_read_json,
            pool_size=5,
            max_overflow=15,
            pool_timeout=30,
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": CONNECT_TIMEOUT_S,
                "application_name": "kubehenge",
                # A lost peer must not hold a lock, or a lease, for the hours that TCP would give it.
                "keepalives_idle": 20,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "options": "-c timezone=UTC -c lock_timeout=10s -c idle_in_transaction_session_timeout=60s",
            },
        )
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise SettingsError("PostgreSQL needs the extra `postgres`: pip install 'kubehenge[postgres]'.") from error

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # Row locks would have to be remembered wherever something is decided by what was read; twenty approvals of one plan were all
        # told that they started it. Writes are short, and SQLite takes them one after the other as well.
        if connection.get_execution_options().get(WRITES):
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITE_LOCK})")

    return engine
