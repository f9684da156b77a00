"""`db`: making, moving and checking the state database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from kubehenge.store import versions
from kubehenge.store.database import Database, open_database
from tests.cli.conftest import Ended

Kh = Callable[..., Ended]


def test_a_new_database_is_made_checked_and_taken_down(kh: Kh, tmp_path: Path) -> None:
    assert f"stands at version {versions.head()}; it was empty." in kh("db", "upgrade").out
    assert "already" in kh("db", "upgrade").out
    assert kh("db", "check").code == 0
    assert f"it was {versions.head()}" in kh("db", "downgrade", versions.known()[0], "--yes").out
    ended = kh("db", "check")
    assert (ended.code, "kubehenge db upgrade" in ended.err) == (1, True)
    assert "stands at version empty" in kh("db", "downgrade", "base", "--yes").out
    assert (tmp_path / "state" / "state.db").exists()


def test_the_address_is_a_setting(kh: Kh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEHENGE_DATABASE_URL", f"sqlite:///{tmp_path}/elsewhere.db")
    assert kh("db", "upgrade").code == 0
    open_database(f"sqlite:///{tmp_path}/elsewhere.db").close()


def test_taking_down_asks_first(kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    ended = kh("db", "downgrade", "base")
    assert ended.code == 1
    assert "All that it holds is lost" in ended.out + ended.err
    with filled.read() as session:
        assert session.execute(text("SELECT count(*) FROM ledger")).scalar() == 3


def test_a_difference_is_listed(kh: Kh, filled: Database) -> None:
    with filled.connect() as connection:
        connection.execute(text("DROP INDEX ix_tick_site_id_at"))
    ended = kh("db", "check")
    assert ended.code == 1
    assert "ix_tick_site_id_at" in ended.err


def test_a_newer_database_is_refused_by_every_command(kh: Kh, filled: Database) -> None:
    with filled.connect() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for arguments in (["plans"], ["db", "upgrade"], ["db", "check"], ["approve", "2", "-y"], ["sql", "SELECT 1"]):
        ended = kh(*arguments)
        assert (ended.code, "which a newer Kubehenge made" in ended.err) == (1, True), arguments
