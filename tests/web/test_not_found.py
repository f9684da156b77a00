"""A cluster that one may not see is answered as not found: the same words, status and headers, whether it is gone or hidden."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.web.browsing import Browser, text_of
from tests.web.conftest import Site

PAIRS = [
    ("/clusters/prod/shop", "/clusters/prod/shoq"),
    ("/clusters/prod/shop/machines", "/clusters/prod/shoq/machines"),
    ("/api/v1/clusters/prod/shop", "/api/v1/clusters/prod/shoq"),
    ("/fragments/clusters/prod/shop/summary", "/fragments/clusters/prod/shoq/summary"),
    ("/plans/{plan}", "/plans/{none}"),
    ("/plans/7c1e90b2d4f8", "/plans/7c1e90b2d4f9"),
    ("/plans/{plan}/actions/1", "/plans/{none}/actions/1"),
    ("/api/v1/plans/{plan}", "/api/v1/plans/{none}"),
    ("/runs/418", "/runs/999"),
    ("/sources/2", "/sources/9"),
    ("/fragments/tree/prod", "/fragments/tree/prof"),
]


def without_token(text: str) -> str:
    """A page without the token of its forms, which bears the time."""
    return re.sub(r'(name="csrf_token" value=")[^"]+', r"\1", text)


@pytest.mark.parametrize(("hidden", "gone"), PAIRS)
def test_what_is_hidden_looks_like_what_is_not_there(site: Site, hidden: str, gone: str) -> None:
    jonas = site.browser("jonas@corp")
    numbers = {"plan": site.fleet.plans["prod/shop asked"], "none": 999_999}
    hidden, gone = hidden.format(**numbers), gone.format(**numbers)
    first, second = jonas.get(hidden), jonas.get(gone)
    assert first.status_code == second.status_code == 404
    assert without_token(first.text).replace(hidden, "") == without_token(second.text).replace(gone, "")
    assert {name: value for name, value in first.headers if name != "Content-Length"} == {
        name: value for name, value in second.headers if name != "Content-Length"
    }


def test_the_words_do_not_tell_which_it_is(site: Site) -> None:
    page = text_of(site.browser("jonas@corp").get("/clusters/prod/shop"))
    assert "There is no page here that you may see." in page


def test_deciding_on_a_hidden_plan_is_answered_as_not_found(site: Site) -> None:
    jonas = site.browser("jonas@corp")
    plan = site.fleet.plans["prod/shop asked"]
    for verb in ("approve", "reject", "withdraw"):
        assert jonas.post(f"/plans/{plan}/{verb}", {"digest": "7c1e90b2d4f86a31c05d1e7792ab".ljust(64, "0")}).status_code == 404


def test_someone_with_one_cluster_sees_that_one_and_what_belongs_to_it(site: Site) -> None:
    jonas = site.browser("jonas@corp")
    page = jonas.get("/clusters").text
    assert "lab/ml" in page
    for other in ("prod/shop", "lab/scratch", "edge/kiosk"):
        assert other not in page
    assert "1–1 of 1" in page
    assert jonas.get(f"/plans/{site.fleet.plans['lab/ml asked']}").status_code == 200
    assert "clusters/lab/ml.yaml" in jonas.get("/sources").text
    assert "clusters/prod" not in jonas.get("/sources").text
    assert "approvals.yaml" not in jonas.get("/sources").text


def test_a_cluster_pool_of_its_own_may_hide_what_the_workload_pool_shows(site: Site) -> None:
    site.people.listed["tomas@corp"]["/pool/kubehenge/prod.shop"] = {"Pool.Audit": True}
    tomas = site.browser("tomas@corp")
    assert tomas.get("/clusters/prod/shop").status_code == 404
    assert "prod/shop" not in tomas.get("/clusters").text
    assert tomas.get("/clusters/prod/media").status_code == 200


def test_a_mistake_of_ours_shows_a_number_and_no_trace(site: Site, maria: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object, **_options: object) -> None:
        raise RuntimeError("secret-inside")

    monkeypatch.setattr("kubehenge.web.plans.reads.plan_page", broken)
    response = maria.get("/plans")
    page = text_of(response)
    assert response.status_code == 500
    assert "The mistake is Kubehenge's. It is in the log." in page
    assert "2026-11-30 14:32:00 Europe/Berlin" in page
    for leak in ("secret-inside", "Traceback", "RuntimeError", "plans.py"):
        assert leak not in response.text
    assert maria.get("/api/v1/plans").json["status"] == 500  # type: ignore[index]


def test_a_database_that_is_away_is_said_and_nothing_else_breaks(site: Site, maria: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    site.database.close()
    path = site.database.where
    site.database.engine.dispose()
    kept = Path(path).read_bytes()
    for suffix in ("", "-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)
    Path(path).mkdir()
    response = maria.get("/clusters")
    assert response.status_code == 503
    assert "state database" in response.text
    assert maria.get("/readyz").status_code == 503
    assert maria.get("/healthz").status_code == 200
    Path(path).rmdir()
    Path(path).write_bytes(kept)


def test_proxmox_ve_being_away_is_said(site: Site, maria: Browser) -> None:
    site.clock.forward(31)
    site.people.down = True
    response = maria.get("/clusters")
    assert response.status_code == 503
    assert "Proxmox VE does not answer" in response.text


@pytest.mark.parametrize(
    ("method", "path", "status"), [("POST", "/clusters", 405), ("GET", "/plans/1/approve", 405), ("DELETE", "/plans", 405)]
)
def test_other_methods_are_refused_in_words(maria: Browser, method: str, path: str, status: int) -> None:
    response = maria.client.open(path, method=method, base_url="https://kubehenge.example.org")
    assert response.status_code == status
    assert "Not that way" in response.text
    assert response.headers["Allow"]


def test_a_form_that_is_too_long_is_refused(site: Site, maria: Browser) -> None:
    plan = site.fleet.plans["prod/shop asked"]
    response = maria.post(f"/plans/{plan}/reject", {"comment": "x" * 70_000})
    assert response.status_code == 413
    assert "longer than this address takes" in response.text
