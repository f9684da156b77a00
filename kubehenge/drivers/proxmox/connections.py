"""
Keep-alive connections to one endpoint, and the one call on a connection: sent by proxmoxer, its end told as a `Reply`.

Proxmox VE closes a connection that is idle for five seconds, so one that is idle for four is not used again. A call's time is
limited as a whole: an answer that comes drop by drop ends it too.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import requests
from proxmoxer.core import ProxmoxResource, ResourceException
from urllib3.exceptions import HTTPError, MaxRetryError, NewConnectionError, ReadTimeoutError

from kubehenge.drivers.deadline import read_body
from kubehenge.drivers.proxmox.errors import Reply, Sort

IDLE_S = 4.0
_EMPTY_ANSWERS = frozenset({401, 595, 596, 597, 598, 599})
"""Statuses that Proxmox VE answers without a body; their words are in the reason phrase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """
    How long a call may take.

    Units: seconds. A 401 takes three, a call forwarded to a dead node thirty, and a change may wait ten for a lock.
    """

    connect_s: float = 5.0
    read_s: float = 20.0
    change_s: float = 30.0

    @property
    def longest_change_s(self) -> float:
        """The longest that a changing call takes on one endpoint, for whoever must know that it is over (MODEL 26)."""
        return self.connect_s + 2 * self.change_s


class _GarbledError(Exception):
    """An answer that is not Proxmox VE's."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What an error answer said; stands in for proxmoxer's `errors`, and shows nothing when it is printed."""

    text: str
    errors: Mapping[str, str]
    garbled: bool
    retry_after_s: float

    def __str__(self) -> str:
        return ""


class _Serializer:
    """Reads answers for proxmoxer, and raises where its own serializer would hand a broken one on as if it were data."""

    def loads(self, response: requests.Response) -> Any:
        try:
            answer = json.loads(response.content)
        except ValueError:
            raise _GarbledError(_shape(response)) from None
        if not isinstance(answer, dict) or "data" not in answer:
            raise _GarbledError("JSON without data")
        return answer["data"]

    def loads_errors(self, response: requests.Response) -> _Said:
        reason = response.reason or ""
        asked = response.headers.get("Retry-After", "")
        later = float(asked) if asked.isdecimal() else 0.0
        if not response.content.strip() and (response.status_code in _EMPTY_ANSWERS or reason):
            return _Said(reason, {}, garbled=False, retry_after_s=later)
        try:
            answer = json.loads(response.content)
        except ValueError:
            return _Said(f"{response.status_code} {_shape(response)}", {}, garbled=True, retry_after_s=later)
        if not isinstance(answer, dict):  # a refused CSRF token is answered with null
            return _Said(reason, {}, garbled=False, retry_after_s=later)
        errors = answer.get("errors")
        named = {str(key): str(value) for key, value in errors.items()} if isinstance(errors, dict) else {}
        return _Said(str(answer.get("message") or reason), named, garbled=False, retry_after_s=later)


def _shape(response: requests.Response) -> str:
    kind = response.headers.get("Content-Type", "").partition(";")[0] or "no content type"
    return f"{len(response.content)} bytes of {kind}"


class _Session(requests.Session):
    """A session with a time limit on each call, that follows no redirect and reads no settings of the environment."""

    def __init__(self, *, verify: str | bool, headers: Mapping[str, str], limits: TimeLimits) -> None:
        super().__init__()
        self.trust_env = False
        self.verify = verify
        self.headers.update({"Accept": "application/json", **headers})
        self._limits = limits

    def request(self, method: str | bytes, url: str | bytes, *args: Any, **kwargs: Any) -> requests.Response:
        limit = self._limits.read_s if method == "GET" else self._limits.change_s
        deadline = time.monotonic() + self._limits.connect_s + limit
        kwargs |= {"timeout": (self._limits.connect_s, limit), "allow_redirects": False, "stream": True}
        response = super().request(method, url, *args, **kwargs)
        response._content = _body(response, deadline)  # noqa: SLF001 - as `Response.content` would set it, without a deadline
        if 300 <= response.status_code < 400:
            raise _GarbledError(f"a redirect ({response.status_code})")
        return response


def _body(response: requests.Response, deadline: float) -> bytes:
    try:
        return read_body(response.raw, deadline)
    except (TimeoutError, ReadTimeoutError):
        raise requests.exceptions.ReadTimeout from None
    except (HTTPError, OSError):
        raise requests.exceptions.ChunkedEncodingError from None


