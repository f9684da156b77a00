"""The JSON API: with a person's own Proxmox VE API token, or with a session."""

from __future__ import annotations

from typing import Any

import pytest

from kubehenge.model.plan import PlanState
from tests.web.browsing import BASE, Browser
from tests.web.conftest import Site
from tests.web.factories import large_plan

MARIA = "PVEAPIToken=maria@corp!ci=11111111-2222-3333-4444-555555555555"
JONAS = "PVEAPIToken=jonas@corp!ci=11111111-2222-3333-4444-666666666666"


def call(site: Site, path: str, token: str = MARIA, *, method: str = "GET", body: Any = None) -> Any:
    client = site.app.test_client()
    return client.open(f"/api/v1{path}", method=method, base_url=BASE, headers={"Authorization": token}, json=body)


def test_a_token_reads_what_its_person_sees(site: Site) -> None:
    clusters = call(site, "/clusters").json
    assert clusters["total"] == 12
    assert clusters["next"] is None
    shop = next(one for one in clusters["items"] if one["name"] == "shop")
    assert shop["status"] == "Available"
    assert shop["plan"] == {"id": site.fleet.plans["prod/shop asked"], "status": "Waiting for approval", "classes": ["rollout", "change"]}
    assert [one["name"] for one in call(site, "/clusters", JONAS).json["items"]] == ["ml"]


def test_one_cluster_has_its_machines_and_conditions(site: Site) -> None:
    media = call(site, "/clusters/prod/media").json
    assert media["worth_a_look"] == ["1 of 3 workers not ready"]
    assert len(media["machines"]) == 6
    assert media["conditions"][0]["kind"] == "Available"


def test_a_plan_has_its_actions_bill_and_what_the_rules_ask(site: Site) -> None:
    plan = call(site, f"/plans/{site.fleet.plans['prod/shop asked']}").json
    assert plan["asked"] == {"short": "1 person", "typed_name": "", "may_approve": True, "why_not": ""}
    assert plan["bill"]["control_planes_replaced"] == 3
    assert plan["actions"]["total"] == 2
    fields = plan["actions"]["items"][1]["fields"]
    assert fields[0] == {"path": "spec.topology.version", "before": "v1.36.5+rke2r1", "after": "v1.37.1+rke2r1"}


def test_a_created_field_has_no_side_before(site: Site) -> None:
    plan = call(site, f"/plans/{site.fleet.plans['prod/search asked']}").json
    assert plan["actions"]["items"][0]["fields"][0].keys() == {"path", "after"}


def test_a_plan_is_approved_with_the_digest_that_was_read(site: Site) -> None:
    plan = site.fleet.plans["prod/shop asked"]
    digest = call(site, f"/plans/{plan}").json["digest"]
    assert call(site, f"/plans/{plan}/approve", method="POST", body={"digest": "0" * 64}).status_code == 409
    answer = call(site, f"/plans/{plan}/approve", method="POST", body={"digest": digest, "comment": "from CI"})
    assert answer.status_code == 200
    assert answer.json["answer"] == "accepted"
    assert call(site, f"/plans/{plan}").json["approvals"][0]["who"] == "maria@corp", "one person under two log-ins counts once"
    assert call(site, f"/plans/{plan}/approve", method="POST", body={"digest": digest}).json["answer"] == "already"


def test_a_superseded_plan_names_its_replacement(site: Site) -> None:
    plan = site.fleet.plans["superseded"]
    answer = call(site, f"/plans/{plan}/approve", method="POST", body={"digest": call(site, f"/plans/{plan}").json["digest"]})
    assert answer.status_code == 409
    assert answer.json["replacement_id"] == site.fleet.plans["replacement"]


def test_a_deletion_needs_the_typed_name_here_too(site: Site) -> None:
    plan = site.fleet.plans["lab/scratch asked"]
    read = call(site, f"/plans/{plan}").json
    assert read["asked"]["typed_name"] == "lab/scratch"
    body = {"digest": read["digest"]}
    assert call(site, f"/plans/{plan}/approve", method="POST", body=body).status_code == 403
    assert call(site, f"/plans/{plan}/approve", method="POST", body={**body, "typed_name": "lab/scratch"}).status_code == 200


def test_rejecting_and_withdrawing_work(site: Site) -> None:
    plan = site.fleet.plans["prod/shop asked"]
    digest = call(site, f"/plans/{plan}").json["digest"]
    assert call(site, f"/plans/{plan}/reject", method="POST", body={"digest": digest}).json["answer"] == "accepted"
    assert call(site, f"/plans/{plan}").json["status"] == "Rejected"
    assert call(site, f"/plans/{plan}/withdraw", method="POST", body={}).json["answer"] == "accepted"


def test_runs_have_their_steps(site: Site) -> None:
    assert [one["id"] for one in call(site, "/runs").json["items"]] == [419, 418, 417, 414]
    run = call(site, "/runs/417").json
    assert run["counts"] == {"Done": 3, "Failed": 1, "Blocked": 4}
    assert "Pool.Allocate" in run["steps"]["items"][2]["error"]


