"""
Calls to one Proxmox VE cluster through any of its nodes (facts: 1 Transport; MODEL 29).

The client stays on one endpoint, and moves to the next when it cannot be reached or answers for itself with 595. Reads are
tried on each endpoint; a changing call is sent once, unless it is certain that nothing was sent.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from pydantic import SecretStr

from kubehenge.drivers.guard import before_change
from kubehenge.drivers.politeness import Politeness
from kubehenge.drivers.proxmox.connections import Connections, TimeLimits
from kubehenge.drivers.proxmox.errors import Reply, Sort, judge, scrubbed
from kubehenge.errors import SettingsError, TransientError

_ENDPOINT = re.compile(r"https://(\[[0-9a-fA-F:]+\]|[^/:@\s]+)(:\d+)?/?")
_OF_A_NODE = re.compile(r"/?nodes/[^/]+/")
PATIENCE_S = 60.0
"""How long a call waits for its turn at most, where nobody sits and waits for it."""


def checked_endpoints(endpoints: Sequence[str]) -> tuple[str, ...]:
    """Return the endpoints as `https://host:port`; SettingsError for none, or for one that is something else."""
    if not endpoints:
        raise SettingsError("Proxmox VE needs at least one endpoint, such as https://pve1.example:8006.")
    clean = []
    for endpoint in endpoints:
        found = _ENDPOINT.fullmatch(endpoint)
        if found is None:
            raise SettingsError(f"{scrubbed(endpoint, _userinfo(endpoint))!r} is no endpoint of Proxmox VE: write https://host:8006.")
        clean.append(f"https://{found[1]}{found[2] or ':8006'}")
    return tuple(dict.fromkeys(clean))


def _userinfo(endpoint: str) -> tuple[str, ...]:
    return (endpoint.rpartition("@")[0].rpartition("//")[2],) if "@" in endpoint else ()


class ProxmoxClient:
    """
    The calls of one sign-in; safe to use from many threads.

    Shape: `headers` are sent with each call and are secret, as is each of `secrets`, which no error text shows.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        ca_file: str | None,
        headers: Mapping[str, SecretStr],
        secrets: Sequence[SecretStr] = (),
        limits: TimeLimits | None = None,
        politeness: Politeness | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.endpoints = checked_endpoints(endpoints)
        self.limits = limits or TimeLimits()
        self.politeness = politeness or Politeness("Proxmox VE")
        self._ca_file = ca_file
        self._patience_s = patience_s
        self._headers = dict(headers)
        self._secrets = (*headers.values(), *secrets)
        self._here = 0
        self._lock = threading.Lock()
        self._connections = {
            endpoint: Connections(endpoint, verify=ca_file or True, headers=self._plain_headers, limits=self.limits)
            for endpoint in self.endpoints
        }

    @classmethod
    def with_token(
        cls,
        endpoints: Sequence[str],
        *,
        ca_file: str | None,
        token_id: str,
        secret: SecretStr,
        hidden: Sequence[SecretStr] = (),
        **more: Any,
    ) -> ProxmoxClient:
        """Return a client that signs in with an API token, `user@realm!name` and its secret; `hidden` are others that no text shows."""
        if not re.fullmatch(r"[^@!=\s]+@[^@!=\s]+![A-Za-z][A-Za-z0-9._-]+", token_id):
            raise SettingsError(f"{token_id!r} is no API token's id: write user@realm!name, with the secret apart from it.")
        header = SecretStr(f"PVEAPIToken={token_id}={secret.get_secret_value()}")
        return cls(endpoints, ca_file=ca_file, headers={"Authorization": header}, secrets=(secret, *hidden), **more)

    def apart(self) -> ProxmoxClient:
        """Return a client with the same sign-in and a limiter of its own that never rests: for a few calls that somebody waits for."""
        return ProxmoxClient(
            self.endpoints,
            ca_file=self._ca_file,
            headers=self._headers,
            secrets=self._secrets,
            limits=self.limits,
            politeness=Politeness("Proxmox VE", rests=False),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ProxmoxClient at {self.endpoint}>"

    def _plain_headers(self) -> dict[str, str]:
        return {name: value.get_secret_value() for name, value in self._headers.items()}

    @property
    def endpoint(self) -> str:
        """The endpoint that calls go to now."""
        return self.endpoints[self._here]

    def get(self, path: str, /, *, endpoint: str = "", **params: Any) -> Any:
        """
        Read; returns what `data` holds.

        Shape: parameters with dashes are given with underscores. `endpoint` asks for that one alone.
        Errors: RefusedError and TransientError as `errors.judge` says.
        """
        return self._call("GET", path, params, endpoint=endpoint)

    def post(self, path: str, /, **params: Any) -> Any:
        """Create or start; sent once. Besides the errors of `get`, UncertainError when the answer is lost."""
        return self._call("POST", path, params)

    def put(self, path: str, /, **params: Any) -> Any:
        """Change; sent once, errors as for `post`."""
        return self._call("PUT", path, params)

    def delete(self, path: str, /, **params: Any) -> Any:
        """Delete; sent once, errors as for `post`."""
        return self._call("DELETE", path, params)

    def close(self) -> None:
        """Close the idle connections."""
        for connections in self._connections.values():
            connections.close()

    def _call(self, method: str, path: str, params: Mapping[str, Any], *, endpoint: str = "") -> Any:
        change = method != "GET"
        named = {name.replace("_", "-"): value for name, value in params.items()}
        order = (endpoint,) if endpoint else self._order()
        until = time.monotonic() + self._patience_s
        for tried, where in enumerate(order, start=1):
            self.politeness.turn(within_s=until - time.monotonic())
            if change:
                before_change(self.limits.longest_change_s)
            reply = self._scrub(self._connections_to(where).call(method, path, named))
            if reply.good:
                return reply.value
            error = judge(reply, what=f"{method} {path}", endpoint=where, change=change)
            moves = _is_about_endpoint(reply, path)
            if isinstance(error, TransientError) and (moves or reply.status < 595):
                self.politeness.troubled(too_many=reply.status == 429, retry_after_s=reply.retry_after_s)
            if moves:
                self._leave(where)
            again = moves and (not change or reply.sort is Sort.UNREACHED or reply.status == 595)
            if not again or tried == len(order) or time.monotonic() > until:
                raise error
        raise AssertionError  # pragma: no cover - there is at least one endpoint

    def _connections_to(self, endpoint: str) -> Connections:
        try:
            return self._connections[endpoint]
        except KeyError:
            raise SettingsError(f"{endpoint!r} is none of the configured endpoints: {', '.join(self.endpoints)}.") from None

    def _order(self) -> tuple[str, ...]:
        here = self._here
        return self.endpoints[here:] + self.endpoints[:here]

    def _leave(self, endpoint: str) -> None:
        """Go to the next endpoint, unless another thread has done so already."""
        with self._lock:
            if self.endpoints[self._here] == endpoint:
                self._here = (self._here + 1) % len(self.endpoints)

    def _scrub(self, reply: Reply) -> Reply:
        if reply.good:
            return reply
        secrets = [secret.get_secret_value() for secret in self._secrets]
        errors = {scrubbed(name, secrets): scrubbed(text, secrets) for name, text in reply.errors.items()}
        return replace(reply, text=scrubbed(reply.text, secrets), errors=errors)


def _is_about_endpoint(reply: Reply, path: str) -> bool:
    """Whether a reply shows the endpoint itself unwell, rather than the call refused or another node away."""
    match reply.sort:
        case Sort.UNREACHED | Sort.LOST | Sort.GARBLED:
            return True
        case Sort.ANSWERED:
            return reply.status >= 595 and _OF_A_NODE.match(path) is None
