"""A simulated management cluster (and Proxmox VE) that runs in a thread of the test, and clients for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import requests
from kubernetes import client as kubernetes_client
from kubernetes import config as kubernetes_config
from kubernetes import dynamic

from kubehenge.lab.calls import CallLog
from kubehenge.lab.faults import Faults
from kubehenge.lab.kube.sim import KubeSim
from kubehenge.lab.pki import CertificateAuthority
from kubehenge.lab.proxmox.seed import LabProxmox, seed
from kubehenge.lab.proxmox.sim import ProxmoxSim

T = TypeVar("T")


def until(look: Callable[[], T | None], *, within_s: float = 30, why: Callable[[], Any] = lambda: "") -> T:
    """What `look` finds, as soon as it finds something; `why` is called for the message when it does not."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError(f"nothing was found in time: {why()}")


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def within(self, function: Callable[..., T], *args: Any) -> T:
        async def call() -> T:
            return function(*args)

        return self.do(call())

    async def _drop_connections(self) -> None:
        """End the connections whose other end is slow to let go, before the loop that would see it is gone."""
        for key in list(self.loop._selector.get_map().values()):
            transport = getattr(key.data[0]._callback, "__self__", None) if key.data[0] else None
            if isinstance(transport, asyncio.Transport):
                transport.abort()
        await asyncio.sleep(0)

    def close(self) -> None:
        self.do(self._drop_connections())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    return session


@dataclass(frozen=True, kw_only=True)
class Server:
    """An API server under test, whichever it is."""

    url: str
    token: str
    ca_file: Path
    kubeconfig: Path
    clients: list[Any] = field(default_factory=list)
    session: requests.Session = field(default_factory=_session)

    def dynamic(self) -> dynamic.DynamicClient:
        configuration = kubernetes_client.Configuration()
        kubernetes_config.load_kube_config(str(self.kubeconfig), client_configuration=configuration)
        api = kubernetes_client.ApiClient(configuration)
        self.clients.append(api)
        return dynamic.DynamicClient(api, cache_file=str(self.kubeconfig.with_suffix(f".{time.monotonic_ns()}.cache")))

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        token: str | None = None,
        accept: str = "application/json",
        warnings: list[str] | None = None,
    ) -> tuple[int, Any]:
        """One plain request: status and parsed body; the answer's warnings are added to a list that is given."""
        headers = {"Content-Type": media, "Accept": accept, "User-Agent": "contract/1"}
        if token is None or token:
            headers["Authorization"] = f"Bearer {self.token if token is None else token}"
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        answer = self.session.request(method, self.url + path, data=content, headers=headers, timeout=30, verify=str(self.ca_file))
        if warnings is not None:
            warnings += answer.raw.headers.getlist("Warning")
        try:
            return answer.status_code, answer.json()
        except ValueError:
            return answer.status_code, answer.text

    def kubectl(self, *args: str, stdin: Any = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.kubeconfig.parent)}
        text = stdin if isinstance(stdin, str) or stdin is None else json.dumps(stdin)
        done = subprocess.run(["kubectl", *args], input=text, text=True, capture_output=True, timeout=60, check=False, env=environment)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(args)}: {done.stderr}{done.stdout}")
        return done

    def close(self) -> None:
        self.session.close()
        for api in self.clients:
            api.close()


class RunningKube:
    """A KubeSim in its own loop; `proxmox` is there when it was asked for."""

    def __init__(self, directory: Path, *, proxmox: bool = False, speed: float = 0, **options: Any) -> None:
        self.directory = directory
        self.loop = Loop()
        self.faults, self.calls = Faults(), CallLog()
        self.ca = CertificateAuthority(directory / "pki")
        self.proxmox: ProxmoxSim | None = None
        self.lab: LabProxmox | None = None
        if proxmox:
            self.proxmox = self.loop.do(self._make_proxmox(speed))
            self.loop.do(self.proxmox.start())
            self.lab = self.loop.within(seed, self.proxmox, directory)
            options |= {"proxmox_urls": tuple(self.lab.urls.values()), "guest_runs": self._guest_runs}
        self._options = {"speed": speed, **options}
        self.sim: KubeSim = self.loop.do(self._make_kube())
        self.server = self._start()

    async def _make_proxmox(self, speed: float) -> ProxmoxSim:
        return ProxmoxSim(ca=self.ca, directory=self.directory, speed=speed, faults=self.faults, calls=self.calls)

    def _guest_runs(self, vmid: int) -> bool:
        server = self.proxmox.server
        guest = next((guest for guest in server.vms if guest.vmid == vmid), None)
        return guest is not None and guest.status == "running" and server.is_online(guest.node)

    async def _make_kube(self) -> KubeSim:
        return KubeSim(self.directory, self.ca, self.faults, self.calls, **self._options)

    def _start(self) -> Server:
        self.loop.do(self.sim.start())
        path = self.directory / "kubeconfig"
        path.write_text(self.sim.kubeconfig())
        return Server(url=self.sim.url, token=self.sim.token("admin"), ca_file=self.ca.cert_path, kubeconfig=path)

    def set_speed(self, speed: float) -> None:
        """Let time pass at another speed in both simulators."""
        self.loop.within(self.sim.set_speed, speed)
        if self.proxmox is not None:
            self.loop.within(self.proxmox.set_speed, speed)

    def restart(self, *, stop: bool = True) -> None:
        """Stop the API server and start another one on what it left; without `stop` as if it had been killed."""
        if stop:
            self.loop.do(self.sim.stop())
        self.server.close()
        self.sim = self.loop.do(self._make_kube())
        self.server = self._start()

    def close(self) -> None:
        self.server.close()
        self.loop.do(self.sim.stop())
        if self.proxmox is not None:
            self.loop.do(self.proxmox.stop())
        self.loop.close()


@contextlib.contextmanager
def running(directory: Path, **options: Any) -> Iterator[RunningKube]:
    kube = RunningKube(directory, **options)
    try:
        yield kube
    finally:
        kube.close()