def test_lists_are_paged_with_links(site: Site) -> None:
    plan = site.change(lambda fleet: large_plan(fleet, "prod/media", 250))
    first = call(site, f"/plans/{plan}").json["actions"]
    assert (len(first["items"]), first["total"], first["next"]) == (100, 250, f"/api/v1/plans/{plan}?page=2")
    last = call(site, f"/plans/{plan}?page=3").json["actions"]
    assert (len(last["items"]), last["next"]) == (50, None)


def test_closed_plans_are_asked_for(site: Site) -> None:
    assert {one["status"] for one in call(site, "/plans?state=closed").json["items"]} >= {"Superseded", "Stale", "Done", "Failed in part"}
    assert all(one["closed_at"] is None for one in call(site, "/plans").json["items"])


@pytest.mark.parametrize(
    "header",
    [
        "PVEAPIToken=maria@corp!ci=00000000-0000-0000-0000-000000000000",
        "PVEAPIToken=maria@corp",
        "Bearer something",
        "Basic bWFyaWE6b2Fr",
        "",
        "PVEAPIToken=" + "x" * 2000,
    ],
)
def test_a_token_that_proxmox_ve_does_not_accept_opens_nothing(site: Site, header: str) -> None:
    answer = call(site, "/clusters", header)
    assert answer.status_code == 401
    assert answer.json["status"] == 401


def test_a_token_is_no_session_and_opens_no_page(site: Site) -> None:
    client = site.app.test_client()
    assert client.get("/clusters", base_url=BASE, headers={"Authorization": MARIA}).status_code == 303
    answer = client.get("/api/v1/clusters", base_url=BASE, headers={"Authorization": MARIA})
    assert answer.headers.get_all("Set-Cookie") == []
    assert client.get("/api/v1/clusters", base_url=BASE).status_code == 401


def test_a_token_is_kept_nowhere(site: Site) -> None:
    secret = "11111111-2222-3333-4444-555555555555"
    answer = call(site, f"/plans/{site.fleet.plans['prod/shop asked']}/approve", method="POST", body={"digest": "x"})
    assert secret not in answer.text
    with site.database.read() as session:
        dump = "\n".join(session.connection().connection.driver_connection.iterdump())  # type: ignore[union-attr]
    assert secret not in dump


def test_a_session_may_use_it_and_its_changes_bear_a_token(site: Site, maria: Browser) -> None:
    plan = site.fleet.plans["prod/shop asked"]
    assert maria.get("/api/v1/plans").json["total"] == 6  # type: ignore[index]
    path = f"/api/v1/plans/{plan}/reject"
    without = maria.client.post(path, base_url=BASE, json={"digest": "x"})
    assert without.status_code == 400
    headers = {"X-CSRFToken": maria.token(), "Origin": BASE}
    assert maria.client.post(path, base_url=BASE, json={"digest": "x"}, headers=headers).status_code == 409


@pytest.mark.parametrize(("body", "status"), [(["x"], 400), ({"digest": 7}, 400), ("text", 400), ({"digest": {"a": 1}}, 400)])
def test_a_body_of_another_form_is_refused(site: Site, body: Any, status: int) -> None:
    assert call(site, f"/plans/{site.fleet.plans['prod/shop asked']}/approve", method="POST", body=body).status_code == status


def test_a_body_that_is_no_json_is_refused(site: Site) -> None:
    path = f"/api/v1/plans/{site.fleet.plans['prod/shop asked']}/approve"
    client = site.app.test_client()
    assert client.post(path, base_url=BASE, data={"digest": "x"}, headers={"Authorization": MARIA}).status_code == 415
    broken = client.post(path, base_url=BASE, data="{", content_type="application/json", headers={"Authorization": MARIA})
    assert broken.status_code == 400
    assert broken.json is not None


def test_proxmox_ve_being_away_is_503(site: Site) -> None:
    site.people.down = True
    answer = call(site, "/clusters")
    assert answer.status_code == 503
    assert "does not answer" in answer.json["error"]


def test_a_person_without_the_privilege_is_refused_in_words(site: Site) -> None:
    site.people.listed["jonas@corp"]["/pool/kubehenge/prod.shop"] = {"VM.Audit": True}
    plan = site.fleet.plans["prod/shop asked"]
    digest = call(site, f"/plans/{plan}", JONAS).json["digest"]
    answer = call(site, f"/plans/{plan}/approve", JONAS, method="POST", body={"digest": digest})
    assert answer.status_code == 403
    assert "VM.Allocate on /pool/kubehenge/prod.shop" in answer.json["message"]
    assert call(site, f"/plans/{plan}").json["status"] == "Waiting for approval"
    with site.database.read() as session:
        from kubehenge.store.rows import PlanRow

        assert session.get_one(PlanRow, plan).state is PlanState.OPEN
