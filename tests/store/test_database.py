"""Opening, reading and writing the state database on both engines, and what it says when it cannot be used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import event, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from kubehenge.errors import KubehengeError, SettingsError, TransientError
from kubehenge.store import database as opening
from kubehenge.store import migrate
from kubehenge.store.database import Database, open_database
from kubehenge.store.rows import FreezeRow, SiteRow
from kubehenge.store.trouble import DatabaseBusyError, DatabaseError

AT = datetime(2025, 3, 10, 8, 0, tzinfo=UTC)


def add_site(session: Session, name: str) -> None:
    session.add(SiteRow(name=name, created_at=AT))
    session.flush()


def names_in(database: Database) -> list[str]:
    with database.read() as session:
        return list(session.scalars(select(SiteRow.name).order_by(SiteRow.name)))


def test_what_is_written_is_read(database: Database) -> None:
    with database.write() as session:
        add_site(session, "default")
    assert names_in(database) == ["default"]


def test_an_instant_comes_back_aware_and_in_utc(database: Database) -> None:
    with database.write() as session:
        add_site(session, "default")
    with database.read() as session:
        found = session.scalars(select(SiteRow.created_at)).one()
    assert found == AT
    assert found.utcoffset() is not None


def test_an_error_rolls_everything_back(database: Database) -> None:
    def fail() -> None:
        with database.write() as session:
            add_site(session, "default")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names_in(database) == []


def test_a_reading_session_cannot_write(database: Database) -> None:
    def write_while_reading() -> None:
        with database.read() as session:
            add_site(session, "default")

    with pytest.raises((DBAPIError, KubehengeError)):
        write_while_reading()
    assert names_in(database) == []


def test_a_reading_session_keeps_one_view(database: Database) -> None:
    with database.read() as session:
        assert list(session.scalars(select(SiteRow.name))) == []
        with database.write() as other:
            add_site(other, "default")
        assert list(session.scalars(select(SiteRow.name))) == []
    assert names_in(database) == ["default"]


def test_foreign_keys_hold(database: Database) -> None:
    def write() -> None:
        with database.write() as session:
            session.add(FreezeRow(site_id=99, who="local/ada", began_at=AT))

    with pytest.raises(IntegrityError):
        write()


def test_words_outside_a_closed_set_are_refused_by_the_database(database: Database) -> None:
    def write() -> None:
        with database.connect() as connection:
            connection.execute(
                text(
                    "INSERT INTO site (name, mode, mode_reason, rights, facts, created_at) VALUES ('x','y','','{}','{}','2025-01-01 00:00:00')"
                )
            )

    with pytest.raises(IntegrityError):
        write()


def test_a_savepoint_undoes_its_own_part_only(database: Database) -> None:
    with database.write() as session:
        add_site(session, "kept")
        savepoint = session.begin_nested()
        add_site(session, "undone")
        savepoint.rollback()
    assert names_in(database) == ["kept"]


def test_sqlite_is_durable_checked_and_lets_readers_read(sqlite_url: str) -> None:
    database = open_database(sqlite_url, check=False)
    with database.connect() as connection:
        found = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": opening.BUSY_TIMEOUT_MS}
    database.close()


def test_a_write_takes_the_right_to_write_before_its_first_read(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two passes that read, decide and write cannot both decide on the same state."""
    monkeypatch.setattr(opening, "BUSY_TIMEOUT_MS", 50)
    database = open_database(sqlite_url, check=False)
    migrate.upgrade(database)
    with database.write(), pytest.raises(DatabaseBusyError, match="another process"), database.write():
        pass
    database.close()


def test_writers_wait_for_each_other(database: Database) -> None:
    inside = threading.Event()
    let_go = threading.Event()

    def first() -> None:
        with database.write() as session:
            add_site(session, "first")
            inside.set()
            assert let_go.wait(30)

    def second() -> None:
        with database.write() as session:
            add_site(session, "second")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert inside.wait(30)
    threads[1].start()
    let_go.set()
    for thread in threads:
        thread.join(30)
    assert names_in(database) == ["first", "second"]