class Connections:
    """The connections to one endpoint; each serves one call at a time, whatever thread it comes from."""

    def __init__(
        self,
        endpoint: str,
        *,
        verify: str | bool,
        headers: Callable[[], Mapping[str, str]],
        limits: TimeLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.endpoint = endpoint
        self._verify = verify
        self._headers = headers
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[tuple[_Session, float]] = []

    def call(self, method: str, path: str, params: Mapping[str, Any]) -> Reply:
        """Send one call; a read whose used connection turns out to be dead is sent once more on a fresh one."""
        session = self._take()
        if session is not None:
            reply = self._send(session, method, path, params)
            if reply.sort is not Sort.LOST or reply.slow or method != "GET":
                return reply
        fresh = _Session(verify=self._verify, headers=self._headers(), limits=self._limits)
        return self._send(fresh, method, path, params)

    def _send(self, session: _Session, method: str, path: str, params: Mapping[str, Any]) -> Reply:
        reply = _call(session, f"{self.endpoint}/api2/json", method, path, params)
        if reply.good:
            with self._lock:
                self._idle.append((session, self._clock()))
        else:
            session.close()  # Proxmox VE closes a connection after each error anyway
        return reply

    def _take(self) -> _Session | None:
        with self._lock:
            fresh_since = self._clock() - IDLE_S
            stale = [session for session, since in self._idle if since <= fresh_since]
            self._idle = [(session, since) for session, since in self._idle if since > fresh_since]
            taken = self._idle.pop()[0] if self._idle else None
        for session in stale:
            session.close()
        return taken

    def close(self) -> None:
        """Close what is idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for session, _ in idle:
            session.close()


def _call(session: _Session, base_url: str, method: str, path: str, params: Mapping[str, Any]) -> Reply:
    resource = ProxmoxResource(base_url=base_url, session=session, serializer=_Serializer())(path.strip("/"))
    plain = {name: int(value) if isinstance(value, bool) else value for name, value in params.items() if value is not None}
    try:
        match method:
            case "GET":
                value = resource.get(**plain)
            case "POST":
                value = resource.post(**plain)
            case "PUT":
                value = resource.put(**plain)
            case "DELETE":
                value = resource.delete(**plain)
            case _:
                raise ValueError(f"Proxmox VE has no method {method}")
    except ResourceException as exc:
        return _error_reply(exc)
    except _GarbledError as exc:
        return Reply(sort=Sort.GARBLED, text=str(exc))
    except requests.exceptions.RequestException as exc:
        slow = isinstance(exc, requests.exceptions.Timeout)
        return Reply(sort=Sort.UNREACHED if _is_unsent(exc) else Sort.LOST, text=_network_words(exc), slow=slow)
    return Reply(sort=Sort.ANSWERED, status=200, value=value)


def _error_reply(exc: ResourceException) -> Reply:
    said: _Said = exc.errors
    sort = Sort.GARBLED if said.garbled else Sort.ANSWERED
    return Reply(
        sort=sort, status=exc.status_code, text=said.text or str(exc.content), errors=said.errors, retry_after_s=said.retry_after_s
    )


def _reason(exc: BaseException) -> BaseException:
    """The error at the bottom of what requests wraps."""
    inner = exc.args[0] if exc.args else None
    if isinstance(inner, MaxRetryError) and inner.reason is not None:
        return inner.reason
    return inner if isinstance(inner, BaseException) else exc


def _is_unsent(exc: requests.exceptions.RequestException) -> bool:
    """Whether it is certain that nothing was sent."""
    if isinstance(exc, requests.exceptions.ConnectTimeout):
        return True
    reason = _reason(exc)
    return isinstance(reason, NewConnectionError) or "CERTIFICATE_VERIFY_FAILED" in str(reason)


def _network_words(exc: requests.exceptions.RequestException) -> str:
    """Say what happened without the wrapping, which repeats the address and shows objects."""
    if isinstance(exc, requests.exceptions.ConnectTimeout):
        return "no connection within the time limit"
    if isinstance(exc, requests.exceptions.Timeout):
        return "no answer within the time limit"
    reason = _reason(exc)
    text = str(reason)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not signed by the configured CA, or for another name"
    if isinstance(reason, NewConnectionError) or type(reason).__name__ == "NameResolutionError":
        return text.rpartition(": ")[2] or text
    return "the connection was closed in between"
