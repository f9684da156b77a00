"""ACCEPTANCE 4.1: no page, fragment, hook or API route answers without its check; one walk over the whole URL map."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from werkzeug.routing import Rule

from kubehenge.errors import InvariantError
from kubehenge.web import app as app_module
from kubehenge.web.auth import Check, check_of
from tests.web.browsing import BASE, Browser
from tests.web.conftest import Site

PUBLIC = {
    "static",
    "sign_in.form",
    "sign_in.submit",
    "sign_in.factor_form",
    "sign_in.factor",
    "health.live",
    "health.ready",
}
"""All that answers anyone; none of it shows anything of the site."""

OTHER_CHECKS = {"hooks.git": Check.SIGNATURE, "health.metrics": Check.BEARER}

SHOWS_ONE_THING = {"namespace", "plan_id", "run_id", "source_id", "freeze_id", "digest"}


def rules(app: Flask) -> list[Rule]:
    return list(app.url_map.iter_rules())


def calls(site: Site) -> Iterator[tuple[str, str, str]]:
    """Every route with each of its methods, and an address of a thing that is there."""
    plan = site.fleet.plans["prod/shop asked"]
    values = {
        "namespace": "prod",
        "name": "shop",
        "plan_id": plan,
        "position": 1,
        "digest": "7c1e90b2d4f8",
        "run_id": site.fleet.runs["prod/billing"],
        "source_id": site.fleet.sources["fleet"],
        "freeze_id": 1,
        "source": "fleet",
        "filename": "kubehenge.css",
    }
    adapter = site.app.url_map.bind("kubehenge.example.org", url_scheme="https")
    for rule in rules(site.app):
        needed = {name: values[name] for name in rule.arguments}
        for method in sorted((rule.methods or set()) - {"OPTIONS", "HEAD"}):
            yield rule.endpoint, method, adapter.build(rule.endpoint, needed, method=method)


def test_every_route_names_its_check(site: Site) -> None:
    for rule in rules(site.app):
        assert check_of(site.app, rule.endpoint) is not None, rule


def test_what_answers_anyone_is_a_closed_list(site: Site) -> None:
    assert {rule.endpoint for rule in rules(site.app) if check_of(site.app, rule.endpoint) is Check.PUBLIC} == PUBLIC


def test_only_the_hook_and_the_metrics_have_checks_of_their_own(site: Site) -> None:
    found = {
        rule.endpoint: check_of(site.app, rule.endpoint)
        for rule in rules(site.app)
        if check_of(site.app, rule.endpoint) not in {Check.PUBLIC, Check.SIGNED_IN, Check.API}
    }
    assert found == OTHER_CHECKS


def test_a_visitor_gets_nothing_from_any_route(site: Site) -> None:
    browser = Browser(site.app)
    for endpoint, method, path in calls(site):
        if endpoint in PUBLIC or endpoint in OTHER_CHECKS:
            continue
        response = browser.client.open(path, method=method, base_url=BASE)
        if endpoint.startswith(("api.", "fragments.")):
            assert response.status_code == 401, (method, path)
        else:
            assert response.status_code == 303, (method, path)
            assert response.headers["Location"].startswith("/sign-in"), (method, path)
        assert "shop" not in response.text.replace(path, ""), (method, path)


def test_a_visitor_gets_the_same_for_what_is_not_there(site: Site) -> None:
    browser = Browser(site.app)
    for path in ("/clusters/no/where", "/nothing", "/plans/999999"):
        response = browser.client.get(path, base_url=BASE)
        assert (response.status_code, response.headers["Location"].partition("?")[0]) == (303, "/sign-in"), path


def test_someone_without_rights_finds_nothing_behind_any_address(site: Site) -> None:
    browser = site.browser("nobody@pve")
    token = browser.token()
    for endpoint, method, path in calls(site):
        rule = next(rule for rule in rules(site.app) if rule.endpoint == endpoint)
        if endpoint in PUBLIC or endpoint in OTHER_CHECKS or not SHOWS_ONE_THING & set(rule.arguments):
            continue
        response = browser.client.open(
            path,
            method=method,
            base_url=BASE,
            headers={"Origin": BASE, "X-CSRFToken": token},
            json={} if endpoint.startswith("api.") else None,
        )
        assert response.status_code == 404, (method, path, response.status_code)


def test_lists_show_nothing_to_someone_without_rights(site: Site) -> None:
    browser = site.browser("nobody@pve")
    for path in (
        "/clusters",
        "/plans?state=closed",
        "/approvals",
        "/runs",
        "/sources",
        "/ledger",
        "/freezes",
        "/find?q=sho",
        "/api/v1/plans",
        "/api/v1/clusters",
    ):
        text = browser.get(path).text
        for hidden in ("shop", "kiosk", "7c1e90b2d4f8", "git.example.org", "tomas@corp"):
            assert hidden not in text, (path, hidden)


def test_every_change_asks_for_the_token_of_its_session(site: Site) -> None:
    browser = site.browser("maria@corp")
    for endpoint, method, path in calls(site):
        if method != "POST" or endpoint in OTHER_CHECKS:
            continue
        for headers in ({"Origin": BASE}, {"Origin": BASE, "X-CSRFToken": "wrong"}, {"Origin": "https://elsewhere.example.org"}):
            sent = {"csrf_token": browser.token()} if "elsewhere" in headers["Origin"] else {}
            response = browser.client.post(path, base_url=BASE, headers=headers, data=sent)
            assert response.status_code == 400, (path, headers)
    assert site.rung == []


def test_a_route_without_a_check_keeps_the_page_from_starting(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(site.app.view_functions["plans.index"], "check")
    with pytest.raises(InvariantError, match=r"plans\.index"):
        app_module._require_checks(site.app)
