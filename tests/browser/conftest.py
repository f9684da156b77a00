"""The page in a real Chromium, served over TLS by the real application."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from werkzeug.serving import WSGIRequestHandler, make_server

from kubehenge.web.services import WebSettings
from tests.web.conftest import SETTINGS, Site, empty_database, make_site, plain_log
from tests.web.factories import whole_fleet

__all__ = ["plain_log"]

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "400": {"viewport": {"width": 400, "height": 800}, "color_scheme": "light"},
}
"""How people look at a page; screenshots are taken in each."""

LISTEN = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective + " " + event.blockedURI));
"""


def find_chromium() -> str | None:
    """Where Chromium is on this machine."""
    return next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)


class Quiet(WSGIRequestHandler):
    """Logs no request."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - werkzeug's name
        return


@dataclass(slots=True)
class Served:
    """A site behind an address."""

    site: Site
    base: str


@dataclass(slots=True)
class Window:
    """A browser's window, and everything that it complained about."""

    page: Page
    context: BrowserContext
    base: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        self.page.goto(self.base + path, wait_until="load")

    def sign_in(self, user: str = "maria", password: str = "oak") -> None:
        self.open("/sign-in")
        self.page.fill("#user", user)
        self.page.fill("#password", password)
        self.page.click("button.primary")
        self.page.wait_for_url("**/clusters")

    def check(self) -> None:
        """Refuse what the browser complained about, and what the policy kept it from."""
        violations = self.page.evaluate("window.violations || []")
        assert not violations
        assert not self.complaints


def serve(tmp_path: Path, settings: WebSettings = SETTINGS) -> Iterator[Served]:
    database = empty_database(tmp_path / "state.db")
    with database.write() as session:
        fleet = whole_fleet(session)
    site = make_site(database, fleet, settings=replace(settings, public_url=""))
    server = make_server("127.0.0.1", 0, site.app, threaded=True, ssl_context="adhoc", request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Served(site=site, base=f"https://127.0.0.1:{server.server_port}")
    server.shutdown()
    thread.join(timeout=10)
    server.server_close()
    database.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    yield from serve(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One site for the tests that only look."""
    yield from serve(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        pytest.skip("there is no chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: the folder that SHOTS_DIR names, or one that pytest keeps for a while."""
    named = os.environ.get("SHOTS_DIR")
    folder = Path(named) if named else tmp_path_factory.mktemp("shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def open_window(chromium: Browser, base: str, **options: Any) -> Window:
    context = chromium.new_context(ignore_https_errors=True, **options)
    context.set_default_timeout(20_000)
    page = context.new_page()
    if options.get("java_script_enabled", True):
        page.add_init_script(LISTEN)
    window = Window(page=page, context=context, base=base)
    page.on("console", lambda message: window.complaints.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: window.complaints.append(str(error)))
    page.on("requestfailed", lambda request: window.complaints.append(f"{request.url}: {request.failure}"))
    return window


@pytest.fixture
def window(chromium: Browser, served: Served) -> Iterator[Window]:
    """A window on a site of its own."""
    found = open_window(chromium, served.base, **LOOKS["light"])
    yield found
    found.context.close()
