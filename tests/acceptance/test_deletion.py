"""A removed file: what it asks, what goes, and what stays (MODEL 2, 19, 21; ACCEPTANCE 1.7)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.acceptance.corner import corner
from tests.acceptance.files import cluster
from tests.acceptance.running import Site

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def site(sites: Callable[..., Site]) -> Site:
    site = sites()
    site.start()
    others = {f"stays-{n}.yaml": cluster(f"stays-{n}", 900 + n) for n in range(3)}
    site.clone.push(others)
    site.wait_until_up(*(f"clusters/stays-{n}" for n in range(3)))
    return site


@pytest.fixture
def name(site: Site, net: int) -> str:
    name = f"goes-{net}"
    site.clone.push({f"{name}.yaml": cluster(name, net)})
    site.wait_until_up(f"clusters/{name}")
    return name


def test_model_19_a_deletion_asks_for_the_typed_name_and_then_leaves_nothing_of_it_and_all_of_the_others(site: Site, name: str) -> None:
    scope = f"clusters/{name}"
    stay = [corner(site, f"stays-{n}") for n in range(3)]
    assert len(corner(site, name).users) == 1
    site.clone.push({f"{name}.yaml": None}, f"Remove {name}")
    plan = site.wait_for_plan(scope)["id"]
    page = site.administrator.open(f"/plans/{plan}")
    assert page.has_button(f"Approve and delete {scope}")

    for typed in ("", f"{scope}x", name):
        wrong = site.administrator.submit(f"/plans/{plan}/approve", typed_name=typed, comment="It is not used")
        assert wrong.status == 422
        assert wrong.find("That is not its name. Nothing was deleted.")
        field = next(one for one in wrong.root.iter("input") if one.get("name") == "typed_name")
        assert (field.get("aria-invalid"), field.get("value")) == ("true", typed)
        assert wrong.form(f"/plans/{plan}/approve").fields["comment"] == "It is not used"  # type: ignore[union-attr]
    assert site.open_plan(scope, state="open") is not None
    assert len(corner(site, name).users) == 1

    site.administrator.submit(f"/plans/{plan}/approve", typed_name=scope)
    site.wait(lambda: site.rows("SELECT 1 FROM cluster WHERE name = ? AND state = 'gone'", name), f"{scope} does not go")
    assert corner(site, name).everything() == []
    assert [corner(site, f"stays-{n}") for n in range(3)] == stay
    assert site.rows("SELECT state FROM plan WHERE id = ?", plan)[0]["state"] == "done"
    assert scope not in [one["name"] for one in site.administrator.json("/api/v1/clusters")["items"]]
    events = [row["event"] for row in site.rows("SELECT event FROM ledger WHERE subject = ? ORDER BY position", scope)]
    assert events[-2:] == ["run_done", "cluster_gone"]


def test_model_19_adding_the_file_again_cancels_the_deletion(site: Site, name: str, net: int) -> None:
    scope = f"clusters/{name}"
    before = corner(site, name)
    site.clone.push({f"{name}.yaml": None})
    plan = site.wait_for_plan(scope)
    site.administrator.open(f"/plans/{plan['id']}")
    site.clone.push({f"again/{name}.yaml": cluster(name, net)}, "It was needed after all")
    site.wait(lambda: site.open_plan(scope) is None, "the deletion is still planned")
    late = site.administrator.submit(f"/plans/{plan['id']}/approve", typed_name=scope)
    assert late.status == 409
    assert corner(site, name) == before
    row = site.rows("SELECT state, incarnation FROM cluster WHERE name = ?", name)
    assert row == [{"state": "declared", "incarnation": 1}]


def test_model_2_a_name_that_leaves_comes_back_as_the_next_incarnation(site: Site, name: str, net: int) -> None:
    scope = f"clusters/{name}"
    before = corner(site, name)
    site.clone.push({f"{name}.yaml": None})
    plan = site.wait_for_plan(scope)["id"]
    site.must("approve", str(plan), "--yes", "--name", scope)
    site.wait(lambda: site.rows("SELECT 1 FROM cluster WHERE name = ? AND state IN ('leaving', 'gone')", name), f"{scope} does not leave")
    site.clone.push({f"{name}.yaml": cluster(name, net)})
    states = "SELECT incarnation, state FROM cluster WHERE name = ? ORDER BY incarnation"
    wanted = [{"incarnation": 1, "state": "gone"}, {"incarnation": 2, "state": "declared"}]
    site.wait(lambda: site.rows(states, name) == wanted, "there is no second life")
    site.wait_until_up(scope)
    after = corner(site, name)
    assert len(after.users) == len(after.tokens) == len(after.owners) == 1
    assert after.users != before.users
    assert not {*after.machines} & {*before.machines}


def test_acceptance_1_7_a_protected_cluster_cannot_be_deleted(site: Site, net: int) -> None:
    name, scope = f"kept-{net}", f"clusters/kept-{net}"
    site.clone.push({f"{name}.yaml": cluster(name, net, annotations='{kubehenge.dev/protect: "true"}')})
    site.wait_until_up(scope)
    before = corner(site, name)
    site.clone.push({f"{name}.yaml": None})
    plan = site.wait_for_plan(scope)
    page = site.administrator.open(f"/plans/{plan['id']}")
    assert page.find("protect")
    assert page.form(f"/plans/{plan['id']}/approve") is None
    refused = site.kh("approve", str(plan["id"]), "--yes", "--name", scope)
    assert refused.code != 0
    assert corner(site, name) == before
    assert [one["what"] for one in json.loads(plan["obstacles"])] == ["protection"]
