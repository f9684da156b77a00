"""Parts that renew themselves: the same template as the page, the same id, and an end to polling (pages, Live updates)."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from kubehenge.model.plan import PlanState, StepState
from kubehenge.store.rows import RunRow, StepRow
from tests.web.browsing import HTML, Browser, parse
from tests.web.conftest import Site
from tests.web.factories import NOW, Fleet

PARTS = [
    ("/clusters", "cluster-table", "/fragments/cluster-table"),
    ("/clusters?ns=lab&order=-version", "cluster-table", "/fragments/cluster-table"),
    ("/clusters/prod/shop", "cluster-summary", "/fragments/clusters/prod/shop/summary"),
    ("/clusters/prod/media/machines", "machines", "/fragments/clusters/prod/media/machines"),
    ("/plans", "plan-table", "/fragments/plan-table"),
    ("/plans?state=closed&q=staging", "plan-table", "/fragments/plan-table"),
    ("/plans/{plan}", "approval", "/fragments/plans/{plan}/approval"),
    ("/approvals", "approvals", "/fragments/approvals"),
    ("/runs/418", "run", "/fragments/runs/418"),
    ("/runs/418?word=Done", "run", "/fragments/runs/418"),
    ("/runs/418", "run-log", "/fragments/runs/418/log"),
    ("/sources", "source-1", "/fragments/sources/1"),
    ("/ledger", "tasks", "/fragments/tasks"),
]


@pytest.mark.parametrize(("page", "part", "address"), PARTS)
def test_a_part_by_itself_is_the_part_of_its_page(site: Site, maria: Browser, page: str, part: str, address: str) -> None:
    plan = site.fleet.plans["prod/shop asked"]
    element = parse(maria.get(page.format(plan=plan)).text).find(f".//*[@id='{part}']")
    assert element is not None
    url = element.get("data-hx-get", "")
    assert url.partition("?")[0] == address.format(plan=plan)
    assert element.get("data-hx-swap") == "outerHTML"
    assert element.get("data-hx-trigger") in {"every 2s", "every 5s", "every 10s"}
    alone = parse(maria.get(url).text).find(f".//*[@id='{part}']")
    assert alone is not None

    def words(found: object) -> str:
        return " ".join(" ".join(found.itertext()).split())  # type: ignore[attr-defined]

    assert words(alone) == words(element)
    assert alone.get("data-hx-get", "").partition("?")[0] == url.partition("?")[0]


def test_a_run_that_has_ended_polls_no_more(site: Site, maria: Browser) -> None:
    assert "data-hx-trigger" in maria.get("/fragments/runs/418").text

    def end(fleet: Fleet) -> None:
        fleet.session.execute(update(RunRow).where(RunRow.id == 418).values(ended_at=NOW, outcome=PlanState.DONE))
        fleet.session.execute(update(StepRow).where(StepRow.run_id == 418).values(state=StepState.DONE))

    site.change(end)
    for path in ("/fragments/runs/418", "/fragments/runs/418/log"):
        assert "data-hx-trigger" not in maria.get(path).text
    page = maria.get("/runs/418")
    assert 'id="run" aria-labelledby="pr">' in page.text


def test_a_plan_that_is_closed_polls_no_more(site: Site, maria: Browser) -> None:
    assert "data-hx-trigger" not in maria.get(f"/fragments/plans/{site.fleet.plans['superseded']}/approval").text


def test_a_part_of_an_ended_session_is_401_and_no_page(site: Site) -> None:
    answer = Browser(site.app).get("/fragments/tasks")
    assert answer.status_code == 401
    assert answer.mimetype == "application/json"


def test_pages_work_without_script(maria: Browser) -> None:
    tree = parse(maria.get("/clusters").text)
    for element in tree.iter(f"{HTML}button"):
        assert element.get("type") in {None, "submit"}
    for form in tree.iter(f"{HTML}form"):
        assert form.get("action", "").startswith("/")
