"""Approving, rejecting, freezing and accepting from the page, over the real decisions (ACCEPTANCE 1.3 to 1.7; MODEL 15, 18, 28)."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import select

from kubehenge.model.plan import PlanState
from kubehenge.store.plans import close_plan
from kubehenge.store.reads.plans import PlanView, find_plan
from kubehenge.store.reads.visible import EVERYTHING
from kubehenge.store.rows import ApprovalRow, ApprovalVerdict, FreezeRow, PlanRow, SourceRow
from tests.web.browsing import BASE, HTML, Browser, parse, text_of
from tests.web.conftest import Site
from tests.web.factories import NOW, Fleet


def plan_of(site: Site, name: str) -> PlanView:
    with site.database.read() as session:
        found = find_plan(session, site.fleet.site_id, EVERYTHING, site.fleet.plans[name])
    assert found is not None
    return found


def form_of(browser: Browser, path: str) -> dict[str, str]:
    """The fields that the approval form of a plan's page sends."""
    form = parse(browser.get(path).text).find(f".//{HTML}aside[@id='approval']//{HTML}form")
    assert form is not None
    return {field.get("name", ""): field.get("value", "") for field in form.iter(f"{HTML}input") if field.get("name") != "csrf_token"}


def test_a_plan_that_was_read_is_approved_with_one_press(site: Site, maria: Browser) -> None:
    plan = site.fleet.plans["prod/shop asked"]
    answer = maria.post(f"/plans/{plan}/approve", {**form_of(maria, f"/plans/{plan}"), "comment": "After lunch."})
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/plans/{plan}")
    page = text_of(maria.get(f"/plans/{plan}"))
    assert "Approved. It starts now." in page
    assert "After lunch." in page
    assert plan_of(site, "prod/shop asked").line.state is PlanState.APPROVED
    assert site.rung == ["apply"]
    assert "Approved. It starts now." not in text_of(maria.get(f"/plans/{plan}")), "a flash stays until the next page only"


def test_the_approval_is_kept_with_digest_person_and_time(site: Site, maria: Browser) -> None:
    plan = site.fleet.plans["prod/shop asked"]
    maria.post(f"/plans/{plan}/approve", form_of(maria, f"/plans/{plan}"))
    with site.database.read() as session:
        row = session.scalars(select(ApprovalRow).where(ApprovalRow.plan_id == plan)).one()
    assert (row.who, row.verdict, row.at) == ("maria@corp", ApprovalVerdict.APPROVE, NOW)
    assert row.digest == plan_of(site, "prod/shop asked").line.digest


def test_an_approval_of_a_superseded_plan_is_409_and_names_its_replacement(site: Site, maria: Browser) -> None:
    """ACCEPTANCE 1.4."""
    plan, newer = site.fleet.plans["superseded"], site.fleet.plans["replacement"]
    answer = maria.post(f"/plans/{plan}/approve", {"digest": plan_of(site, "superseded").line.digest})
    assert answer.status_code == 409
    page = text_of(answer)
    assert "Not approved: this plan was replaced while you read it. Your approval was not counted." in page
    assert f"/plans/{newer}" in answer.text
    assert "e0c35f1a7d42" in page
    with site.database.read() as session:
        assert "maria@corp" not in session.scalars(select(ApprovalRow.who).where(ApprovalRow.plan_id == plan)).all()


def test_a_plan_that_is_replaced_while_its_page_is_open_is_not_approved(site: Site, maria: Browser) -> None:
    plan = site.fleet.plans["prod/shop asked"]
    form = form_of(maria, f"/plans/{plan}")

    def replace(fleet: Fleet) -> None:
        row = fleet.session.get_one(PlanRow, plan)
        close_plan(fleet.session, row, PlanState.SUPERSEDED, tick=88_300, now=NOW, reason="A newer revision changed its file.")

    site.change(replace)
    assert maria.post(f"/plans/{plan}/approve", form).status_code == 409
    assert plan_of(site, "prod/shop asked").line.state is PlanState.SUPERSEDED


def test_another_digest_than_the_one_that_was_read_is_a_conflict(site: Site, maria: Browser) -> None:
    plan = site.fleet.plans["prod/shop asked"]
    answer = maria.post(f"/plans/{plan}/approve", {"digest": "0" * 64})
    assert answer.status_code == 409
    assert plan_of(site, "prod/shop asked").line.state is PlanState.OPEN


def test_approving_twice_leads_to_what_came_of_it(site: Site, maria: Browser) -> None:
    """ACCEPTANCE 1.3."""
    run = site.fleet.runs["prod/billing"]
    plan = site.fleet.plans["prod/billing asked"]
    answer = maria.post(f"/plans/{plan}/approve", {"digest": plan_of(site, "prod/billing asked").line.digest})
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/runs/{run}")
    assert "carried out already" in text_of(maria.get(f"/runs/{run}"))


