"""What lists say."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from sqlalchemy import text

from kubehenge.store.database import Database
from tests.cli.conftest import Ended
from tests.store import world

Kh = Callable[..., Ended]


def test_clusters_show_how_they_stand_and_what_waits(kh: Kh, filled: Database) -> None:
    (row,) = json.loads(kh("get", "clusters", "-o", "json").out)
    assert (row["scope"], row["version"], row["control_planes"], row["workers"]) == ("clusters/prod", "v1.35.4+rke2r1", "3/3", "1/2")
    assert (row["plan"], row["plan_number"]) == ("Waiting for approval", 2)
    assert json.loads(kh("get", "clusters", "-n", "other", "-o", "json").out) == []


def test_resources_are_narrowed_by_cluster_kind_and_state(kh: Kh, filled: Database) -> None:
    rows = json.loads(kh("get", "resources", "-c", "prod", "--state", "drift", "-o", "json").out)
    assert [(row["kind"], row["observed"]) for row in rows] == [("proxmox.pool", world.MOVED_POOL)]
    names = [row["name"] for row in json.loads(kh("get", "resources", "-c", "site", "-k", "proxmox.vm", "-o", "json").out)]
    assert names == ["101", "900"]


def test_every_problem_of_a_refused_document_has_a_line(kh: Kh, filled: Database) -> None:
    ended = kh("get", "documents", "--refused")
    assert "clusters/test.yaml" in ended.out
    assert "spec is missing" in ended.out
    assert "clusters/prod.yaml" not in ended.out


def test_a_source_that_is_not_there_is_told_with_those_that_are(kh: Kh, filled: Database) -> None:
    ended = kh("get", "documents", "--source", "nope")
    assert (ended.code, "Those are: fleet" in ended.err) == (1, True)


def test_the_ledger_is_listed_newest_first_and_narrowed(kh: Kh, filled: Database) -> None:
    rows = json.loads(kh("get", "ledger", "-o", "json").out)
    assert [row["position"] for row in rows] == [3, 2, 1]
    assert [row["event"] for row in json.loads(kh("get", "ledger", "--who", "ada", "-o", "json").out)] == ["frozen"]
    assert [row["position"] for row in json.loads(kh("get", "ledger", "--limit", "1", "-o", "json").out)] == [3]


def test_the_ledgers_chain_is_checked(kh: Kh, filled: Database) -> None:
    assert "The ledger holds: 3 entries" in kh("get", "ledger", "--verify").out
    with filled.connect() as connection:
        connection.execute(text("UPDATE ledger SET who = 'nobody' WHERE position = 2"))
    ended = kh("get", "ledger", "--verify")
    assert (ended.code, "from position 2 on" in ended.err) == (1, True)


def test_runs_are_listed_and_one_is_shown_with_its_steps(kh: Kh, filled: Database) -> None:
    (row,) = json.loads(kh("runs", "-o", "json").out)
    assert (row["run"], row["plan"], row["state"], row["steps"]) == (1, 1, "failed", "1 of 2")
    one = json.loads(kh("runs", "1", "-o", "json").out)
    assert [(step["kind"], step["word"], step["error"]) for step in one["actions"]] == [
        ("proxmox.pool", "Done", ""),
        ("proxmox.user", "Failed", "403: no"),
    ]
    assert "403: no" in kh("runs", "1").out
    assert kh("runs", "9").code == 1


def test_history_tells_what_changed_and_when(kh: Kh, filled: Database) -> None:
    rows = json.loads(kh("history", "prod", "-o", "json").out)
    assert rows[0]["side"] == "ledger"
    assert [row["change"] for row in rows if row["side"] == "observed"] == [
        'comment: "kubehenge site=default cluster=clusters/prod incarnation=1" → "mine now"',
        "appeared",
    ]
    assert [row["side"] for row in json.loads(kh("history", "prod", "--side", "desired", "-o", "json").out)] == ["desired"]


@pytest.mark.parametrize(
    ("moment", "comment"),
    [("2025-03-10T08:29:59Z", world.POOL["comment"]), ("2025-03-10T08:30:00Z", "mine now"), ("2025-03-10 09:30+01:00", "mine now")],
)
def test_history_as_of_a_moment(kh: Kh, filled: Database, moment: str, comment: str) -> None:
    (row,) = json.loads(kh("history", "clusters/prod", "--at", moment, "-o", "json").out)
    assert row["body"]["comment"] == comment


def test_history_before_anything_was_known_is_empty(kh: Kh, filled: Database) -> None:
    assert "Nothing was known of clusters/prod then." in kh("history", "prod", "--at", "2025-01-01").out


@pytest.mark.parametrize(("name", "says"), [("nope", "never was"), ("a/b/c", "names no cluster"), ("/x", "names no cluster")])
def test_history_of_what_is_no_cluster_is_refused(kh: Kh, filled: Database, name: str, says: str) -> None:
    ended = kh("history", name)
    assert (ended.code, says in ended.err) == (1, True)


def test_a_moment_that_is_none_is_refused(kh: Kh, filled: Database) -> None:
    assert "is no instant" in kh("history", "prod", "--at", "yesterday-ish").err


def test_settings_show_their_version_and_origin(kh: Kh, filled: Database) -> None:
    site, rules = json.loads(kh("settings", "-o", "json").out)
    assert (site["name"], site["version"], site["origin"], site["value"]["concurrent_clusters"]) == ("site", 1, "git", 3)
    assert (rules["name"], rules["version"], rules["origin"]) == ("rules", 0, "default")


def test_process_settings_show_what_is_set_and_no_secret(kh: Kh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEHENGE_METRICS_TOKEN", "hunter2hunter2")
    ended = kh("settings", "--process", "-o", "json")
    by_name = {row["variable"]: row for row in json.loads(ended.out)}
    assert (by_name["KUBEHENGE_METRICS_TOKEN"]["value"], by_name["KUBEHENGE_METRICS_TOKEN"]["given"]) == ("set", True)
    assert "hunter2" not in ended.out


def test_a_report_is_cut_off_and_says_so(kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEHENGE_SQL_ROWS", "2")
    ended = kh("sql", "SELECT position FROM v_ledger ORDER BY position", "-o", "json")
    assert json.loads(ended.out) == [{"position": 1}, {"position": 2}]
    assert "Only the first 2 rows" in ended.err


def test_a_report_reads_only(kh: Kh, filled: Database) -> None:
    ended = kh("sql", "DELETE FROM ledger")
    assert (ended.code, "Reports only read" in ended.err) == (1, True)


def test_a_report_comes_from_standard_input(kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 1 AS one, 2 AS one"))
    ended = kh("sql", "-")
    assert ended.out.split() == ["one", "one", "1", "2"]
