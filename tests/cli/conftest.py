"""The command line in this process: `kh("get", "clusters")` answers with exit code, output and errors."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog

from kubehenge import log
from kubehenge.cli import kubehenge
from kubehenge.commands.frame import run
from kubehenge.settings import described, variable
from kubehenge.store import migrate
from kubehenge.store.database import Database, open_database
from tests.store import world


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No setting of whoever runs the tests, and no state but the test's own."""
    for name in (*(variable(name) for name in described()), "KUBEHENGE_CONFIG", "NO_COLOR", "SUDO_UID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBEHENGE_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "state").mkdir(mode=0o700)
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
    log._kept_out.clear()


@pytest.fixture
def kh(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    def call(*arguments: str) -> Ended:
        capsys.readouterr()
        code = run(kubehenge, list(arguments))
        said = capsys.readouterr()
        return Ended(code=code, out=said.out, err=said.err)

    return call


@pytest.fixture(scope="session")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "state.db"
    database = open_database(f"sqlite:///{path}", check=False)
    migrate.upgrade(database)
    with database.write() as session:
        world.fill(session)
    database.close()
    return path


@pytest.fixture
def filled(filled_file: Path, tmp_path: Path) -> Iterator[Database]:
    """A database with a small world, where the settings look for it."""
    path = tmp_path / "state" / "state.db"
    shutil.copy(filled_file, path)
    database = open_database(f"sqlite:///{path}")
    yield database
    database.close()
