"""The calls that make a guest, clone it, move it to another node and destroy it."""

from __future__ import annotations

import time
import uuid
from functools import partial
from typing import Any

from fakepve import FakePve
from fakepve.qemu import DRIVE_KEY, boot_order, drives_of, is_cdrom, join_drive, split_drive, volume_ref, with_mac
from fakepve.routing import split_list

from kubehenge.lab.proxmox.call import ApiCall, Route
from kubehenge.lab.proxmox.errors import PveError, TaskError, bad_parameter, denied, failed, read_only, spoken
from kubehenge.lab.proxmox.rights import ROOT, Rights

# Parameters of the create call that are no options of the guest.
_NO_OPTIONS = frozenset({"node", "vmid", "pool", "storage", "start", "unique", "force", "archive", "bwlimit", "live-restore", "ha-managed"})
_NOT_CLONED = frozenset({"lock", "template", "snapshots", "parent", "digest"})
_META = "creation-qemu=10.0.2,ctime={}"


class GuestLifeCalls(FakePve):
    """Mixin of the server: from POST to DELETE."""

    rights: Rights

    def _calls_guest_life(self) -> list[Route]:
        one = "/nodes/{node}/qemu/{vmid}"
        return [
            ("POST", "/nodes/{node}/qemu", self._create),
            ("POST", one + "/clone", self._clone),
            ("DELETE", one, self._destroy),
            ("GET", one + "/migrate", self._get_migrate),
            ("POST", one + "/migrate", self._migrate),
        ]

    def abandon(self, guest: Any) -> None:
        """Undo a guest whose making failed."""
        for _, volume, _ in drives_of(guest.config):
            self.free_own(guest, volume)
        if guest in self.vms:
            self.remove_guest(guest)

    def free_own(self, guest: Any, volume: str) -> None:
        """Free a volume, unless another guest owns it."""
        storage, _ = volume_ref(volume)
        if storage in self.storages and self.volume_owner(volume) == guest.vmid:
            self._qm_free(volume)

    # ---- create

    async def _create(self, call: ApiCall) -> Any:
        node, vmid, pool = call["node"], call["vmid"], call.get("pool")
        self._check_pool(pool)
        self._check_new(call.auth, vmid, pool)
        options = {key: value for key, value in call.params.items() if key not in _NO_OPTIONS}
        if call.get("start"):
            self.check_guest(call.auth, vmid, pool, "VM.PowerMgmt")
        self.check_options(call.auth, vmid, pool, options)
        self.check_networks(call.auth, options)
        for name, value in options.items():
            if DRIVE_KEY.match(name):
                self.check_drive_rights(call.auth, vmid, pool, "none", value)
        self.check_drives(call.auth, vmid, options, default=call.get("storage"))
        self.need_quorum()
        other = self.vm(vmid)
        if other is not None:
            raise failed(f"unable to create VM {vmid} - VM {vmid} already exists on node '{other.node}'")
        guest = self.add_guest(vmid, node, lock="create")
        body = partial(self._create_body, call, guest, options)
        return await self.task(node, "qmcreate", vmid, call.auth, body, vm=guest, undo=partial(self.abandon, guest))

    def _check_pool(self, pool: str | None) -> None:
        if pool and pool not in self.pools:
            raise PveError(403, f"Permission check failed (pool '{pool}' does not exist)")

    def _check_new(self, auth: str, vmid: int, pool: str | None) -> None:
        """A guest that is not there yet is in no pool: the right comes from the pool that is named."""
        allowed = self.rights.has(auth, f"/vms/{vmid}", "VM.Allocate")
        if not allowed and not (pool and self.rights.has(auth, f"/pool/{pool}", "VM.Allocate")):
            raise denied()

    async def _create_body(self, call: ApiCall, guest: Any, options: dict[str, Any]) -> None:
        try:
            if options.get("tags"):
                # Looked at only here, where the guest is in no pool yet: rights on the pool do not help.
                self.check_guest(call.auth, guest.vmid, None, "VM.Config.Options")
            for key, value in options.items():
                guest.config[key] = self.new_value(guest, key, value, default=call.get("storage"))
        except PveError as exc:
            raise TaskError(f"unable to create VM {guest.vmid} - {spoken(exc)}") from exc
        config = guest.config
        config.setdefault("boot", boot_order(config) or " ")
        config.setdefault("smbios1", f"uuid={uuid.uuid4()}")
        config |= {"meta": _META.format(int(time.time())), "vmgenid": str(uuid.uuid4())}
        guest.name = config.get("name") or f"VM {guest.vmid}"
        guest.lock = None
        self._settle(guest, call)
        if call.get("start"):
            self.power_on(guest)

    def _settle(self, guest: Any, call: ApiCall) -> None:
        """Put a finished guest into the pool that was asked for, if it is still there."""
        if call.get("pool") in self.pools:
            self._pool_join(call["pool"], guest.vmid)

    # ---- clone

    async def _clone(self, call: ApiCall) -> Any:
        node, newid, storage = call["node"], call["newid"], call.get("storage")
        self._check_pool(call.get("pool"))
        target = call.get("target") if call.get("target") not in {None, node, "localhost"} else None
        if target:
            self.need_node(target)
        self._check_clone_storage(storage, target)
        source = self.vm(call["vmid"])
        if source is None or source.node != node:
            raise failed(f"unable to find configuration file for VM {call['vmid']} on node '{node}'")
        self._check_lock(source)
        if call.get("snapname") and call["snapname"] not in source.snapshots:
            raise failed(f"snapshot '{call['snapname']}' does not exist")
        full = bool(call.get("full", not source.template))
        for option in ("storage", "format"):
            if call.get(option) and not full:
                raise failed(f"parameter '{option}' not allowed for linked clones")
        for sid in self._clone_storages(source, target, storage, full=full):
            if not self.rights.has(call.auth, f"/storage/{sid}", "Datastore.AllocateSpace"):
                raise denied(f"/storage/{sid}", ("Datastore.AllocateSpace",))
        self.check_networks(call.auth, source.config)
        self.need_quorum()
        log = [f"create {'full' if full else 'linked'} clone of VM {source.vmid} as {newid}"]
        other = self.vm(newid)
        if other is not None and other.node == node:
            raise failed(f"unable to create VM {newid}: config file already exists")
        if other is not None:
            # Found out only when the finished clone takes its place.
            return await self.task(node, "qmclone", source.vmid, call.auth, partial(_clone_too_late, node, newid), log=log)
        new = self.add_guest(newid, node, call.get("name") or f"Copy-of-VM-{source.name}", lock="clone")
        self._set_cloned_options(call, source, new)
        body = partial(self._clone_body, call, source, new, target, full=full)
        return await self.task(node, "qmclone", source.vmid, call.auth, body, undo=partial(self.abandon, new), log=log)

    def _check_clone_storage(self, storage: str | None, target: str | None) -> None:
        if not storage:
            return
        store = self._store(storage)
        if "images" not in split_list(store.get("content")):
            raise bad_parameter({"storage": f"storage '{storage}' does not support vm images"})
        if target and not store.get("shared"):
            raise failed(f"can't clone to non-shared storage '{storage}'")

    def _clone_storages(self, source: Any, target: str | None, storage: str | None, *, full: bool) -> list[str]:
        """The storages on which a clone needs space."""
        needed: list[str] = []
        for key, volume, props in _copied(source):
            sid, name = volume_ref(volume)
            store = self._store(sid)
            if target and not store.get("shared") and not (storage and full):
                raise failed(f"can't clone VM to node '{target}' (VM uses local storage)")
            if not full and not is_cdrom(volume, props) and "base-" not in name:
                raise failed(f"Linked clone feature is not supported for '{volume}' ({key})")
            needed.append(storage or sid)
        return needed

    def _set_cloned_options(self, call: ApiCall, source: Any, new: Any) -> None:
        copied = {key for key, _, _ in _copied(source)}
        for key, value in source.config.items():
            if key not in _NOT_CLONED and key not in copied and not key.startswith("unused"):
                new.config[key] = with_mac(value, fresh=True) if key.startswith("net") and key[3:].isdigit() else value
        new.config |= {"name": new.name, "smbios1": f"uuid={uuid.uuid4()}", "vmgenid": str(uuid.uuid4())}
        if call.get("description") is not None:
            new.config["description"] = call["description"]

    async def _clone_body(self, call: ApiCall, source: Any, new: Any, target: str | None, *, full: bool) -> None:
        try:
            for key, volume, props in _copied(source):
                new.config[key] = self._copy_volume(call, new, volume, props, full=full)
        except PveError as exc:
            raise TaskError(f"clone failed: {spoken(exc)}") from exc
        new.lock = None
        new.node = target or new.node
        self._settle(new, call)

    def _copy_volume(self, call: ApiCall, new: Any, volume: str, props: dict[str, str], *, full: bool) -> str:
        sid, name = volume_ref(volume)
        stored = self.storages[sid].get("volumes", {}).get(name, {})
        goal = call.get("storage") or sid
        if is_cdrom(volume, props):
            return str(join_drive(self.new_cloudinit(goal, new.vmid), {**props, "size": "4M"}))
        linked_from = name if not full and self.is_file_storage(sid) else None
        kind = "qcow2" if linked_from else call.get("format") or (stored.get("format") if goal == sid else None)
        copied, _ = self._qm_alloc(goal, new.vmid, kind, int(stored.get("size") or 0), linked_from=linked_from)
        return str(join_drive(copied, props))

    # ---- destroy

    async def _destroy(self, call: ApiCall) -> Any:
        guest = self.find(call["node"], call["vmid"])
        if call.get("skiplock") and call.auth != ROOT:
            raise bad_parameter({"skiplock": "Only root may use this option."})
        if str(guest.config.get("protection", 0)) == "1":
            raise failed(f"can't remove VM {guest.vmid} - protection mode enabled")
        if guest.status == "running":
            raise failed(f"VM {guest.vmid} is running - destroy failed")
        return await self.task(guest.node, "qmdestroy", guest.vmid, call.auth, partial(self._destroy_body, call, guest), vm=guest)

    async def _destroy_body(self, call: ApiCall, guest: Any) -> None:
        if guest.lock and not call.get("skiplock"):
            raise TaskError(f"VM is locked ({guest.lock})")
        if not self.has_quorum():
            raise read_only(guest)
        volumes = [volume for _, volume, _ in drives_of(guest.config)]
        volumes += [split_drive(value)[0] for key, value in guest.config.items() if key.startswith("unused")]
        for volume in volumes:
            self.free_own(guest, volume)
        if call.get("destroy-unreferenced-disks"):
            for sid, store in self.storages.items():
                owned = [name for name, about in store.get("volumes", {}).items() if about.get("vmid") == guest.vmid]
                for name in owned:
                    self._qm_free(f"{sid}:{name}")
        self.remove_guest(guest)

    # ---- migrate

    def _local_disks(self, guest: Any) -> list[dict[str, Any]]:
        disks = []
        for key, volume, props in drives_of(guest.config):
            sid = volume_ref(volume)[0]
            if sid in self.storages and not self.storages[sid].get("shared"):
                flags = dict.fromkeys(("is_unused", "is_vmstate", "is_tpmstate", "is_cloudinit", "shared"), 0)
                about = {"volid": volume, "drivename": key, "cdrom": int(is_cdrom(volume, props)), "is_attached": 1, "replicate": 1}
                disks.append({**flags, **about, "size": int((self.stored(volume) or {}).get("size") or 0)})
        return disks

    async def _get_migrate(self, call: ApiCall) -> Any:
        guest = self.find(call["node"], call["vmid"])
        others = [node for node in self.nodes if node != guest.node]
        targets = {"allowed_nodes": others, "not_allowed_nodes": {node: {} for node in others}}
        nothing: dict[str, Any] = {"local_resources": [], "mapped-resources": [], "mapped-resource-info": {}, "has-dbus-vmstate": 1}
        return {**targets, **nothing, "running": int(guest.status == "running"), "local_disks": self._local_disks(guest)}

    async def _migrate(self, call: ApiCall) -> Any:
        target = call["target"]
        if target == call["node"]:
            raise bad_parameter({"target": "target is local node."})
        self.need_node(target)
        guest = self.find(call["node"], call["vmid"])
        self._check_lock(guest)
        if guest.status == "running":
            if not call.get("online"):
                raise failed("can't migrate running VM without --online")
            if self._local_disks(guest) and not call.get("with-local-disks"):
                raise failed("can't live migrate attached local disks without with-local-disks option")
        self.need_quorum()
        guest.lock = "migrate"

        async def move() -> None:
            if not self.is_online(target):
                raise TaskError("migration aborted")
            guest.node, guest.lock = target, None

        def unlock() -> None:
            guest.lock = None

        return await self.task(guest.node, "qmigrate", guest.vmid, call.auth, move, vm=guest, undo=unlock)


def _copied(source: Any) -> list[tuple[str, str, dict[str, str]]]:
    """The drives whose volumes a clone gets copies of: the disks and the cloud-init drive, no other CD-ROM."""
    return [
        (key, volume, props)
        for key, volume, props in drives_of(source.config)
        if volume_ref(volume)[0] is not None and (not is_cdrom(volume, props) or "cloudinit" in volume)
    ]


async def _clone_too_late(node: str, newid: int) -> None:
    raise TaskError(f"close (rename) atomic file '/etc/pve/nodes/{node}/qemu-server/{newid}.conf' failed: File exists")