def test_twenty_browsers_at_once_approve_once(site: Site) -> None:
    """ACCEPTANCE 1.3."""
    plan = site.fleet.plans["prod/shop asked"]
    digest = plan_of(site, "prod/shop asked").line.digest
    browsers = [site.browser("maria@corp") for _ in range(20)]
    tokens = [browser.token() for browser in browsers]
    together, answers = threading.Barrier(20), []

    def press(browser: Browser, token: str) -> None:
        together.wait(timeout=30)
        form = {"digest": digest, "csrf_token": token}
        answers.append(browser.client.post(f"/plans/{plan}/approve", data=form, base_url=BASE, headers={"Origin": BASE}).status_code)

    threads = [threading.Thread(target=press, args=pair) for pair in zip(browsers, tokens, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [303] * 20
    assert site.rung == ["apply"]
    with site.database.read() as session:
        assert len(session.scalars(select(ApprovalRow).where(ApprovalRow.plan_id == plan)).all()) == 1


def test_a_deletion_asks_for_the_name_and_a_wrong_one_deletes_nothing(site: Site, maria: Browser) -> None:
    """ACCEPTANCE 1.7."""
    plan = site.fleet.plans["lab/scratch asked"]
    form = form_of(maria, f"/plans/{plan}")
    assert "typed_name" in form
    answer = maria.post(f"/plans/{plan}/approve", {**form, "typed_name": "lab/scrach", "comment": "Really."})
    assert answer.status_code == 422
    assert "That is not its name. Nothing was deleted." in text_of(answer)
    assert 'value="lab/scrach"' in answer.text, "what was typed is kept"
    assert "Really." in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert maria.post(f"/plans/{plan}/approve", {**form, "typed_name": ""}).status_code == 422
    assert plan_of(site, "lab/scratch asked").line.state is PlanState.OPEN
    assert maria.post(f"/plans/{plan}/approve", {**form, "typed_name": "lab/scratch"}).status_code == 303
    assert plan_of(site, "lab/scratch asked").line.state is PlanState.APPROVED


def test_a_plan_that_the_guard_holds_asks_for_the_name_too(site: Site, maria: Browser) -> None:
    plan = site.fleet.plans["prod/shop asked"]
    reason = "The commit removes 9 of the site's 51 machines; more than 5 asks for the name."
    site.change(lambda fleet: setattr(fleet.session.get_one(PlanRow, plan), "held", reason))
    page = text_of(maria.get(f"/plans/{plan}"))
    assert reason in page
    assert "The name, typed: prod/shop" in page


def test_a_plan_that_cannot_finish_shows_why_and_offers_no_approval(site: Site, maria: Browser) -> None:
    """MODEL 18."""
    plan = site.fleet.plans["lab/ml asked"]
    response = maria.get(f"/plans/{plan}")
    page = text_of(response)
    for words in (
        "Why it cannot finish",
        "Addresses",
        "3 short",
        "The smallest change that makes it possible",
        "203.0.113.21-203.0.113.29",
    ):
        assert words in page
    assert "Cannot be approved" in page
    assert f"/plans/{plan}/approve" not in response.text
    answer = maria.post(f"/plans/{plan}/approve", {"digest": plan_of(site, "lab/ml asked").line.digest})
    assert answer.status_code == 403
    assert "This plan cannot finish" in text_of(answer)


def test_someone_without_the_privilege_reads_why_and_cannot_approve(site: Site) -> None:
    tomas = site.browser("tomas@corp")
    plan = site.fleet.plans["prod/shop asked"]
    page = text_of(tomas.get(f"/plans/{plan}"))
    assert "Approving it needs VM.Allocate on /pool/kubehenge/prod.shop; you hold VM.Audit there." in page
    answer = tomas.post(f"/plans/{plan}/approve", {"digest": plan_of(site, "prod/shop asked").line.digest})
    assert answer.status_code == 403
    assert "Deciding on it needs VM.Allocate on /pool/kubehenge/prod.shop." in text_of(answer)


def test_a_change_asks_proxmox_ve_anew_for_the_privilege(site: Site, maria: Browser) -> None:
    plan = site.fleet.plans["prod/shop asked"]
    form = form_of(maria, f"/plans/{plan}")
    site.people.listed["maria@corp"] = {"/": {}, "/pool/kubehenge": {"VM.Audit": True}}
    assert maria.post(f"/plans/{plan}/approve", form).status_code == 403, "what was known half a minute ago does not count"
    assert plan_of(site, "prod/shop asked").line.state is PlanState.OPEN


def test_a_rejection_blocks_until_who_made_it_withdraws_it(site: Site, maria: Browser) -> None:
    """ACCEPTANCE 1.6."""
    plan = site.fleet.plans["prod/shop asked"]
    maria.post(f"/plans/{plan}/reject", {**form_of(maria, f"/plans/{plan}"), "comment": "Not on a Monday."})
    page = maria.get(f"/plans/{plan}")
    assert "Rejected" in text_of(page)
    assert "Not on a Monday." in text_of(page)
    assert f"/plans/{plan}/withdraw" in page.text
    site.people.listed["tomas@corp"] = site.people.listed["maria@corp"]
    tomas = site.browser("tomas@corp")
    theirs = tomas.get(f"/plans/{plan}")
    assert "maria@corp rejected it; they can withdraw that." in text_of(theirs)
    assert f"/plans/{plan}/withdraw" not in theirs.text
    assert maria.post(f"/plans/{plan}/withdraw").status_code == 303
    assert plan_of(site, "prod/shop asked").line.word.value == "Waiting for approval"
    assert "Your approval" in text_of(maria.get(f"/plans/{plan}"))


def test_the_two_lanes_of_a_cluster_stand_beside_each_other(site: Site, maria: Browser) -> None:
    """MODEL 11."""
    asked, upkeep = site.fleet.plans["prod/shop asked"], site.fleet.plans["prod/shop upkeep"]
    page = maria.get(f"/plans/{asked}")
    assert "Upkeep, beside it nobody asked for it in Git; it does not wait with this plan" in text_of(page)
    assert f'href="/plans/{upkeep}"' in page.text
    other = maria.get(f"/plans/{upkeep}")
    assert "What was asked, beside it" in text_of(other)
    assert f'href="/plans/{asked}"' in other.text
    assert "PVEAuditor" in text_of(other), "the drift that it puts back is shown"


def test_a_freeze_is_on_every_page_until_it_is_ended(site: Site, maria: Browser) -> None:
    """MODEL 28."""
    assert maria.post("/freezes", {"scope": "", "reason": "Moving the racks.", "hours": ""}).status_code == 303
    for path in ("/clusters", "/plans", f"/plans/{site.fleet.plans['prod/shop asked']}", "/clusters/prod/shop"):
        assert "The whole site is frozen . Moving the racks. By maria@corp".replace(" .", ".") in text_of(maria.get(path)).replace(
            " .", "."
        )
    plan = site.fleet.plans["prod/shop upkeep"]
    assert "Held back" in text_of(maria.get(f"/plans/{plan}"))
    with site.database.read() as session:
        freeze = session.scalars(select(FreezeRow.id)).one()
    assert maria.post(f"/freezes/{freeze}/end").status_code == 303
    assert "frozen" not in text_of(maria.get("/clusters"))


def test_a_freeze_of_one_cluster_is_seen_by_who_sees_the_cluster(site: Site, maria: Browser) -> None:
    maria.post("/freezes", {"scope": "prod/shop", "reason": "A campaign."})
    assert "prod/shop is frozen" in text_of(maria.get("/clusters"))
    assert "A campaign" not in text_of(site.browser("jonas@corp").get("/clusters"))


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"reason": ""}, "Say why"),
        ({"reason": "x", "scope": "prod/none/such"}, "There is no cluster prod/none/such"),
        ({"reason": "x", "hours": "soon"}, "soon is no number of hours."),
        ({"reason": "x", "hours": "-1"}, "at most 744 hours"),
        ({"reason": "x", "duties": "yes"}, "say for how many"),
        ({"reason": "x", "duties": "yes", "hours": "5"}, "at most 4 hours"),
        ({"reason": "x", "hours": "nan"}, "at most 744 hours"),
    ],
)
def test_a_freeze_that_cannot_be_is_refused_in_its_form(site: Site, maria: Browser, form: dict[str, str], words: str) -> None:
    answer = maria.post("/freezes", form)
    assert answer.status_code == 422
    assert words in text_of(answer)
    with site.database.read() as session:
        assert session.scalars(select(FreezeRow)).all() == []


