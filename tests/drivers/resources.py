"""One resource of each kind that the Proxmox VE driver writes, and how a stranger would make or change it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubehenge.drivers.base import ActionContext, Done, Driver, Pending, Vault
from kubehenge.model.identity import Incarnation
from kubehenge.model.resource import Observed, ResourceRef
from tests.drivers.servers import GROUP, OWNER_VMIDS, POOL, ROLE, ProxmoxSite, context

KINDS = ("proxmox.pool", "proxmox.user", "proxmox.token", "proxmox.acl", "proxmox.volume_owner")
MARKED = tuple(kind for kind in KINDS if kind != "proxmox.acl")


@dataclass(frozen=True, kw_only=True)
class Resource:
    ref: ResourceRef
    body: dict[str, Any]
    needs: tuple[str, ...] = ()
    drifted: Mapping[str, Any] = field(default_factory=dict)


def resource(kind: str, who: Incarnation) -> Resource:
    pool = who.pool(POOL)
    path = f"/pool/{pool}"
    match kind:
        case "proxmox.pool":
            return Resource(ref=ResourceRef(kind=kind, name=pool), body={"poolid": pool, "comment": who.mark})
        case "proxmox.user":
            body = {"userid": who.user, "comment": who.mark, "groups": [GROUP], "enable": True}
            return Resource(ref=ResourceRef(kind=kind, name=who.user), body=body)
        case "proxmox.token":
            body = {"userid": who.user, "tokenid": "k1", "privsep": 0, "comment": f"{who.mark} generation=1"}
            return Resource(ref=ResourceRef(kind=kind, name=f"{who.user}!k1"), body=body, needs=("proxmox.user",))
        case "proxmox.acl":
            body = {"path": path, "type": "user", "ugid": who.user, "roleid": ROLE, "propagate": 1}
            name = f"{path}:{who.user}:{ROLE}"
            return Resource(ref=ResourceRef(kind=kind, name=name), body=body, needs=("proxmox.pool", "proxmox.user"))
        case "proxmox.volume_owner":
            body = {
                "name": who.owner_vm,
                "pool": pool,
                "tags": ["kubehenge", "volumes"],
                "first_vmid": OWNER_VMIDS[0],
                "last_vmid": OWNER_VMIDS[1],
            }
            return Resource(ref=ResourceRef(kind=kind, name=pool), body=body, needs=("proxmox.pool",))
    raise KeyError(kind)


def followed(driver: Driver, ref: ResourceRef, outcome: Done | Pending, ctx: ActionContext) -> Observed | None:
    """What a verb left once it is done, as the engine follows it: by looking at what is pending."""
    for _ in range(200):
        if isinstance(outcome, Done):
            return outcome.left
        outcome = driver.look(ref, outcome.handle, ctx)
    raise AssertionError(f"{ref} is still pending: {outcome}")


def made(site: ProxmoxSite, kind: str, who: Incarnation, *, vault: Vault | None = None) -> Resource:
    """The resource, made with everything that it needs."""
    it = resource(kind, who)
    stand(site, it, who)
    ctx = context(who, vault)
    followed(site.driver, it.ref, site.driver.create(it.ref, it.body, ctx), ctx)
    return it


def stand(site: ProxmoxSite, it: Resource, who: Incarnation) -> None:
    for kind in it.needs:
        made(site, kind, who)


def foreign(site: ProxmoxSite, kind: str, who: Incarnation, comment: str) -> Callable[[], bool]:
    """Have the administrator make an object of the same name with this comment; returns whether it is still there."""
    admin, pool = site.admin, who.pool(POOL)
    match kind:
        case "proxmox.pool":
            admin.post("/pools", poolid=pool, comment=comment)
            return lambda: any(row["poolid"] == pool for row in admin.get("/pools"))
        case "proxmox.user":
            admin.post("/access/users", userid=who.user, groups=GROUP, comment=comment)
            return lambda: any(row["userid"] == who.user for row in admin.get("/access/users"))
        case "proxmox.token":
            admin.post("/access/users", userid=who.user, groups=GROUP, comment=who.mark)
            admin.post(f"/access/users/{who.user}/token/k1", comment=comment)
            return lambda: any(row["tokenid"] == "k1" for row in admin.get(f"/access/users/{who.user}/token"))
        case "proxmox.acl":
            admin.post("/pools", poolid=pool, comment=who.mark)
            admin.post("/access/users", userid=who.user, groups=GROUP, comment=comment)
            admin.put("/access/acl", path=f"/pool/{pool}", roles=ROLE, users=who.user)
            return lambda: any(row["ugid"] == who.user for row in admin.get("/access/acl"))
        case "proxmox.volume_owner":
            admin.post("/pools", poolid=pool, comment=who.mark)
            admin.post("/nodes/pve2/qemu", vmid=9_000_077, name=who.owner_vm, pool=pool, description=comment, tags="kubehenge;volumes")
            return lambda: any(row["vmid"] == 9_000_077 for row in admin.get("/cluster/resources", type="vm"))
    raise KeyError(kind)


def count(site: ProxmoxSite, kind: str, who: Incarnation) -> int:
    """How many of a kind there are for a cluster, in the administrator's eyes."""
    admin, pool = site.admin, who.pool(POOL)
    match kind:
        case "proxmox.pool":
            return sum(row["poolid"] == pool for row in admin.get("/pools"))
        case "proxmox.user":
            return sum(row["userid"] == who.user for row in admin.get("/access/users"))
        case "proxmox.token":
            users = (row for row in admin.get("/access/users", full=1) if row["userid"] == who.user)
            return sum(len(row.get("tokens") or ()) for row in users)
        case "proxmox.acl":
            return sum(row["ugid"] == who.user for row in admin.get("/access/acl"))
        case "proxmox.volume_owner":
            return sum(row.get("pool") == pool for row in admin.get("/cluster/resources", type="vm"))
    raise KeyError(kind)
