"""ACCEPTANCE 4.2: the headers of every answer, exactly, and the cookie."""

from __future__ import annotations

from pathlib import Path

import pytest

import kubehenge.web
from tests.web.browsing import BASE, Browser
from tests.web.conftest import Site

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)

ANSWERS = [
    "/sign-in",
    "/clusters",
    "/plans",
    "/plans/999999",
    "/nothing",
    "/fragments/tasks",
    "/api/v1/clusters",
    "/api/v1/plans/999999",
    "/static/kubehenge.css",
    "/static/nothing.css",
    "/healthz",
    "/readyz",
    "/metrics",
]


@pytest.mark.parametrize("path", ANSWERS)
def test_every_answer_has_the_same_policy(site: Site, maria: Browser, path: str) -> None:
    for browser in (maria, Browser(site.app)):
        headers = browser.client.get(path, base_url=BASE, buffered=True).headers
        assert headers.get_all("Content-Security-Policy") == [CSP]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_pages_are_kept_nowhere_and_static_files_are(maria: Browser) -> None:
    assert maria.get("/clusters").headers["Cache-Control"] == "no-store"
    assert maria.get("/api/v1/clusters").headers["Cache-Control"] == "no-store"
    assert "max-age=3600" in maria.get("/static/kubehenge.css").headers["Cache-Control"]


def test_the_cookie_is_bound_to_the_host_and_out_of_reach_of_scripts(site: Site) -> None:
    browser = Browser(site.app)
    cookie = browser.sign_in("maria@corp", "oak").headers["Set-Cookie"]
    name, _equals, rest = cookie.partition("=")
    parts = [part.strip() for part in rest.split(";")[1:]]
    assert name == "__Host-kubehenge"
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=28800"} <= set(parts)
    assert not any(part.startswith("Domain") for part in parts)
    assert len(rest.split(";")[0]) == 43


def test_no_other_cookie_is_ever_set(site: Site) -> None:
    browser = Browser(site.app)
    for path in ("/sign-in", "/clusters", "/static/kubehenge.css", "/healthz"):
        for cookie in browser.get(path).headers.get_all("Set-Cookie"):
            assert cookie.startswith("__Host-kubehenge=")


def test_templates_hold_nothing_inline_and_trust_nothing() -> None:
    folder = Path(kubehenge.web.__file__).parent / "templates"
    templates = list(folder.rglob("*.html"))
    assert len(templates) > 30
    for path in templates:
        text = path.read_text("utf-8")
        for forbidden in ("|safe", "| safe", "autoescape", " style=", "<style", " onclick", " onload", " onsubmit", "javascript:", "data:"):
            assert forbidden not in text, (path.name, forbidden)
        for start in text.split("<script")[1:]:
            assert start.startswith(" src="), path.name


def test_the_stylesheet_loads_nothing() -> None:
    text = (Path(kubehenge.web.__file__).parent / "static" / "kubehenge.css").read_text("utf-8")
    assert "url(" not in text
    assert "@import" not in text
