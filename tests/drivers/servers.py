"""The simulated servers in a thread of their own, so that blocking drivers can call them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from kubehenge.drivers.base import ActionContext, Vault
from kubehenge.drivers.fingerprint import secret_hmac
from kubehenge.drivers.kube.client import KubeClient
from kubehenge.drivers.kube.client import TimeLimits as KubeLimits
from kubehenge.drivers.kube.driver import KubeDriver
from kubehenge.drivers.kube.secrets import ProxmoxAccess
from kubehenge.drivers.politeness import Limits, Politeness
from kubehenge.drivers.proxmox import ProxmoxClient, ProxmoxDriver
from kubehenge.drivers.proxmox.connections import TimeLimits
from kubehenge.drivers.proxmox.probing import needs
from kubehenge.lab.calls import Call, CallLog
from kubehenge.lab.faults import FaultAction, FaultRule, Faults, FaultTarget
from kubehenge.lab.kube.sim import KubeSim
from kubehenge.lab.pki import CertificateAuthority
from kubehenge.lab.proxmox.rights import Token
from kubehenge.lab.proxmox.sim import ProxmoxSim
from kubehenge.model.identity import Incarnation

POOL = "kubehenge"
GROUP = "kubehenge-clusters"
OWNER_VMIDS = (9_000_000, 9_999_999)
SITE_KEY = b"the site's own key of the tests"
TOKEN_ID = "kubehenge@pve!kubehenge"
ROLE = "KubehengeCluster"


def unhurried() -> Politeness:
    """A limiter that rests as it should, on a clock that costs no time."""
    return Politeness("a simulated server", Limits(requests_per_s=float("inf"), burst=1000, tasks=4), sleep=lambda _secs: None)


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=60)

    def _connections(self) -> int:
        selector: Any = self._loop._selector  # type: ignore[attr-defined]
        return len(selector.get_map()) - 1  # without the loop's own

    def close(self) -> None:
        async def rest() -> None:
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await self._loop.shutdown_default_executor()

        self.run(rest())
        deadline = time.monotonic() + 10
        while self._connections() and time.monotonic() < deadline:  # those that a test cut off end a moment later
            time.sleep(0.01)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()


class ProxmoxSite:
    """A simulated Proxmox VE cluster with the workload pool, the clusters' group and role, and Kubehenge's token."""

    def __init__(self, loop: Loop, ca: CertificateAuthority, *, speed: float = 0) -> None:
        self._loop = loop
        self.ca = ca
        self.faults = Faults()
        self.calls = CallLog()
        self.sim = ProxmoxSim(ca=self.ca, speed=speed, faults=self.faults, calls=self.calls)
        loop.run(self.sim.start())
        self.admin_secret = "11111111-1111-4111-8111-111111111111"
        self.sim.server.rights.users["root@pam"].tokens["tests"] = Token(value=self.admin_secret, privsep=False)
        self.admin = self.client("root@pam!tests", self.admin_secret)
        self.secret = self._seed()
        self.restart()

    @property
    def urls(self) -> list[str]:
        return list(self.sim.urls.values())

    def client(self, token_id: str, secret: str, **more: Any) -> ProxmoxClient:
        more.setdefault("politeness", unhurried())
        more.setdefault("limits", TimeLimits(connect_s=10, read_s=20, change_s=20))
        return ProxmoxClient.with_token(
            more.pop("endpoints", self.urls), ca_file=str(self.ca.cert_path), token_id=token_id, secret=SecretStr(secret), **more
        )

    def _seed(self) -> str:
        self.admin.post("/pools", poolid=POOL)
        self.admin.post("/access/roles", roleid=ROLE, privs="VM.Audit,VM.Config.Disk")
        self.admin.post("/access/groups", groupid=GROUP)
        self.admin.post("/access/users", userid="kubehenge@pve")
        for number, need in enumerate(needs(workload_pool=POOL, group=GROUP)):
            self.admin.post("/access/roles", roleid=f"Need{number}", privs=",".join(sorted(need.privileges)))
            self.admin.put("/access/acl", path=need.path, roles=f"Need{number}", users="kubehenge@pve", propagate=need.path != "/")
        return str(self.admin.post("/access/users/kubehenge@pve/token/kubehenge", privsep=0)["value"])

    def restart(self, **more: Any) -> ProxmoxDriver:
        """A driver as a process that has just started makes it, with nothing remembered."""
        if hasattr(self, "driver"):
            self.driver.client.close()
        self.driver = ProxmoxDriver(
            self.client(TOKEN_ID, self.secret, **more), workload_pool=POOL, owner_vmids=OWNER_VMIDS, site_key=SITE_KEY
        )
        return self.driver

    def fault(self, action: FaultAction, *, path: str = "", method: str = "*", times: int | None = 1, **more: Any) -> FaultRule:
        return self.faults.add(FaultRule(target=FaultTarget.PROXMOX, action=action, method=method, path=path, times=times, **more))

    def since(self, n: int) -> tuple[Call, ...]:
        return self.calls.since(n)

    def writes_since(self, n: int) -> list[str]:
        return [f"{call.method} {call.path.removeprefix('/api2/json')}" for call in self.calls.since(n) if call.write]

    def set_node(self, node: str, *, online: bool) -> None:
        self._loop.run(self.sim.set_node(node, online=online))

    def close(self) -> None:
        self.admin.close()
        self.driver.client.close()
        self._loop.run(self.sim.stop())


def incarnation(name: str = "prod", number: int = 1) -> Incarnation:
    return Incarnation(site="default", namespace="clusters", name=name, number=number)


def context(who: Incarnation, vault: Vault | None = None, **outputs: Any) -> ActionContext:
    return ActionContext(mark=who.mark, vault=vault or Vault(), outputs=outputs)


class KubeSite:
    """A simulated management cluster without Cluster API behind it: what changes, a test changes."""

    def __init__(self, loop: Loop, ca: CertificateAuthority, directory: Path) -> None:
        self._loop = loop
        self.ca = ca
        self.faults = Faults()
        self.calls = CallLog()
        self.directory = directory
        self.sim = KubeSim(directory, ca, self.faults, self.calls, model=False)
        loop.run(self.sim.start())
        self.admin = self.client("admin")
        self.capmox = SecretStr("capmox-s3cr3t-value")
        self.token = SecretStr("cluster-s3cr3t-value")
        self.restart()

    def client(self, account: str = "kubehenge", **more: Any) -> KubeClient:
        more.setdefault("politeness", unhurried())
        more.setdefault("limits", KubeLimits(connect_s=10, read_s=20, change_s=20))
        return KubeClient.with_token(self.sim.url, token=SecretStr(self.sim.token(account)), ca_file=str(self.ca.cert_path), **more)

    def restart(self, **more: Any) -> KubeDriver:
        """A driver as a process that has just started makes it."""
        if hasattr(self, "driver"):
            self.driver.stop()
        access = ProxmoxAccess(
            url="https://pve1:8006",
            region=lambda: "lab",
            ca="-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
            capmox_token_id="capmox@pve!capmox",
            capmox_secret=self.capmox,
        )
        self.driver = KubeDriver(self.client(**more), access, site_key=SITE_KEY)
        return self.driver

    def fault(self, action: FaultAction, *, path: str = "", method: str = "*", times: int | None = 1, **more: Any) -> FaultRule:
        return self.faults.add(FaultRule(target=FaultTarget.KUBE, action=action, method=method, path=path, times=times, **more))

    def since(self, n: int) -> tuple[Call, ...]:
        return self.calls.since(n)

    def writes_since(self, n: int) -> list[str]:
        return [f"{call.method} {call.path.partition('?')[0]}" for call in self.calls.since(n) if call.write]

    def context(self, who: Incarnation, *, secret: bool = True) -> ActionContext:
        """A run that has just made the cluster's token, or one that has not."""
        vault = Vault()
        token_id = f"{who.user}!k1"
        if secret:
            vault.keep(token_id, self.token)
        return ActionContext(
            mark=who.mark,
            vault=vault,
            outputs={
                f"proxmox.token/{token_id}": {"hmac": secret_hmac(SITE_KEY, self.token)},
                f"proxmox.volume_owner/{who.pool(POOL)}": {"vmid": 9_000_001},
            },
        )

    def close(self) -> None:
        self.driver.stop()
        self.admin.close()
        self._loop.run(self.sim.stop())
