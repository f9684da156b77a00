"""Systems that fail: said clearly on the page, on the command line and in the log, while the rest goes on (ACCEPTANCE 3.2, 3.5, 3.6)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.calls import CREATES
from tests.acceptance.corner import corner, require_one_of_each
from tests.acceptance.files import cluster
from tests.acceptance.running import Site

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(600)]

ENGINE = "kubehenge@pve"
GROUP = "/access/groups/kubehenge-clusters"


@pytest.fixture(scope="module")
def running(sites: Callable[..., Site]) -> Site:
    site = sites()
    site.start()
    site.clone.push({"steady.yaml": cluster("steady", 800)})
    site.wait_until_up("clusters/steady")
    return site


@pytest.fixture
def site(running: Site) -> Iterator[Site]:
    """The site, with all its systems well before and after."""
    yield running
    running.no_faults()
    running.wait(lambda: not trouble(running), "it does not recover")


def trouble(site: Site) -> list[dict[str, Any]]:
    """What the database says is not read now."""
    return site.rows(
        "SELECT tier, state, reason FROM coverage AS one WHERE id = (SELECT max(id) FROM coverage WHERE tier = one.tier) AND state <> 'ok'"
    )


def is_told(site: Site, words: str, *, log: str) -> None:
    """Page, `doctor` and log say it."""
    site.wait(lambda: words in site.administrator.open("/clusters").words, f"the page does not say {words!r}")
    looked = site.kh("doctor")
    assert looked.code == 1
    assert words in looked.out, looked.out
    lines = [json.loads(line) for line in site.log.read_text().splitlines() if line.startswith("{")]
    assert any(line["event"] == log and words in line["reason"] and line["level"] == "warning" for line in lines)


def scale_steady(site: Site) -> None:
    """A cluster that has nothing to do with the trouble is scaled by a push, and back."""
    machines = site.clusters()["clusters/steady"]["machines"]
    site.clone.push({"steady.yaml": cluster("steady", 800, workers=machines)})
    site.wait_until_up("clusters/steady", machines=machines + 1)


def test_credentials_that_proxmox_ve_refuses_are_told_and_nothing_is_lost(site: Site) -> None:
    before = corner(site, "steady")
    plans = len(site.rows("SELECT 1 FROM plan"))
    site.as_root("PUT", f"/access/users/{ENGINE}", enable=0)
    is_told(site, "Proxmox VE does not accept the sign-in", log="tier_not_read")
    assert "Set the id and secret of an API token" in site.kh("doctor").out
    assert site.administrator.open("/clusters/clusters/steady").find("Available")
    scale_steady(site)
    site.as_root("PUT", f"/access/users/{ENGINE}", enable=1)
    site.wait(lambda: not trouble(site), "it does not recover")
    assert not site.administrator.open("/clusters").find("does not accept the sign-in")
    after = corner(site, "steady")
    assert (after.pools, after.users, after.tokens, after.owners) == (before.pools, before.users, before.tokens, before.owners)
    assert len(site.rows("SELECT 1 FROM plan")) == plans + 1


def test_a_wrong_secret_is_told_by_doctor_without_showing_it(site: Site, tmp_path: Path) -> None:
    wrong = tmp_path / "secret"
    wrong.write_text("0f0e0d0c-not-the-secret\n")
    looked = site.kh("doctor", KUBEHENGE_PROXMOX_TOKEN_SECRET_FILE=str(wrong))
    assert looked.code == 1
    assert "Proxmox VE does not accept the sign-in" in looked.out
    assert "not-the-secret" not in looked.said


def test_acceptance_3_5_a_missing_privilege_is_named_with_its_path_and_blocks_its_cluster_only(site: Site, net: int) -> None:
    name, scope = f"f{net}", f"clusters/f{net}"
    right = {"path": GROUP, "users": ENGINE, "roles": "KubehengeUsers", "propagate": 0}
    site.as_root("PUT", "/access/acl", **right, delete=1)
    site.clone.push({f"{name}.yaml": cluster(name, net)})
    plan = site.wait_for_plan(scope, "failed")["id"]
    run = site.rows("SELECT id FROM run WHERE plan_id = ?", plan)[0]["id"]
    page = site.administrator.open(f"/runs/{run}")
    assert page.find(rf"Permission check failed \({GROUP}, User\.Modify\)"), page.words
    assert "User.Modify" in site.must("runs", str(run)).out
    assert f"({GROUP}, User.Modify)" in site.log.read_text()
    states = {
        row["kind"]: row["state"]
        for row in site.rows("SELECT kind, step.state FROM step JOIN action ON action.id = action_id WHERE run_id = ?", run)
    }
    assert (states["proxmox.user"], states["kube.cluster"]) == ("failed", "blocked")
    assert (states["proxmox.pool"], states["proxmox.volume_owner"]) == ("done", "done")
    assert "User.Modify on" in site.kh("doctor").out
    scale_steady(site)
    site.as_root("PUT", "/access/acl", **right)
    site.wait_until_up(scope)
    require_one_of_each(site, name)


@pytest.mark.parametrize(
    ("action", "more", "words"),
    [
        ("status", {"status": 500, "reason": "got timeout"}, "could not be done now: got timeout. It is tried again."),
        ("html", {"status": 502, "reason": "Bad Gateway"}, "answered with something that is not Proxmox VE's"),
        ("refuse", {}, "It is tried again"),
    ],
    ids=["500", "html", "refused"],
)
def test_proxmox_ve_that_answers_nothing_of_use_is_told_and_read_again_afterwards(
    site: Site, action: str, more: dict[str, Any], words: str
) -> None:
    # What the site does once for itself may still be under way.
    plans = "SELECT count(*) AS plans, (SELECT count(*) FROM plan WHERE closed_tick IS NULL) AS open FROM plan"
    site.wait(lambda: site.rows(plans)[0]["open"] == 0, "the site does not come to rest")
    own = "WHERE scope NOT LIKE 'site:%'"
    plans = f"SELECT count(*) AS plans, (SELECT count(*) FROM run {own}) AS runs FROM plan {own}"
    before, counts = corner(site, "steady"), site.rows(plans)
    # What the page itself asks to know who may see what is left alone: without it there is no page to read.
    site.fault("proxmox", action, method="GET", path="/api2/json/(cluster|pools|access/(users|acl))", **more)
    is_told(site, words, log="tier_not_read")
    site.no_faults()
    site.wait(lambda: not trouble(site), "it does not recover")
    assert corner(site, "steady") == before
    assert site.rows(plans) == counts


def test_acceptance_3_2_every_answer_lost_once_there_is_still_one_of_each(site: Site, net: int) -> None:
    name, namespace = f"f{net}", f"lost{net}"
    for call in CREATES.values():
        site.fault(call.target, "lose_answer", method=call.method, path=call.for_cluster(name, namespace), times=1)
    site.clone.push({f"{name}.yaml": cluster(name, net, namespace=namespace)})
    site.wait_until_up(f"{namespace}/{name}")
    assert not site.control("GET", "/faults")["faults"]
    require_one_of_each(site, name, namespace)


def test_acceptance_3_6_an_offline_node_delays_what_needs_it_and_nothing_else(site: Site, net: int) -> None:
    there, made = f"f{net}", f"f{net + 1000}"
    site.clone.push({f"{there}.yaml": cluster(there, net, workers=2)})
    site.wait_until_up(f"clusters/{there}")
    guests = site.proxmox()["guests"]
    # A node with templates is needed by every new cluster.
    needed = {one["node"] for one in guests if one["template"]}
    node = next(one["node"] for one in guests if one["vmid"] in corner(site, there).vms and one["node"] not in needed)
    stay = [one["vmid"] for one in guests if one["vmid"] in corner(site, there).vms and one["node"] == node]
    site.control("POST", f"/nodes/{node}", {"online": False})
    try:
        site.wait(lambda: site.administrator.open("/clusters").find("2 of 3 Proxmox VE nodes online"), "the page does not count nodes")
        site.clone.push({f"{there}.yaml": None, f"{made}.yaml": cluster(made, net + 1000)})
        plan = site.wait_for_plan(f"clusters/{there}")["id"]
        site.must("approve", str(plan), "--yes", "--name", f"clusters/{there}")
        site.wait_until_up(f"clusters/{made}")
        nodes = {one["node"] for one in site.proxmox()["guests"] if one["vmid"] in corner(site, made).vms}
        assert node not in nodes
        assert site.rows("SELECT state FROM plan WHERE id = ?", plan)[0]["state"] == "running"
        assert set(stay) <= set(corner(site, there).vms)
    finally:
        site.control("POST", f"/nodes/{node}", {"online": True})
    site.wait(lambda: site.rows("SELECT 1 FROM cluster WHERE name = ? AND state = 'gone'", there), f"{there} does not go")
    assert corner(site, there).everything() == []


def test_a_management_cluster_that_answers_500_to_everything_is_told_and_work_waits(site: Site, net: int) -> None:
    name, scope = f"f{net}", f"clusters/f{net}"
    site.fault("kube", "status", status=500, reason="etcdserver: request timed out")
    is_told(site, "the management cluster could not do it now (etcdserver: request timed out)", log="tier_not_read")
    site.clone.push({f"{name}.yaml": cluster(name, net)})
    site.wait(
        lambda: site.rows(
            "SELECT 1 FROM resource WHERE kind = 'proxmox.token' AND cluster_id = (SELECT id FROM cluster WHERE name = ?)", name
        ),
        "Proxmox VE's part is not made",
    )
    assert site.administrator.open("/clusters/clusters/steady").find("Available")
    site.no_faults()
    site.wait_until_up(scope)
    require_one_of_each(site, name)


def test_a_management_cluster_behind_a_proxy_that_answers_html_is_told(site: Site) -> None:
    site.fault("kube", "html", status=502, reason="Bad Gateway")
    is_told(site, "the management cluster could not do it now", log="tier_not_read")


def test_a_repository_that_cannot_be_reached_is_told_and_the_others_are_read(site: Site, net: int) -> None:
    site.must(
        "source", "add", "away", "https://127.0.0.1:1/clusters.git", "--token-file", site.description["git"]["token_file"], "--unchecked"
    )
    words = "127.0.0.1 does not answer. Check that it is up and reachable from here"
    site.wait(lambda: site.administrator.open("/sources").find(words), "the page does not say so")
    assert site.administrator.page.find("Cannot be reached")
    told = json.loads(site.must("get", "sources", "-o", "json").out)
    assert {one["source"]: one["state"] for one in told} == {"away": "unreachable", "lab": "read"}
    assert words in site.kh("doctor").out
    assert words in site.log.read_text()
    name = f"f{net}"
    site.clone.push({f"{name}.yaml": cluster(name, net)})
    site.wait_until_up(f"clusters/{name}")


def test_a_broken_repository_keeps_what_it_declared_and_is_read_again_when_it_is_mended(site: Site, net: int) -> None:
    repository = site.lab.places.repository
    plans = len(site.rows("SELECT 1 FROM plan"))
    head = repository / "HEAD"
    kept = head.read_bytes()
    head.write_bytes(b"\x00 no repository any more")
    site.wait(lambda: site.rows("SELECT 1 FROM source WHERE name = 'lab' AND state <> 'read'"), "the source is still said to be read")
    told = site.rows("SELECT reason FROM source WHERE name = 'lab'")[0]["reason"]
    page = site.administrator.open("/sources")
    assert "this is not a deletion" in page.words
    assert told.split(". ")[0][:60] in page.words
    assert told in site.log.read_text()
    assert site.administrator.open("/clusters").find("clusters/steady")
    head.write_bytes(kept)
    name = f"f{net}"
    site.clone.push({f"{name}.yaml": cluster(name, net)})
    site.wait_until_up(f"clusters/{name}")
    assert len(site.rows("SELECT 1 FROM plan")) == plans + 1
