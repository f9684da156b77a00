"""Guests: all of them, and how lists and status show one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fakepve import FakePve, FakeVm

from kubehenge.lab.proxmox.call import ApiCall, Route
from kubehenge.lab.proxmox.clock import SimClock
from kubehenge.lab.proxmox.errors import no_config
from kubehenge.lab.proxmox.rights import Rights

MIB = 1024**2
# After this long a new guest's figures have reached every node; until then lists know little of it.
BROADCAST_S = 10


class GuestList(list[Any]):
    """All guests in the order they were made, and found by id at once."""

    def __init__(self, guests: Iterable[Any] = ()) -> None:
        super().__init__(guests)
        self.by_id = {guest.vmid: guest for guest in self}

    def append(self, guest: Any) -> None:
        """Add a guest."""
        super().append(guest)
        self.by_id[guest.vmid] = guest

    def remove(self, guest: Any) -> None:
        """Take a guest out."""
        super().remove(guest)
        self.by_id.pop(guest.vmid, None)


class GuestCalls(FakePve):
    """Mixin of the server: `vms` holds the guests."""

    rights: Rights
    clock: SimClock
    vms: GuestList

    def _calls_guests(self) -> list[Route]:
        return [
            ("GET", "/nodes/{node}/qemu", self._get_guests),
            ("GET", "/nodes/{node}/qemu/{vmid}/status/current", self._get_current),
        ]

    # ---- state

    def vm(self, vmid: int) -> Any:
        """The guest with this id, or None."""
        return self.vms.by_id.get(vmid)

    def add_guest(self, vmid: int, node: str, name: str | None = None, **about: Any) -> Any:
        """Add a guest as it is, without a task; `about` as FakeVm takes it."""
        guest = FakeVm(vmid, name or f"VM {vmid}", node=node, **about)
        if name is None:
            guest.config.pop("name", None)
        guest.created_at = self.clock.now()
        guest.shutdown_secs = 0
        self.vms.append(guest)
        self.rights.member_changed(f"/vms/{vmid}")
        return guest

    def remove_guest(self, guest: Any) -> None:
        """Take a guest away with its pool membership and the ACL rows on it."""
        if guest in self.vms:
            self.vms.remove(guest)
        self._pool_leave(guest.vmid)
        self.rights.delete_path(f"/vms/{guest.vmid}")

    @staticmethod
    def guest_memory(guest: Any) -> int:
        """The memory a guest may have, in bytes."""
        return int(str(guest.config.get("memory", 512)).removeprefix("current=")) * MIB

    def _figures(self, guest: Any) -> dict[str, Any]:
        memory = self.guest_memory(guest)
        running = guest.status == "running"
        used = int(memory * 0.6) if running else 0
        figures = {"cpu": 0.05 if running else 0, "mem": used, "memhost": used, "maxmem": memory, "disk": 0, "netin": 0, "netout": 0}
        figures["uptime"] = int(self.clock.now() - guest.started_at) if running and guest.started_at else 0
        return {**figures, "maxdisk": self._vm_maxdisk(guest)}

    @staticmethod
    def _cores(guest: Any) -> int:
        return int(guest.config.get("cores", 1)) * int(guest.config.get("sockets", 1))

    def guest_resource(self, guest: Any, *, pool: str | None) -> dict[str, Any]:
        """A guest in the list of everything."""
        entry: dict[str, Any] = {"id": f"qemu/{guest.vmid}", "type": "qemu", "vmid": guest.vmid, "node": guest.node}
        if guest.config.get("tags"):
            entry["tags"] = guest.config["tags"]
        if guest.lock:
            entry["lock"] = guest.lock
        if pool:
            entry["pool"] = pool
        if self.clock.speed and self.clock.now() - guest.created_at < BROADCAST_S:
            return {**entry, "status": "unknown"}
        figures = {**self._figures(guest), "diskread": 0, "diskwrite": 0, "maxcpu": self._cores(guest)}
        status = guest.status if self.is_online(guest.node) else "unknown"
        return {**entry, **figures, "name": guest.name, "status": status, "template": int(guest.template)}

    def _status_view(self, guest: Any) -> dict[str, Any]:
        view = {**self._figures(guest), "vmid": guest.vmid, "name": guest.name, "status": guest.status, "cpus": self._cores(guest)}
        view |= {key: guest.config[key] for key in ("tags",) if guest.config.get(key)}
        if guest.lock:
            view["lock"] = guest.lock
        if guest.template:
            view["template"] = 1
        if guest.status == "running":
            pressure = dict.fromkeys((f"pressure{what}{how}" for what in ("cpu", "io", "memory") for how in ("full", "some")), 0)
            view |= {"pid": 1000 + guest.vmid, **pressure}
        if "serial0" in guest.config:
            view["serial"] = 1
        return view

    async def _get_guests(self, call: ApiCall) -> Any:
        here = (guest for guest in self.vms if guest.node == call["node"])
        return [self._status_view(guest) for guest in here if self.rights.has(call.auth, f"/vms/{guest.vmid}", "VM.Audit")]

    async def _get_current(self, call: ApiCall) -> Any:
        guest = self.find(call["node"], call["vmid"])
        view = {**self._status_view(guest), "qmpstatus": guest.qmpstatus, "ha": {"managed": 0}}
        return {**view, "agent": 1} if self.wants_agent(guest) else view

    @staticmethod
    def wants_agent(guest: Any) -> bool:
        """Whether the guest agent is switched on in a guest's configuration."""
        return str(guest.config.get("agent", "0")).split(",")[0].removeprefix("enabled=") == "1"

    def find(self, node: str, vmid: Any) -> Any:
        """The guest with this id on this node, or Proxmox VE's 500."""
        guest = self.vm(int(vmid))
        if guest is None or guest.node != node:
            raise no_config(node, int(vmid))
        return guest
