"""Push notices: genuine or refused, and which source they are about."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubehenge.source.git import SourceSpec, parse_source_url
from kubehenge.source.webhook import MAX_BODY_BYTES, CodeHost, Delivery, OtherEvent, Refusal, Refused, matches, verify

SECRET = "correct-horse-battery"
OTHER = "another-secret-of-some-length"
SIGNING = "whsec_" + base64.b64encode(b"k" * 32).decode()
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OLD, NEW = "1" * 40, "2" * 40
REPOSITORY = {
    "clone_url": "https://git.example.org/team/clusters.git",
    "ssh_url": "git@git.example.org:team/clusters.git",
    "html_url": "https://git.example.org/team/clusters",
}


def payload(host: str, **more: object) -> dict[str, object]:
    common = {"ref": "refs/heads/main", "before": OLD, "after": NEW}
    match host:
        case "github":
            return common | {"repository": REPOSITORY, "pusher": {"name": "ada", "email": "a@x"}, "sender": {"login": "ada"}} | more
        case "gitlab":
            project = {"git_http_url": REPOSITORY["clone_url"], "git_ssh_url": REPOSITORY["ssh_url"], "web_url": REPOSITORY["html_url"]}
            return common | {"object_kind": "push", "project": project, "user_username": "ada", "user_name": "Ada L"} | more
        case _:
            return common | {"secret": SECRET, "repository": REPOSITORY, "pusher": {"login": "ada", "username": "ada"}} | more


def digest(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def standard(body: bytes, *, at: datetime = NOW, identifier: str = "evt-1", key: bytes = b"k" * 32) -> dict[str, str]:
    stamp = str(int(at.timestamp()))
    mac = hmac.new(key, f"{identifier}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "X-Gitlab-Event": "Push Hook",
        "webhook-id": identifier,
        "webhook-timestamp": stamp,
        "webhook-signature": "v1," + base64.b64encode(mac).decode(),
    }


def headers(host: str, body: bytes, secret: str = SECRET, event: str = "push") -> dict[str, str]:
    mac = digest(body, secret)
    match host:
        case "github":
            return {
                "X-GitHub-Event": event,
                "X-GitHub-Delivery": "d-1",
                "X-Hub-Signature-256": f"sha256={mac}",
                "X-Hub-Signature": "sha1=0",
            }
        case "gitlab":
            return {"X-Gitlab-Event": "Push Hook" if event == "push" else event, "X-Gitlab-Token": secret, "X-Gitlab-Event-UUID": "d-1"}
        case "gitea":
            return {
                "X-Gitea-Event": event,
                "X-Gitea-Delivery": "d-1",
                "X-Gitea-Signature": mac,
                "X-GitHub-Event": event,
                "X-GitHub-Delivery": "d-1",
                "X-Hub-Signature-256": f"sha256={mac}",
                "X-Gogs-Event": event,
            }
        case _:
            gitea = headers("gitea", body, secret, event)
            return gitea | {"X-Forgejo-Event": event, "X-Forgejo-Delivery": "d-1", "X-Forgejo-Signature": mac}


HOSTS = ["github", "gitlab", "gitea", "forgejo"]


@pytest.mark.parametrize("host", HOSTS)
def test_a_genuine_push_notice_is_read(host):
    body = json.dumps(payload(host)).encode()
    delivery = verify(headers(host, body), body, [SECRET], now=NOW)
    assert isinstance(delivery, Delivery)
    assert (delivery.host, delivery.delivery_id, delivery.pusher) == (CodeHost(host), "d-1", "ada")
    assert (delivery.ref, delivery.before, delivery.after) == ("refs/heads/main", OLD, NEW)
    assert set(delivery.repository_urls) == set(REPOSITORY.values())
    assert SECRET not in repr(delivery)


@pytest.mark.parametrize("host", HOSTS)
def test_header_names_have_any_case(host):
    body = json.dumps(payload(host)).encode()
    assert isinstance(verify({name.upper(): value for name, value in headers(host, body).items()}, body, [SECRET], now=NOW), Delivery)


@pytest.mark.parametrize("host", HOSTS)
def test_both_secrets_hold_while_one_is_changed(host):
    body = json.dumps(payload(host)).encode()
    for secret in (SECRET, OTHER):
        assert isinstance(verify(headers(host, body, secret), body, [OTHER, SECRET], now=NOW), Delivery)


@pytest.mark.parametrize("host", HOSTS)
def test_a_notice_made_with_another_secret_is_forged(host):
    body = json.dumps(payload(host)).encode()
    answer = verify(headers(host, body, OTHER), body, [SECRET], now=NOW)
    assert isinstance(answer, Refused)
    assert (answer.why, answer.status) == (Refusal.FORGED, 401)
    assert SECRET not in answer.message


@pytest.mark.parametrize("host", ["github", "gitea", "forgejo"])
def test_a_changed_body_is_forged(host):
    body = json.dumps(payload(host)).encode()
    answer = verify(headers(host, body), body.replace(b"main", b"prod"), [SECRET], now=NOW)
    assert isinstance(answer, Refused)
    assert answer.why is Refusal.FORGED


@given(
    st.binary(max_size=200),
    st.dictionaries(st.sampled_from(sorted(headers("forgejo", b"") | headers("gitlab", b"") | standard(b""))), st.text(max_size=80)),
)
def test_nothing_passes_without_the_secret(body, given_headers):
    assert isinstance(verify(given_headers, body, [SECRET, SIGNING], now=NOW), Refused)


def test_a_wrong_signature_is_not_rescued_by_a_header_of_another_host():
    body = json.dumps(payload("forgejo")).encode()
    mixed = headers("forgejo", body) | {"X-Forgejo-Signature": "0" * 64}
    assert isinstance(verify(mixed, body, [SECRET], now=NOW), Refused)


def test_the_old_sha1_signature_proves_nothing():
    body = json.dumps(payload("github")).encode()
    weak = hmac.new(SECRET.encode(), body, hashlib.sha1).hexdigest()
    for given_headers in ({"X-Hub-Signature": f"sha1={weak}"}, {"X-Hub-Signature-256": f"sha1={weak}"}):
        assert isinstance(verify({"X-GitHub-Event": "push"} | given_headers, body, [SECRET], now=NOW), Refused)


@pytest.mark.parametrize("secrets", [[], [""], ["short"]])
def test_without_a_secret_of_some_length_nothing_is_taken(secrets):
    body = json.dumps(payload("gitlab")).encode()
    answer = verify(headers("gitlab", body, secrets[0] if secrets else ""), body, secrets, now=NOW)
    assert isinstance(answer, Refused)
    assert (answer.why, answer.status) == (Refusal.UNSET, 403)


def test_a_notice_without_signature_is_refused():
    body = json.dumps(payload("github")).encode()
    for given_headers in ({"X-GitHub-Event": "push"}, {"X-Gitlab-Event": "Push Hook"}, {}):
        answer = verify(given_headers, body, [SECRET], now=NOW)
        assert isinstance(answer, Refused)
        assert answer.why is Refusal.UNSIGNED


def test_a_large_body_is_refused_before_it_is_looked_at():
    answer = verify({}, b"x" * (MAX_BODY_BYTES + 1), [SECRET], now=NOW)
    assert isinstance(answer, Refused)
    assert (answer.why, answer.status) == (Refusal.TOO_LARGE, 413)


def test_a_notice_signed_by_gitlabs_signing_token_is_read():
    body = json.dumps(payload("gitlab")).encode()
    delivery = verify(standard(body), body, [SIGNING], now=NOW)
    assert isinstance(delivery, Delivery)
    assert (delivery.host, delivery.delivery_id) == (CodeHost.GITLAB, "evt-1")
    two = standard(body)
    two["webhook-signature"] = "v1,AAAA " + two["webhook-signature"]
    assert isinstance(verify(two, body, [SIGNING], now=NOW), Delivery)


@pytest.mark.parametrize("age", [timedelta(minutes=6), timedelta(minutes=-6)])
def test_a_signed_notice_of_another_time_is_stale(age):
    body = json.dumps(payload("gitlab")).encode()
    answer = verify(standard(body, at=NOW - age), body, [SIGNING], now=NOW)
    assert isinstance(answer, Refused)
    assert answer.why is Refusal.STALE


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "evt-2"},
        {"webhook-timestamp": str(int(NOW.timestamp()) + 1)},
        {"webhook-timestamp": "x"},
        {"webhook-timestamp": ""},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "v1a," + "A" * 44},
        {"webhook-signature": ""},
    ],
)
def test_a_signed_notice_that_was_changed_is_refused(change):
    body = json.dumps(payload("gitlab")).encode()
    assert isinstance(verify(standard(body) | change, body, [SIGNING], now=NOW), Refused)


def test_a_signing_token_is_no_plain_token():
    body = json.dumps(payload("gitlab")).encode()
    assert isinstance(verify({"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": SIGNING}, body, [SIGNING], now=NOW), Refused)


@pytest.mark.parametrize(
    ("host", "event"), [("github", "ping"), ("gitlab", "Tag Push Hook"), ("gitea", "create"), ("forgejo", "pull_request")]
)
def test_other_genuine_events_are_named_and_are_no_push(host, event):
    body = b"{}"
    assert verify(headers(host, body, event=event), body, [SECRET], now=NOW) == OtherEvent(host=CodeHost(host), event=event)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b"{}",
        b'{"ref": 1, "repository": []}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"ref": ' + b"9" * 10_000 + b"}",
    ],
)
def test_a_genuine_notice_that_cannot_be_read_is_refused_in_words(body):
    answer = verify(headers("github", body), body, [SECRET], now=NOW)
    assert isinstance(answer, Refused)
    assert (answer.why, answer.status) == (Refusal.UNREADABLE, 400)


def test_the_form_encoding_that_github_can_send_is_read():
    body = urlencode({"payload": json.dumps(payload("github"))}).encode()
    given_headers = headers("github", body) | {"Content-Type": "application/x-www-form-urlencoded"}
    assert isinstance(verify(given_headers, body, [SECRET], now=NOW), Delivery)


def test_a_made_or_deleted_branch_has_one_commit_only():
    body = json.dumps(payload("github", before="0" * 40, after="0" * 40)).encode()
    delivery = verify(headers("github", body), body, [SECRET], now=NOW)
    assert isinstance(delivery, Delivery)
    assert (delivery.before, delivery.after) == (None, None)


def test_texts_that_cannot_be_shown_are_left_out():
    body = json.dumps(payload("github", sender={"login": "eve\x1b[31m"}, pusher={"name": "x" * 1000}, after="'; drop")).encode()
    delivery = verify(headers("github", body) | {"X-GitHub-Delivery": "a\x00b"}, body, [SECRET], now=NOW)
    assert isinstance(delivery, Delivery)
    assert (delivery.pusher, delivery.after, delivery.delivery_id) == (None, None, "")


def test_a_notice_sent_again_has_the_same_replay_key_whatever_its_headers_say():
    body = json.dumps(payload("github")).encode()
    first = verify(headers("github", body), body, [SECRET], now=NOW)
    again = verify(headers("github", body) | {"X-GitHub-Delivery": "d-2"}, body, [SECRET], now=NOW)
    newer_body = json.dumps(payload("github", after="3" * 40)).encode()
    newer = verify(headers("github", newer_body), newer_body, [SECRET], now=NOW)
    assert first.replay_key == again.replay_key != newer.replay_key
    assert first.delivery_id != again.delivery_id


@pytest.mark.parametrize(
    ("url", "branch", "is_about"),
    [
        ("https://git.example.org/team/clusters.git", "main", True),
        ("https://git.example.org:8443/Team/Clusters", "main", True),
        ("ssh://git@git.example.org:2222/team/clusters.git", "main", True),
        ("git@git.example.org:team/clusters.git", "main", True),
        ("git@git.example.org:team/clusters.git", "prod", False),
        ("https://git.example.org/team/clusters-2.git", "main", False),
        ("https://git.example.org/other/clusters.git", "main", False),
        ("https://example.org/team/clusters.git", "main", False),
        ("/srv/git/team/clusters.git", "main", False),
    ],
)
def test_a_notice_is_about_the_sources_of_its_repository_and_branch(url, branch, is_about):
    body = json.dumps(payload("github")).encode()
    delivery = verify(headers("github", body), body, [SECRET], now=NOW)
    assert isinstance(delivery, Delivery)
    assert matches(SourceSpec(id="a", url=parse_source_url(url), branch=branch), delivery) is is_about
