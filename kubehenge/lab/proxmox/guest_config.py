"""A guest's configuration: the calls that read and change it, and the privilege that each option needs."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from fakepve import FakePve
from fakepve.qemu import DRIVE_KEY, drives_of, is_cdrom, split_drive, with_mac

from kubehenge.lab.proxmox.call import ApiCall, Route
from kubehenge.lab.proxmox.drives import drop_from_boot
from kubehenge.lab.proxmox.errors import PveError, TaskError, bad_parameter, denied, failed, read_only
from kubehenge.lab.proxmox.rights import ROOT, Rights

_NO_OPTIONS = frozenset({"node", "vmid", "delete", "digest", "skiplock", "force", "background_delay", "revert", "import-working-storage"})
_RULES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), tuple(f"VM.Config.{name}" for name in names.split("|")))
    for pattern, names in (
        (r"cores|sockets|cpu|cpulimit|cpuunits|numa\d*|vcpus|affinity", "CPU"),
        (r"memory|balloon|shares|hugepages|keephugepages", "Memory"),
        (r"boot|bootdisk|vmstatestorage", "Disk"),
        (r"net\d+", "Network"),
        (r"ipconfig\d+", "Cloudinit|Network"),
        (r"ciuser|cipassword|citype|ciupgrade|cicustom|sshkeys|nameserver|searchdomain", "Cloudinit"),
        (r"scsihw|machine|vga|smbios1|hotplug|rng\d|keyboard|audio\d|spice_enhancements|serial\d+|parallel\d+|ivshmem", "HWType"),
        (r".*", "Options"),
    )
)
_ROOT_ONLY = re.compile(r"args|lock|hookscript|arch|usb\d+|hostpci\d+|affinity")
# Judged when they are written, not before: what they need depends on what stands there.
_LATER = re.compile(r"tags|unused\d+")
# What a running guest takes over at once; other changes wait for its next start.
_AT_ONCE = re.compile(r"name|description|onboot|tags|protection|startup|hookscript|shares|cpuunits|lock|net\d+|scsi\d+|virtio\d+|unused\d+")
_SSH_KEY = re.compile(r"(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\S+|sk-\S+@openssh\.com) [A-Za-z0-9+/]+=*(?: .*)?")
_HIDDEN = "**********"


class GuestConfigCalls(FakePve):
    """Mixin of the server: /config and /pending."""

    rights: Rights

    def _calls_guest_config(self) -> list[Route]:
        one = "/nodes/{node}/qemu/{vmid}"
        return [
            ("GET", one + "/config", self._get_config),
            ("PUT", one + "/config", self._put_config),
            ("POST", one + "/config", self._post_config),
            ("GET", one + "/pending", self._get_pending),
        ]

    # ---- rights

    def check_guest(self, auth: str, vmid: int, pool: str | None, *privileges: str) -> None:
        """Refuse whoever lacks one of the privileges on a guest, and on the pool it is to be made in."""
        for privilege in privileges:
            if self.rights.has(auth, f"/vms/{vmid}", privilege) or (pool and self.rights.has(auth, f"/pool/{pool}", privilege)):
                continue
            raise denied(f"/vms/{vmid}", (privilege,))

    def check_options(self, auth: str, vmid: int, pool: str | None, names: Iterable[str]) -> None:
        """Refuse options that the caller may not set, by name alone; drives and tags are judged later."""
        if auth == ROOT:
            return
        for name in names:
            if DRIVE_KEY.match(name) or _LATER.fullmatch(name):
                continue
            if _ROOT_ONLY.fullmatch(name):
                raise failed(f"only root can set '{name}' config")
            wanted = next(privileges for pattern, privileges in _RULES if pattern.fullmatch(name))
            if not any(self._holds(auth, vmid, pool, privilege) for privilege in wanted):
                raise denied(f"/vms/{vmid}", wanted)
            if name == "startup" and not self.rights.has(auth, "/", "Sys.Modify"):
                raise denied("/", ("Sys.Modify",))

    def _holds(self, auth: str, vmid: int, pool: str | None, privilege: str) -> bool:
        try:
            self.check_guest(auth, vmid, pool, privilege)
        except PveError:
            return False
        return True

    def check_networks(self, auth: str, options: Mapping[str, Any]) -> None:
        """Refuse bridges and VLANs that the caller may not use."""
        for name, value in options.items():
            if re.fullmatch(r"net\d+", name):
                self.check_network(auth, str(value))

    # ---- values

    def new_value(self, guest: Any, name: str, value: Any, *, default: str | None = None) -> Any:
        """What stands in the configuration for a value that was sent."""
        if DRIVE_KEY.match(name):
            return self.new_drive(guest, name, value, default=default)
        if re.fullmatch(r"net\d+", name):
            return with_mac(value)
        if name == "tags":
            return ";".join(sorted({tag.lower() for tag in re.split(r"[\s,;]+", value) if tag}))
        if name == "sshkeys":
            lines = [line for line in urllib.parse.unquote(value).splitlines() if line.strip()]
            if not all(_SSH_KEY.fullmatch(line.strip()) for line in lines):
                raise failed("SSH public key validation error")
        return _HIDDEN if name == "cipassword" else value

    def _check_digest(self, guest: Any, digest: str | None) -> None:
        if digest and digest != guest.digest():
            raise failed("checksum mismatch (file change by other user?)")

    # ---- reading

    async def _get_config(self, call: ApiCall) -> Any:
        guest = self.find(call["node"], call["vmid"])
        if guest.lock in {"clone", "create"}:
            text = {"description": " qmclone temporary file"} if guest.lock == "clone" else {}
            return {"lock": guest.lock, "digest": guest.digest(), **text}
        config = {**guest.config, "digest": guest.digest()}
        if not call.get("current"):
            config |= {name: value for name, value in guest.pending.items() if value is not None}
            config = {name: value for name, value in config.items() if guest.pending.get(name, "") is not None}
        if guest.lock:
            config["lock"] = guest.lock
        if guest.template:
            config["template"] = 1
        return {**config, "memory": str(config["memory"])} if "memory" in config else config

    async def _get_pending(self, call: ApiCall) -> Any:
        guest = self.find(call["node"], call["vmid"])
        out = [{"key": "digest", "value": guest.digest()}]
        for name in {**guest.config, **guest.pending}:
            entry = {"key": name}
            if name in guest.config:
                entry["value"] = guest.config[name]
            if name in guest.pending:
                value = guest.pending[name]
                entry |= {"delete": 1} if value is None else {"pending": value}
            out.append(entry)
        return out

    # ---- writing

    async def _put_config(self, call: ApiCall) -> Any:
        guest, _ = self._prepare(call)
        try:
            await self.acquire(guest, "config")
        except TaskError as exc:
            raise failed(str(exc)) from exc
        try:
            _, write = self._prepare(call)  # what was right before the lock may be so no longer
            write()
        finally:
            self.release(guest, "config")

    async def _post_config(self, call: ApiCall) -> Any:
        guest, write = self._prepare(call)

        async def body() -> None:
            write()

        return await self.task(guest.node, "qmconfig", guest.vmid, call.auth, body, vm=guest)

    def _prepare(self, call: ApiCall) -> tuple[Any, Any]:
        """All that is refused at once, also where the change itself is a task; then the guest and the change."""
        given = {name: value for name, value in call.params.items() if name not in _NO_OPTIONS}
        deletes = [name for name in re.split(r"[\s,;]+", call.get("delete") or "") if name]
        if call.get("skiplock") and call.auth != ROOT:
            raise bad_parameter({"skiplock": "Only root may use this option."})
        for name in deletes:
            if not self._is_option(name):
                raise bad_parameter({"delete": f"unknown option '{name}'"})
        if "hookscript" in given and self.stored(given["hookscript"]) is None:
            raise bad_parameter({"hookscript": f"script '{given['hookscript']}' does not exist\n"})
        self.check_options(call.auth, call["vmid"], None, [*given, *deletes])
        self.check_networks(call.auth, given)
        guest = self.find(call["node"], call["vmid"])
        self.check_drives(call.auth, guest.vmid, given)
        self._check_cloudinit(guest, given)
        self._check_digest(guest, call.get("digest"))
        if not call.get("skiplock"):
            self._check_lock(guest)
        self._check_boot(guest, given)
        return guest, partial(self._write, call.auth, guest, given, deletes)

    def _is_option(self, name: str) -> bool:
        known = self.schema_properties("/nodes/{node}/qemu/{vmid}/config", "PUT")
        return name not in _NO_OPTIONS and (name in known or f"{name.rstrip('0123456789')}[n]" in known)

    def _check_cloudinit(self, guest: Any, given: Mapping[str, Any]) -> None:
        for name, value in given.items():
            if DRIVE_KEY.match(name) and split_drive(value)[0].endswith(":cloudinit"):
                for key, volume, _ in drives_of(guest.config):
                    if "cloudinit" in volume and key != name:
                        raise failed(f"{name} - cloud-init drive is already attached at '{key}'")

    def _check_boot(self, guest: Any, given: Mapping[str, Any]) -> None:
        order = str(given.get("boot", ""))
        if not order.startswith("order="):
            return
        known = {**guest.config, **given}
        for device in order.removeprefix("order=").split(";"):
            if device and device not in known:
                raise bad_parameter({"boot": f"invalid bootorder: device '{device}' does not exist"})

    def _write(self, auth: str, guest: Any, given: Mapping[str, Any], deletes: Iterable[str]) -> None:
        """Judge drives and tags, then change all there is to change."""
        if not self.has_quorum():
            raise read_only(guest)
        for name in (*given, *deletes):
            if DRIVE_KEY.match(name):
                self.check_drive_rights(auth, guest.vmid, None, guest.config.get(name, "none"), given.get(name, "none"))
            elif name == "tags":
                self.check_guest(auth, guest.vmid, None, "VM.Config.Options")
            elif name.startswith("unused"):
                self.check_guest(auth, guest.vmid, None, "VM.Config.Disk")
        self.check_unused(auth, guest, deletes)
        for name in deletes:
            self._delete_option(guest, name)
        for name, value in given.items():
            self._set_option(guest, name, self.new_value(guest, name, value))
        guest.name = guest.config.get("name") or f"VM {guest.vmid}"

    def _delete_option(self, guest: Any, name: str) -> None:
        if guest.status == "running" and name in guest.config and not _AT_ONCE.fullmatch(name):
            guest.pending[name] = None
        elif DRIVE_KEY.match(name) or name.startswith("unused"):
            self.detach(guest, name)
        elif name == "lock":
            guest.lock = None
        else:
            guest.config.pop(name, None)
            guest.pending.pop(name, None)
            drop_from_boot(guest.config, name)

    def _set_option(self, guest: Any, name: str, value: Any) -> None:
        swapped = DRIVE_KEY.match(name) and is_cdrom(*split_drive(value)) and is_cdrom(*split_drive(guest.config.get(name, "none")))
        if guest.status == "running" and not _AT_ONCE.fullmatch(name) and not swapped:
            if str(guest.config.get(name)) != str(value):
                guest.pending[name] = value
            return
        guest.pending.pop(name, None)
        if name == "lock":
            guest.lock = value
        elif DRIVE_KEY.match(name):
            self.attach(guest, name, value)
        else:
            guest.config[name] = value
