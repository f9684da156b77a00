"""A guest's power: starting, stopping, and the guest agent that answers some time after a start."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from fakepve import FakePve
from fakepve import agent as guest_agent

from kubehenge.lab.proxmox.call import ApiCall, Route
from kubehenge.lab.proxmox.clock import SimClock
from kubehenge.lab.proxmox.errors import TaskError, failed, no_config
from kubehenge.lab.proxmox.rights import Rights

# Simulated seconds from the start of a guest until its agent answers.
BOOT_S = 15
_CLOUD_INIT_DONE = {"exited": 1, "exitcode": 0, "out-data": "status: done\n"}
_SHUTDOWN_TIMEOUT_S = 60


class GuestPowerCalls(FakePve):
    """Mixin of the server: /status and /agent."""

    rights: Rights
    clock: SimClock

    def _calls_guest_power(self) -> list[Route]:
        status = "/nodes/{node}/qemu/{vmid}/status/"
        return [
            ("POST", status + "start", self._start),
            ("POST", status + "stop", self._stop),
            ("POST", status + "shutdown", self._shutdown),
            ("POST", status + "reboot", self._reboot),
        ]

    def power_on(self, guest: Any) -> None:
        """Run a guest; its agent comes up when it has booted."""
        guest.apply_pending()
        guest.status = guest.qmpstatus = "running"
        guest.started_at = self.clock.now()
        self.boot(guest)

    def boot(self, guest: Any) -> None:
        """Let a running guest's operating system come up."""
        guest.boot_number = getattr(guest, "boot_number", 0) + 1
        self.spawn(self._boot(guest, guest.boot_number))

    def power_off(self, guest: Any) -> None:
        """Stop a guest; what waited for its next start is taken over."""
        guest.apply_pending()
        guest.status = guest.qmpstatus = "stopped"
        guest.started_at = guest.agent = None

    async def _boot(self, guest: Any, number: int) -> None:
        await self.pause(BOOT_S)
        if guest.status == "running" and guest.boot_number == number and self.wants_agent(guest):
            guest.agent = {"exec": {"cloud-init status": _CLOUD_INIT_DONE}, "interfaces": self._interfaces(guest)}
            self.touch()

    def _interfaces(self, guest: Any) -> list[dict[str, Any]]:
        """What the agent reports: the address that the guest's tag or cloud-init settings gave to its first network device."""
        tagged = re.search(r"(?:^|;)ip_net0_([0-9.]+)", str(guest.config.get("tags", "")))
        configured = re.search(r"ip=([0-9.]+)/(\d+)", str(guest.config.get("ipconfig0", "")))
        mac = re.search(r"=((?:[0-9A-F]{2}:){5}[0-9A-F]{2})", str(guest.config.get("net0", "")))
        address = tagged[1] if tagged else configured[1] if configured else None
        if address is None:
            return []
        prefix = int(configured[2]) if configured and not tagged else 24
        entry = {"ip-address": address, "ip-address-type": "ipv4", "prefix": prefix}
        return [{"name": "eth0", "hardware-address": mac[1].lower() if mac else "", "ip-addresses": [entry]}]

    # ---- calls

    async def _missing(self, call: ApiCall, task_type: str, words: str) -> Any:
        """A call on a guest that is not there still starts a task, which then fails."""

        async def body() -> None:
            raise TaskError(words)

        return await self.task(call["node"], task_type, call["vmid"], call.auth, body)

    def _here(self, call: ApiCall) -> Any:
        guest = self.vm(call["vmid"])
        return guest if guest is not None and guest.node == call["node"] else None

    async def _start(self, call: ApiCall) -> Any:
        self.need_quorum()
        guest = self._here(call)
        if guest is None:
            return await self._missing(call, "qmstart", no_config(call["node"], call["vmid"]).message)
        return await self.task(guest.node, "qmstart", guest.vmid, call.auth, partial(self._start_body, guest), vm=guest)

    async def _start_body(self, guest: Any) -> None:
        if guest.template:
            raise TaskError("you can't start a vm if it's a template")
        if guest.lock:
            raise TaskError(f"VM is locked ({guest.lock})")
        if guest.status == "running":
            raise TaskError(f"VM {guest.vmid} already running")
        for part in str(guest.config.get("cicustom", "")).split(","):
            snippet = part.partition("=")[2]
            if snippet and self.stored(snippet) is None:
                raise TaskError(f"volume '{snippet}' does not exist")
        if guest.start_error:
            raise TaskError(guest.start_error)
        self.power_on(guest)

    async def _stop(self, call: ApiCall) -> Any:
        guest = self._here(call)
        if guest is None:
            words = f"unable to find configuration file for VM {call['vmid']} on node '{call['node']}'"
            return await self._missing(call, "qmstop", words)

        async def body() -> None:
            self._check_lock(guest)
            self.power_off(guest)

        return await self.task(guest.node, "qmstop", guest.vmid, call.auth, body, vm=guest)

    async def _shutdown(self, call: ApiCall) -> Any:
        guest = self.find(call["node"], call["vmid"])
        return await self.task(guest.node, "qmshutdown", guest.vmid, call.auth, partial(self._down, call, guest), vm=guest)

    async def _reboot(self, call: ApiCall) -> Any:
        guest = self.find(call["node"], call["vmid"])
        if guest.status != "running":
            raise failed(f"VM {guest.vmid} not running")

        async def body() -> None:
            await self._down(call, guest)
            self.power_on(guest)

        return await self.task(guest.node, "qmreboot", guest.vmid, call.auth, body, vm=guest)

    async def _down(self, call: ApiCall, guest: Any) -> None:
        self._check_lock(guest)
        if guest.status == "running" and not guest.acpi:
            await self.pause(call.get("timeout") or _SHUTDOWN_TIMEOUT_S)
            if not call.get("forceStop"):
                raise TaskError("VM quit/powerdown failed - got timeout")
        self.power_off(guest)

    async def _agent_call(self, match: Any, values: Any) -> Any:
        """Answer an agent command: what is in its way first, then what the guest says."""
        guest = self.find(values["node"], values["vmid"])
        command = match.template.rsplit("/", 1)[1]
        if not self.wants_agent(guest):
            raise failed("No QEMU guest agent configured")
        if guest.status != "running":
            raise failed(f"VM {guest.vmid} is not running")
        if guest.agent is None:
            raise failed("QEMU guest agent is not running")
        return guest_agent.result(guest, command, values)
