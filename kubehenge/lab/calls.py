"""The lab's call log: every request that the simulated servers were sent, bounded, with counters."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from kubehenge.lab.faults import DROPPED, FaultTarget

# A server sets this on the request once it knows who asks: "user@realm", "user@realm!token", a field manager.
WHO = web.RequestKey("who", str)

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_SECRET = re.compile(r"((?:^|[?&])[^=&]*(?:password|ticket|token|secret)[^=&]*=)[^&]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """
    One request as the server met it.

    Shape: `n` counts from 1 in the order of answers; `path` decoded, with its query; `status` 0 when the caller got no answer.
    """

    n: int
    target: FaultTarget
    at: datetime
    method: str
    path: str
    who: str
    status: int
    write: bool

    def to_json(self) -> dict[str, Any]:
        """The call as a JSON object."""
        return {
            "n": self.n,
            "target": self.target.value,
            "at": self.at.isoformat(),
            "method": self.method,
            "path": self.path,
            "who": self.who,
            "status": self.status,
            "write": self.write,
        }


class CallLog:
    """The newest `keep` calls; the counters count all of them, also those that have left the list."""

    def __init__(self, *, keep: int = 20_000) -> None:
        self._calls: deque[Call] = deque(maxlen=keep)
        self.last_n = 0
        self.counts: Counter[tuple[FaultTarget, str]] = Counter()
        self.writes: Counter[FaultTarget] = Counter()

    def record(self, *, target: FaultTarget, method: str, path: str, who: str, status: int, write: bool) -> Call:
        """Add a call, now."""
        self.last_n += 1
        call = Call(n=self.last_n, target=target, at=datetime.now(UTC), method=method, path=path, who=who, status=status, write=write)
        self._calls.append(call)
        self.counts[target, method] += 1
        self.writes[target] += write
        return call

    def since(self, n: int = 0, target: FaultTarget | None = None) -> tuple[Call, ...]:
        """The calls after number `n` that are still kept, oldest first."""
        found: list[Call] = []
        for call in reversed(self._calls):
            if call.n <= n:
                break
            if target is None or call.target is target:
                found.append(call)
        return tuple(reversed(found))


def is_write(request: web.Request) -> bool:
    """Whether a request can change something: not a reading method, not a dry run."""
    return request.method not in _READS and "dryRun" not in request.query


def call_log_middleware(log: CallLog, target: FaultTarget, *, write: Callable[[web.Request], bool] = is_write) -> Middleware:
    """Middleware of one simulated server that records each request when it has been answered; the outermost one."""

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        status = 0
        try:
            answer = await handler(request)
            status = 0 if request.get(DROPPED) else answer.status
        except web.HTTPException as exc:
            status = exc.status
            raise
        finally:
            query = request.rel_url.query_string
            path = _SECRET.sub(r"\1***", f"{request.path}?{query}") if query else request.path
            log.record(target=target, method=request.method, path=path, who=request.get(WHO, ""), status=status, write=write(request))
        return answer

    return note
