"""The ledger's chain: one per site, in order under concurrency, and no tampering goes unseen (MODEL 10)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import select, text

from kubehenge.errors import InvariantError
from kubehenge.store import ledger
from kubehenge.store.database import Database
from kubehenge.store.rows import LedgerRow, SiteRow

AT = datetime(2025, 3, 10, 8, 0, 0, 123456, tzinfo=UTC)


def add_site(database: Database, name: str = "default") -> int:
    with database.write() as session:
        site = SiteRow(name=name, created_at=AT)
        session.add(site)
        session.flush()
        return site.id


def append(database: Database, site_id: int, event: str = "plan_opened", **facts: Any) -> int:
    with database.write() as session:
        entry = ledger.append(
            session, site_id=site_id, tick=7, event=event, subject="clusters/prod", who="local/ada", facts={"number": 1, **facts}, at=AT
        )
        return entry.position


def broken_at(database: Database, site_id: int, **keywords: Any) -> ledger.Break | None:
    with database.read() as session:
        return ledger.verify(session, site_id, **keywords)


@pytest.fixture
def site_id(database: Database) -> int:
    return add_site(database)


def test_an_empty_chain_holds(database: Database, site_id: int) -> None:
    assert broken_at(database, site_id) is None


def test_entries_count_from_one_and_name_the_one_before(database: Database, site_id: int) -> None:
    assert [append(database, site_id) for _ in range(3)] == [1, 2, 3]
    with database.read() as session:
        entries = session.scalars(select(LedgerRow).order_by(LedgerRow.position)).all()
    assert entries[0].previous == ledger.BEGINNING
    assert [entry.previous for entry in entries[1:]] == [entry.hash for entry in entries[:-1]]
    assert broken_at(database, site_id) is None


def test_the_hash_of_an_entry_is_the_same_on_both_databases_and_for_ever(database: Database) -> None:
    with database.write() as session:
        session.add(SiteRow(id=1, name="default", created_at=AT))
        session.flush()
        east = AT.astimezone(timezone(timedelta(hours=9)))
        entry = ledger.append(
            session,
            site_id=1,
            tick=3,
            event="plan_approved",
            subject="clusters/prod",
            who="maria@corp",
            facts={"b": [1, "é"], "a": None},
            at=east,
        )
        assert entry.hash == "328250ab3a241cfb8449213af828c66662be54c925d448878c79154bb49a881e"
    assert broken_at(database, 1) is None


def test_two_entries_of_one_transaction_follow_each_other(database: Database, site_id: int) -> None:
    with database.write() as session:
        for event in ("plan_closed", "plan_opened"):
            ledger.append(session, site_id=site_id, tick=1, event=event, subject="site", who="kubehenge", facts={}, at=AT)
    assert broken_at(database, site_id) is None


def test_what_is_rolled_back_leaves_no_entry(database: Database, site_id: int) -> None:
    def fail() -> None:
        with database.write() as session:
            ledger.append(session, site_id=site_id, tick=1, event="plan_opened", subject="site", who="kubehenge", facts={}, at=AT)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert append(database, site_id) == 1


def test_each_site_has_a_chain_of_its_own(database: Database, site_id: int) -> None:
    other = add_site(database, "other")
    assert [append(database, site_id), append(database, other), append(database, site_id), append(database, other)] == [1, 1, 2, 2]
    assert broken_at(database, site_id) is None
    assert broken_at(database, other) is None


def test_concurrent_appends_make_one_chain(database: Database, site_id: int) -> None:
    with ThreadPoolExecutor(8) as threads:
        positions = sorted(threads.map(lambda number: append(database, site_id, number=number), range(40)))
    assert positions == list(range(1, 41))
    assert broken_at(database, site_id) is None


def test_a_site_that_is_not_there_is_our_mistake(database: Database) -> None:
    with pytest.raises(InvariantError, match="no site 99"):
        append(database, 99)


@pytest.mark.parametrize(
    ("change", "position"),
    [
        ("UPDATE ledger SET who = 'someone else' WHERE position = 3", 3),
        ("UPDATE ledger SET at = at WHERE position = 3", None),
        ("UPDATE ledger SET tick = tick + 1 WHERE position = 1", 1),
        ("UPDATE ledger SET facts = '{\"number\": 2}' WHERE position = 5", 5),
        ("UPDATE ledger SET subject = 'clusters/test' WHERE position = 2", 2),
        ("UPDATE ledger SET event = 'plan_rejected' WHERE position = 4", 4),
        ("DELETE FROM ledger WHERE position = 3", 3),
        ("DELETE FROM ledger WHERE position = 1", 1),
        ("DELETE FROM ledger WHERE position >= 4", None),
    ],
)
def test_tampering_shows_at_its_first_position(database: Database, site_id: int, change: str, position: int | None) -> None:
    for number in range(5):
        append(database, site_id, number=number)
    with database.connect() as connection:
        connection.execute(text(change.replace(":", r"\:")))
    found = broken_at(database, site_id)
    assert (found.position if found else None) == position


def test_an_entry_rewritten_with_its_own_hash_breaks_the_next_one(database: Database, site_id: int) -> None:
    for _ in range(3):
        append(database, site_id)
    with database.write() as session:
        entry = session.scalars(select(LedgerRow).where(LedgerRow.position == 2)).one()
        entry.who = "someone else"
        entry.hash = ledger.entry_hash(entry)
    found = broken_at(database, site_id)
    assert found
    assert found.position == 3


def test_a_cut_or_rewritten_chain_differs_from_its_published_head(database: Database, site_id: int) -> None:
    for _ in range(4):
        append(database, site_id)
    with database.read() as session:
        published = ledger.head(session, site_id)
    append(database, site_id)
    assert broken_at(database, site_id, expected=published) is None
    with database.connect() as connection:
        connection.execute(text("DELETE FROM ledger WHERE position >= 3"))
    found = broken_at(database, site_id, expected=published)
    assert found
    assert found.position == 3
    append(database, site_id, event="something_else")
    append(database, site_id)
    found = broken_at(database, site_id, expected=published)
    assert found
    assert found.position == 4


def test_a_chain_longer_than_a_batch_is_read_whole(database: Database, site_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "BATCH", 2)
    for _ in range(5):
        append(database, site_id)
    assert broken_at(database, site_id) is None
    with database.connect() as connection:
        connection.execute(text("UPDATE ledger SET who = '' WHERE position = 5"))
    found = broken_at(database, site_id)
    assert found
    assert found.position == 5
