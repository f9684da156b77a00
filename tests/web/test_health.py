"""Health and metrics, and the signed calls of code hosts."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import SecretStr

from tests.web.browsing import BASE, Browser
from tests.web.conftest import SETTINGS, Site, make_site
from tests.web.factories import NOW

LOOPS = ("default/watch", "default/tick", "default/apply")


def test_the_process_says_that_it_lives_whatever_else_is_away(site: Site) -> None:
    site.people.down = True
    answer = site.app.test_client().get("/healthz", base_url=BASE)
    assert (answer.status_code, answer.text) == (200, "ok\n")


def test_a_process_without_loops_is_ready_when_its_database_answers(site: Site) -> None:
    assert site.app.test_client().get("/readyz", base_url=BASE).json == {"ready": True, "database": "answers", "loops": {}}


def test_a_loop_whose_lease_ran_out_makes_it_unready(site: Site) -> None:
    other = make_site(site.database, site.fleet, settings=replace(SETTINGS, loops=LOOPS))
    for name in LOOPS[:2]:
        site.change(lambda fleet, name=name: fleet.lease(name, renewed=NOW - timedelta(seconds=4), expires=NOW + timedelta(seconds=26)))
    answer = other.app.test_client().get("/readyz", base_url=BASE)
    assert answer.status_code == 503
    assert answer.json is not None
    assert answer.json["loops"] == {
        "default/watch": {"alive": True, "renewed_s_ago": 4.0},
        "default/tick": {"alive": True, "renewed_s_ago": 4.0},
        "default/apply": {"alive": False, "renewed_s_ago": None},
    }
    site.change(lambda fleet: fleet.lease(LOOPS[2], renewed=NOW, expires=NOW + timedelta(seconds=30)))
    assert other.app.test_client().get("/readyz", base_url=BASE).status_code == 200
    other.clock.forward(27)
    assert other.app.test_client().get("/readyz", base_url=BASE).status_code == 503


def test_metrics_without_a_token_are_for_this_machine_only(site: Site) -> None:
    client = site.app.test_client()
    assert client.get("/metrics", base_url=BASE).status_code == 200
    assert client.get("/metrics", base_url=BASE, environ_base={"REMOTE_ADDR": "192.0.2.9"}).status_code == 404
    assert client.get("/metrics", base_url=BASE, headers={"X-Forwarded-For": "192.0.2.9"}).status_code == 404


def test_metrics_with_a_token_ask_for_it_wherever_one_comes_from(site: Site) -> None:
    other = make_site(site.database, site.fleet, settings=replace(SETTINGS, metrics_token=SecretStr("hazel-nut")))
    client = other.app.test_client()
    assert client.get("/metrics", base_url=BASE).status_code == 401
    assert client.get("/metrics", base_url=BASE, headers={"Authorization": "Bearer wrong"}).status_code == 401
    answer = client.get("/metrics", base_url=BASE, headers={"Authorization": "Bearer hazel-nut"})
    assert answer.status_code == 200
    assert answer.mimetype == "text/plain"


def test_a_proxy_in_front_is_believed_only_when_it_is_named(site: Site) -> None:
    for number in range(21):
        header = {"X-Forwarded-For": f"192.0.2.{number}"}
        browser = Browser(site.app)
        answer = browser.post("/sign-in", {"username": f"u{number}", "realm": "corp", "password": "x"}, headers=header)
    assert answer.status_code == 429, "a visitor cannot name another address for each try"
    behind = make_site(site.database, site.fleet, settings=replace(SETTINGS, proxies=1))
    for number in range(21):
        header = {"X-Forwarded-For": f"192.0.2.{number}"}
        answer = Browser(behind.app).post("/sign-in", {"username": f"u{number}", "realm": "corp", "password": "x"}, headers=header)
    assert answer.status_code == 401


BODY = json.dumps(
    {
        "ref": "refs/heads/main",
        "after": "4be7d21" + "0" * 33,
        "repository": {"clone_url": "https://git.example.org/platform/fleet.git"},
        "pusher": {"name": "tomas"},
    }
).encode()


def signed(body: bytes = BODY, secret: str = "thorn-hedge-of-the-henge", delivery: str = "1") -> dict[str, str]:
    return {
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(),
        "Content-Type": "application/json",
    }


def test_a_signed_push_has_the_source_read(site: Site) -> None:
    answer = site.app.test_client().post("/hooks/git/fleet", data=BODY, headers=signed(), base_url=BASE)
    assert answer.status_code == 202
    assert site.rung == ["tick"]


def test_the_same_call_twice_is_answered_and_does_nothing_more(site: Site) -> None:
    for _ in range(2):
        assert site.app.test_client().post("/hooks/git/fleet", data=BODY, headers=signed(), base_url=BASE).status_code == 202
    assert site.rung == ["tick"]


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/hooks/git/fleet", signed(secret="other")),
        ("/hooks/git/fleet", signed(b"{}")),
        ("/hooks/git/fleet", {}),
        ("/hooks/git/nothing", signed()),
        ("/hooks/git/lab-team", signed()),
    ],
    ids=["wrong secret", "other body", "unsigned", "no such source", "source without a secret"],
)
def test_a_call_that_is_not_genuine_is_refused_alike(site: Site, path: str, headers: dict[str, str]) -> None:
    answer = site.app.test_client().post(path, data=BODY, headers=headers, base_url=BASE)
    assert answer.status_code == 403
    assert answer.json == {"error": "Its signature does not fit, or no source of this name takes webhooks.", "status": 403}
    assert site.rung == []


def test_a_call_that_is_too_long_is_not_read(site: Site) -> None:
    body = b"x" * (3 * 1024 * 1024)
    answer = site.app.test_client().post("/hooks/git/fleet", data=body, headers=signed(body), base_url=BASE)
    assert answer.status_code == 413
    assert site.rung == []


def test_a_long_push_is_taken_where_a_form_would_not_be(site: Site) -> None:
    body = json.dumps({**json.loads(BODY), "commits": [{"message": "x" * 1000}] * 1000}).encode()
    assert site.app.test_client().post("/hooks/git/fleet", data=body, headers=signed(body), base_url=BASE).status_code == 202
