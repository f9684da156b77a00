"""Resource pools: the calls below /pools, nesting, and who is a member of what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fakepve import FakePve
from fakepve.routing import split_list

from kubehenge.lab.proxmox.call import ApiCall, Route
from kubehenge.lab.proxmox.errors import PveError, bad_parameter, denied, failed, in_lock
from kubehenge.lab.proxmox.rights import Rights

MAX_LEVELS = 3


class PoolCalls(FakePve):
    """
    Mixin of the server: pools.

    `pools` holds the guests of each pool by name and `pool_info` its comment and storages, as the base class has them;
    beside them stands the pool of each guest, because every check of a privilege on a guest asks for it.
    """

    rights: Rights
    pool_by_vm: dict[int, str]

    def _calls_pools(self) -> list[Route]:
        one = "/pools/{poolid}"
        return [
            ("GET", "/pools", self._pools_list),
            ("POST", "/pools", self._pools_create),
            ("PUT", "/pools", self._pools_update),
            ("DELETE", "/pools", self._pools_delete),
            ("GET", one, self._pools_read),
            ("PUT", one, self._pools_update),
            ("DELETE", one, self._pools_delete),
        ]

    # ---- membership

    def pools_of(self, path: str) -> tuple[str, ...]:
        """The pools of which a /vms/… or /storage/… path is a member."""
        if path.startswith("/vms/"):
            pool = self.pool_by_vm.get(int(path[5:])) if path[5:].isdigit() else None
            return (pool,) if pool else ()
        if path.startswith("/storage/"):
            return tuple(name for name, about in self.pool_info.items() if path[9:] in about["storage"])
        return ()

    def member_paths(self) -> Iterator[str]:
        """The paths of all members of pools."""
        for vmid in self.pool_by_vm:
            yield f"/vms/{vmid}"
        for about in self.pool_info.values():
            for storage in about["storage"]:
                yield f"/storage/{storage}"

    def put_in_pool(self, vmid: int, name: str | None) -> None:
        """Make a guest a member of a pool, or of none."""
        if name is None:
            self._pool_leave(vmid)
        else:
            self._pool_join(name, vmid)

    def _pool_of_vm(self, vmid: int) -> str | None:
        return self.pool_by_vm.get(vmid)

    def _pool_join(self, name: str, vmid: int) -> None:
        self._pool_leave(vmid)
        self.pools[name].add(vmid)
        self.pool_by_vm[vmid] = name
        self._note_pool(vmid)

    def _pool_leave(self, vmid: int) -> None:
        name = self.pool_by_vm.pop(vmid, None)
        if name is not None:
            self.pools[name].discard(vmid)
        self._note_pool(vmid)

    def _note_pool(self, vmid: int) -> None:
        guest = self.vm(vmid)
        if guest is not None:
            guest.pool = self.pool_by_vm.get(vmid)
        self.rights.member_changed(f"/vms/{vmid}")

    def _sync_pools(self) -> None:
        """Take membership anew from `pools`."""
        self.pool_by_vm = {vmid: name for name, members in self.pools.items() for vmid in members}
        for guest in self.vms:
            guest.pool = self.pool_by_vm.get(guest.vmid)
        self.rights.changed()

    # ---- calls

    @contextmanager
    def _pool_cfg(self, prefix: str) -> Iterator[None]:
        if not self.has_quorum():
            raise failed(f"{prefix}: cfs-lock 'file-user_cfg' error: no quorum!")
        try:
            yield
        except PveError as exc:
            raise in_lock(prefix, exc) from exc

    def _existing(self, name: str) -> str:
        if name not in self.pools:
            raise failed(f"pool '{name}' does not exist")
        return name

    def _pool_view(self, name: str) -> dict[str, Any]:
        comment = self._pool_meta(name)["comment"]
        return {"poolid": name} if comment is None else {"poolid": name, "comment": comment}

    async def _pools_list(self, call: ApiCall) -> Any:
        name = call.get("poolid")
        if name:
            # With a name Proxmox VE refuses nobody: it makes the check and leaves its result unused.
            return [self._pool_with_members(self._existing(name), call.get("type"))]
        return [self._pool_view(name) for name in sorted(self.pools) if self.rights.has(call.auth, f"/pool/{name}", "Pool.Audit")]

    async def _pools_read(self, call: ApiCall) -> Any:
        return self._pool_with_members(self._existing(call["poolid"]), call.get("type"))

    def _pool_with_members(self, name: str, kind: str | None) -> dict[str, Any]:
        members: list[dict[str, Any]] = []
        if kind in {None, "qemu"}:
            guests = [guest for vmid in sorted(self.pools[name]) if (guest := self.vm(vmid)) is not None]
            members += [_without_tags(self.guest_resource(guest, pool=None)) for guest in guests]
        if kind in {None, "storage"}:
            for storage in sorted(self._pool_meta(name)["storage"]):
                members += [self.storage_resource(node, storage) for node in self._storage_nodes(storage)[:1]]
        return {**self._pool_view(name), "members": members}

    async def _pools_create(self, call: ApiCall) -> Any:
        name: str = call["poolid"]
        parts = name.split("/")
        if len(parts) > MAX_LEVELS:
            text = f"invalid format - pool name '{name}' nested too deeply (max levels = {MAX_LEVELS})\n"
            raise bad_parameter({"poolid": text})
        with self._pool_cfg("create pool failed"):
            if name in self.pools:
                raise failed(f"pool '{name}' already exists")
            parent = "/".join(parts[:-1])
            if parent and parent not in self.pools:
                raise failed(f"parent '{parent}' of pool '{name}' does not exist")
            if not parts[-1][:1].isalpha():
                raise failed("pool name must start with a letter")
            self.pools[name] = set()
            self.pool_info[name] = {"comment": call.get("comment") or None, "storage": set()}
            self.rights.changed()

    async def _pools_update(self, call: ApiCall) -> Any:
        with self._pool_cfg("update pools failed"):
            name = self._existing(call["poolid"])
            vmids = [int(item) for item in split_list(call.get("vms"))]
            storages = split_list(call.get("storage"))
            for vmid in vmids:
                self._check_member(call, name, f"/vms/{vmid}", "VM.Allocate")
                self._check_vm(call, name, vmid)
            for storage in storages:
                self._check_member(call, name, f"/storage/{storage}", "Datastore.Allocate")
            # Nothing is changed before everything has been checked: Proxmox VE writes its file at the end.
            if call.get("comment") is not None:
                self._pool_meta(name)["comment"] = call["comment"]
            for vmid in vmids:
                if call.get("delete"):
                    self._pool_leave(vmid)
                else:
                    self._pool_join(name, vmid)
            for storage in storages:
                members = self._pool_meta(name)["storage"]
                members.discard(storage) if call.get("delete") else members.add(storage)
            self.rights.changed()

    def _check_member(self, call: ApiCall, name: str, path: str, privilege: str) -> None:
        wanted = ("Permissions.Modify", privilege)
        if not self.rights.has_any(call.auth, path, wanted):
            raise denied(path, wanted)
        if path.startswith("/storage/"):
            is_member = path[9:] in self._pool_meta(name)["storage"]
            what = f"Storage '{path[9:]}'"
        else:
            is_member = int(path[5:]) in self.pools[name]
            what = f"VM {path[5:]}"
        if call.get("delete") and not is_member:
            raise failed(f"{what} is not a pool member")
        if not call.get("delete") and is_member:
            raise failed(f"{what} is already a pool member")

    def _check_vm(self, call: ApiCall, name: str, vmid: int) -> None:
        other = self.pool_by_vm.get(vmid)
        if call.get("delete") or other in {None, name}:
            return
        if not call.get("allow-move"):
            raise failed(f"VM {vmid} belongs already to pool '{other}' and 'allow-move' is not set")
        if not self.rights.has(call.auth, f"/pool/{other}", "Pool.Allocate"):
            raise denied(f"/pool/{other}", ("Pool.Allocate",))

    async def _pools_delete(self, call: ApiCall) -> Any:
        with self._pool_cfg("delete pool failed"):
            name = self._existing(call["poolid"])
            left = next((f"pool '{other}'" for other in sorted(self.pools) if other.startswith(name + "/")), None)
            left = left or next((f"VM {vmid}" for vmid in sorted(self.pools[name]) if self.vm(vmid)), None)
            left = left or next((f"storage '{sid}'" for sid in sorted(self._pool_meta(name)["storage"]) if sid in self.storages), None)
            if left:
                raise failed(f"pool '{name}' is not empty (contains {left})")
            for vmid in list(self.pools[name]):
                self._pool_leave(vmid)
            del self.pools[name]
            del self.pool_info[name]
            # ACL rows on its path stay: they count again for a later pool of this name.
            self.rights.changed()


def _without_tags(entry: dict[str, Any]) -> dict[str, Any]:
    """A guest as a member of a pool: the list of everything has its tags, this one has not."""
    return {key: value for key, value in entry.items() if key != "tags"}
