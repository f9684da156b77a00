"""
The VM of one ProxmoxMachine: made step by step over Proxmox VE's API, as capmox makes it, and taken away again.

Every call of `Provisioning.advance` looks at what is there and does what comes next, so it can be cut off anywhere.
Source: the calls of capmox 0.9.0 as recorded (create, node up, delete).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from kubehenge.lab.kube.capi.proxmox import Proxmox, ProxmoxError
from kubehenge.lab.kube.capi.scheduling import Unplaceable, find_template, pick_id, pick_node
from kubehenge.lab.kube.kinds import Obj

CLOUD_INIT_TAG = "go-proxmox+cloud-init"
_ISO_CONTENT = b"lab user data\n" * 4681  # about as large as a real one
_UUID = re.compile(r"uuid=([0-9a-fA-F-]{36})")
_SIZE = re.compile(r"size=(\d+(?:\.\d+)?)([KMGT]?)")
_GIB = {"": 1 / 1024**3, "K": 1 / 1024**2, "M": 1 / 1024, "G": 1.0, "T": 1024.0}


class State:
    """The reasons of capmox's condition VirtualMachineProvisioned: which step a machine is at."""

    CLUSTER = "WaitingForClusterInfrastructureReady"
    BOOTSTRAP = "WaitingForBootstrapData"
    CLONING = "Cloning"
    DISK = "WaitingForDiskReconciliation"
    ADDRESS = "WaitingForStaticIPAllocation"
    DATA = "WaitingForBootstrapDataReconciliation"
    POWER = "WaitingForVMPowerUp"
    CLOUD_INIT = "WaitingForCloudInit"
    CLONING_FAILED = "CloningFailed"
    TASK_FAILED = "TaskFailed"
    POWER_FAILED = "PoweringOnFailed"
    FAILED = "VMProvisionFailed"
    DELETION_FAILED = "DeletionFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """
    Where a machine is after one step.

    Shape: `reason` is one of State, `wait` says to look again soon, `failed` to try again with a growing delay; what is None or empty
    stays as it is in the object; `task` "" means that none runs.
    """

    reason: str
    message: str = ""
    wait: bool = False
    failed: bool = False
    vmid: int | None = None
    node: str | None = None
    task: str = ""
    address: str | None = None
    provider_id: str | None = None
    data_attached: bool = False
    ready: bool = False
    lost: bool = False  # the clone never came to be: begin again


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a new VM's place depends on: the nodes allowed, the cluster's VMs of the same role by node, the ids that are held."""

    allowed_nodes: Sequence[str]
    by_node: Mapping[str, int]
    held_ids: Collection[int]
    free_address: str | None = None
    no_address: str = ""


