"""Rows that are inserted at once are the rows that one by one would be, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from kubehenge.model.canon import body_hash
from kubehenge.store.bodies import get_bodies, put_bodies
from kubehenge.store.bulk import insert_many
from kubehenge.store.database import Database
from kubehenge.store.rows import ApprovalRow, BodyRow, FreezeRow, SiteRow, TickRow
from kubehenge.store.sites import ensure_site

AT = datetime(2025, 3, 10, 8, 0, 0, 250_000, tzinfo=UTC)


def test_rows_inserted_at_once_read_like_those_inserted_one_by_one(database: Database) -> None:
    values = [
        {"scope": "clusters/prod", "duties": True, "who": "local/root", "reason": "ä'\"%s?", "began_at": AT, "until": None, "ended_by": ""},
        {"scope": "", "duties": False, "who": "maria@corp", "reason": "", "began_at": AT, "until": AT, "ended_by": ""},
    ]
    with database.write() as session:
        site = ensure_site(session, "default", AT)
        session.add_all(FreezeRow(site_id=site.id, **one) for one in values)
        insert_many(session, FreezeRow, [{"site_id": site.id, **one} for one in values])
    with database.read() as session:
        rows = session.scalars(select(FreezeRow).order_by(FreezeRow.id)).all()
        read = [tuple(getattr(row, column.key) for column in FreezeRow.__table__.columns if column.key != "id") for row in rows]
    assert read[:2] == read[2:]
    assert rows[2].began_at == AT


def test_json_inserted_at_once_is_json(database: Database) -> None:
    bodies = {body_hash(body): body for body in ({}, {"list": [1, None, "ü"], "deep": {"a": {"b": True}}}, {"text": "x" * 5_000})}
    with database.write() as session:
        put_bodies(session, bodies)
    with database.read() as session:
        assert get_bodies(session, bodies) == bodies


def test_bodies_that_are_there_already_stay(database: Database) -> None:
    with database.write() as session:
        put_bodies(session, {"a" * 64: {"n": 1}})
    with database.write() as session:
        put_bodies(session, {"a" * 64: {"n": 1}, "b" * 64: {"n": 2}})
        put_bodies(session, {"b" * 64: {"n": 2}, "c" * 64: {"n": 3}})
        assert get_bodies(session, ["a" * 64, "c" * 64, None]) == {"a" * 64: {"n": 1}, "c" * 64: {"n": 3}}
    with database.read() as session:
        assert sorted(session.scalars(select(BodyRow.hash))) == ["a" * 64, "b" * 64, "c" * 64]


def test_a_body_is_forgotten_with_the_transaction_that_put_it(database: Database) -> None:
    with database.rehearse() as session:
        put_bodies(session, {"a" * 64: {"n": 1}})
    with database.write() as session:
        assert get_bodies(session, ["a" * 64]) == {}


def test_what_is_there_twice_is_refused(database: Database) -> None:
    with database.write() as session:
        site = ensure_site(session, "default", AT)
        ticks = [{"site_id": site.id, "number": number, "at": AT, "seen_at": AT} for number in (1, 2, 1)]
        with pytest.raises(IntegrityError):
            insert_many(session, TickRow, ticks)
        session.rollback()


def test_a_row_added_before_is_there_for_those_that_refer_to_it(database: Database) -> None:
    with database.write() as session:
        site = SiteRow(name="second", created_at=AT)
        site.id = 77
        session.add(site)
        insert_many(session, TickRow, [{"site_id": 77, "number": 1, "at": AT, "seen_at": AT}])


def test_nothing_to_insert_is_no_statement(database: Database) -> None:
    with database.write() as session:
        insert_many(session, ApprovalRow, [])
