"""What the person at this machine decides: under their own name, on the plan that they saw."""

from __future__ import annotations

import io
import json
import os
import pwd
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from sqlalchemy import select, text

from kubehenge.commands.opening import local_person
from kubehenge.model.plan import PlanState
from kubehenge.store.database import Database
from kubehenge.store.rows import ApprovalRow, FreezeRow, LedgerRow, PlanRow, SuspicionRow
from tests.cli.conftest import Ended

Kh = Callable[..., Ended]
ME = f"local/{pwd.getpwuid(os.getuid()).pw_name}"


def plan_state(database: Database, number: int) -> PlanState:
    with database.read() as session:
        return session.scalars(select(PlanRow.state).where(PlanRow.id == number)).one()


def last_entry(database: Database) -> tuple[str, str, str]:
    with database.read() as session:
        row = session.scalars(select(LedgerRow).order_by(LedgerRow.position.desc()).limit(1)).one()
        return row.event, row.subject, row.who


def typing(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))


def make_deletion(database: Database) -> None:
    with database.connect() as connection:
        connection.execute(text("UPDATE plan SET classes = '[\"delete\"]' WHERE id = 2"))


def test_approving_shows_the_plan_asks_and_counts_under_ones_own_name(kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    typing(monkeypatch, "y\n")
    ended = kh("approve", "2", "--comment", "window is agreed")
    assert ended.code == 0
    assert "Upgrade clusters/prod" in ended.out
    assert "Approved." in ended.out
    assert plan_state(filled, 2) is PlanState.APPROVED
    assert last_entry(filled) == ("plan_approved", "clusters/prod", ME)
    with filled.read() as session:
        row = session.scalars(select(ApprovalRow).where(ApprovalRow.plan_id == 2)).one()
    assert (row.who, row.comment, row.digest) == (ME, "window is agreed", "2" * 64)


def test_saying_no_approves_nothing(kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    typing(monkeypatch, "n\n")
    assert kh("approve", "2").code == 1
    assert plan_state(filled, 2) is PlanState.OPEN


def test_a_plan_is_named_by_its_digest_too(kh: Kh, filled: Database) -> None:
    assert kh("approve", "2222222", "-y").code == 0
    assert plan_state(filled, 2) is PlanState.APPROVED


@pytest.mark.parametrize("name", ["3", "222222", "333333333333", "x", ""])
def test_a_plan_that_is_not_there_is_told(kh: Kh, filled: Database, name: str) -> None:
    ended = kh("approve", name, "-y")
    assert (ended.code, "There is no plan" in ended.err) == (1, True)


def test_approving_again_is_no_error_and_changes_nothing(kh: Kh, filled: Database) -> None:
    kh("approve", "2", "-y")
    ended = kh("approve", "2", "-y")
    assert ended.code == 0
    assert "already" in ended.out


def test_what_is_closed_cannot_be_approved(kh: Kh, filled: Database) -> None:
    with filled.connect() as connection:
        connection.execute(
            text("UPDATE plan SET state = 'superseded', closed_tick = 4, closed_at = opened_at, replaced_by = 1 WHERE id = 2")
        )
    ended = kh("approve", "2", "-y")
    assert ended.code == 1
    assert "replaced while you read it" in ended.err
    assert "The plan that took its place is 1" in ended.err


def test_a_deletion_asks_for_the_name_typed(kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    make_deletion(filled)
    typing(monkeypatch, "clusters/test\n")
    ended = kh("approve", "2")
    assert (ended.code, "Type clusters/prod" in ended.out) == (1, True)
    assert plan_state(filled, 2) is PlanState.OPEN
    typing(monkeypatch, "clusters/prod\n")
    assert kh("approve", "2").code == 0
    assert plan_state(filled, 2) is PlanState.APPROVED


def test_a_script_types_the_name_with_an_option(kh: Kh, filled: Database) -> None:
    make_deletion(filled)
    assert kh("approve", "2", "-y").code == 1
    assert kh("approve", "2", "-y", "--name", "clusters/prod").code == 0


def test_rejecting_blocks_until_it_is_withdrawn(kh: Kh, filled: Database) -> None:
    assert kh("reject", "2", "-y", "-m", "not on a Friday").code == 0
    assert "Rejected" in kh("plans").out
    assert "not on a Friday" in kh("show", "2").out
    assert kh("withdraw", "2").code == 0
    assert "Waiting for approval" in kh("plans").out
    assert last_entry(filled) == ("plan_withdrawn", "clusters/prod", ME)


def test_nothing_said_is_nothing_to_withdraw(kh: Kh, filled: Database) -> None:
    ended = kh("withdraw", "2")
    assert (ended.code, "nothing of this plan" in ended.err) == (1, True)


def test_a_cluster_is_frozen_listed_and_thawed(kh: Kh, filled: Database) -> None:
    assert kh("freeze", "prod", "-m", "power works", "--hours", "2").code == 0
    row = next(one for one in json.loads(kh("thaw", "-o", "json").out) if one["scope"] == "clusters/prod")
    assert (row["who"], row["reason"], row["duties"]) == (ME, "power works", False)
    assert kh("thaw", str(row["freeze"])).code == 0
    assert last_entry(filled) == ("thawed", "clusters/prod", ME)
    with filled.read() as session:
        ended = session.scalars(select(FreezeRow).where(FreezeRow.id == row["freeze"])).one()
    assert ended.ended_by == ME


def test_what_vanished_at_once_is_listed_and_said_to_be_gone(kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No reading is kept aside" in kh("missing").out
    with filled.write() as session:
        row = SuspicionRow(
            site_id=1,
            kind="kube.cluster",
            missing=["clusters/a", "clusters/b"],
            readings=[],
            opened_at=datetime(2025, 3, 10, 8, tzinfo=UTC),
        )
        session.add(row)
    assert "clusters/a" in kh("missing").out
    assert kh("missing", "proxmox.vm").code == 1
    typing(monkeypatch, "n\n")
    declined = kh("missing", "kube.cluster")
    assert (declined.code, "clusters/b" in declined.out) == (1, True)
    assert "count as gone" in kh("missing", "kube.cluster", "-y").out
    assert last_entry(filled) == ("missing_confirmed", "kube.cluster", ME)
    assert "already" in kh("missing", "kube.cluster", "-y").out


def test_holding_duties_ends_after_four_hours_at_most(kh: Kh, filled: Database) -> None:
    assert kh("freeze", "--all", "--hours", "5").code == 1
    assert kh("freeze", "--all").code == 0
    row = max(json.loads(kh("thaw", "-o", "json").out), key=lambda one: one["freeze"])
    assert (row["scope"], row["duties"], bool(row["until"])) == ("site", True, True)


def test_a_cluster_that_is_not_there_cannot_be_frozen(kh: Kh, filled: Database) -> None:
    ended = kh("freeze", "nope")
    assert (ended.code, "There is no cluster clusters/nope" in ended.err) == (1, True)


def test_the_user_behind_sudo_is_who_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", "65534")
    assert local_person().userid == "local/nobody"
    monkeypatch.setattr(os, "getuid", lambda: 65534)
    monkeypatch.setenv("SUDO_UID", "0")
    assert local_person().userid == "local/nobody"
