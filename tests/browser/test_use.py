"""Using the page: with links and forms alone, and with the parts that renew themselves."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playwright.sync_api import Browser, expect
from sqlalchemy import update

from kubehenge.model.plan import PlanState, StepState
from kubehenge.store.plans import close_plan
from kubehenge.store.rows import PlanRow, RunRow, StepRow
from tests.browser.conftest import LOOKS, Served, Window, open_window
from tests.web.factories import NOW, Fleet

pytestmark = pytest.mark.browser

SOON_MS = 15_000


def test_a_plan_is_found_read_and_approved_without_any_script(chromium: Browser, served: Served) -> None:
    window = open_window(chromium, served.base, java_script_enabled=False, **LOOKS["light"])
    window.sign_in()
    page = window.page
    page.click("text=Upgrade prod/shop to v1.37.1+rke2r1, 1 worker more")
    expect(page.locator("h1")).to_contain_text("Upgrade prod/shop")
    page.fill("#say", "Read and agreed.")
    page.click("text=Approve plan 7c1e90b2d4f8")
    expect(page.locator("main")).to_contain_text("Approved. It starts now.")
    expect(page.locator("#approval")).to_contain_text("It starts as soon as a worker is free.")
    page.click("text=Git sources")
    expect(page.locator("main")).to_contain_text("clusters/lab/gpu.yaml")
    page.click("#menu-user summary")
    page.click("text=Sign out")
    expect(page.locator("h1")).to_have_text("Sign in")
    assert window.complaints == []
    window.context.close()


def test_a_deletion_is_approved_by_typing_its_name(served: Served, window: Window) -> None:
    window.sign_in()
    page = window.page
    window.open(f"/plans/{served.site.fleet.plans['lab/scratch asked']}")
    page.fill("#typed", "lab/scrach")
    page.click("text=Approve and delete lab/scratch")
    expect(page.locator("#typed-error")).to_contain_text("That is not its name. Nothing was deleted.")
    expect(page.locator("#typed")).to_be_focused()
    window.complaints.clear()  # the browser notes the 422 itself
    page.fill("#typed", "lab/scratch")
    page.click("text=Approve and delete lab/scratch")
    expect(page.locator("main")).to_contain_text("Approved. It starts now.")
    window.check()


def test_a_run_shows_its_progress_by_itself_and_then_rests(served: Served, window: Window) -> None:
    window.sign_in()
    window.open("/runs/418")
    page = window.page
    expect(page.locator("#run")).to_contain_text("5 of 7 nodes replaced")

    def go_on(fleet: Fleet) -> None:
        fleet.session.execute(
            update(StepRow).where(StepRow.run_id == 418, StepRow.position == 2).values(progress_done=6, waits_on="6 of 7 nodes replaced")
        )

    served.site.change(go_on)
    expect(page.locator("#run")).to_contain_text("6 of 7 nodes replaced", timeout=SOON_MS)

    def end(fleet: Fleet) -> None:
        fleet.session.execute(update(RunRow).where(RunRow.id == 418).values(ended_at=NOW, outcome=PlanState.DONE))
        fleet.session.execute(update(StepRow).where(StepRow.run_id == 418).values(state=StepState.DONE))

    served.site.change(end)
    expect(page.locator("#run")).to_contain_text("3 of 3 actions done", timeout=SOON_MS)
    expect(page.locator("#run[data-hx-trigger]")).to_have_count(0)
    window.check()


def test_a_plan_that_is_replaced_while_one_reads_says_so_at_once(served: Served, window: Window) -> None:
    window.sign_in()
    plan = served.site.fleet.plans["prod/shop asked"]
    window.open(f"/plans/{plan}")

    def replace(fleet: Fleet) -> None:
        close_plan(fleet.session, fleet.session.get_one(PlanRow, plan), PlanState.SUPERSEDED, tick=88_300, now=NOW)

    served.site.change(replace)
    expect(window.page.locator("#approval")).to_contain_text("A superseded plan is kept to be read.", timeout=SOON_MS)
    window.check()


def test_what_is_being_typed_survives_a_renewal(served: Served, window: Window) -> None:
    window.sign_in()
    page = window.page
    window.open(f"/plans/{served.site.fleet.plans['lab/scratch asked']}")
    page.fill("#say", "half a thought")
    page.locator("#typed").press_sequentially("lab/scr")
    with page.expect_response(lambda response: "/fragments/plans/" in response.url):
        pass
    expect(page.locator("#typed")).to_have_value("lab/scr")
    expect(page.locator("#typed")).to_be_focused()
    expect(page.locator("#say")).to_have_value("half a thought")
    window.check()


def test_what_was_opened_stays_open_over_a_renewal(window: Window) -> None:
    window.sign_in()
    page = window.page
    window.open("/ledger")
    page.click("#tasks summary")
    with page.expect_response(lambda response: "/fragments/tasks" in response.url):
        pass
    expect(page.locator("#tasks details")).to_have_attribute("open", "")
    expect(page.locator("#tasks table")).to_be_visible()


def test_a_hidden_tab_asks_for_nothing(window: Window) -> None:
    window.sign_in()
    page = window.page
    page.add_init_script("Object.defineProperty(document, 'hidden', { get: () => window.asleep === true });")
    window.open("/runs/418")
    page.evaluate("window.asleep = true")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    awake = window.context.new_page()
    awake.goto(window.base + "/runs/418")
    for _ in range(3):  # another tab of the same browser, which is seen, asks three times meanwhile
        with awake.expect_response(lambda response: "/fragments/runs/418" in response.url):
            pass
    assert asked == []
    with page.expect_response(lambda response: "/fragments/" in response.url):
        page.evaluate("window.asleep = false")


def test_a_session_that_ends_leads_to_the_sign_in_by_itself(served: Served, window: Window) -> None:
    window.sign_in()
    window.open("/runs/418")
    served.site.clock.forward(timedelta(hours=8).total_seconds())
    window.page.wait_for_url("**/sign-in?next=/runs/418", timeout=SOON_MS)


def test_a_branch_of_a_large_fleet_is_fetched_when_it_is_opened(served: Served, window: Window) -> None:
    def many(fleet: Fleet) -> None:
        for number in range(60):
            fleet.cluster(f"many/c{number:03}", seen=False)

    served.site.change(many)
    window.sign_in()
    page = window.page
    window.open("/clusters/prod/shop")
    page.click("#branch-many summary")
    expect(page.locator("#branch-many >> text=c059")).to_be_visible()
    window.check()


def test_the_tree_opens_as_a_page_of_its_own_when_narrow(chromium: Browser, served: Served) -> None:
    window = open_window(chromium, served.base, **LOOKS["400"])
    window.sign_in()
    page = window.page
    expect(page.locator("#tree")).to_be_hidden()
    page.click("text=Menu")
    expect(page.locator("#tree")).to_be_visible()
    page.click("#tree >> text=Approvals")
    expect(page.locator("h1")).to_have_text("Approvals")
    window.check()
    window.context.close()


def test_everything_can_be_reached_by_the_keyboard(served: Served, window: Window) -> None:
    window.sign_in()
    page = window.page
    window.open(f"/plans/{served.site.fleet.plans['prod/shop asked']}")
    page.keyboard.press("Tab")
    expect(page.locator("a.skip")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.includes('Approve plan')"):
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "2px"
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("Approved. It starts now.")