def test_freezing_duties_needs_sys_modify(site: Site) -> None:
    site.people.codes.clear()
    aisha = site.browser("aisha@corp")
    answer = aisha.post("/freezes", {"reason": "x", "duties": "yes", "hours": "1"})
    assert answer.status_code == 403
    assert "This needs Sys.Modify on /pool/kubehenge" in text_of(answer)
    assert aisha.post("/freezes", {"reason": "x", "hours": "1"}).status_code == 303


def test_a_rewritten_history_waits_for_someone_with_sys_modify(site: Site, maria: Browser) -> None:
    """ACCEPTANCE 1.9."""
    page = text_of(maria.get("/sources"))
    for words in ("lab-team: the history was rewritten", "c07e55d", "2ab91f4", "b6120aa Fix gateway"):
        assert words in page
    source = site.fleet.sources["lab-team"]
    head = "2ab91f4" + "0" * 33
    tomas = site.browser("tomas@corp")
    assert tomas.post(f"/sources/{source}/accept", {"sha": head}).status_code == 403
    assert maria.post(f"/sources/{source}/accept", {"sha": "f" * 40}).status_code == 409
    assert maria.post(f"/sources/{source}/accept", {"sha": head}).status_code == 303
    with site.database.read() as session:
        assert session.get_one(SourceRow, source).state.value == "new"
    assert site.rung == ["tick"]


def test_reading_and_planning_again_wakes_the_loop(site: Site, maria: Browser) -> None:
    assert maria.post("/plans/again", {"back": "/plans/3"}).headers["Location"] == "/plans/3"
    assert maria.post("/plans/again", {"back": "//evil.example.org"}).headers["Location"] == "/plans"
    assert maria.post("/sources/read").status_code == 303
    assert site.rung == ["tick"] * 3
