"""Bridges and VNets: which a caller sees, and who may connect a guest to one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from fakepve import FakePve

from kubehenge.lab.proxmox.call import ApiCall, Route
from kubehenge.lab.proxmox.errors import denied, failed
from kubehenge.lab.proxmox.rights import Rights

LOCAL_ZONE = "localnetwork"


class NetworkCalls(FakePve):
    """Mixin of the server: `bridges` of every node by name, `zones` with their type, `vnets` with their zone."""

    rights: Rights
    bridges: tuple[str, ...]
    zones: dict[str, str]
    vnets: dict[str, str]

    def _calls_network(self) -> list[Route]:
        return [
            ("GET", "/nodes/{node}/network", self._get_network),
            ("GET", "/cluster/sdn/zones", self._get_zones),
            ("POST", "/cluster/sdn/zones", self._add_zone),
            ("GET", "/cluster/sdn/vnets", self._get_vnets),
            ("POST", "/cluster/sdn/vnets", self._add_vnet),
        ]

    def bridge_path(self, bridge: str) -> str:
        """The ACL path of a bridge or VNet."""
        return f"/sdn/zones/{self.vnets.get(bridge, LOCAL_ZONE)}/{bridge}"

    def check_network(self, auth: str, value: str) -> None:
        """Refuse a netN value whose bridge, or whose VLANs on it, the caller may not use."""
        for path in self._needed_paths(value):
            if not self.rights.has(auth, path, "SDN.Use"):
                raise denied(path, ("SDN.Use",))

    def _needed_paths(self, value: str) -> Iterator[str]:
        options = dict(part.partition("=")[::2] for part in value.split(","))
        if "bridge" not in options:
            return
        base = self.bridge_path(options["bridge"])
        tags = [options["tag"]] if options.get("tag") else []
        tags += [trunk for trunk in options.get("trunks", "").split(";") if trunk]
        yield from (f"{base}/{tag}" for tag in tags) if tags else (base,)

    def network_resources(self, auth: str) -> list[dict[str, Any]]:
        """The zones in the list of everything."""
        out = []
        for node in self.nodes:
            for zone in (LOCAL_ZONE, *self.zones):
                if self.rights.has(auth, f"/sdn/zones/{zone}", "SDN.Audit"):
                    entry = {"id": f"network/{node}/zone/{zone}", "type": "network", "network": zone, "network-type": "zone", "node": node}
                    out.append({**entry, "status": "ok" if self.is_online(node) else "unknown"})
        return out

    # ---- calls

    async def _get_network(self, call: ApiCall) -> Any:
        kind = call.get("type")
        if kind not in {None, "bridge", "any_bridge", "any_local_bridge", "include_sdn"}:
            return []
        out = []
        for number, bridge in enumerate(self.bridges):
            if self.rights.has_below(call.auth, self.bridge_path(bridge), ("SDN.Audit", "SDN.Use")):
                entry = {"iface": bridge, "type": "bridge", "active": 1, "autostart": 1, "method": "manual", "method6": "manual"}
                out.append({**entry, "bridge_ports": f"eno{number + 1}", "bridge_stp": "off", "bridge_fd": "0", "priority": number + 3})
        if kind in {"any_bridge", "include_sdn"}:
            seen = [vnet for vnet in self.vnets if self.rights.has_below(call.auth, self.bridge_path(vnet), ("SDN.Audit", "SDN.Use"))]
            out += [{"iface": vnet, "type": "vnet", "active": 1} for vnet in seen]
        return out

    async def _get_zones(self, call: ApiCall) -> Any:
        wanted = ("SDN.Audit", "SDN.Allocate")
        seen = [zone for zone in self.zones if self.rights.has_any(call.auth, f"/sdn/zones/{zone}", wanted)]
        return [{"zone": zone, "type": self.zones[zone], "digest": _digest(self.zones)} for zone in seen]

    async def _add_zone(self, call: ApiCall) -> Any:
        if call["zone"] in self.zones:
            raise failed(f"create sdn zone object failed: sdn zone object ID '{call['zone']}' already defined")
        self.zones[call["zone"]] = call["type"]

    async def _get_vnets(self, call: ApiCall) -> Any:
        wanted = ("SDN.Audit", "SDN.Allocate")
        seen = [vnet for vnet in self.vnets if self.rights.has_any(call.auth, self.bridge_path(vnet), wanted)]
        return [{"vnet": vnet, "type": "vnet", "zone": self.vnets[vnet], "digest": _digest(self.vnets)} for vnet in seen]

    async def _add_vnet(self, call: ApiCall) -> Any:
        if call["zone"] not in self.zones:
            raise failed(f"create sdn vnet object failed: zone '{call['zone']}' does not exist")
        if call["vnet"] in self.vnets:
            raise failed(f"create sdn vnet object failed: sdn vnet object ID '{call['vnet']}' already defined")
        self.vnets[call["vnet"]] = call["zone"]


def _digest(config: Mapping[str, str]) -> str:
    return hashlib.sha1(repr(sorted(config.items())).encode(), usedforsecurity=False).hexdigest()
