from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from kubehenge.store import migrate
from kubehenge.store.database import Database, open_database
from tests.engine.harness import Repository, Site
from tests.fakes.clock import FakeClock
from tests.fakes.world import World


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engine") / "migrated.db"
    database = open_database(f"sqlite:///{path}", check=False)
    migrate.upgrade(database)
    database.close()
    return path


@pytest.fixture(scope="session")
def opened(migrated_file: Path) -> Iterator[Database]:
    """One database for all tests, each of which gets the file anew: what SQLAlchemy has compiled once stays compiled."""
    path = migrated_file.with_name("state.db")
    shutil.copy(migrated_file, path)
    database = open_database(f"sqlite:///{path}")
    # No process dies here for real, so nothing has to be on the disk.
    event.listen(database.engine, "connect", lambda connection, _record: connection.execute("PRAGMA synchronous = OFF").close())
    yield database
    database.close()


@pytest.fixture
def database(migrated_file: Path, opened: Database) -> Database:
    opened.close()
    path = Path(opened.where)
    for rest in (path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        rest.unlink(missing_ok=True)
    shutil.copy(migrated_file, path)
    return opened


@pytest.fixture
def site(tmp_path: Path, database: Database) -> Site:
    clock = FakeClock()
    world = World(clock.now)
    for name in ("pve1", "pve2", "pve3"):
        world.add_node(name, memory_mib=131_072)
    world.add_template(9001, "kubehenge", "cloud-image")
    world.add_template(9002, "kubehenge", "kubeadm-v1.36.5")
    return Site(database, tmp_path, clock, world, Repository(tmp_path))
