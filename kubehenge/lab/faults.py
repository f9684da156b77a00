"""Faults of the lab: rules that make a simulated server slow, wrong or silent while it runs."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, assert_never

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

# Set on a request whose caller gets no answer, so that the call log can say so.
DROPPED = web.RequestKey("dropped", bool)

_HTML = "<html>\r\n<head><title>{status} {reason}</title></head>\r\n<body><center><h1>{status} {reason}</h1></center></body>\r\n</html>\r\n"


class FaultTarget(StrEnum):
    """The simulated server a rule is for."""

    PROXMOX = "proxmox"
    KUBE = "kube"


class FaultAction(StrEnum):
    """What happens to a request that a rule matches."""

    SLOW = "slow"  # carried out and answered, `delay_s` later
    REFUSE = "refuse"  # the connection is closed, nothing is carried out
    STATUS = "status"  # `status` and `reason`, nothing is carried out
    HTML = "html"  # the same as a proxy's page instead of JSON
    LATE_ANSWER = "late_answer"  # carried out at once, answered `delay_s` later
    LOSE_ANSWER = "lose_answer"  # carried out, then the connection is closed without an answer
    CUT = "cut"  # carried out, then the connection is closed in the middle of the answer's body


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """
    One fault: which requests it meets and what it does to them.

    Shape: `method` is an HTTP method or `*`; `path` a regular expression searched in the decoded path, and in path?query.
    Units: `delay_s` real seconds, waited before any action but LATE_ANSWER, which carries out first; `times` how many requests it still meets, None for all.
    Errors: ValueError for a method, pattern, status or number that cannot be meant.
    """

    target: FaultTarget
    action: FaultAction
    method: str = "*"
    path: str = ""
    status: int = 500
    reason: str = ""
    delay_s: float = 0.0
    times: int | None = None
    id: str = ""

    def __post_init__(self) -> None:
        try:
            re.compile(self.path)
        except re.error as exc:
            raise ValueError(f"path: {self.path!r} is not a regular expression ({exc})") from exc
        if not re.fullmatch(r"\*|[A-Z]+", self.method):
            raise ValueError(f"method: {self.method!r} is neither * nor an HTTP method in capitals")
        if not 400 <= self.status <= 599:
            raise ValueError(f"status: {self.status} is not an error status (400 to 599)")
        if self.delay_s < 0:
            raise ValueError(f"delay_s: {self.delay_s} is negative")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times: {self.times} is less than 1; leave it out for every request")
        if "\n" in self.reason or "\r" in self.reason:
            raise ValueError("reason: one line only")

    def matches(self, target: FaultTarget, method: str, path: str, query: str) -> bool:
        """Whether a request is one that this rule is for."""
        if target is not self.target or self.method not in {"*", method}:
            return False
        return bool(re.search(self.path, path) or (query and re.search(self.path, f"{path}?{query}")))

    def to_json(self) -> dict[str, Any]:
        """The rule as a JSON object, with every field."""
        return asdict(self)


def parse_rule(body: Mapping[str, Any]) -> FaultRule:
    """
    A rule from a JSON object with FaultRule's fields.

    Errors: ValueError naming the field that is missing, unknown or wrong.
    """
    known = set(FaultRule.__dataclass_fields__)
    if unknown := sorted(set(body) - known):
        raise ValueError(f"unknown field {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    if missing := sorted({"target", "action"} - set(body)):
        raise ValueError(f"{missing[0]} is missing")
    try:
        times = body.get("times")
        return FaultRule(
            target=FaultTarget(body["target"]),
            action=FaultAction(body["action"]),
            method=str(body.get("method", "*")).upper(),
            path=str(body.get("path", "")),
            status=int(body.get("status", 500)),
            reason=str(body.get("reason", "")),
            delay_s=float(body.get("delay_s", 0.0)),
            times=None if times is None else int(times),
            id=str(body.get("id", "")),
        )
    except TypeError as exc:
        raise ValueError(f"a field has a value of the wrong type ({exc})") from exc


class Faults:
    """The rules in force, oldest first; the first that matches a request is the one that acts."""

    def __init__(self) -> None:
        self._rules: dict[str, FaultRule] = {}

    def add(self, rule: FaultRule) -> FaultRule:
        """Put a rule in force (replacing one with the same id) and return it with its id."""
        if not rule.id:
            rule = replace(rule, id=f"f{secrets.token_hex(3)}")
        self._rules[rule.id] = rule
        return rule

    def remove(self, rule_id: str) -> bool:
        """Take a rule out of force; False when there was none with this id."""
        return self._rules.pop(rule_id, None) is not None

    def clear(self) -> None:
        """Take all rules out of force."""
        self._rules.clear()

    def list(self) -> tuple[FaultRule, ...]:
        """The rules in force, with the number of times they have left."""
        return tuple(self._rules.values())

    def take(self, target: FaultTarget, method: str, path: str, query: str = "") -> FaultRule | None:
        """The rule that meets this request, counted as used; None when there is none."""
        for rule in self._rules.values():
            if rule.matches(target, method, path, query):
                if rule.times == 1:
                    del self._rules[rule.id]
                elif rule.times is not None:
                    self._rules[rule.id] = replace(rule, times=rule.times - 1)
                return rule
        return None


def fault_middleware(faults: Faults, target: FaultTarget) -> Middleware:
    """Middleware of one simulated server that lets the rules for it act; it belongs inside the call log's."""

    @web.middleware
    async def act(request: web.Request, handler: Handler) -> web.StreamResponse:
        rule = faults.take(target, request.method, request.path, request.rel_url.query_string)
        if rule is None:
            return await handler(request)
        if rule.action is not FaultAction.LATE_ANSWER:
            await asyncio.sleep(rule.delay_s)
        match rule.action:
            case FaultAction.SLOW:
                return await handler(request)
            case FaultAction.REFUSE:
                return _drop(request)
            case FaultAction.STATUS:
                return _status(rule)
            case FaultAction.HTML:
                page = _HTML.format(status=rule.status, reason=rule.reason or "Error")
                return web.Response(status=rule.status, reason=rule.reason or None, text=page, content_type="text/html")
            case FaultAction.LATE_ANSWER:
                answer = await _carry_out(handler, request)
                await asyncio.sleep(rule.delay_s)
                return answer
            case FaultAction.LOSE_ANSWER:
                await _carry_out(handler, request)
                return _drop(request)
            case FaultAction.CUT:
                return await _cut(request, await _carry_out(handler, request))
            case _:
                assert_never(rule.action)

    return act


