"""The state database on both engines: each test that asks for `database` or `empty_database` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubehenge.store import migrate
from kubehenge.store.database import Database, open_database
from tests.fakes.postgres import PostgresServer, find_binaries


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL lane NOT RUN: there are no initdb and postgres on this machine, or no psycopg")
    server = PostgresServer(binaries)
    yield server
    server.stop()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/state/state.db"


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    return postgres_server.draw()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, engine: str) -> str:
    """The address of an empty database."""
    return str(request.getfixturevalue(f"{engine}_url"))


@pytest.fixture
def empty_database(url: str) -> Iterator[Database]:
    database = open_database(url, check=False)
    yield database
    database.close()


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "state.db"
    _migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: PostgresServer) -> str:
    url = postgres_server.draw()
    _migrate(url)
    return url


def _migrate(url: str) -> None:
    database = open_database(url, check=False)
    migrate.upgrade(database)
    database.close()


@pytest.fixture
def migrated_url(request: pytest.FixtureRequest, engine: str, tmp_path: Path) -> str:
    """The address of a database with all tables: a copy, since migrating takes longer than most tests."""
    if engine == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        return server.draw(request.getfixturevalue("migrated_postgres"))
    path = tmp_path / "migrated.db"
    shutil.copy(request.getfixturevalue("migrated_sqlite"), path)
    return f"sqlite:///{path}"


@pytest.fixture
def database(migrated_url: str) -> Iterator[Database]:
    database = open_database(migrated_url)
    yield database
    database.close()
