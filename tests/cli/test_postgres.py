"""The command line on PostgreSQL: the same answers as on SQLite."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from kubehenge.store.database import Database, open_database
from tests.cli.conftest import Ended
from tests.fakes.postgres import PostgresServer
from tests.store import world
from tests.store.conftest import migrated_postgres, postgres_server  # noqa: F401 - fixtures

pytestmark = pytest.mark.postgres

LISTS = (
    ["get", "clusters"],
    ["get", "resources"],
    ["get", "documents"],
    ["get", "sources"],
    ["get", "ledger"],
    ["plans", "--all"],
    ["plan"],
    ["show", "1"],
    ["runs"],
    ["runs", "1"],
    ["history", "clusters/prod"],
    ["history", "prod", "--at", "2025-03-10T09:00:00Z"],
    ["thaw"],
    ["settings"],
    ["source", "list"],
    ["sql", "SELECT scope, state, plan FROM v_plan ORDER BY plan"],
)


@pytest.mark.parametrize("arguments", LISTS, ids=" ".join)
def test_lists_say_the_same_on_both_databases(
    kh: Callable[..., Ended],
    filled: Database,
    on_postgres: str,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    on_sqlite = kh(*arguments, "-o", "json")
    monkeypatch.setenv("KUBEHENGE_DATABASE_URL", on_postgres)
    there = kh(*arguments, "-o", "json")
    assert (there.code, there.err) == (on_sqlite.code, on_sqlite.err)
    assert json.loads(there.out) == json.loads(on_sqlite.out)


@pytest.fixture(scope="module")
def filled_postgres(postgres_server: PostgresServer, migrated_postgres: str) -> str:  # noqa: F811
    url = postgres_server.draw(migrated_postgres)
    database = open_database(url)
    with database.write() as session:
        world.fill(session)
    database.close()
    return url


@pytest.fixture
def on_postgres(filled_postgres: str) -> str:
    return filled_postgres


def test_a_password_is_in_no_message(kh: Callable[..., Ended], on_postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = re.sub("kubehenge@", "kubehenge:hunter2hunter2@", on_postgres).replace("/test", "/absent")
    monkeypatch.setenv("KUBEHENGE_DATABASE_URL", wrong)
    for arguments in (["plans"], ["doctor", "--local"], ["settings", "--process"], ["db", "check"], ["sql", "SELECT 1"]):
        ended = kh(*arguments)
        assert "hunter2" not in ended.out + ended.err, arguments
    assert "does not exist" in kh("plans").err
