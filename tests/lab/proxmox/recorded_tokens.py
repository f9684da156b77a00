"""
The world of tokens.jsonl.gz: a broker that makes pools, users and rights, tokens with one privilege less each time, and a token
that keeps volumes with a guest that is never started.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from kubehenge.lab.proxmox.rights import Group, Token, User
from tests.lab.proxmox.recorded import Replay
from tests.lab.proxmox.running import Answer

MIB = 1024**2
BRIDGE = "/sdn/zones/localnetwork/vmbr0"
_CONFIG = "VM.Config.CDROM VM.Config.CPU VM.Config.Disk VM.Config.Memory VM.Config.Network VM.Config.Options"
LEAST = frozenset(f"VM.Allocate VM.Audit VM.PowerMgmt {_CONFIG}".split())
FULL = LEAST | {"VM.Clone", "VM.Config.Cloudinit", "VM.Config.HWType", "VM.GuestAgent.Audit", "VM.GuestAgent.Unrestricted"}
ROLES = {
    "BAlloc": frozenset({"Pool.Allocate"}),
    "BPool": frozenset({"Pool.Allocate", "Pool.Audit"}),
    "BVm": FULL,
    "BPerm": frozenset({"Permissions.Modify"}),
    "BRealm": frozenset({"Realm.AllocateUser"}),
    "BUser": frozenset({"User.Modify"}),
    "BIso": frozenset({"Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit"}),
    "KhIso": frozenset({"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit"}),
    "KhVM": FULL,
    "KhNet": frozenset({"SDN.Use"}),
    "TPower": frozenset({"VM.Audit", "VM.PowerMgmt"}),
    "TVm": FULL,
    "TMore": FULL | {"VM.Console"},
    "TStore": frozenset({"Datastore.AllocateSpace"}),
    "TIso": frozenset({"Datastore.AllocateTemplate"}),
    "MinVM": LEAST,
}

ROLE_NAMES = {"own@pve": "OwnR", "csi@pve": "CsiVm", "mx-1@pve": "MxVM"}

Grant = tuple[str, str | Iterable[str], bool]
Change = Callable[["Tokens"], None]


def rights(userid: str, *grants: Grant) -> Change:
    """All rights that a user has from now on: (path, role or privileges, propagate)."""

    def change(replay: Tokens) -> None:
        kept = replay.server.rights
        for row in [row for row in kept.rows() if row.subject == userid]:
            kept.delete_row(row.path, row.kind, row.subject, row.role)
        for number, (path, what, propagate) in enumerate(grants):
            role = what if isinstance(what, str) else f"{ROLE_NAMES.get(userid, userid)}{number or ''}"
            if not isinstance(what, str):
                kept.roles[role] = frozenset(what)
            replay.give(path, userid, role, propagate=propagate)

    return change


def both(*changes: Change) -> Change:
    def change(replay: Tokens) -> None:
        for part in changes:
            part(replay)

    return change


WORK, N1, C1 = "/pool/kubehenge", "/pool/kubehenge/n1", "/pool/kubehenge/c1"
_POOL, _VMS = (WORK, "BPool", True), (WORK, "BVm", True)
_PERM, _ISO2 = (BRIDGE, "BPerm", True), ("/storage/iso2", "BIso", True)
_USER, _REALM = ("/access/groups/kh", "BUser", True), ("/access/realm/pve", "BRealm", True)


def broker(*grants: Grant) -> Change:
    return rights("broker@pve", *grants)


def own(*privileges: str) -> Change:
    return rights("own@pve", (N1, privileges, True))


def csi(*privileges: str, space: bool = True, audit: bool = True) -> Change:
    """The volume token: rights on the pool, and on the storage."""
    storage = [name for name, given in (("Datastore.AllocateSpace", space), ("Datastore.Audit", audit)) if given]
    grants: list[Grant] = [(N1, privileges, True)] if privileges else []
    return rights("csi@pve", *grants, *([("/storage/disks", storage, False)] if storage else []))


_CSI = ("VM.Config.Disk", "VM.Audit")
_OWN = ("VM.Allocate", "VM.Audit", "VM.Config.Options", "VM.Config.Memory")


def _guest(vmid: int, **about: Any) -> Change:
    """A stopped guest with one disk of 64 MiB."""

    def add(replay: Tokens) -> None:
        replay.add_guest(vmid, **about)

    return add


def _drop(*vmids: int) -> Change:
    def drop(replay: Tokens) -> None:
        for vmid in vmids:
            if replay.server.vm(vmid) is not None:
                replay.server.abandon(replay.server.vm(vmid))

    return drop


def _run(vmid: int) -> Change:
    return lambda replay: replay.server.power_on(replay.server.vm(vmid))


def _free(*volumes: str) -> Change:
    def free(replay: Tokens) -> None:
        for volume in volumes:
            replay.server.storages["disks"]["volumes"].pop(volume, None)

    return free


# mx-1's rights, one less in each round.
MATRIX: dict[str, tuple[str, bool, frozenset[str]]] = {
    "pool": ("/pool/kubehenge/c2", False, LEAST),
    "template": ("/pool/templates", False, frozenset({"VM.Audit", "VM.Clone"})),
    "disks": ("/storage/disks", False, frozenset({"Datastore.AllocateSpace"})),
    "iso": ("/storage/iso", False, frozenset({"Datastore.Allocate", "Datastore.AllocateTemplate", "Datastore.Audit"})),
    "nodes": ("/nodes", True, frozenset({"Sys.Audit"})),
    "root": ("/", False, frozenset({"Sys.Audit"})),
    "bridge": (BRIDGE, False, frozenset({"SDN.Use"})),
}
ROUNDS: dict[int, tuple[str, str]] = {
    5217: ("", ""),
    5321: ("pool", "VM.Allocate"),
    5343: ("pool", "VM.Audit"),
    5406: ("pool", "VM.Config.CDROM"),
    5458: ("pool", "VM.Config.CPU"),
    5516: ("pool", "VM.Config.Disk"),
    5607: ("pool", "VM.Config.Memory"),
    5687: ("pool", "VM.Config.Network"),
    5737: ("pool", "VM.Config.Options"),
    5776: ("pool", "VM.PowerMgmt"),
    5805: ("template", "VM.Audit"),
    5878: ("template", "VM.Clone"),
    5896: ("disks", "Datastore.AllocateSpace"),
    5923: ("nodes", "Sys.Audit"),
    5984: ("root", "Sys.Audit"),
    6240: ("bridge", "SDN.Use"),
}


def _round(place: str, less: str) -> Change:
    grants = [
        (path, privileges - ({less} if name == place else set()), propagate) for name, (path, propagate, privileges) in MATRIX.items()
    ]
    return both(_drop(800), rights("mx-1@pve", *grants))


def _add_carol(replay: Tokens) -> None:
    replay.server.rights.users["carol@pve"] = User()
    for group in ("kh", "other"):
        replay.server.rights.groups[group].members.add("carol@pve")


def _share(replay: Tokens) -> None:
    """What the clusters' group has in common, and mx-1's rights under their names in the recording."""
    rights("mx-1@pve")(replay)
    replay.server.rights.roles |= {"MxVM": LEAST, "MxNet": frozenset({"SDN.Use"})}
    replay.give("/pool/kubehenge/c2", "mx-1@pve", "MxVM")
    replay.give(BRIDGE, "mx-1@pve", "MxNet", propagate=False)
    replay.server.rights.roles |= {"KhNodes": frozenset({"Sys.Audit"}), "KhIsoLeast": MATRIX["iso"][2]}
    replay.give("/nodes", "kh", "KhNodes")
    replay.give("/pool/templates", "kh", "PVETemplateUser", propagate=False)
    replay.give("/storage/disks", "kh", "TStore", propagate=False)
    replay.give("/storage/iso", "kh", "KhIsoLeast", propagate=False)
    replay.give(BRIDGE, "kh", "PVESDNUser", propagate=False)


BEFORE: dict[int, Change] = {
    781: broker((WORK, "BAlloc", True)),
    795: broker(_POOL),
    799: broker((WORK, "BPool", False)),
    801: broker(_POOL),
    802: broker(_POOL, _VMS),
    829: broker(_POOL, _VMS, (N1, "BPool", False), (N1, "BVm", False)),
    835: broker(_POOL, _VMS, ("/storage/iso2", "KhIso", True)),
    841: broker(_POOL, _VMS, _ISO2),
    843: broker(_POOL, _VMS, _ISO2, _PERM),
    851: broker(_POOL, _VMS, _ISO2, _PERM, _USER),
    854: broker(_POOL, _VMS, _ISO2, _PERM, _USER, _REALM),
    1348: own("VM.Allocate"),
    1365: own("VM.Allocate", "VM.Config.Options", "VM.Config.Memory"),
    1374: both(csi(space=False, audit=False), _guest(5002, name="worker", pool="kubehenge/n1")),
    1375: csi(audit=False),
    1389: csi(audit=False),
    1390: csi("VM.Config.Disk", audit=False),
    1391: csi("VM.Config.Disk"),
    1396: csi(*_CSI),
    1423: csi("VM.Audit"),
    1424: csi(*_CSI, space=False),
    1427: csi(*_CSI, audit=False),
    1531: both(own(*_OWN), csi(*_CSI)),
    1533: own(*_OWN, "VM.Migrate"),
    1797: own(*_OWN),
    1839: own(*_OWN),
    1893: both(_guest(5001, name="owner", pool="kubehenge/n1", disk=False), _run(5002)),
    1908: broker(_POOL, _VMS, _USER, _REALM, _PERM),
    4853: _guest(701, name="other"),
    4969: both(_guest(600, name="slow", pool="kubehenge/c1"), _run(600)),
    5007: lambda replay: replay.server.power_off(replay.server.vm(600)),
    1914: _add_carol,
    6665: both(_drop(5001, 5002, 800), _share),
    6699: _drop(610, 611),
    6710: _drop(610, 611),
    **{n: _round(*what) for n, what in ROUNDS.items()},
}


SECRETS = {863: lambda _replay: {"password": "long enough"}}


class Tokens(Replay):
    before = BEFORE
    secrets = SECRETS

    def build(self) -> None:
        self.values: dict[str, str] = {}
        server = self.server
        for name, content, shared in (
            ("disks", "images", 1),
            ("iso", "iso,snippets", 1),
            ("iso2", "iso,snippets", 1),
            ("ldir", "images", 0),
        ):
            store = {"type": "dir", "path": f"/mnt/shared/{name}", "shared": shared, "active": 1, "content": content, "avail": 10**11}
            server.storages[name] = {**store, "files": set(), "volumes": {}}
        for pool in ("kubehenge", "kubehenge/c1", "kubehenge/c2", "outside", "templates"):
            server.pools[pool] = set()
            server.pool_info[pool] = {"comment": None, "storage": set()}
        server.storages["iso"]["volumes"]["iso/t.iso"] = {"content": "iso", "format": "iso", "size": 1000, "ctime": 1}
        server.rights.roles |= ROLES
        server.rights.groups |= {"kh": Group(), "other": Group()}
        for userid, token in (("broker", "bk"), ("own", "own"), ("csi", "csi"), ("zero", "zz"), ("kh-c1", "capmox"), ("mx-1", "tt")):
            server.rights.users[f"{userid}@pve"] = User(tokens={token: Token(value="known", privsep=False)})
        for userid, group in (("bob", "kh"), ("alice", "other"), ("capmox", None)):
            server.rights.users[f"{userid}@pve"] = User()
            if group:
                server.rights.groups[group].members.add(f"{userid}@pve")
        template = self.add_guest(9000, name="tmpl", pool="templates", template=True)
        more = {"agent": "enabled=1", "serial0": "socket", "tags": "capi;k8s-1.34", "net0": "virtio=BC:24:11:36:38:42,bridge=vmbr0"}
        template.config |= {**more, "ostype": "l26", "memory": "512", "cores": 1, "scsihw": "virtio-scsi-pci"}
        self.give(C1, "kh-c1@pve", "KhVM")
        self.give("/pool/templates", "kh-c1@pve", "PVETemplateUser")
        self.give("/storage/disks", "kh-c1@pve", "TStore")
        self.give("/storage/iso", "kh-c1@pve", "KhIso")
        self.give(BRIDGE, "kh-c1@pve", "KhNet", propagate=False)
        self.give(BRIDGE, "capmox@pve", "PVESDNUser", propagate=False)

    def add_guest(self, vmid: int, *, name: str, pool: str | None = None, template: bool = False, disk: bool = True) -> Any:
        server = self.server
        guest = server.add_guest(vmid, "pve1", name, template=template)
        guest.config |= {"meta": "m", "smbios1": "uuid=x", "vmgenid": "x", "boot": "order=scsi0" if disk else " "}
        if disk:
            volume = f"{vmid}/{'base' if template else 'vm'}-{vmid}-disk-0.raw"
            about = {"content": "images", "format": "raw", "size": 64 * MIB, "vmid": vmid, "ctime": 1}
            server.storages["disks"]["volumes"][volume] = about
            guest.config |= {"scsi0": f"disks:{volume},size=64M", "scsihw": "virtio-scsi-single", "memory": "64"}
        if pool:
            server.put_in_pool(vmid, pool)
        return guest

    def auth(self, row: dict[str, Any]) -> Any:
        return f"PVEAPIToken={row['as']}={self.values.get(row['as'], 'known')}"

    def seen(self, row: dict[str, Any], answer: Answer) -> None:
        made = re.fullmatch(r"/access/users/(\S+)/token/(\S+)", row["path"])
        if made and row["method"] == "POST" and answer.status == 200:
            self.values[answer.data["full-tokenid"]] = answer.data["value"]
