"""The state of the simulated cluster as one JSON document, and the file it is kept in."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubehenge.lab.proxmox.nodes import NodeSize
from kubehenge.lab.proxmox.server import ProxmoxServer
from kubehenge.lab.proxmox.tasks import UNEXPECTED

FORMAT = 1
_GUEST_FIELDS = (
    "vmid",
    "name",
    "node",
    "status",
    "qmpstatus",
    "config",
    "pending",
    "template",
    "lock",
    "snapshots",
    "agent",
    "acpi",
    "started_at",
    "created_at",
    "start_error",
)
_SAVED_TASKS = 500


def dump(server: ProxmoxServer) -> dict[str, Any]:
    """
    A snapshot of the state: nothing in it changes any more while it is written.

    Shape: JSON values only. Token values and password hashes are in it.
    """
    return {
        "format": FORMAT,
        "now": server.clock.now(),
        "started_at": server.started_at,
        "nodes": {node: {**about} for node, about in server.nodes.items()},
        "sizes": {node: {"cores": size.cores, "memory": size.memory, "disk": size.disk} for node, size in server.sizes.items()},
        "quorate": server.quorate,
        "rights": server.rights.to_json(),
        "signin": server.signin.to_json(),
        "pools": {
            name: {
                "vms": sorted(members),
                "comment": server.pool_info[name]["comment"],
                "storage": sorted(server.pool_info[name]["storage"]),
            }
            for name, members in server.pools.items()
        },
        "storages": {name: _dump_storage(store) for name, store in server.storages.items()},
        "network": {"bridges": list(server.bridges), "zones": dict(server.zones), "vnets": dict(server.vnets)},
        "guests": [_dump_guest(guest) for guest in server.vms],
        "tasks": [{**record, "log": list(record["log"])} for record in list(server.tasks.values())[-_SAVED_TASKS:]],
    }


def _dump_storage(store: Mapping[str, Any]) -> dict[str, Any]:
    volumes = {name: {**about} for name, about in store.get("volumes", {}).items()}
    return {**store, "files": sorted(store.get("files", ())), "volumes": volumes}


def _dump_guest(guest: Any) -> dict[str, Any]:
    values = {field: getattr(guest, field) for field in _GUEST_FIELDS}
    return {field: {**value} if isinstance(value, dict) else value for field, value in values.items()}


def load(server: ProxmoxServer, state: Mapping[str, Any]) -> None:
    """
    Take over a saved state.

    Tasks that ran when it was saved are over ("unexpected status"). Guests that were just being made are gone and no lock of
    a task is left: the lab has no administrator to clear up after a power cut.
    Errors: ValueError when the state is of another format.
    """
    if state.get("format") != FORMAT:
        raise ValueError(f"the saved state of the simulated Proxmox VE has format {state.get('format')}, this version reads {FORMAT}")
    server.started_at = state["started_at"]
    server.nodes = {node: {**about} for node, about in state["nodes"].items()}
    server.sizes = {node: NodeSize(**size) for node, size in state["sizes"].items()}
    server.quorate = state["quorate"]
    server.storages = {name: {**store, "files": set(store["files"])} for name, store in state["storages"].items()}
    network = state["network"]
    server.bridges, server.zones, server.vnets = tuple(network["bridges"]), dict(network["zones"]), dict(network["vnets"])
    server.pools = {name: set(pool["vms"]) for name, pool in state["pools"].items()}
    server.pool_info = {name: {"comment": pool["comment"], "storage": set(pool["storage"])} for name, pool in state["pools"].items()}
    server.rights.load_json(state["rights"])
    server.signin.load_json(state["signin"])
    for saved in state["guests"]:
        _load_guest(server, saved)
    server._sync_pools()  # noqa: SLF001 - the base class's name for it
    server.tasks = {record["upid"]: _load_task(record) for record in state["tasks"]}


def _load_guest(server: ProxmoxServer, saved: Mapping[str, Any]) -> None:
    guest = server.add_guest(saved["vmid"], saved["node"], saved["name"])
    for field in _GUEST_FIELDS:
        setattr(guest, field, saved[field])
    if guest.lock in {"clone", "create"}:
        server.abandon(guest)
        return
    guest.lock = None if guest.lock == "migrate" else guest.lock
    if guest.status == "running" and guest.agent is None:
        server.boot(guest)


def _load_task(record: Mapping[str, Any]) -> dict[str, Any]:
    task = dict(record)
    if task["status"] == "running":
        task |= {"status": "stopped", "exitstatus": UNEXPECTED, "endtime": task["starttime"]}
    return task


def write(path: Path, state: Mapping[str, Any]) -> None:
    """Write a snapshot atomically, readable for its owner only."""
    part = path.with_name(path.name + ".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(state, file, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def read(path: Path) -> dict[str, Any] | None:
    """
    The saved state, None when there is none yet.

    Errors: ValueError when the file cannot be read as one.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        state: dict[str, Any] = json.loads(text)
    except ValueError as exc:
        raise ValueError(f"{path} is damaged ({exc}); remove the lab's directory to start a new lab") from exc
    return state
