"""
Push notices of code hosts: whether one is genuine, and which source it is about. Pure: the caller has the request, the clock and the set of those seen.

A notice only says "look now", so a lost or refused one costs a poll's interval and nothing else. The pusher that a signed one names is
the commit's identity where it has no verified signature (MODEL 16).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import cast
from urllib.parse import parse_qs

from kubehenge.source.git_url import SourceSpec, repository_key

MAX_BODY_BYTES = 2 * 1024 * 1024
MIN_SECRET_CHARS = 16
SIGNED_FOR = timedelta(minutes=5)
_MAX_TEXT_CHARS = 500
_STANDARD_PREFIX = "whsec_"

_Headers = Mapping[str, str]


class CodeHost(StrEnum):
    """The kind of code host that sent a notice, by the header that proves it."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"
    FORGEJO = "forgejo"


class Refusal(StrEnum):
    """Why a notice is not taken."""

    TOO_LARGE = "TooLarge"
    UNSET = "SecretUnset"
    UNSIGNED = "Unsigned"
    FORGED = "Forged"
    STALE = "Stale"
    UNREADABLE = "Unreadable"


_STATUS: Mapping[Refusal, int] = {
    Refusal.TOO_LARGE: 413,
    Refusal.UNSET: 403,
    Refusal.UNSIGNED: 401,
    Refusal.FORGED: 401,
    Refusal.STALE: 401,
    Refusal.UNREADABLE: 400,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A notice that is not taken; `message` may be answered to the sender, with `status`."""

    why: Refusal
    message: str

    @property
    def status(self) -> int:
        """The HTTP status to answer with."""
        return _STATUS[self.why]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherEvent:
    """A genuine notice that is no push, such as the first "ping" of a new webhook: answer it well and do nothing."""

    host: CodeHost
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """
    A genuine notice of a push.

    `replay_key` is made from what the signature covers, so the same notice sent again has the same one whatever its other headers say: the caller
    keeps those of the last hours and ignores what it knows. `before` and `after` are None for a branch made or deleted.
    """

    host: CodeHost
    delivery_id: str
    replay_key: str
    repository_urls: tuple[str, ...]
    ref: str
    before: str | None
    after: str | None
    pusher: str | None


def verify(headers: _Headers, body: bytes, secrets: Iterable[str], *, now: datetime) -> Delivery | OtherEvent | Refused:
    """
    Return what a notice says, if one of `secrets` proves it (several: while a secret is being changed).

    Shape: header names in any case; `body` as it was received. The body is not parsed before it is proven.
    Source: GitHub X-Hub-Signature-256; GitLab X-Gitlab-Token, and webhook-signature where its signing token is set (the Standard Webhooks form);
    Gitea X-Gitea-Signature; Forgejo X-Forgejo-Signature.
    """
    if len(body) > MAX_BODY_BYTES:
        return Refused(why=Refusal.TOO_LARGE, message=f"A notice may have {MAX_BODY_BYTES} bytes; Kubehenge polls anyway.")
    keys = [secret for secret in secrets if len(secret) >= MIN_SECRET_CHARS]
    if not keys:
        return Refused(
            why=Refusal.UNSET,
            message=f"No webhook secret of at least {MIN_SECRET_CHARS} characters is set, so no notice can be proven.",
        )
    lower = {name.lower(): value for name, value in headers.items()}
    proven = _prove(lower, body, keys, now)
    if isinstance(proven, Refused):
        return proven
    return _read(proven, lower, body)


def matches(spec: SourceSpec, delivery: Delivery) -> bool:
    """
    Say whether a notice is about this source: its branch, and a repository of the same host and path (https or ssh, any user and port).

    A match asks for a poll, which finds out what is really there.
    """
    key = repository_key(spec.url.text)
    return key is not None and delivery.ref == spec.ref and any(repository_key(url) == key for url in delivery.repository_urls)


def _prove(headers: _Headers, body: bytes, keys: list[str], now: datetime) -> CodeHost | Refused:
    """Find the proof. Forgejo and Gitea send GitHub's header names too, so theirs are looked at first; a wrong proof is not rescued by another."""
    for header, host in (("x-forgejo-signature", CodeHost.FORGEJO), ("x-gitea-signature", CodeHost.GITEA)):
        if header in headers:
            return _if(_signed(keys, body, headers[header]), host)
    if "x-gitlab-event" in headers or "x-gitlab-token" in headers:
        return _prove_gitlab(headers, body, keys, now)
    if "x-hub-signature-256" in headers:
        algorithm, _, digest = headers["x-hub-signature-256"].partition("=")
        return _if(algorithm == "sha256" and _signed(keys, body, digest), CodeHost.GITHUB)
    return Refused(
        why=Refusal.UNSIGNED, message="The notice bears no signature that Kubehenge knows. Set the webhook's secret at the code host."
    )


def _prove_gitlab(headers: _Headers, body: bytes, keys: list[str], now: datetime) -> CodeHost | Refused:
    if "webhook-signature" not in headers:
        # A signing token is only ever a key: as a plain token it would prove nothing, since the body would not be covered.
        plain = [key for key in keys if not key.startswith(_STANDARD_PREFIX)]
        token = headers.get("x-gitlab-token", "")
        if not token:
            return Refused(why=Refusal.UNSIGNED, message="The notice bears no token. Set the webhook's secret token at GitLab.")
        return _if(_any_equal(plain, token), CodeHost.GITLAB)
    identifier, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    signed = f"{identifier}.{stamp}.".encode() + body
    digests = [entry.partition(",")[2] for entry in headers["webhook-signature"].split() if entry.startswith("v1,")]
    expected = [base64.b64encode(hmac.digest(_standard_key(key), signed, "sha256")).decode() for key in keys]
    if not any([_any_equal(expected, digest) for digest in digests]):  # noqa: C419  (no early end: constant time)
        return _forged()
    if not stamp.isdecimal() or len(stamp) > 11 or abs(now - datetime.fromtimestamp(int(stamp), UTC)) > SIGNED_FOR:
        return Refused(
            why=Refusal.STALE,
            message="The notice was signed more than five minutes ago, or the clocks differ. Check the time of both machines.",
        )
    return CodeHost.GITLAB


def _standard_key(secret: str) -> bytes:
    if secret.startswith(_STANDARD_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(_STANDARD_PREFIX), validate=True)
        except binascii.Error:
            pass
    return secret.encode()


def _signed(keys: list[str], body: bytes, digest: str) -> bool:
    return _any_equal([hmac.digest(key.encode(), body, "sha256").hex() for key in keys], digest.strip())


def _any_equal(expected: list[str], given: str) -> bool:
    """Compare with all, without an early end."""
    return any([hmac.compare_digest(one.encode(), given.encode("utf-8", "replace")) for one in expected])  # noqa: C419


def _if(proven: bool, host: CodeHost) -> CodeHost | Refused:
    return host if proven else _forged()


def _forged() -> Refused:
    return Refused(
        why=Refusal.FORGED,
        message="The notice's signature or token is not made with the webhook secret set here. Set the same at the code host.",
    )


_EVENT_HEADER: Mapping[CodeHost, str] = {
    CodeHost.GITHUB: "x-github-event",
    CodeHost.GITLAB: "x-gitlab-event",
    CodeHost.GITEA: "x-gitea-event",
    CodeHost.FORGEJO: "x-forgejo-event",
}
_ID_HEADERS: Mapping[CodeHost, tuple[str, ...]] = {
    CodeHost.GITHUB: ("x-github-delivery",),
    CodeHost.GITLAB: ("webhook-id", "idempotency-key", "x-gitlab-event-uuid"),
    CodeHost.GITEA: ("x-gitea-delivery",),
    CodeHost.FORGEJO: ("x-forgejo-delivery", "x-gitea-delivery"),
}


def _read(host: CodeHost, headers: _Headers, body: bytes) -> Delivery | OtherEvent | Refused:
    """Read a proven notice; the four hosts agree on ref, before, after and differ in the repository and the pusher."""
    event = _plain(headers.get(_EVENT_HEADER[host], ""))
    if event not in {"push", "Push Hook"}:
        return OtherEvent(host=host, event=event)
    payload = _payload(headers, body)
    repository = _object(payload.get("project" if host is CodeHost.GITLAB else "repository"))
    urls = tuple(
        dict.fromkeys(
            url
            for name in ("clone_url", "ssh_url", "html_url", "git_http_url", "git_ssh_url", "web_url")
            if (url := _plain(repository.get(name)))
        )
    )
    ref = _plain(payload.get("ref"))
    if not urls or not ref:
        return Refused(
            why=Refusal.UNREADABLE,
            message="The notice is not a push in the code host's JSON form. Choose JSON and push events at the code host.",
        )
    return Delivery(
        host=host,
        delivery_id=next((_plain(headers[name]) for name in _ID_HEADERS[host] if headers.get(name)), ""),
        replay_key=hashlib.sha256(body).hexdigest(),
        repository_urls=urls,
        ref=ref,
        before=_commit(payload.get("before")),
        after=_commit(payload.get("after")),
        pusher=_pusher(host, payload),
    )


def _payload(headers: _Headers, body: bytes) -> Mapping[str, object]:
    """Read JSON, or the form with one field `payload` that GitHub and Gitea can send too."""
    try:
        text = body.decode("utf-8")
        if headers.get("content-type", "").lower().startswith("application/x-www-form-urlencoded"):
            text = parse_qs(text, max_num_fields=10).get("payload", [""])[0]
        return _object(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _pusher(host: CodeHost, payload: Mapping[str, object]) -> str | None:
    """Return the log-in name of who pushed, as the host names accounts."""
    match host:
        case CodeHost.GITHUB:
            names = (_object(payload.get("sender")).get("login"), _object(payload.get("pusher")).get("name"))
        case CodeHost.GITLAB:
            names = (payload.get("user_username"), payload.get("user_name"))
        case CodeHost.GITEA | CodeHost.FORGEJO:
            names = (_object(payload.get("pusher")).get("login"), _object(payload.get("pusher")).get("username"))
    return next((name for name in map(_plain, names) if name), None)


def _commit(value: object) -> str | None:
    """Return a commit id; a made or deleted branch has one of zeros."""
    text = _plain(value)
    return text if len(text) in {40, 64} and set(text) <= set("0123456789abcdef") and set(text) != {"0"} else None


def _object(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _plain(value: object) -> str:
    """Return a foreign text that may be shown and stored; anything else is empty."""
    return value if isinstance(value, str) and len(value) <= _MAX_TEXT_CHARS and value.isprintable() else ""
