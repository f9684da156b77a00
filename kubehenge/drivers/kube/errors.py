"""What the API server's refusals mean: a Status object's reason, message and causes, in words for people."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubehenge.drivers.kube import webhooks
from kubehenge.errors import KubehengeError, RefusedError, TransientError, UncertainError

HIDDEN = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One refused field: why, and which."""

    reason: str
    message: str
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer above 299. `status` says whether it was a Status object at all, rather than a proxy's page or nothing."""

    code: int
    status: bool
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_s: float = 0.0


class KubeRefusedError(RefusedError):
    """The API server refused a call; `code` and `reason` are its own."""

    def __init__(self, message: str, refusal: Refusal) -> None:
        super().__init__(message)
        self.code = refusal.code
        self.reason = refusal.reason


class FieldConflictError(KubeRefusedError):
    """Server-side apply met fields that another manager owns with another value: (manager, field) pairs."""

    def __init__(self, what: str, refusal: Refusal, conflicts: Sequence[tuple[str, str]]) -> None:
        super().__init__(f"{what}: {_named(conflicts)}", refusal)
        self._what = what
        self._refusal = refusal
        self.conflicts = tuple(conflicts)

    def only(self, fields: Container[str]) -> FieldConflictError:
        """Return the same error about some of its fields."""
        return FieldConflictError(self._what, self._refusal, [pair for pair in self.conflicts if pair[1] in fields])


class ChangedMeanwhileError(TransientError):
    """The object is another version than the one that the call was meant for."""


class ExpiredError(TransientError):
    """The place that a list or watch was to go on from is too old; it begins anew."""


class TooManyRequestsError(TransientError):
    """The API server was too busy to look at a call, and did nothing."""


class WebhookAwayError(TransientError):
    """A webhook that the API server must ask does not answer. It is asked before anything is stored, so nothing was done."""


_LOST_IN_TIME = re.compile(r"timed? ?out|deadline exceeded|context canceled", re.IGNORECASE)
_DENIED = re.compile(r'admission webhook "[^"]*" denied|ValidatingAdmissionPolicy')
"""Somebody's rule refused it, and rights have nothing to do with it."""

_MANAGER = re.compile(r'conflict with (?P<manager>"[^"]*")')


def parse_refusal(code: int, content: bytes, *, phrase: str = "", retry_after: str = "") -> Refusal:
    """Read an answer above 299."""
    later = float(retry_after) if retry_after.isdecimal() else 0.0
    try:
        body = json.loads(content) if content else None
    except ValueError:
        body = None
    if not isinstance(body, dict) or body.get("kind") != "Status":
        return Refusal(code=code, status=False, message=_page(content, phrase), retry_after_s=later)
    details = body.get("details") or {}
    causes = tuple(
        Cause(reason=str(cause.get("reason", "")), message=str(cause.get("message", "")), field=str(cause.get("field", "")))
        for cause in details.get("causes") or ()
    )
    return Refusal(
        code=code,
        status=True,
        reason=str(body.get("reason") or ""),
        message=str(body.get("message") or "").strip(),
        causes=causes,
        retry_after_s=float(details.get("retryAfterSeconds") or later),
    )


def _page(content: bytes, phrase: str) -> str:
    if content.strip() == b"404 page not found":
        return "404 page not found"
    return f"{phrase or 'an answer'} of {len(content)} bytes"


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return a text without secrets."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    return text


def scrub(refusal: Refusal, secrets: Collection[str]) -> Refusal:
    """Return it without the secrets that its texts may hold."""

    def clean(text: str) -> str:
        return hide(text, secrets)

    causes = tuple(Cause(reason=clean(cause.reason), message=clean(cause.message), field=clean(cause.field)) for cause in refusal.causes)
    return Refusal(
        code=refusal.code,
        status=refusal.status,
        reason=clean(refusal.reason),
        message=clean(refusal.message),
        causes=causes,
        retry_after_s=refusal.retry_after_s,
    )


def is_missing(error: RefusedError) -> bool:
    """Tell whether the object is not there; a kind that is not served at all is another thing."""
    return isinstance(error, KubeRefusedError) and error.code == 404 and error.reason == "NotFound"


