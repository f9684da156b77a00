"""A guest's drives: what their values mean, who may use the volumes in them, and the calls that resize, move and unlink."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from fakepve import FakePve
from fakepve.lxc import SIZE_UNITS, format_size
from fakepve.qemu import DRIVE_KEY, FIXED_KIB, NEW_DISK, is_cdrom, join_drive, split_drive, volume_ref
from fakepve.routing import split_list

from kubehenge.lab.proxmox.call import ApiCall, Route
from kubehenge.lab.proxmox.errors import TaskError, bad_parameter, denied, failed
from kubehenge.lab.proxmox.rights import Rights

_CLOUDINIT_BYTES = 4 * 1024**2
_UNUSED = re.compile(r"unused\d+")


class DriveCalls(FakePve):
    """Mixin of the server: drives and the volumes behind them."""

    rights: Rights

    def _calls_drives(self) -> list[Route]:
        one = "/nodes/{node}/qemu/{vmid}"
        return [
            ("PUT", one + "/resize", self._resize),
            ("PUT", one + "/unlink", self._unlink),
            ("POST", one + "/move_disk", self._move_disk),
        ]

    # ---- who may

    def check_drives(self, auth: str, vmid: int, options: Mapping[str, Any], *, default: str | None = None) -> None:
        """Refuse drive values with a storage or volume that the caller may not use; this comes before anything is done."""
        for key, value in options.items():
            if not DRIVE_KEY.match(key):
                continue
            volume, props = split_drive(value)
            new = NEW_DISK.match(volume)
            if volume in {"", "none", "cdrom"}:
                continue
            if volume.startswith("/"):
                if volume.startswith("/dev/"):
                    raise failed("Only root can pass arbitrary filesystem paths.")
                raise bad_parameter({key: f"unable to associate path '{volume}' to any storage"})
            if volume.endswith(":cloudinit") or (new and not is_cdrom(volume, props)):
                self._check_space(auth, new[1] if new else volume_ref(volume)[0], default)
                if props.get("import-from"):
                    self._check_source(auth, props["import-from"])
            else:
                self._check_volume(auth, vmid, volume)

    def _check_space(self, auth: str, storage: str | None, default: str | None) -> None:
        sid = storage or default
        if not sid:
            raise failed("no storage ID specified (and no default storage)")
        if not self.rights.has(auth, f"/storage/{sid}", "Datastore.AllocateSpace"):
            raise denied(f"/storage/{sid}", ("Datastore.AllocateSpace",))
        if "images" not in split_list(self._store(sid).get("content")):
            raise bad_parameter({"storage": f"storage '{sid}' does not support vm images"})

    def _check_volume(self, auth: str, vmid: int, volume: str) -> None:
        sid, name = volume_ref(volume)
        kind, owner, _ = self._parse_volname(self._store(sid), name)
        if owner != vmid:
            self._check_access(auth, sid, kind, owner, volume)

    def _check_source(self, auth: str, volume: str) -> None:
        sid, name = volume_ref(volume)
        kind, owner, _ = self._parse_volname(self._store(sid), name)
        if kind == "images":
            self.check_guest(auth, owner, None, "VM.Clone")
        else:
            self._check_access(auth, sid, kind, owner, volume)

    def check_drive_rights(self, auth: str, vmid: int, pool: str | None, current: str, value: str) -> None:
        """Refuse a change of one drive, by what it is and becomes: a disk, a CD-ROM or the cloud-init drive."""
        for text in (current, value):
            volume, props = split_drive(text)
            if "cloudinit" in volume:
                self.check_guest(auth, vmid, pool, "VM.Config.Cloudinit", "VM.Config.CDROM")
            elif is_cdrom(volume, props):
                self.check_guest(auth, vmid, pool, "VM.Config.CDROM")
            elif volume != "none":
                self.check_guest(auth, vmid, pool, "VM.Config.Disk")

    # ---- values

    def new_drive(self, guest: Any, key: str, value: str, *, default: str | None = None) -> str:
        """What stands in the configuration for a drive value: new disks are allocated, volumes looked up."""
        volume, props = split_drive(value)
        props = dict(props)
        new = NEW_DISK.match(volume)
        if volume in {"", "none", "cdrom"}:
            return str(join_drive(volume, props))
        if volume.endswith(":cloudinit"):
            return str(join_drive(self.new_cloudinit(volume_ref(volume)[0], guest.vmid), {**props, "media": "cdrom"}))
        if new:
            size = self._new_size(key, new[2], props.pop("import-from", None))
            made, _ = self._qm_alloc(new[1] or default, guest.vmid, props.pop("format", None), size)
            return str(join_drive(made, {**props, "size": format_size(size)}))
        stored = self.stored(volume)
        if stored is None:
            raise failed(f"volume '{volume}' does not exist")
        size_text = {"size": format_size(int(stored["size"]))} if stored.get("size") else {}
        return str(join_drive(volume, {**props, **size_text}))

    def _new_size(self, key: str, gib: str, source: str | None) -> int:
        if source:
            stored = self.stored(source)
            if stored is None:
                sid, name = volume_ref(source)
                raise failed(f"failed to stat '{self._base_path(sid)}/{name}'")
            return int(stored["size"])
        return FIXED_KIB[key] * 1024 if key in FIXED_KIB else int(float(gib) * SIZE_UNITS["G"])

    def new_cloudinit(self, storage: str, vmid: int) -> str:
        """Allocate the cloud-init drive of a guest."""
        name = f"{vmid}/vm-{vmid}-cloudinit.qcow2" if self.is_file_storage(storage) else f"vm-{vmid}-cloudinit"
        about = {"content": "images", "format": "qcow2", "size": _CLOUDINIT_BYTES, "vmid": vmid, "ctime": 0}
        self.storages[storage].setdefault("volumes", {})[name] = about
        return f"{storage}:{name}"

    def stored(self, volume: str) -> dict[str, Any] | None:
        """A volume (or an uploaded file) of a storage, None when it is not there."""
        sid, name = volume_ref(volume)
        found: dict[str, Any] | None = self._store(sid).get("volumes", {}).get(name)
        if found is None and name.startswith("iso/") and name[4:] in self.storages[sid]["files"]:
            return {"size": 0, "content": "iso"}
        return found

    def attach(self, guest: Any, key: str, value: str) -> None:
        """Put a drive into the configuration; a disk that stood there becomes unused, one that was unused no longer is."""
        volume = split_drive(value)[0]
        if key in guest.config and split_drive(guest.config[key])[0] != volume:
            self.detach(guest, key, keep_boot=True)
        for unused in [name for name in guest.config if _UNUSED.fullmatch(name) and guest.config[name] == volume]:
            del guest.config[unused]
        guest.config[key] = value

    def detach(self, guest: Any, key: str, *, keep_boot: bool = False) -> None:
        """Take a drive out: an own disk becomes unused, an unused one is freed, another guest's volume is left alone."""
        value = guest.config.pop(key, None)
        if value is None:
            return
        volume, props = split_drive(value)
        own = volume_ref(volume)[0] in self.storages and self.volume_owner(volume) == guest.vmid
        if own and (_UNUSED.fullmatch(key) or is_cdrom(volume, props)):
            self._qm_free(volume)
        elif own:
            number = next(n for n in range(256) if f"unused{n}" not in guest.config)
            guest.config[f"unused{number}"] = volume
        if not keep_boot:
            drop_from_boot(guest.config, key)

    def check_unused(self, auth: str, guest: Any, keys: Iterable[str]) -> None:
        """Refuse to free unused volumes without space rights on their storage, or of a protected guest."""
        for key in keys:
            if not _UNUSED.fullmatch(key) or key not in guest.config:
                continue
            volume = guest.config[key]
            if str(guest.config.get("protection", 0)) == "1":
                raise failed(f"can't remove unused disk '{volume}' - protection mode enabled")
            path = f"/storage/{volume_ref(volume)[0]}"
            if self.volume_owner(volume) == guest.vmid and not self.rights.has(auth, path, "Datastore.AllocateSpace"):
                raise denied(path, ("Datastore.AllocateSpace",))

    # ---- calls

    async def _resize(self, call: ApiCall) -> Any:
        guest = self.find(call["node"], call["vmid"])
        self._check_digest(guest, call.get("digest"))
        body = partial(self._resize_body, call, guest)
        return await self.task(guest.node, "resize", guest.vmid, call.auth, body, vm=guest)

    async def _resize_body(self, call: ApiCall, guest: Any) -> None:
        key = call["disk"]
        if key not in guest.config:
            raise TaskError(f"disk '{key}' does not exist")
        volume, props = split_drive(guest.config[key])
        path = f"/storage/{volume_ref(volume)[0]}"
        if not self.rights.has(call.auth, path, "Datastore.AllocateSpace"):
            raise denied(path, ("Datastore.AllocateSpace",))
        now, wanted = _bytes(props.get("size", "0")), _bytes(str(call["size"]).lstrip("+"))
        size = now + wanted if str(call["size"]).startswith("+") else wanted
        if size < now:
            raise TaskError("shrinking disks is not supported")
        guest.config[key] = join_drive(volume, {**props, "size": format_size(size)})
        stored = self.stored(volume)
        if stored is not None:
            stored["size"] = size

    async def _unlink(self, call: ApiCall) -> Any:
        guest = self.find(call["node"], call["vmid"])
        keys = split_list(call["idlist"])
        self._check_lock(guest)
        self.check_unused(call.auth, guest, keys)
        for key in keys:
            before = set(guest.config)
            self.detach(guest, key)
            if call.get("force"):
                for unused in set(guest.config) - before:
                    self.detach(guest, unused)

    async def _move_disk(self, call: ApiCall) -> Any:
        guest = self.find(call["node"], call["vmid"])
        key = call["disk"]
        self._check_lock(guest)
        self._check_digest(guest, call.get("digest"))
        if key not in guest.config:
            raise failed(f"disk '{key}' does not exist")
        body = self._reassignment(call, guest, key) if call.get("target-vmid") else self._transfer(call, guest, key)
        return await self.task(guest.node, "qmmove", guest.vmid, call.auth, body, vm=guest)

    def _transfer(self, call: ApiCall, guest: Any, key: str) -> Any:
        """Move a disk to another storage."""
        volume, props = split_drive(guest.config[key])
        sid, name = volume_ref(volume)
        goal = call["storage"]
        self._check_space(call.auth, goal, None)
        stored = self.stored(volume) or {}
        kind = call.get("format") or stored.get("format", "raw")
        if goal == sid and kind == stored.get("format"):
            raise failed("you can't move to the same storage with same format")

        async def body() -> None:
            made, _ = self._qm_alloc(goal, guest.vmid, kind, int(stored.get("size") or 0))
            if call.get("delete"):
                self._qm_free(f"{sid}:{name}")
            else:
                self.detach(guest, key, keep_boot=True)
            guest.config[key] = join_drive(made, dict(props))

        return body

    def _reassignment(self, call: ApiCall, guest: Any, key: str) -> Any:
        """Give a disk to another guest; its volume is renamed."""
        other = self.vm(call["target-vmid"])
        self.check_guest(call.auth, call["target-vmid"], None, "VM.Config.Disk")
        if other is None or other.node != guest.node:
            raise failed(f"Both VMs need to be on the same node ({guest.node}) but target VM is on another one or not there.")
        if guest.status == "running":
            raise failed("Cannot move disk to another VM while the source VM is running - detach first")
        goal = call.get("target-disk") or key
        if goal in other.config:
            raise failed(f"Target disk key '{goal}' is already in use for VM '{other.vmid}'")

        async def body() -> None:
            sid, name = volume_ref(split_drive(guest.config.pop(key))[0])
            about = self.storages[sid]["volumes"].pop(name)
            kind = about.get("format", "raw")
            free = self._qm_free_name(sid, other.vmid, kind)
            new = f"{other.vmid}/{free}" if self.is_file_storage(sid) else free
            self.storages[sid]["volumes"][new] = {**about, "vmid": other.vmid}
            drop_from_boot(guest.config, key)
            other.config[goal] = f"{sid}:{new}"

        return body


def drop_from_boot(config: dict[str, Any], key: str) -> None:
    """Take a device out of the boot order."""
    order = str(config.get("boot", ""))
    if order.startswith("order="):
        left = [device for device in order.removeprefix("order=").split(";") if device and device != key]
        config["boot"] = f"order={';'.join(left)}" if left else " "


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", text)
    if not found:
        return 0
    return int(float(found[1]) * (SIZE_UNITS[found[2]] if found[2] else 1))
