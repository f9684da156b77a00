"""Storages: where the simulator differs from its base in what their calls answer and how fast."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fakepve import FakePve
from fakepve.storage import spec_of

from kubehenge.lab.proxmox.call import ApiCall, Route
from kubehenge.lab.proxmox.errors import failed
from kubehenge.lab.proxmox.rights import Rights

IMAGE_FORMATS = ("raw", "qcow2", "vmdk")


class StorageCalls(FakePve):
    """Mixin of the server: `storages` holds the options, files and volumes of each, as the base class has them."""

    rights: Rights

    def _calls_storage(self) -> list[Route]:
        return [
            ("GET", "/storage", self._list_storages),
            ("GET", "/nodes/{node}/storage", self._list_node_storages),
            ("POST", "/nodes/{node}/storage/{storage}/content", self._allocate),
        ]

    def is_file_storage(self, name: str) -> bool:
        """Whether volumes of a storage are files in a directory per guest."""
        spec = spec_of(self.storages[name])
        return bool(spec and spec["files"])

    def volume_owner(self, volume: str) -> int | None:
        """The guest that owns a volume, by its name; None for what no guest owns."""
        storage, _, name = volume.partition(":")
        if storage not in self.storages:
            raise failed(f"storage '{storage}' does not exist")
        # A linked clone's name begins with that of its base: what follows is its own.
        _, owner, _ = self._parse_volname(self.storages[storage], re.sub(r"^\d+/base-[^/]+/", "", name))
        return int(owner) if owner is not None else None

    async def _list_storages(self, call: ApiCall) -> Any:
        return self.in_any_order(await self._sc_list(dict(call.params), call.auth))

    async def _list_node_storages(self, call: ApiCall) -> Any:
        return self.in_any_order(await self._ns_list(dict(call.params), call.auth))

    async def _allocate(self, call: ApiCall) -> Any:
        name = call["storage"]
        if not self.has_quorum():
            raise failed(f"cfs-lock 'storage-{name}' error: no quorum!")
        if name in self.storages and self.is_file_storage(name) and not re.search(r"\.[^./]+$", call["filename"]):
            raise failed(f"unable to parse volume filename '{call['filename']}'")
        return await self._content_create(dict(call.params), call.auth)

    # ---- the base class looks through every guest for what a storage holds; here volumes are always in the storage itself

    def _guest_volumes(self, _guests: Any, _name: str) -> dict[str, Any]:
        return {}

    def _qm_free_name(self, sid: str, vmid: int, fmt: str) -> str:
        taken = self.storages[sid].get("volumes", {})
        folder = f"{vmid}/" if self.is_file_storage(sid) else ""
        number = 0
        while any(f"{folder}vm-{vmid}-disk-{number}{suffix}" in taken for suffix in ("", *(f".{known}" for known in IMAGE_FORMATS))):
            number += 1
        return f"vm-{vmid}-disk-{number}" + (f".{fmt}" if folder else "")

    def _parse_volname(self, store: Mapping[str, Any], volname: str) -> tuple[str, int | None, str]:
        linked = re.fullmatch(r"\d+/base-[^/]+/(\d+/.+)", volname)
        return super()._parse_volname(store, linked[1] if linked else volname)

    def _item(self, name: str, volname: str, vol: Mapping[str, Any]) -> dict[str, Any]:
        item: dict[str, Any] = super()._item(name, volname, vol)
        if vol["content"] == "images":
            base = re.match(r"\d+/base-[^/]+(?=/)", volname)
            item |= {"parent": f"../{base[0]}" if base else None, "used": vol.get("used", 4096)}
        return item

    def storage_resource(self, node: str, name: str) -> dict[str, Any]:
        """A storage of a node in the list of everything."""
        store = self.storages[name]
        entry: dict[str, Any] = {"id": f"storage/{node}/{name}", "type": "storage", "node": node, "storage": name}
        entry |= {"plugintype": store.get("type", "dir"), "content": store.get("content", ""), "shared": int(bool(store.get("shared")))}
        if not self.is_online(node):
            return {**entry, "status": "unknown"}
        total, used, _ = self._space(store)
        return {**entry, "status": "available", "disk": used, "maxdisk": total}
