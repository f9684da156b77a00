"""Reports run read-only, with a time and row limit enforced by the database (ACCEPTANCE 4.6)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text

from kubehenge.errors import UsageError
from kubehenge.store import readonly
from kubehenge.store.database import Database
from tests.store import world


@pytest.fixture
def filled(database: Database) -> Database:
    with database.write() as session:
        world.fill(session)
    return database


def ask(database: Database, statement: str, *, timeout_s: float = 20, max_rows: int = 100) -> readonly.Answer:
    return readonly.ask(database, statement, timeout_s=timeout_s, max_rows=max_rows)


def everything(database: Database) -> dict[str, Any]:
    with database.read() as session:
        return {
            table: session.execute(text(f"SELECT count(*) FROM {table}")).scalar() for table in ("site", "cluster", "ledger", "resource")
        }


def test_a_statement_answers_with_columns_and_plain_values(filled: Database) -> None:
    answer = ask(filled, "SELECT scope, version, workers_ready FROM v_cluster;\n")
    assert answer == readonly.Answer(
        columns=("scope", "version", "workers_ready"), rows=(("clusters/prod", "v1.35.4+rke2r1", 1),), truncated=False
    )


def test_json_and_instants_are_plain_text(filled: Database) -> None:
    answer = ask(filled, "SELECT desired, 1.0 / 2, NULL FROM v_resource WHERE kind = 'proxmox.pool'")
    assert json.loads(answer.rows[0][0]) == world.POOL
    assert answer.rows[0][1:] == (0.5, None)
    assert ask(filled, "SELECT opened_at FROM v_cluster").rows[0][0].startswith("2025-03-10 08:10:00")


@pytest.mark.parametrize("statement", ["WITH x AS (SELECT 1 AS a) SELECT a FROM x", "SELECT '100%', 'a%sb', ':name', '$1'", "VALUES (1)"])
def test_all_forms_of_a_question_are_taken(filled: Database, statement: str) -> None:
    assert len(ask(filled, statement).rows) == 1


def test_rows_are_limited_and_that_is_said(filled: Database) -> None:
    assert ask(filled, "SELECT position FROM v_ledger", max_rows=3).truncated is False
    answer = ask(filled, "SELECT position FROM v_ledger ORDER BY position", max_rows=2)
    assert (answer.rows, answer.truncated) == (((1,), (2,)), True)


def test_more_than_one_batch_is_read(filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readonly, "BATCH", 2)
    assert [row[0] for row in ask(filled, "SELECT position FROM v_ledger ORDER BY position").rows] == [1, 2, 3]


def test_an_answer_without_end_is_cut_by_its_size(filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readonly, "MAX_BYTES", 1000)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, '{}' FROM n".format("x" * 100)
    answer = ask(filled, endless, max_rows=10**9)
    assert answer.truncated
    assert len(answer.rows) == 10


def test_a_statement_that_takes_too_long_is_stopped(filled: Database) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(UsageError, match=r"stopped after 0\.2 s"):
        ask(filled, endless, timeout_s=0.2)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM ledger",
        "INSERT INTO site (name) VALUES ('x')",
        "UPDATE cluster SET name = 'x'",
        "DROP TABLE ledger",
        "DROP VIEW v_plan",
        "CREATE TABLE x (a INTEGER)",
        "CREATE TEMP TABLE x (a INTEGER)",
        "WITH gone AS (DELETE FROM ledger RETURNING *) SELECT * FROM gone",
        "SELECT 1; DELETE FROM ledger",
        "SELECT 1; COMMIT; DELETE FROM ledger",
        "SELECT 1) ; COMMIT; DELETE FROM ledger --",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT x",
        "VACUUM",
        "EXPLAIN DELETE FROM ledger",
    ],
)
def test_a_statement_that_writes_is_refused_and_changes_nothing(filled: Database, statement: str) -> None:
    before = everything(filled)
    with pytest.raises(UsageError):
        ask(filled, statement)
    assert everything(filled) == before


@pytest.mark.parametrize(
    ("engine", "statement"),
    [
        ("sqlite", "ATTACH DATABASE '/etc/passwd' AS x"),
        ("sqlite", "ATTACH DATABASE ':memory:' AS x"),
        ("sqlite", "PRAGMA journal_mode = DELETE"),
        ("sqlite", "PRAGMA query_only = OFF"),
        ("sqlite", "SELECT * FROM pragma_journal_mode"),
        ("sqlite", "SELECT load_extension('x')"),
        ("sqlite", "SELECT zeroblob(1000000000)"),
        ("sqlite", "SELECT replace(hex(zeroblob(1000000)), '00', '0123456789')"),
        ("postgres", "SET TRANSACTION READ WRITE"),
        ("postgres", "SELECT set_config('transaction_read_only', 'off', false)"),
        ("postgres", "SELECT nextval('site_id_seq')"),
        ("postgres", "COPY ledger TO STDOUT"),
        ("postgres", "SELECT * FROM ledger FOR UPDATE"),
        ("postgres", "LOCK TABLE ledger"),
        ("postgres", "DO $$ BEGIN DELETE FROM ledger; END $$"),
    ],
    indirect=["engine"],
)
def test_ways_around_are_closed(filled: Database, statement: str) -> None:
    before = everything(filled)
    with pytest.raises(UsageError):
        ask(filled, statement)
    assert everything(filled) == before


@pytest.mark.postgres
@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_lifting_the_time_limit_from_inside_does_not_help(filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readonly, "BATCH", 1)
    with pytest.raises(UsageError, match="stopped after"):
        ask(
            filled, "SELECT set_config('statement_timeout', '0', true), pg_sleep(0.05 * n) FROM generate_series(1, 400) AS n", timeout_s=0.5
        )


@pytest.mark.postgres
@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_lock_taken_by_a_report_ends_with_it(filled: Database) -> None:
    ask(filled, "SELECT pg_advisory_lock(7)")
    with filled.read() as session:
        assert session.execute(text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")).scalar() == 0


@pytest.mark.parametrize("statement", ["", "  ;", "SELECT nothing FROM nowhere", "SELEKT 1"])
def test_a_wrong_statement_is_answered_in_words(filled: Database, statement: str) -> None:
    with pytest.raises(UsageError, match=r"says|no statement"):
        ask(filled, statement)
