"""A signed notice of a push rings the tick; anything else does not (MODEL 16; ACCEPTANCE 4.5)."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest

from kubehenge.engine.decide import Decide
from kubehenge.store.reads.decision import AnswerKind
from kubehenge.store.rows import SourceRow
from tests.engine.harness import Site

SECRET = "a-secret-of-the-hook"


def notice(url: str, *, ref: str = "refs/heads/main", after: str = "b" * 40, secret: str = SECRET) -> tuple[dict[str, str], bytes]:
    """A push as Gitea tells it."""
    payload = {"ref": ref, "before": "a" * 40, "after": after, "repository": {"clone_url": url}, "pusher": {"login": "tomas"}}
    body = json.dumps(payload).encode()
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "X-Gitea-Event": "push",
        "X-Gitea-Delivery": after[:8],
        "X-Gitea-Signature": signature,
        "Content-Type": "application/json",
    }, body


@pytest.fixture
def rung(site: Site) -> list[str]:
    with site.db.write() as session:
        session.add(SourceRow(site_id=site.site_id, name="hosted", url="https://git.example.com/fleet.git", branch="main"))
    rings: list[str] = []
    secrets = {"fleet": (SECRET,), "hosted": (SECRET,)}
    site.decide = Decide(site.db, site.site_id, site.clock, ring=rings.append, webhook_secrets=secrets)
    return rings


def test_a_genuine_notice_rings_the_tick_once(site: Site, rung: list[str]) -> None:
    headers, body = notice("https://git.example.com/fleet.git")
    assert site.decide.webhook("hosted", headers, body).kind is AnswerKind.ACCEPTED
    assert site.decide.webhook("hosted", headers, body).kind is AnswerKind.ALREADY
    assert rung == ["tick"]


@pytest.mark.parametrize(
    ("url", "ref"),
    [("https://git.example.com/other.git", "refs/heads/main"), ("https://git.example.com/fleet.git", "refs/heads/topic")],
)
def test_a_notice_about_something_else_rings_nothing(site: Site, rung: list[str], url: str, ref: str) -> None:
    assert site.decide.webhook("hosted", *notice(url, ref=ref)).kind is AnswerKind.ALREADY
    assert rung == []


def test_a_forged_notice_is_refused(site: Site, rung: list[str]) -> None:
    assert site.decide.webhook("hosted", *notice("https://git.example.com/fleet.git", secret="x" * 20)).kind is AnswerKind.REFUSED
    assert site.decide.webhook("unset", *notice("https://git.example.com/fleet.git")).kind is AnswerKind.REFUSED
    assert rung == []


def test_a_source_on_this_machine_has_no_address_to_compare(site: Site, rung: list[str]) -> None:
    assert site.decide.webhook("fleet", *notice("https://anywhere.example.com/x.git")).kind is AnswerKind.ACCEPTED
    assert rung == ["tick"]
