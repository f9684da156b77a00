"""Nodes and the cluster of them: states, memory, quorum, and the list of everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from fakepve import FakePve

from kubehenge.lab.proxmox.call import ApiCall, Route
from kubehenge.lab.proxmox.clock import SimClock
from kubehenge.lab.proxmox.errors import bad_parameter, failed
from kubehenge.lab.proxmox.rights import Rights

GIB = 1024**3
VERSION = {"version": "9.2.11", "release": "9.2", "repoid": "14a22df35955d97d"}
# What a node itself uses, and the part of its memory that a running guest has touched.
_HOST_MEMORY = 2 * GIB
GUEST_MEMORY_SHARE = 0.6
_FIRST_VMID, _END_VMID = 100, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSize:
    """What a node has: `memory` and `disk` in bytes."""

    cores: int = 16
    memory: int = 64 * GIB
    disk: int = 64 * GIB


class NodeCalls(FakePve):
    """Mixin of the server: `nodes` holds {"online": bool} by name, `sizes` what each has, `fingerprints` of their certificates."""

    rights: Rights
    clock: SimClock
    sizes: dict[str, NodeSize]
    fingerprints: dict[str, str]

    def _calls_nodes(self) -> list[Route]:
        return [
            ("GET", "/version", self._get_version),
            ("GET", "/nodes/{node}/version", self._get_version),
            ("GET", "/nodes", self._get_nodes),
            ("GET", "/nodes/{node}/status", self._get_node_status),
            ("GET", "/cluster/status", self._get_cluster_status),
            ("GET", "/cluster/resources", self._get_resources),
            ("GET", "/cluster/nextid", self._get_nextid),
            ("GET", "/cluster/options", self._get_options),
        ]

    # ---- state

    def is_online(self, node: str) -> bool:
        """Whether a node is up and can be reached."""
        return bool(self.nodes[node].get("online", True))

    def has_quorum(self) -> bool:
        """Whether the configuration may be written: more than half of the nodes are there, and nobody took quorum away."""
        return bool(self.quorate) and 2 * sum(self.is_online(node) for node in self.nodes) > len(self.nodes)

    def need_quorum(self) -> None:
        """Refuse what needs quorum."""
        if not self.has_quorum():
            raise failed("cluster not ready - no quorum?")

    def need_node(self, node: str) -> None:
        """Refuse a node that is no member of the cluster."""
        if node not in self.nodes:
            raise failed(f"no such cluster node '{node}'")

    def _memory_used(self) -> dict[str, int]:
        used = dict.fromkeys(self.nodes, _HOST_MEMORY)
        for guest in self.vms:
            if guest.status == "running":
                used[guest.node] += int(self.guest_memory(guest) * GUEST_MEMORY_SHARE)
        return used

    def _load(self, node: str, used: Mapping[str, int]) -> dict[str, Any]:
        """The figures of a node; an offline one keeps what does not change."""
        size = self.sizes[node]
        fixed = {"maxcpu": size.cores, "maxmem": size.memory, "maxdisk": size.disk}
        if not self.is_online(node):
            return fixed
        return {**fixed, "cpu": 0.02, "mem": min(used[node], size.memory), "disk": 4 * GIB, "uptime": self.uptime()}

    def uptime(self) -> int:
        """Simulated seconds since the cluster was started."""
        return int(self.clock.now() - self.started_at) + 3600

    # ---- calls

    async def _get_version(self, _call: ApiCall) -> Any:
        return dict(VERSION)

    async def _get_nodes(self, call: ApiCall) -> Any:
        used = self._memory_used()
        out = []
        for node in self.in_any_order(self.nodes):
            entry = {"id": f"node/{node}", "type": "node", "node": node, "level": "", "ssl_fingerprint": self.fingerprints.get(node, "")}
            entry["status"] = "online" if self.is_online(node) else "offline"
            if self.rights.has(call.auth, f"/nodes/{node}", "Sys.Audit"):
                entry |= self._load(node, used)
            out.append(entry)
        return out

    async def _get_node_status(self, call: ApiCall) -> Any:
        node = call["node"]
        size, used = self.sizes[node], min(self._memory_used()[node], self.sizes[node].memory)
        left = size.memory - used
        return {
            "cpu": 0.02,
            "idle": 0,
            "wait": 0,
            "uptime": self.uptime(),
            "memory": {"total": size.memory, "used": used, "free": left, "available": left},
            "cpuinfo": {"cpus": size.cores, "cores": size.cores, "sockets": 1, "model": "simulated", "mhz": "3000.000", "hvm": "1"},
            "rootfs": {"total": size.disk, "used": 4 * GIB, "free": size.disk - 4 * GIB, "avail": size.disk - 4 * GIB},
            "swap": {"total": 0, "used": 0, "free": 0},
            "loadavg": ["0.10", "0.10", "0.10"],
            "ksm": {"shared": 0},
            "kversion": "Linux 6.17.2-1-pve #1 SMP",
            "current-kernel": {"sysname": "Linux", "machine": "x86_64", "release": "6.17.2-1-pve", "version": "#1 SMP"},
            "boot-info": {"mode": "efi", "secureboot": 0},
            "pveversion": f"pve-manager/{VERSION['version']}/{VERSION['repoid']}",
        }

    async def _get_cluster_status(self, call: ApiCall) -> Any:
        head = {"type": "cluster", "id": "cluster", "name": self.cluster_name, "nodes": len(self.nodes), "version": len(self.nodes)}
        out: list[dict[str, Any]] = [{**head, "quorate": int(self.has_quorum())}]
        for number, node in self.in_any_order(enumerate(self.nodes, 1)):
            entry = {"type": "node", "id": f"node/{node}", "name": node, "nodeid": number, "level": "", "ip": f"192.0.2.{number}"}
            out.append({**entry, "online": int(self.is_online(node)), "local": int(node == call.local_node)})
        return out

    async def _get_resources(self, call: ApiCall) -> Any:
        kind, auth, rights = call.get("type"), call.auth, self.rights
        out: list[dict[str, Any]] = []
        if kind is None:
            names = [name for name in self.pools if rights.has(auth, f"/pool/{name}", "Pool.Audit")]
            out += [{"id": f"/pool/{name}", "type": "pool", "pool": name} for name in names]
        if kind in {None, "vm"}:
            shown = {name: name for name in self.pools if rights.has(auth, f"/pool/{name}", "Pool.Audit")}
            out += [
                self.guest_resource(guest, pool=shown.get(guest.pool))
                for guest in sorted(self.vms, key=attrgetter("vmid"))
                if "VM.Audit" in rights.privileges(auth, f"/vms/{guest.vmid}")
            ]
        if kind in {None, "node"}:
            out += self._node_resources(auth)
        if kind in {None, "storage"}:
            seen = [name for name in self.storages if rights.has(auth, f"/storage/{name}", "Datastore.Audit")]
            places = self.in_any_order((node, name) for node in self.nodes for name in seen if self._storage_enabled(name, node))
            out += [self.storage_resource(node, name) for node, name in places]
        if kind in {None, "sdn", "network"}:
            out += self.network_resources(auth)
        return out

    def _node_resources(self, auth: str) -> list[dict[str, Any]]:
        used = self._memory_used()
        out = []
        for node in self.in_any_order(self.nodes):
            entry: dict[str, Any] = {"id": f"node/{node}", "type": "node", "node": node, "level": "", "cgroup-mode": 2}
            entry["status"] = "online" if self.is_online(node) else "offline"
            out.append({**entry, **(self._load(node, used) if self.rights.has(auth, f"/nodes/{node}", "Sys.Audit") else {})})
        return out

    async def _get_nextid(self, call: ApiCall) -> Any:
        wanted = call.get("vmid")
        if wanted is not None:
            if self.vm(wanted) is not None:
                raise bad_parameter({"vmid": f"VM {wanted} already exists"})
            return str(wanted)
        return str(next(vmid for vmid in range(_FIRST_VMID, _END_VMID) if self.vm(vmid) is None))

    async def _get_options(self, call: ApiCall) -> Any:
        seen = (guest for guest in self.vms if self.rights.has(call.auth, f"/vms/{guest.vmid}", "VM.Audit"))
        tags = {tag for guest in seen for tag in str(guest.config.get("tags", "")).split(";") if tag}
        options: dict[str, Any] = {"allowed-tags": sorted(tags)}
        if self.rights.has(call.auth, "/", "Sys.Audit"):
            options |= {"description": "", "mac_prefix": "BC:24:11"}
        return options
