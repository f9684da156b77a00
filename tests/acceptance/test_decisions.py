"""What waits for whom, decided on the page through its forms (MODEL 12 to 15, 28; ACCEPTANCE 1.3, 1.4)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.acceptance.browser import Browser, Page
from tests.acceptance.files import UPGRADE, cluster
from tests.acceptance.running import Site

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def site(sites: Callable[..., Site]) -> Site:
    site = sites()
    site.start()
    return site


@pytest.fixture
def name(site: Site, net: int) -> str:
    """A cluster that runs: one control-plane node, one worker."""
    name = f"c{net}"
    site.clone.push({f"{name}.yaml": cluster(name, net, workers=1)})
    site.wait_until_up(f"clusters/{name}", machines=2)
    return name


def upgrade(site: Site, name: str, net: int, *, workers: int = 1, after: int = 0) -> dict[str, Any]:
    """Push an upgrade and return the plan that waits."""
    site.clone.push({f"{name}.yaml": cluster(name, net, workers=workers, version=UPGRADE)})
    return site.wait_for_plan(f"clusters/{name}", after=after)


def versions(site: Site, name: str) -> set[str]:
    """What the machines of a cluster run."""
    found = site.kube("GET", "/apis/cluster.x-k8s.io/v1beta2/namespaces/clusters/machines")["items"]
    return {one["spec"]["version"] for one in found if one["spec"]["clusterName"] == name}


def wait_for_outcome(site: Site, plan: int, state: str) -> None:
    site.wait(lambda: site.rows("SELECT 1 FROM plan WHERE id = ? AND state = ?", plan, state), f"plan {plan} is not {state}")


def open_plan(browser: Browser, plan: int) -> Page:
    page = browser.open(f"/plans/{plan}")
    assert page.status == 200, page.words
    return page


def test_model_15_an_upgrade_waits_is_approved_on_the_page_by_who_may_and_is_followed_to_its_end(site: Site, name: str, net: int) -> None:
    plan = upgrade(site, name, net)["id"]
    page = open_plan(site.administrator, plan)
    assert page.find("Waiting for approval")
    assert page.find(r"spec\.topology\.version")
    assert page.find(r"rollout needs 1 person, 0 so far")

    viewer = site.sign_in("viewer")
    seen = open_plan(viewer, plan)
    assert not seen.has_button("Approve plan")
    assert seen.find(rf"Approving it needs VM\.Allocate on /pool/kubehenge/clusters\.{name}")
    refused = viewer.submit(f"/plans/{plan}/approve")
    assert refused.status == 403
    assert refused.find(r"VM\.Allocate")
    assert site.open_plan(f"clusters/{name}", state="open") is not None
    assert versions(site, name) != {UPGRADE}

    open_plan(site.administrator, plan)
    site.administrator.submit(f"/plans/{plan}/approve", comment="Read the release notes")
    wait_for_outcome(site, plan, "done")
    run = site.rows("SELECT id FROM run WHERE plan_id = ?", plan)[0]["id"]
    shown = site.administrator.open(f"/runs/{run}")
    assert shown.find("Done")
    ended = open_plan(site.administrator, plan)
    assert ended.find("Carried out")
    assert ended.find("Read the release notes")
    site.wait(lambda: versions(site, name) == {UPGRADE}, "the machines do not run the new version")


def test_model_15_scaling_up_by_a_push_needs_nobody_and_scaling_down_a_person(site: Site, name: str, net: int) -> None:
    site.clone.push({f"{name}.yaml": cluster(name, net, workers=3)})
    site.wait_until_up(f"clusters/{name}", machines=4)
    assert [plan["classes"] for plan in site.plans(f"clusters/{name}")] == ['["create"]', '["change"]']
    site.clone.push({f"{name}.yaml": cluster(name, net, workers=2)})
    plan = site.wait_for_plan(f"clusters/{name}")
    assert plan["classes"] == '["shrink"]'
    assert site.clusters()[f"clusters/{name}"]["machines"] == 4
    open_plan(site.administrator, plan["id"])
    site.administrator.submit(f"/plans/{plan['id']}/approve")
    site.wait_until_up(f"clusters/{name}", machines=3)


def test_acceptance_1_4_an_approval_of_a_superseded_plan_answers_409_with_its_replacement(site: Site, name: str, net: int) -> None:
    old = upgrade(site, name, net)
    before = open_plan(site.administrator, old["id"])
    new = upgrade(site, name, net, workers=2, after=old["id"])
    assert new["digest"] != old["digest"]
    late = site.administrator.submit(f"/plans/{old['id']}/approve")
    assert before.find("Waiting for approval")
    assert late.status == 409
    assert f"/plans/{new['id']}" in late.text
    token = late.form("/sign-out")
    assert token is not None
    answer = site.administrator.post(
        f"/api/v1/plans/{old['id']}/approve", json={"digest": old["digest"]}, headers={"X-CSRFToken": token.fields["csrf_token"]}
    )
    assert answer.status_code == 409
    assert answer.json()["replacement_id"] == new["id"]
    assert site.rows("SELECT state FROM plan WHERE id = ?", old["id"])[0]["state"] == "superseded"
    assert site.rows("SELECT state FROM plan WHERE id = ?", new["id"])[0]["state"] == "open"
    assert not site.rows("SELECT 1 FROM run WHERE plan_id IN (?, ?)", old["id"], new["id"])


def test_acceptance_1_4_a_push_elsewhere_leaves_a_waiting_plan_and_what_was_said_of_it(site: Site, name: str, net: int) -> None:
    plan = upgrade(site, name, net)
    open_plan(site.administrator, plan["id"])
    site.administrator.submit(f"/plans/{plan['id']}/reject", comment="Not before the holidays")
    site.wait_for_read(site.clone.push({f"near-{net}.yaml": cluster(f"near-{net}", net + 500), "notes.md": f"{net}\n"}))
    site.wait_until_up(f"clusters/near-{net}")
    after = site.rows("SELECT state, digest FROM plan WHERE id = ?", plan["id"])[0]
    assert (after["state"], after["digest"]) == ("open", plan["digest"])
    assert open_plan(site.administrator, plan["id"]).find("Not before the holidays")


def test_acceptance_1_3_twenty_approvals_at_once_start_one_run(site: Site, name: str, net: int) -> None:
    plan = upgrade(site, name, net)
    form = open_plan(site.administrator, plan["id"]).form("/sign-out")
    assert form is not None
    token = form.fields["csrf_token"]

    def approve(_: int) -> dict[str, Any]:
        path = f"/api/v1/plans/{plan['id']}/approve"
        answer = site.administrator.post(path, json={"digest": plan["digest"]}, headers={"X-CSRFToken": token})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(approve, range(20)))
    assert sorted(answer["answer"] for answer in answers) == ["accepted", *["already"] * 19]
    wait_for_outcome(site, plan["id"], "done")
    assert len(site.rows("SELECT 1 FROM run WHERE plan_id = ?", plan["id"])) == 1
    late = approve(0)
    run = site.rows("SELECT id FROM run WHERE plan_id = ?", plan["id"])[0]["id"]
    assert (late["answer"], late["run_id"]) == ("already", run)


def test_model_15_a_rejection_blocks_until_it_is_withdrawn(site: Site, name: str, net: int) -> None:
    plan = upgrade(site, name, net)["id"]
    page = open_plan(site.administrator, plan)
    assert page.has_button("Reject")
    rejected = site.administrator.submit(f"/plans/{plan}/reject", comment="Not on a Friday")
    assert rejected.find("Not on a Friday")
    assert site.must("approve", str(plan), "--yes", "-m", "It is Monday").out
    assert site.rows("SELECT state FROM plan WHERE id = ?", plan)[0]["state"] == "open"
    shown = open_plan(site.administrator, plan)
    assert not shown.has_button("Approve plan")
    site.administrator.submit(f"/plans/{plan}/withdraw")
    site.wait(lambda: _approve_where_asked(site, plan), "the plan does not start after the withdrawal")
    wait_for_outcome(site, plan, "done")


def _approve_where_asked(site: Site, plan: int) -> bool:
    """Whoever approved stays counted; where their word had lapsed, it is asked for again."""
    if site.rows("SELECT 1 FROM plan WHERE id = ? AND state = 'open'", plan):
        page = open_plan(site.administrator, plan)
        if page.has_button("Approve plan"):
            site.administrator.submit(f"/plans/{plan}/approve")
        return False
    return True


def test_model_28_a_freeze_on_the_page_holds_what_is_approved_until_it_ends(site: Site, name: str, net: int) -> None:
    site.administrator.open("/freezes")
    frozen = site.administrator.submit("/freezes", scope=f"clusters/{name}", reason="Stocktaking")
    assert frozen.find("Stocktaking")
    site.clone.push({f"{name}.yaml": cluster(name, net, workers=2)})
    plan = site.wait_for_plan(f"clusters/{name}", "approved")
    assert open_plan(site.administrator, plan["id"]).find("Held back")
    passes = site.last_call()
    site.wait(lambda: site.last_call() > passes + 60, "the loops do not go on")
    assert site.clusters()[f"clusters/{name}"]["machines"] == 2
    page = site.administrator.open("/freezes")
    thaw = next(form for form in page.forms() if "thaw" in form.action or form.action.startswith("/freezes/"))
    site.administrator.submit(thaw.action)
    site.wait_until_up(f"clusters/{name}", machines=3)