class Provisioning:
    """One machine on its way to a running VM."""

    def __init__(self, proxmox: Proxmox, machine: Obj, surroundings: Surroundings) -> None:
        self._proxmox = proxmox
        self._name: str = machine["metadata"]["name"]
        self._spec: Obj = machine["spec"]
        self._status: Obj = machine.get("status") or {}
        self._around = surroundings

    async def advance(self) -> Progress:
        """Do what comes next."""
        reason = next(
            (c["reason"] for c in self._status.get("conditions") or () if c["type"] == "VirtualMachineProvisioned"), State.CLONING
        )
        if task := self._status.get("taskRef"):
            ended = await self._proxmox.task_result(task)
            if ended is None:
                return Progress(reason=reason, task=task, wait=True)
            if ended != "OK" and not ended.startswith("WARNINGS"):
                return self._task_failed(task, ended)
        if self._spec.get("virtualMachineID") is None:
            return await self._clone()
        return await self._shape()

    def _task_failed(self, upid: str, ended: str) -> Progress:
        kind = upid.split(":")[5]
        if kind == "qmclone":
            return Progress(reason=State.CLONING_FAILED, message=f"{kind}: {ended}", failed=True, lost=True)
        if kind == "qmstart":
            return Progress(reason=State.POWER, message=f"{kind}: {ended}", failed=True)
        return Progress(reason=State.TASK_FAILED, message=f"{kind}: {ended}", failed=True)

    # ---- clone

    async def _clone(self) -> Progress:
        doing = "find vm template"
        try:
            vms = await self._proxmox.get("/cluster/resources", type="vm")
            if own := await self._own(vms):
                return Progress(reason=State.CLONING, vmid=int(own["vmid"]), node=own["node"], wait=True)
            template = find_template(vms, self._spec["templateSelector"])
            doing = "find a node"
            allowed = self._around.allowed_nodes or [template.node]
            node = await pick_node(self._proxmox, allowed, self._around.by_node, self._spec.get("memoryMiB", 0))
            doing = "find vm template"
            await self._proxmox.get(f"/nodes/{template.node}/qemu/{template.vmid}/config")
            doing = "create new vm"
            vmid = await pick_id(self._proxmox, self._spec.get("vmIDRange"), self._around.held_ids)
            body: dict[str, Any] = {"newid": vmid, "name": self._name, "full": 1, "pool": self._spec["pool"]}
            if storage := self._spec.get("storage"):
                body["storage"] = storage
            if node != template.node:
                body["target"] = node
            task = str(await self._proxmox.post(f"/nodes/{template.node}/qemu/{template.vmid}/clone", body))
        except Unplaceable as exc:
            return Progress(reason=State.FAILED, message=str(exc), failed=True)
        except ProxmoxError as exc:
            return Progress(reason=State.CLONING_FAILED, message=f"unable to {doing}: {exc}", failed=True)
        return Progress(reason=State.CLONING, vmid=vmid, node=node, task=task, wait=True)

    async def _own(self, vms: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """
        The VM of this machine that an earlier step made without having been able to say so.

        It is looked for in the cluster's range of ids, by the name in its configuration: the list does not have the name of a VM that
        is younger than ten seconds, and has the pool only for who may see pools.
        """
        id_range = self._spec.get("vmIDRange")
        if id_range is None:
            return None
        for vm in vms:
            vmid = int(vm["vmid"])
            if vm.get("template") or vmid in self._around.held_ids or not id_range["start"] <= vmid <= id_range["end"]:
                continue
            if (await self._proxmox.get(f"/nodes/{vm['node']}/qemu/{vmid}/config")).get("name") == self._name:
                return vm
        return None

    # ---- shape the clone and start it

    async def _shape(self) -> Progress:
        vmid, node = self._spec["virtualMachineID"], self._status.get("proxmoxNode", "")
        path = f"/nodes/{node}/qemu/{vmid}"
        current = await self._proxmox.get(f"{path}/status/current")
        config = await self._proxmox.get(f"{path}/config")
        if config.get("lock"):
            return Progress(reason=State.CLONING, wait=True)
        if config.get("name") != self._name:
            message = f'expected VM name to match "{self._name}" but it was "{config.get("name")}"'
            return Progress(reason=State.FAILED, message=message, failed=True)
        if current.get("status") == "running":
            return await self._await_guest(path, config)
        if settings := self._settings(config):
            return Progress(reason=State.CLONING, task=str(await self._proxmox.post(f"{path}/config", settings)), wait=True)
        if growth := self._growth(config):
            task = await self._proxmox.put(f"{path}/resize", growth)
            return Progress(reason=State.DISK, task=str(task or ""), wait=True)
        tags = _tags(config)
        if not any(tag.startswith("ip_net0_") for tag in tags):
            return await self._give_address(path, tags)
        if "ide0" not in config or "user-data" not in str(config["ide0"]):
            return await self._attach_data(path, node, vmid, config, tags)
        return await self._start(path)

    def _settings(self, config: Obj) -> dict[str, Any]:
        """The options that differ from what is wanted."""
        wanted: dict[str, Any] = {
            "sockets": self._spec.get("numSockets", 1),
            "cores": self._spec.get("numCores", 1),
            "memory": self._spec.get("memoryMiB", 0),
        }
        changed = {name: value for name, value in wanted.items() if str(config.get(name, 1)) != str(value)}
        device = self._spec["network"]["networkDevices"][0]
        now = _drive_options(str(config.get("net0", "")))
        if (now.get("bridge"), now.get("tag")) != (device["bridge"], str(device["vlan"]) if "vlan" in device else None):
            changed["net0"] = f"virtio,bridge={device['bridge']}" + (f",tag={device['vlan']}" if "vlan" in device else "")
        return changed

    def _growth(self, config: Obj) -> dict[str, Any] | None:
        boot = (self._spec.get("disks") or {}).get("bootVolume")
        if not boot:
            return None
        found = _SIZE.search(str(config.get(boot["disk"], "")))
        now = float(found[1]) * _GIB[found[2]] if found else 0.0
        return {"disk": boot["disk"], "size": f"{boot['sizeGb']}G"} if now < boot["sizeGb"] else None

    async def _give_address(self, path: str, tags: Sequence[str]) -> Progress:
        address = self._address() or self._around.free_address
        if address is None:
            return Progress(reason=State.ADDRESS, message=self._around.no_address, failed=True)
        if address != self._address():  # recorded before it is used, so that no other machine takes it meanwhile
            return Progress(reason=State.ADDRESS, address=address, wait=True)
        task = await self._proxmox.post(f"{path}/config", {"tags": ";".join([*tags, f"ip_net0_{address}"])})
        return Progress(reason=State.ADDRESS, address=address, task=str(task), wait=True)

    def _address(self) -> str | None:
        entries = self._status.get("ipAddresses") or []
        return entries[0]["ipv4"][0] if entries and entries[0].get("ipv4") else None

    async def _attach_data(self, path: str, node: str, vmid: int, config: Obj, tags: Sequence[str]) -> Progress:
        """Upload the bootstrap data, tag the VM, attach: one of them a call."""
        iso = f"user-data-{vmid}.iso"
        try:
            storage = await self._iso_storage(node)
            volume = f"{storage}:iso/{iso}"
            if not await _exists(self._proxmox, node, storage, volume):
                return Progress(reason=State.DATA, task=await self._proxmox.upload_iso(node, storage, iso, _ISO_CONTENT), wait=True)
        except ProxmoxError as exc:
            return Progress(reason=State.FAILED, message=f"unable to inject CloudInit ISO: {exc}", failed=True)
        if CLOUD_INIT_TAG not in tags:
            task = await self._proxmox.post(f"{path}/config", {"tags": ";".join([*tags, CLOUD_INIT_TAG])})
            return Progress(reason=State.DATA, task=str(task), wait=True)
        boot = str(config.get("boot", "order=scsi0"))
        attach = {"ide0": f"{volume},media=cdrom", "boot": boot if "ide0" in boot else f"{boot};ide0"}
        task = await self._proxmox.post(f"{path}/config", attach)
        return Progress(reason=State.DATA, task=str(task), data_attached=True, wait=True)

    async def _iso_storage(self, node: str) -> str:
        for storage in await self._proxmox.get(f"/nodes/{node}/storage"):
            if "iso" in str(storage.get("content", "")).split(",") and storage.get("enabled", 1):
                return str(storage["storage"])
        raise ProxmoxError(500, "unable to find the item you are looking for")

    async def _start(self, path: str) -> Progress:
        try:
            task = str(await self._proxmox.post(f"{path}/status/start"))
        except ProxmoxError as exc:
            return Progress(reason=State.POWER_FAILED, message=str(exc), failed=True)
        return Progress(reason=State.POWER, task=task, wait=True)

    async def _await_guest(self, path: str, config: Obj) -> Progress:
        """Ready once the guest agent says that cloud-init is through."""
        try:
            await self._proxmox.get(f"{path}/agent/get-osinfo")
            asked = await self._proxmox.post(f"{path}/agent/exec", {"command": ["cloud-init", "status"], "input-data": ""})
            answer = await self._proxmox.get(f"{path}/agent/exec-status", pid=asked["pid"])
        except ProxmoxError as exc:
            if exc.status != 500:
                raise
            return Progress(reason=State.CLOUD_INIT, wait=True)
        if not answer.get("exited"):
            return Progress(reason=State.CLOUD_INIT, wait=True)
        uuid = _UUID.search(str(config.get("smbios1", "")))
        return Progress(reason="Provisioned", provider_id=f"proxmox://{uuid[1]}" if uuid else None, ready=True)


async def eject_data(proxmox: Proxmox, machine: Obj) -> None:
    """
    Take the bootstrap data from a machine whose node is up.

    Errors: ProxmoxError.
    """
    vmid, node = machine["spec"]["virtualMachineID"], machine["status"]["proxmoxNode"]
    path = f"/nodes/{node}/qemu/{vmid}/config"
    config = await proxmox.get(path)
    volume = str(config.get("ide0", "")).partition(",")[0]
    if "user-data" in volume:
        await proxmox.post(path, {"ide0": "none,media=cdrom"})
        await proxmox.delete(_content(node, volume.partition(":")[0], volume))
    tags = [tag for tag in _tags(config) if tag != CLOUD_INIT_TAG]
    if len(tags) < len(_tags(config)):
        await proxmox.post(path, {"tags": ";".join(tags)})


async def destroy(proxmox: Proxmox, machine: Obj) -> bool:
    """
    Bring a machine's VM to its end, one step a call; True when its id is free, or its node no longer has it.

    As capmox 0.9 it goes by id and node alone, whoever's VM that may be by now: clusters need id ranges of their own.
    Errors: ProxmoxError.
    """
    vmid, node = machine["spec"].get("virtualMachineID"), (machine.get("status") or {}).get("proxmoxNode")
    if vmid is None or not node or await _is_free(proxmox, vmid):
        return True
    path = f"/nodes/{node}/qemu/{vmid}"
    try:
        current = await proxmox.get(f"{path}/status/current")
        if current.get("status") == "running":
            await proxmox.post(f"{path}/status/stop")
            return False
        await _delete_iso(proxmox, node, vmid)
        await proxmox.delete(path)
    except ProxmoxError as exc:
        if "does not exist" in str(exc):
            return True
        raise
    return False


async def _is_free(proxmox: Proxmox, vmid: int) -> bool:
    try:
        await proxmox.get("/cluster/nextid", vmid=vmid)
    except ProxmoxError as exc:
        if exc.status == 400:
            return False
        raise
    return True


async def _delete_iso(proxmox: Proxmox, node: str, vmid: int) -> None:
    """Delete the bootstrap data from every ISO storage that has it."""
    for storage in await proxmox.get(f"/nodes/{node}/storage"):
        name, volume = storage["storage"], f"{storage['storage']}:iso/user-data-{vmid}.iso"
        if "iso" in str(storage.get("content", "")).split(",") and await _exists(proxmox, node, name, volume):
            await proxmox.delete(_content(node, name, volume))


def _content(node: str, storage: str, volume: str) -> str:
    return f"/nodes/{node}/storage/{storage}/content/{quote(volume, safe='')}"


async def _exists(proxmox: Proxmox, node: str, storage: str, volume: str) -> bool:
    try:
        await proxmox.get(_content(node, storage, volume))
    except ProxmoxError as exc:
        if exc.status == 500:  # how Proxmox VE says that there is no such volume
            return False
        raise
    return True


def _tags(config: Obj) -> list[str]:
    return [tag for tag in str(config.get("tags") or "").split(";") if tag]


def _drive_options(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)
