"""The command line does what the page does (issue's part 11), against the running site."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.corner import corner
from tests.acceptance.files import UPGRADE, VERSION, cluster
from tests.acceptance.running import Site

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def site(sites: Callable[..., Site]) -> Site:
    site = sites()
    site.start()
    return site


@pytest.fixture
def name(site: Site, net: int) -> str:
    name = f"c{net}"
    site.clone.push({f"{name}.yaml": cluster(name, net)})
    site.wait_until_up(f"clusters/{name}")
    return name


def as_json(site: Site, *arguments: str) -> Any:
    return json.loads(site.must(*arguments, "-o", "json").out)


def wait_until_done(site: Site, plan: int) -> dict[str, Any]:
    """Follow a run as a script does."""

    def look() -> dict[str, Any] | None:
        found = next((run for run in as_json(site, "runs") if run["plan"] == plan), None)
        return found if found is not None and found["state"] == "done" else None

    return site.wait(look, f"plan {plan} is not carried out")


def test_a_plan_is_drafted_from_a_folder_pushed_read_approved_and_followed(site: Site, name: str, net: int, tmp_path: Path) -> None:
    scope = f"clusters/{name}"
    draft = tmp_path / "draft"
    draft.mkdir()
    (draft / f"{name}.yaml").write_text(cluster(name, net, version=UPGRADE))
    assert site.kh("validate", str(draft)).code == 0
    drafted = site.kh("plan", "--from", str(draft), scope, "-o", "json")
    assert drafted.code == 2, drafted
    assert not [plan for plan in site.plans(scope) if plan["closed_tick"] is None]

    site.clone.push({f"{name}.yaml": cluster(name, net, version=UPGRADE)})
    plan = site.wait_for_plan(scope)
    assert [one["digest"] for one in json.loads(drafted.out)] == [plan["digest"]]
    number = str(plan["id"])
    assert plan["digest"][:12] in site.must("plans").out
    told = site.kh("plan", scope)
    assert told.code == 2
    assert f'spec.topology.version: "{VERSION}" → "{UPGRADE}"' in told.out
    assert f"Upgrade {scope}" in site.must("show", plan["digest"][:12]).out

    declined = site.kh("approve", number, stdin="n\n")
    assert declined.code != 0
    assert site.open_plan(scope, state="open") is not None
    agreed = site.kh("approve", number, stdin="y\n")
    assert agreed.code == 0, agreed
    run = wait_until_done(site, plan["id"])
    assert f"Upgrade {scope}" in site.must("runs", str(run["run"])).out
    assert site.kh("plan", scope).code == 0
    assert UPGRADE in site.must("get", "clusters").out
    assert UPGRADE in site.must("history", scope).out
    again = site.kh("approve", number, "--yes")
    assert again.code == 0
    assert len(site.rows("SELECT 1 FROM run WHERE plan_id = ?", plan["id"])) == 1


def test_what_there_is_can_be_listed_and_asked_in_sql(site: Site, name: str) -> None:
    scope = f"clusters/{name}"
    assert scope in [one["scope"] for one in as_json(site, "get", "clusters")]
    kinds = {one["kind"] for one in as_json(site, "get", "resources")}
    assert {"proxmox.pool", "proxmox.user", "proxmox.token", "kube.cluster"} <= kinds
    assert f"{name}.yaml" in site.must("get", "documents").out
    assert site.clone.folder.name
    assert as_json(site, "get", "sources")[0]["state"] == "read"
    assert "cluster_declared" in site.must("get", "ledger").out
    rows = as_json(site, "sql", "SELECT scope, state FROM v_plan WHERE scope = 'clusters/" + name + "'")
    assert rows == [{"scope": scope, "state": "done"}]
    refused = site.kh("sql", "DELETE FROM plan")
    assert refused.code != 0
    assert site.plans(scope)


def test_a_deletion_asks_for_the_typed_name_there_too(site: Site, name: str) -> None:
    scope = f"clusters/{name}"
    site.clone.push({f"{name}.yaml": None})
    number = str(site.wait_for_plan(scope)["id"])
    for wrong in (f"{name}\n", "\n"):
        refused = site.kh("approve", number, stdin=wrong)
        assert refused.code == 1, refused
        assert scope in refused.said
    assert site.kh("approve", number, "--yes").code == 1
    assert len(corner(site, name).pools) == 1
    assert site.kh("approve", number, stdin=f"{scope}\n").code == 0
    wait_until_done(site, int(number))
    assert corner(site, name).everything() == []


def test_rejecting_withdrawing_freezing_and_thawing_hold_and_let_go(site: Site, name: str, net: int) -> None:
    scope = f"clusters/{name}"
    site.clone.push({f"{name}.yaml": cluster(name, net, version=UPGRADE)})
    number = str(site.wait_for_plan(scope)["id"])
    site.must("reject", number, "--yes", "-m", "Not on a Friday")
    assert "Rejected" in site.must("plans").out
    assert "Not on a Friday" in site.administrator.open(f"/plans/{number}").words
    site.must("withdraw", number)
    site.must("freeze", scope, "-m", "Stocktaking")
    listed = as_json(site, "thaw")
    assert [(one["scope"], one["reason"]) for one in listed] == [(scope, "Stocktaking")]
    site.must("approve", number, "--yes")
    passes = site.last_call()
    site.wait(lambda: site.last_call() > passes + 60, "the loops do not go on")
    assert not site.rows("SELECT 1 FROM run WHERE plan_id = ?", int(number))
    site.must("thaw", str(listed[0]["freeze"]))
    wait_until_done(site, int(number))


def test_acceptance_1_4_approving_a_superseded_plan_names_its_replacement(site: Site, name: str, net: int) -> None:
    scope = f"clusters/{name}"
    site.clone.push({f"{name}.yaml": cluster(name, net, version=UPGRADE)})
    old = site.wait_for_plan(scope)["id"]
    site.clone.push({f"{name}.yaml": cluster(name, net, version=UPGRADE, workers=1)})
    new = site.wait_for_plan(scope, after=old)["id"]
    late = site.kh("approve", str(old), "--yes")
    assert late.code == 1
    assert f"The plan that took its place is {new}." in late.err
    assert site.open_plan(scope, state="open") is not None
