"""A simulated Proxmox VE that runs in a thread of the test, and a plain HTTP client for it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import requests

from kubehenge.lab.pki import CertificateAuthority
from kubehenge.lab.proxmox.rights import Token, User
from kubehenge.lab.proxmox.sim import ProxmoxSim

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    reason: str
    body: Any

    @property
    def data(self) -> Any:
        return self.body["data"]


class RunningProxmox:
    """`auth` of a call is a token's header value, a (ticket, CSRF token) pair, or None."""

    def __init__(self, ca_directory: Path, **options: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.ca = CertificateAuthority(ca_directory)
        self.sim: ProxmoxSim = self.do(self._make(options))
        self.do(self.sim.start())
        self._session = requests.Session()
        self._session.trust_env = False

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    async def _make(self, options: dict[str, Any]) -> ProxmoxSim:
        return ProxmoxSim(ca=self.ca, **options)

    @property
    def server(self) -> Any:
        return self.sim.server

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the simulator's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def within(self, function: Callable[[], T]) -> T:
        """Call a function in the simulator's own loop."""

        async def call() -> T:
            return function()

        return self.do(call())

    def close(self, *, stop: bool = True) -> None:
        self._session.close()
        if stop:
            self.do(self.sim.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

    def token(self, userid: str, name: str = "tok", *, privsep: bool = False) -> str:
        """A token for a user, made when they are not there yet; returns the header's value."""

        def make() -> str:
            users = self.server.rights.users
            user = users.setdefault(userid, User())
            token = user.tokens.setdefault(name, Token(value=f"secret-of-{userid}-{name}", privsep=privsep))
            self.server.rights.changed()
            return f"PVEAPIToken={userid}!{name}={token.value}"

        return self.within(make)

    def call(self, method: str, path: str, auth: Any = "root", /, *, at: str | None = None, **params: Any) -> Answer:
        """One call; parameters go where Proxmox VE's own clients put them."""
        headers, cookies = {}, {}
        if auth == "root":
            auth = self.token("root@pam")
        if isinstance(auth, tuple):
            cookies["PVEAuthCookie"] = auth[0]
            headers["CSRFPreventionToken"] = auth[1]
        elif auth:
            headers["Authorization"] = auth
        files = params.pop("files", None)
        where = "params" if method in {"GET", "DELETE"} else "data"
        url = f"{self.sim.urls[at or next(iter(self.sim.urls))]}/api2/json{path}"
        options: dict[str, Any] = {where: params, "files": files, "verify": str(self.ca.cert_path), "timeout": 30}
        answer = self._session.request(method, url, headers=headers, cookies=cookies, **options)
        return Answer(status=answer.status_code, reason=answer.reason, body=answer.json() if answer.content else None)

    def ended(self, upid: str, auth: Any = "root") -> str:
        """The exit status of a task, once it has one."""
        node = upid.split(":")[1]
        return until(lambda: self.call("GET", f"/nodes/{node}/tasks/{upid}/status", auth).data.get("exitstatus"))


def until(look: Callable[[], T | None], *, within_s: float = 20) -> T:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("nothing was found in time")


@contextlib.contextmanager
def running(ca_directory: Path, **options: Any) -> Iterator[RunningProxmox]:
    proxmox = RunningProxmox(ca_directory, **options)
    try:
        yield proxmox
    finally:
        proxmox.close()