def is_unserved(error: RefusedError) -> bool:
    """Tell whether the API server does not know the kind."""
    return isinstance(error, KubeRefusedError) and error.code == 404 and error.reason != "NotFound"


def judge(refusal: Refusal, *, what: str, change: bool) -> KubehengeError:
    """Return the error that an answer above 299 means; `what` is the call as people read it."""
    said = refusal.message.rstrip(".") or f"status {refusal.code} without words"
    match refusal.code:
        case 401:
            return KubeRefusedError(
                f"{what}: the management cluster does not accept Kubehenge's sign-in ({said}). Its kubeconfig or token is wrong or expired.",
                refusal,
            )
        case 403 if _DENIED.search(said):
            return KubeRefusedError(f"{what} was refused by the management cluster: {said}.", refusal)
        case 403:
            return KubeRefusedError(
                f"{what} is not allowed in the management cluster: {said}. `kubehenge doctor` names the rights that Kubehenge's account lacks.",
                refusal,
            )
        case 404 if not refusal.status:
            return KubeRefusedError(
                f"{what}: the management cluster does not serve this. Is Cluster API with all its providers installed?", refusal
            )
        case 409:
            return _judge_conflict(refusal, said, what=what)
        case 410:
            return ExpiredError(f"{what}: what was to be gone on from is too old ({said}). It begins anew.")
        case 422:
            return KubeRefusedError(f"{what} was refused by the management cluster: {_causes(refusal) or said}.", refusal)
        case 429:
            return TooManyRequestsError(f"{what}: the management cluster has too many requests to answer. It is tried again more slowly.")
        case code if code >= 500 and "field not declared in schema" in said:
            return KubeRefusedError(f"{what} was refused by the management cluster: {said}.", refusal)
        case code if code >= 500:
            return _judge_failure(refusal, said, what=what, change=change)
        case code if code < 400:
            return TransientError(f"{what}: the management cluster answered with a redirect ({code}). Is a proxy in between?")
        case _:
            return KubeRefusedError(f"{what} was refused by the management cluster: {said}.", refusal)


def _judge_conflict(refusal: Refusal, said: str, *, what: str) -> KubehengeError:
    conflicts = tuple((_manager(cause.message), cause.field) for cause in refusal.causes if cause.reason == "FieldManagerConflict")
    if conflicts:
        return FieldConflictError(what, refusal, conflicts)
    if refusal.reason == "AlreadyExists":
        return KubeRefusedError(f"{what}: {said}. Whose it is, the next plan looks at.", refusal)
    if "UID in precondition" in said or "UID in the precondition" in said or "uid mismatch" in said:
        return KubeRefusedError(f"{what}: it is another object by now, made under the same name ({said}). Nothing was done to it.", refusal)
    return ChangedMeanwhileError(f"{what}: somebody changed it at the same moment ({said}). It is tried again.")


def _manager(message: str) -> str:
    found = _MANAGER.search(message)
    return found["manager"].strip('"') if found else "another manager"


def _named(conflicts: Sequence[tuple[str, str]]) -> str:
    by_manager: dict[str, list[str]] = {}
    for manager, field in conflicts:
        by_manager.setdefault(manager, []).append(field)
    owners = "; ".join(f'"{manager}" owns {", ".join(fields)}' for manager, fields in by_manager.items())
    return (
        f"{owners}, with other values than declared. Kubehenge never takes fields by force: "
        "put the value into the declaration, or have that manager give the field up."
    )


def _causes(refusal: Refusal) -> str:
    return "; ".join(f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in refusal.causes)


def _judge_failure(refusal: Refusal, said: str, *, what: str, change: bool) -> KubehengeError:
    if refusal.status and (away := webhooks.away(said)):
        return WebhookAwayError(f"{what}: {away}")
    lost = refusal.code in {502, 504} or not refusal.status or bool(_LOST_IN_TIME.search(said))
    if change and lost:
        return UncertainError(
            f"{what}: the management cluster did not say what became of it ({said}). What is there is looked at before it is sent again."
        )
    return TransientError(f"{what}: the management cluster could not do it now ({said}). It is tried again.")


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object as it is, and an empty one for anything else: what is not there reads as nothing."""
    return value if isinstance(value, dict) else {}
