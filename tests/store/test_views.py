"""The reporting views: stable names and columns, documented, and the same answers on both databases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, text

from kubehenge.store.database import Database
from kubehenge.store.views import VIEWS, as_markdown
from tests.store import world

DOCS = Path(__file__).parents[2] / "docs" / "reports.md"
BY_NAME = {view.name: view for view in VIEWS}


@pytest.fixture
def filled(database: Database) -> Database:
    with database.write() as session:
        world.fill(session)
    return database


def ask(database: Database, query: str) -> list[dict[str, Any]]:
    with database.read() as session:
        return [dict(row) for row in session.execute(text(query.replace(":", r"\:"))).mappings()]


def one(database: Database, query: str) -> dict[str, Any]:
    (row,) = ask(database, query)
    return row


def loaded(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def test_the_database_has_exactly_the_views_and_columns_that_are_written_down(database: Database) -> None:
    with database.read() as session:
        seen = inspect(session.connection())
        found = {name: [column["name"] for column in seen.get_columns(name)] for name in seen.get_view_names()}
    assert found == {view.name: list(view.columns) for view in VIEWS}


def test_the_documentation_holds_every_view_as_it_is() -> None:
    assert as_markdown() in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", BY_NAME)
def test_every_view_answers_on_an_empty_and_on_a_full_database(database: Database, name: str) -> None:
    assert ask(database, f"SELECT * FROM {name}") == []
    with database.write() as session:
        world.fill(session)
    rows = ask(database, f"SELECT * FROM {name}")
    assert rows
    assert {row["site"] for row in rows} == {"default"}


def test_a_cluster_shows_what_is_asked_and_what_is(filled: Database) -> None:
    row = one(filled, "SELECT * FROM v_cluster WHERE scope = 'clusters/prod'")
    assert (row["declared_version"], row["version"]) == ("v1.36.1+rke2r1", "v1.35.4+rke2r1")
    assert (row["control_planes"], row["control_planes_ready"], row["workers"], row["workers_ready"]) == (3, 3, 2, 1)
    assert (bool(row["available"]), bool(row["rolling"]), row["phase"], row["source"]) == (True, False, "Provisioned", "fleet")


def test_documents_keep_their_past_and_their_first_problem(filled: Database) -> None:
    rows = ask(filled, "SELECT * FROM v_document ORDER BY path, blob")
    assert [(row["path"], bool(row["in_force"]), row["problems"], row["first_problem"]) for row in rows] == [
        ("clusters/prod.yaml", False, 0, None),
        ("clusters/prod.yaml", True, 0, None),
        ("clusters/test.yaml", True, 1, "spec is missing"),
    ]


def test_a_plan_shows_its_harm_and_its_bill(filled: Database) -> None:
    row = one(filled, "SELECT * FROM v_plan WHERE state = 'open'")
    assert (row["classes"], row["nodes_replaced"], row["objects_destroyed"], row["quorum"]) == (
        "change, rollout",
        5,
        "machine a, machine b",
        "kept",
    )
    assert (row["addresses_needed"], row["addresses_free"], row["memory_peak_mib"], row["actions"]) == (1, 4, 49152, 0)
    assert bool(row["can_finish"])


def test_actions_name_what_they_wait_for(filled: Database) -> None:
    rows = ask(filled, "SELECT * FROM v_action ORDER BY position")
    assert [(row["name"], row["waits_for"], row["requires"], row["fields_changed"]) for row in rows] == [
        ("kubehenge/clusters.prod", "", "", 0),
        ("kh-0123456789ab@pve", "1", "site.pool/x", 1),
    ]


def test_a_run_counts_its_steps_and_its_seconds(filled: Database) -> None:
    row = one(filled, "SELECT * FROM v_run")
    assert (row["state"], row["steps"], row["steps_done"], row["steps_failed"], row["seconds"]) == ("failed", 2, 1, 1, 540)
    assert [row["seconds"] for row in ask(filled, "SELECT * FROM v_step ORDER BY position")] == [30, 480]


def test_approvals_tell_rules_from_typed_names(filled: Database) -> None:
    row = one(filled, "SELECT * FROM v_approval")
    assert (row["who"], row["verdict"], bool(row["name_typed"]), bool(row["inherited"])) == ("rule/create", "approve", False, False)


def test_resources_say_how_they_stand(filled: Database) -> None:
    rows = ask(filled, "SELECT * FROM v_resource ORDER BY kind, name")
    assert {(row["kind"], row["name"]): (row["scope"], row["state"]) for row in rows if row["kind"].startswith("proxmox.")} == {
        ("proxmox.acl", "/pool/x:u:r"): ("clusters/prod", "lost"),
        ("proxmox.node", "pve1"): ("site", "seen"),
        ("proxmox.pool", "kubehenge/clusters.prod"): ("clusters/prod", "drift"),
        ("proxmox.user", "kh-0123456789ab@pve"): ("clusters/prod", "change"),
        ("proxmox.vm", "101"): ("site", "seen"),
        ("proxmox.vm", "900"): ("site", "seen"),
    }


def test_drift_is_what_the_world_changed_and_not_what_was_asked(filled: Database) -> None:
    rows = {row["kind"]: row for row in ask(filled, "SELECT * FROM v_drift")}
    assert set(rows) == {"proxmox.pool", "proxmox.acl"}
    assert loaded(rows["proxmox.pool"]["applied"]) == world.POOL
    assert loaded(rows["proxmox.pool"]["observed"]) == world.MOVED_POOL
    assert str(rows["proxmox.pool"]["since"]).startswith("2025-03-10 08:30:00")


@pytest.mark.parametrize(
    ("moment", "comment"),
    [
        ("08:05:00", None),
        ("08:10:00", world.POOL["comment"]),
        ("08:29:59", world.POOL["comment"]),
        ("08:30:00", "mine now"),
        ("23:00:00", "mine now"),
    ],
)
def test_a_body_as_of_a_moment(filled: Database, moment: str, comment: str | None) -> None:
    instant = f"2025-03-10 {moment}.000000" if filled.is_sqlite else f"2025-03-10 {moment}+00"
    rows = ask(
        filled,
        "SELECT body FROM v_version_as_of WHERE kind = 'proxmox.pool' AND side = 'observed' "
        f"AND from_at <= '{instant}' AND (to_at IS NULL OR to_at > '{instant}')",
    )
    assert [loaded(row["body"])["comment"] for row in rows] == ([comment] if comment else [])


def test_a_machine_is_found_on_its_proxmox_node(filled: Database) -> None:
    rows = ask(filled, "SELECT * FROM v_machine ORDER BY machine")
    assert [(row["machine"], row["role"], row["vmid"], row["node"], row["addresses"], bool(row["ready"])) for row in rows] == [
        ("clusters/prod-a", "control plane", 101, "pve1", "10.0.0.11, 10.0.0.12", True),
        ("clusters/prod-b", "worker", None, None, "", False),
    ]


def test_a_node_counts_its_vms_without_templates(filled: Database) -> None:
    row = one(filled, "SELECT * FROM v_node")
    assert (row["node"], bool(row["online"]), row["cores"], row["vms"], row["memory_taken_mib"]) == ("pve1", True, 16, 1, 8192)
    assert [row["tags"] for row in ask(filled, "SELECT tags FROM v_vm ORDER BY vmid")] == ["a, b", ""]


def test_coverage_says_what_was_not_read(filled: Database) -> None:
    row = one(filled, "SELECT * FROM v_coverage WHERE state <> 'ok'")
    assert (row["tier"], row["reason"], row["seconds"]) == ("bulk", "595", 600)


def test_the_past_of_one_resource_is_found_by_its_index(filled: Database) -> None:
    if not filled.is_sqlite:
        pytest.skip("the planner of PostgreSQL reads small tables whole")
    steps = ask(
        filled,
        "EXPLAIN QUERY PLAN SELECT body FROM v_version_as_of WHERE site = 'default' AND kind = 'proxmox.pool' AND name = 'x' "
        "AND side = 'observed' AND from_at <= '2025-03-10' AND (to_at IS NULL OR to_at > '2025-03-10')",
    )
    details = [step["detail"] for step in steps]
    assert not [detail for detail in details if detail.startswith("SCAN") or "ix_tick_site_id_at" in detail]
    assert [detail for detail in details if "ix_version_as_of (resource_id=? AND side=?" in detail]