def test_what_a_write_reads_is_still_so_when_it_commits(database: Database) -> None:
    """Each of many counts what is there and adds one: on either database none counts what another is about to change."""
    with database.write() as session:
        add_site(session, "0")
    together = threading.Barrier(8)

    def add() -> None:
        together.wait(30)
        with database.write() as session:
            add_site(session, str(len(session.scalars(select(SiteRow.id)).all())))

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(names_in(database), key=int) == [str(number) for number in range(9)]


def test_the_file_is_for_its_owner_only(sqlite_url: str, tmp_path: Path) -> None:
    open_database(sqlite_url, check=False).close()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / "state.db").stat().st_mode & 0o777 == 0o600


def test_opening_does_not_make_a_database_by_mistake(sqlite_url: str, tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="kubehenge db upgrade"):
        open_database(sqlite_url)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("url", ["", "state.db", "mysql://root@localhost/x", "sqlite://", "sqlite:///:memory:", "postgresql+asyncpg://x/y"])
def test_an_address_that_cannot_be_used_is_refused_in_words(url: str) -> None:
    with pytest.raises(SettingsError, match="KUBEHENGE_DATABASE_URL"):
        open_database(url, check=False)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_text("Dear diary, " * 500, encoding="utf-8")
    with pytest.raises(DatabaseError, match=r"state\.db is no SQLite database"):
        open_database(f"sqlite:///{path}")


def test_a_full_disk_is_told_and_nothing_is_lost(sqlite_url: str) -> None:
    database = open_database(sqlite_url, check=False)
    migrate.upgrade(database)
    with database.write() as session:
        add_site(session, "kept")

    @event.listens_for(database.engine, "begin")
    def _no_page_more(connection: object) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")  # type: ignore[attr-defined]

    def fill() -> None:
        with database.write() as session:
            for number in range(2000):
                session.add(SiteRow(name=f"{number:0500}", created_at=AT))

    with pytest.raises(TransientError, match="is full"):
        fill()
    assert names_in(database) == ["kept"]
    database.close()


def bound_by_permissions() -> list[str]:
    """Root may write everywhere unless it is run without that capability."""
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        pytest.skip("permissions of files NOT TESTED: run as another user than root, or install setpriv")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


@pytest.mark.parametrize("what", ["directory", "file and directory", "directory that is not there"])
def test_a_read_only_state_directory_is_told(tmp_path: Path, what: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    try:
        path = home / ("missing/state.db" if "not there" in what else "state.db")
        if "not there" not in what:
            database = open_database(f"sqlite:///{path}", check=False)
            migrate.upgrade(database)
            database.close()
            path.chmod(0o444 if "file" in what else 0o666)
        home.chmod(0o555)
        program = (
            "import sys\nfrom kubehenge.errors import KubehengeError\nfrom kubehenge.store.database import open_database\n"
            "from kubehenge.store.rows import SiteRow\nfrom datetime import datetime, UTC\n"
            "try:\n"
            f"    db = open_database('sqlite:///{path}', check={'not there' not in what})\n"
            "    with db.write() as s:\n        s.add(SiteRow(name='x', created_at=datetime.now(UTC)))\n"
            "except KubehengeError as e:\n    print(e)\nelse:\n    print('written')\n"
        )
        command = [*bound_by_permissions(), sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert "Traceback" not in done.stderr
        assert str(path) in done.stdout
        assert any(words in done.stdout for words in ("read-only", "may write to"))
    finally:
        home.chmod(0o755)


@pytest.mark.postgres
def test_a_password_is_in_no_name_and_no_error(postgres_url: str) -> None:
    with_password = postgres_url.replace("kubehenge@", "kubehenge:hunter2hunter2@").replace("/test", "/absent")
    with pytest.raises(DatabaseError, match="does not exist") as caught:
        open_database(with_password)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.__cause__)


def test_a_postgresql_that_does_not_answer_may_answer_later(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    with pytest.raises(DatabaseBusyError, match="cannot be reached"):
        open_database(f"postgresql://kubehenge@/state?host={tmp_path}")
