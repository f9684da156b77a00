"""Looking into the simulated cluster, and changing it as no call could: for the lab's control and for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubehenge.lab.proxmox.server import ProxmoxServer

_CHANGES = frozenset({"config", "delete", "status", "node", "pool", "lock", "agent"})


def state_of(server: ProxmoxServer) -> dict[str, Any]:
    """
    What there is, as JSON without secrets.

    Shape: nodes, quorate, guests, pools, users, tokens, groups, roles, acl, volumes, tasks that run.
    """
    rights = server.rights
    return {
        "quorate": server.has_quorum(),
        "nodes": {node: {"online": server.is_online(node)} for node in server.nodes},
        "guests": [_guest(guest) for guest in server.vms],
        "pools": [{"poolid": name, "comment": server.pool_info[name]["comment"], "vms": sorted(vms)} for name, vms in server.pools.items()],
        "users": [{"userid": userid, "enable": user.enable, **user.profile} for userid, user in rights.users.items()],
        "tokens": [
            {"id": f"{userid}!{name}", "privsep": token.privsep, "expire": token.expire, "comment": token.comment}
            for userid, user in rights.users.items()
            for name, token in user.tokens.items()
        ],
        "groups": [{"groupid": name, "members": sorted(group.members)} for name, group in rights.groups.items()],
        "roles": {name: sorted(privileges) for name, privileges in rights.roles.items()},
        "acl": [
            {"path": row.path, "type": row.kind.value, "ugid": row.subject, "roleid": row.role, "propagate": int(row.propagate)}
            for row in rights.rows()
        ],
        "volumes": [
            {"volid": f"{storage}:{name}", "size": int(about.get("size") or 0), "vmid": about.get("vmid")}
            for storage, store in server.storages.items()
            for name, about in store.get("volumes", {}).items()
        ],
        "running_tasks": list(server.running),
    }


def _guest(guest: Any) -> dict[str, Any]:
    fields = ("vmid", "name", "node", "status", "pool", "lock", "template")
    return {**{field: getattr(guest, field) for field in fields}, "config": dict(guest.config), "agent": guest.agent is not None}


def change_guest(server: ProxmoxServer, vmid: int, changes: Mapping[str, Any]) -> None:
    """
    Change a guest by hand.

    Shape: `config` sets options as they are, `delete` takes options out, `status` running or stopped, `node`, `lock`, `pool` (None
    takes it out of its pool), `agent` False silences its guest agent.
    Errors: LookupError when the guest, node or pool is not there, ValueError for another change.
    """
    guest = _find(server, vmid)
    if unknown := set(changes) - _CHANGES:
        raise ValueError(f"unknown change {', '.join(sorted(unknown))}; known: {', '.join(sorted(_CHANGES))}")
    if "node" in changes and changes["node"] not in server.nodes:
        raise LookupError(f"node {changes['node']}")
    if changes.get("pool") is not None and changes["pool"] not in server.pools:
        raise LookupError(f"pool {changes['pool']}")
    guest.config |= changes.get("config") or {}
    for option in changes.get("delete") or ():
        guest.config.pop(option, None)
    guest.name = guest.config.get("name") or f"VM {vmid}"
    guest.node = changes.get("node", guest.node)
    guest.lock = changes.get("lock", guest.lock)
    if "pool" in changes:
        server.put_in_pool(vmid, changes["pool"])
    match changes.get("status", guest.status):
        case "running" if guest.status != "running":
            server.power_on(guest)
        case "stopped" if guest.status != "stopped":
            server.power_off(guest)
    if changes.get("agent") is False:
        guest.agent = None
    server.touch()


def drop_guest(server: ProxmoxServer, vmid: int) -> None:
    """
    Take a guest away at once, running or not, with its volumes.

    Errors: LookupError when it is not there.
    """
    server.abandon(_find(server, vmid))
    server.touch()


def _find(server: ProxmoxServer, vmid: int) -> Any:
    guest = server.vm(vmid)
    if guest is None:
        raise LookupError(f"guest {vmid}")
    return guest