def _status(rule: FaultRule) -> web.Response:
    """The error in the form of its server: Proxmox VE says it in the reason phrase and `message`, Kubernetes in a Status."""
    reason = rule.reason or None
    match rule.target:
        case FaultTarget.PROXMOX if rule.status == 401 or rule.status >= 595:  # these come without a body
            return web.Response(status=rule.status, reason=reason)
        case FaultTarget.PROXMOX:
            return web.json_response({"data": None, "message": f"{rule.reason}\n"}, status=rule.status, reason=reason)
        case FaultTarget.KUBE:
            body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": rule.reason, "code": rule.status}
            return web.json_response(body, status=rule.status)
        case _:
            assert_never(rule.target)


async def _carry_out(handler: Callable[[web.Request], Awaitable[web.StreamResponse]], request: web.Request) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as exc:
        return exc


def _drop(request: web.Request) -> web.Response:
    request[DROPPED] = True
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _cut(request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
    body = answer.body if isinstance(answer, web.Response) else None
    if not isinstance(body, bytes) or len(body) < 2:
        return _drop(request)
    request[DROPPED] = True
    part = web.StreamResponse(status=answer.status, reason=answer.reason, headers={"Content-Type": answer.headers["Content-Type"]})
    part.content_length = len(body)
    await part.prepare(request)
    await part.write(body[: len(body) // 2])
    if request.transport is not None:
        request.transport.close()  # not abort: what was written still leaves
    return part
