"""The world of transcript.jsonl.gz: an administrator and restricted tokens against three nodes, one kind of call after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubehenge.lab.proxmox.nodes import NodeSize
from kubehenge.lab.proxmox.rights import Group, Token, User
from tests.lab.proxmox.recorded import Replay
from tests.lab.proxmox.running import Answer

GIB = 1024**3
SIZE = NodeSize(cores=2, memory=25276502016, disk=8 * GIB)


def _guest(vmid: int, **changes: Any) -> Callable[[Transcript], None]:
    def change(replay: Transcript) -> None:
        for name, value in changes.items():
            setattr(replay.server.vm(vmid), name, value)

    return change


def _add_pool(replay: Transcript) -> None:
    replay.server.pools["tmpl"] = set()
    replay.server.pool_info["tmpl"] = {"comment": None, "storage": set()}


def _add_group(replay: Transcript) -> None:
    rights = replay.server.rights
    rights.groups["kubehenge-clusters"] = Group()
    guest = replay.server.vm(102)  # the HA manager started it
    replay.server.power_on(guest)


def _add_audit_role(replay: Transcript) -> None:
    replay.server.rights.roles["AuditOnly"] = frozenset({"VM.Audit"})


def _add_rep(replay: Transcript) -> None:
    rights = replay.server.rights
    tokens = {"sep": Token(value="rep"), "full": Token(value="rep", privsep=False)}
    rights.users["rep@pve"] = User(tokens=tokens)
    rights.roles["SysMod"] = frozenset({"Sys.Modify"})
    replay.give("/pool/kubehenge", "rep@pve", "PVEVMAdmin")
    replay.server.signin.set_password("rep@pve", "right")


def _enable_rep(*, enable: bool, expire: int = 0) -> Callable[[Transcript], None]:
    def change(replay: Transcript) -> None:
        user = replay.server.rights.users["rep@pve"]
        user.enable = enable
        user.tokens["full"].expire = expire

    return change


def _row(path: str, subject: str, role: str) -> Callable[[Transcript], None]:
    return lambda replay: replay.give(path, subject, role)


def _offline(*nodes: str) -> Callable[[Transcript], None]:
    def change(replay: Transcript) -> None:
        for node in nodes:
            replay.server.nodes[node]["online"] = False

    return change


# What the recorder did without recording it, before the call with this number.
BEFORE: dict[int, Callable[[Transcript], None]] = {
    71: _add_pool,
    136: _guest(110, agent=None),  # no operating system ran in the recorded guests
    141: _guest(110, acpi=False),
    253: _add_group,
    299: _add_audit_role,
    307: _add_rep,
    309: _row("/pool/kubehenge/clusters.prod", "rep@pve", "SysMod"),
    311: _row("/", "rep@pve!sep", "Administrator"),
    312: _row("/pool/kubehenge/clusters.prod", "rep@pve", "NoAccess"),
    371: _enable_rep(enable=False),
    374: _enable_rep(enable=True, expire=1),
    10000: _offline("pve2"),
    10009: _offline("pve3"),
}


def _upload(name: str, size: int) -> Callable[[Transcript], dict[str, Any]]:
    return lambda _replay: {"files": {"filename": (name, b"\0" * size)}}


def _password(text: str) -> Callable[[Transcript], dict[str, Any]]:
    return lambda _replay: {"password": text}


# Secrets and files, which are not in the recording.
SECRETS: dict[int, Callable[[Transcript], dict[str, Any]]] = {
    **{n: _password("wrong") for n in (345, 346, 347)},
    **{n: _password("right") for n in (348, 349, 354, 355, 359, 373)},
    **{n: (lambda replay: {"password": replay.ticket[0] if replay.ticket else ""}) for n in (351, 352)},
    353: lambda replay: {"password": replay.root()[0]},
    385: _upload("t.iso", 1000),
    386: _upload("t.raw", 1024**2),
    387: _upload("t.txt", 10),
    388: _upload("t.yaml", 10),
}


class Transcript(Replay):
    before = BEFORE
    secrets = SECRETS

    def build(self) -> None:
        self.actors = 0
        self.ticket: tuple[str, str] | None = None
        content = "images,iso,import,snippets,backup,vztmpl,rootdir"
        local = {"type": "dir", "path": "/var/lib/vz", "shared": 0, "active": 1, "content": content, "avail": 8 * GIB}
        self.server.storages["local"] = {**local, "files": set(), "volumes": {}}

    def other(self, row: dict[str, Any]) -> None:
        """An actor: a user with one role per grant, and a token that is not separated."""
        self.actors += 1

        def add(_replay: Replay) -> None:
            self.server.rights.users[row["actor"]] = User(tokens={"tok": Token(value="actor", privsep=False)})
            for number, grant in enumerate(row["grants"]):
                role = f"Role{self.actors}x{number}"
                self.server.rights.roles[role] = frozenset(grant["privs"])
                self.give(grant["path"], row["actor"], role)

        self.do(add)

    def seen(self, row: dict[str, Any], answer: Answer) -> None:
        if row["n"] == 349:
            self.ticket = (answer.data["ticket"], answer.data["CSRFPreventionToken"])

    def auth(self, row: dict[str, Any]) -> Any:
        who = row["as"].partition(" (")[0]
        match who:
            case "root@pam":
                return self.root()
            case "anonymous":
                return None
            case "bad token":
                return "PVEAPIToken=rep@pve!full=wrong"
            case "unknown token":
                return "PVEAPIToken=rep@pve!none=wrong"
            case "malformed token":
                return "PVEAPIToken=nonsense"
            case "rep@pve ticket":
                assert self.ticket is not None
                return (self.ticket[0], {356: "", 357: "0:wrong"}.get(row["n"], self.ticket[1]))
        return f"PVEAPIToken={who}=rep" if "!" in who else f"PVEAPIToken={who}!tok=actor"

    def root(self) -> tuple[str, str]:
        """root@pam by ticket: what is root's alone is not its tokens'."""
        signin = self.server.signin
        return signin.issue_ticket("root@pam"), signin.csrf_token("root@pam")
