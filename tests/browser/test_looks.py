"""Every page as people see it: light, dark and narrow, without a complaint of the browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import LOOKS, Served, Window, open_window

pytestmark = pytest.mark.browser

PAGES = {
    "clusters": "/clusters",
    "cluster-summary": "/clusters/prod/shop",
    "cluster-machines": "/clusters/prod/media/machines",
    "cluster-conditions": "/clusters/tools/rancher/conditions?which=all",
    "cluster-read-only": "/clusters/team-data/warehouse",
    "cluster-plans": "/clusters/prod/shop/plans",
    "plans": "/plans",
    "plan-waiting": "/plans/{prod/shop asked}",
    "plan-impossible": "/plans/{lab/ml asked}",
    "plan-delete": "/plans/{lab/scratch asked}",
    "plan-superseded": "/plans/{superseded}",
    "plan-stale": "/plans/{stale}",
    "plan-create": "/plans/{prod/search asked}",
    "plan-action": "/plans/{prod/search asked}/actions/8",
    "run": "/runs/418",
    "run-failed": "/runs/417",
    "runs": "/runs",
    "approvals": "/approvals",
    "sources": "/sources",
    "source": "/sources/1",
    "freezes": "/freezes",
    "ledger": "/ledger",
    "find": "/find?q=prod",
}


@pytest.fixture(scope="module", params=list(LOOKS))
def looking(request: pytest.FixtureRequest, chromium: Browser, shared: Served) -> Iterator[tuple[str, Window]]:
    window = open_window(chromium, shared.base, **LOOKS[request.param])
    window.sign_in()
    yield request.param, window
    window.context.close()


def take(window: Window, path: Path) -> None:
    """Photograph the whole page, with what is sticky where it belongs."""
    size = window.page.viewport_size or {"width": 1280, "height": 900}
    height = int(window.page.evaluate("document.documentElement.scrollHeight"))
    window.page.set_viewport_size({"width": size["width"], "height": max(height, size["height"])})
    window.page.screenshot(path=str(path))
    window.page.set_viewport_size(size)


@pytest.mark.parametrize("name", list(PAGES))
def test_a_page_is_shown_without_a_complaint(looking: tuple[str, Window], shared: Served, shots: Path, name: str) -> None:
    look, window = looking
    path = PAGES[name]
    for plan, number in shared.site.fleet.plans.items():
        path = path.replace(f"{{{plan}}}", str(number))
    window.complaints.clear()
    window.open(path)
    assert window.page.locator("main h1").count() == 1
    assert not window.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"), (
        "it is wider than the window"
    )
    take(window, shots / f"{name}.{look}.png")
    window.check()


def test_the_page_for_what_is_not_there_is_shown(looking: tuple[str, Window], shots: Path) -> None:
    look, window = looking
    window.open("/clusters/prod/shopp")
    take(window, shots / f"not-found.{look}.png")
    assert window.page.locator("h1").inner_text() == "Not found"
    window.complaints.clear()  # the browser notes the 404 itself


def test_every_target_is_large_enough_to_hit(looking: tuple[str, Window]) -> None:
    """WCAG 2.2, 2.5.8: 24 by 24, links in a line of text and in a cell set apart."""
    look, window = looking
    window.open("/clusters")
    small = window.page.evaluate(
        """() => Array.from(document.querySelectorAll("button, .btn, .tree a, .views a, .facets a, summary, select, input:not([type=hidden])"))
        .map((one) => [one.textContent.trim().slice(0, 30), one.getBoundingClientRect()])
        .filter(([text, box]) => box.width > 0 && (box.width < 24 || box.height < 24)).map(([text]) => text)"""
    )
    assert small == [], look


def test_the_sign_in_is_shown(chromium: Browser, shared: Served, shots: Path) -> None:
    for look, options in LOOKS.items():
        window = open_window(chromium, shared.base, **options)
        window.open("/sign-in")
        take(window, shots / f"sign-in.{look}.png")
        window.check()
        window.context.close()
