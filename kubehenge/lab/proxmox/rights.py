"""Users, groups, tokens, roles and ACL rows, and the privileges that follow from them, as Proxmox VE computes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

ROOT = "root@pam"
NO_ACCESS = "NoAccess"
ADMINISTRATOR = "Administrator"


def _names(prefix: str, names: str) -> set[str]:
    return {f"{prefix}.{name}" for name in names.split()}


# Proxmox VE 9.2.
_DATASTORE = _names("Datastore", "Allocate AllocateSpace AllocateTemplate Audit")
_GUEST_AGENT = _names("VM.GuestAgent", "Audit FileRead FileSystemMgmt FileWrite Unrestricted")
_VM_CONFIG = _names("VM.Config", "CDROM CPU Cloudinit Disk HWType Memory Network Options")
_VM = _names("VM", "Allocate Audit Backup Clone Console Migrate PowerMgmt Replicate Snapshot Snapshot.Rollback") | _VM_CONFIG | _GUEST_AGENT
_SYS = _names("Sys", "AccessNetwork Audit Console Incoming Modify PowerMgmt Syslog")
_SDN = _names("SDN", "Allocate Audit Use")
_MAPPING = _names("Mapping", "Audit Modify Use")
_POOL = _names("Pool", "Allocate Audit")
PRIVILEGES: frozenset[str] = frozenset(
    _DATASTORE
    | _VM
    | _SYS
    | _SDN
    | _MAPPING
    | _POOL
    | {"Group.Allocate", "Permissions.Modify", "Realm.Allocate", "Realm.AllocateUser", "User.Modify"}
)
_ADMIN_ONLY = {
    *_names("Sys", "Modify PowerMgmt Incoming AccessNetwork"),
    "Realm.Allocate",
    "Mapping.Modify",
    "Permissions.Modify",
}
BUILTIN_ROLES: Mapping[str, frozenset[str]] = {
    ADMINISTRATOR: PRIVILEGES,
    NO_ACCESS: frozenset(),
    "PVEAdmin": frozenset(PRIVILEGES - _ADMIN_ONLY),
    "PVEAuditor": frozenset(p for p in PRIVILEGES if p.endswith(".Audit")),
    "PVEDatastoreAdmin": frozenset(_DATASTORE),
    "PVEDatastoreUser": frozenset(_names("Datastore", "AllocateSpace Audit")),
    "PVEMappingAdmin": frozenset(_MAPPING),
    "PVEMappingUser": frozenset(_names("Mapping", "Audit Use")),
    "PVEPoolAdmin": frozenset(_POOL),
    "PVEPoolUser": frozenset({"Pool.Audit"}),
    "PVESDNAdmin": frozenset(_SDN),
    "PVESDNUser": frozenset(_names("SDN", "Audit Use")),
    "PVESysAdmin": frozenset(_names("Sys", "Audit Console Syslog")),
    "PVETemplateUser": frozenset(_names("VM", "Audit Clone")),
    "PVEUserAdmin": frozenset({"Group.Allocate", "Realm.AllocateUser", "User.Modify"}),
    "PVEVMAdmin": frozenset(_VM),
    "PVEVMUser": frozenset(
        _names("VM", "Audit Backup Console PowerMgmt Config.CDROM Config.Cloudinit") | (_GUEST_AGENT - {"VM.GuestAgent.Unrestricted"})
    ),
}

_SEGMENT = r"[A-Za-z0-9._-]+"
_ACL_PATHS = re.compile(
    rf"/|/access|/access/(?:groups|realm)(?:/{_SEGMENT})?|/nodes(?:/{_SEGMENT})?|/pool(?:/{_SEGMENT}){{0,3}}"
    rf"|/storage(?:/{_SEGMENT})?|/vms(?:/[1-9][0-9]{{2,}})?|/mapping(?:/{_SEGMENT}){{0,2}}"
    rf"|/sdn(?:/(?:zones|fabrics|controllers|dns|ipams)?(?:/{_SEGMENT}){{0,3}})?"
)
# The paths that GET /access/permissions looks at besides those of ACL rows and pools.
_ROOT_PATHS = ("/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms")
# Who may write ACL rows below a path without Permissions.Modify there.
_OWNERS = (("/pool/", "Pool.Allocate"), ("/vms/", "VM.Allocate"), ("/storage/", "Datastore.Allocate"))


class SubjectKind(StrEnum):
    """Whom an ACL row is for."""

    USER = "user"
    GROUP = "group"
    TOKEN = "token"


@dataclass(slots=True, kw_only=True)
class Token:
    """An API token; `expire` in seconds since the epoch, 0 never."""

    value: str
    privsep: bool = True
    expire: int = 0
    comment: str | None = None


@dataclass(slots=True, kw_only=True)
class User:
    """A user; `profile` holds comment, email, firstname, lastname and keys as they were set."""

    enable: bool = True
    expire: int = 0
    profile: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Group:
    """A group and the ids of its members."""

    comment: str | None = None
    members: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclRow:
    """One row of the access control list."""

    path: str
    kind: SubjectKind
    subject: str
    role: str
    propagate: bool


def acl_path(text: str) -> str:
    """A path as it is kept: one slash between segments, none at the end."""
    return "/" + "/".join(part for part in text.split("/") if part)


def is_acl_path(path: str) -> bool:
    """Whether rows may be written for a path; it need not exist."""
    return bool(_ACL_PATHS.fullmatch(path))


def modifiers(path: str) -> tuple[str, ...]:
    """The privileges of which one lets its holder write ACL rows on a path."""
    return ("Permissions.Modify", *(privilege for prefix, privilege in _OWNERS if path.startswith(prefix)))


class Rights:
    """
    Everything below /access that decides who may do what.

    Shape: an "auth id" is a user ("name@realm") or a token ("name@realm!token"); privileges are {name: propagates}.
    Source: Proxmox VE's rules as recorded: a deeper path replaces what was inherited, NoAccess wins, pool rows reach members.
    """

    def __init__(self, pools_of: Callable[[str], Iterable[str]]) -> None:
        self.users: dict[str, User] = {ROOT: User()}
        self.groups: dict[str, Group] = {}
        self.roles: dict[str, frozenset[str]] = dict(BUILTIN_ROLES)
        self._acl: dict[str, dict[tuple[SubjectKind, str], dict[str, bool]]] = {}
        self._pools_of = pools_of  # the pools of which a /vms/… or /storage/… path is a member
        self._cache: dict[str, dict[str, Mapping[str, bool]]] = {}

    # ---- privileges

    def privileges(self, auth: str, path: str) -> Mapping[str, bool]:
        """What an auth id may do on one path; the value says whether it also holds below."""
        if not path:  # one that could not be normalised
            return {}
        known = self._cache.setdefault(path, {})
        found = known.get(auth)
        if found is None:
            found = known[auth] = self._compute(auth, path)
        return found

    def has(self, auth: str, path: str, *privileges: str) -> bool:
        """Whether an auth id holds every one of the privileges on a path."""
        held = self.privileges(auth, path)
        return all(privilege in held for privilege in privileges)

    def has_any(self, auth: str, path: str, privileges: Iterable[str]) -> bool:
        """Whether an auth id holds one of the privileges on a path."""
        held = self.privileges(auth, path)
        return any(privilege in held for privilege in privileges)

    def has_below(self, auth: str, path: str, privileges: Iterable[str]) -> bool:
        """Whether an auth id holds one of the privileges on a path or on one below it that has ACL rows."""
        wanted = tuple(privileges)
        below = (found for found in self._acl if found.startswith(path + "/"))
        return any(self.has_any(auth, found, wanted) for found in (path, *below))

    def effective(self, auth: str, members: Iterable[str], pools: Iterable[str]) -> dict[str, Mapping[str, bool]]:
        """All paths on which an auth id holds something; `members` are the member paths of pools."""
        paths = dict.fromkeys((*_ROOT_PATHS, *self._acl, *(f"/pool/{pool}" for pool in pools), *members))
        return {path: held for path in paths if (held := self.privileges(auth, path))}

    def changed(self) -> None:
        """Forget what was computed: users, groups, roles, rows or pools have changed."""
        self._cache.clear()

    def member_changed(self, path: str) -> None:
        """Forget what was computed for one member of a pool."""
        self._cache.pop(path, None)

    def _compute(self, auth: str, path: str) -> Mapping[str, bool]:
        if auth == ROOT:
            return dict.fromkeys(PRIVILEGES, True)
        owner, separator, name = auth.partition("!")
        if not separator:
            return self._collect(auth, path)
        user = self.users.get(owner)
        token = user.tokens.get(name) if user else None
        if token is None:
            return {}
        held = self.privileges(owner, path)
        if not token.privsep:
            return held
        return {name: propagates and held[name] for name, propagates in self._collect(auth, path).items() if name in held}

    def _collect(self, subject: str, path: str) -> Mapping[str, bool]:
        roles = dict(self._roles_on(subject, path))
        for pool in self._pools_of(path):
            for role in self._roles_on(subject, f"/pool/{pool}"):
                roles.setdefault(role, False)
        if NO_ACCESS in roles:
            return {}
        held: dict[str, bool] = {}
        for role, propagates in roles.items():
            for privilege in self.roles.get(role, ()):
                held[privilege] = held.get(privilege, False) or propagates
        return held

    def _roles_on(self, subject: str, path: str) -> Mapping[str, bool]:
        """The roles of a user or token on a path, found on the way down from the root."""
        found: Mapping[str, bool] = {}
        for level in _levels(path):
            rows = self._acl.get(level)
            if rows:
                here = self._roles_at(rows, subject, final=level == path)
                if here:
                    found = here
        return found

    def _roles_at(self, rows: Mapping[tuple[SubjectKind, str], dict[str, bool]], subject: str, *, final: bool) -> Mapping[str, bool]:
        if "!" in subject:
            return _applying(rows.get((SubjectKind.TOKEN, subject), {}), final=final)
        own = _applying(rows.get((SubjectKind.USER, subject), {}), final=final)
        if own:
            return own
        shared: dict[str, bool] = {}
        for kind, name in rows:
            if kind is SubjectKind.GROUP and name in self.groups and subject in self.groups[name].members:
                for role, propagates in _applying(rows[kind, name], final=final).items():
                    shared[role] = shared.get(role, False) or propagates
        return shared

    # ---- ACL rows

    def rows(self) -> Iterator[AclRow]:
        """All rows, path by path."""
        for path, subjects in self._acl.items():
            for (kind, subject), roles in subjects.items():
                for role, propagate in roles.items():
                    yield AclRow(path=path, kind=kind, subject=subject, role=role, propagate=propagate)

    def put_row(self, row: AclRow) -> None:
        """Write a row; one for the same path, subject and role is replaced."""
        self._acl.setdefault(row.path, {}).setdefault((row.kind, row.subject), {})[row.role] = row.propagate
        self.changed()

    def delete_row(self, path: str, kind: SubjectKind, subject: str, role: str) -> bool:
        """Remove a row; False when there was none."""
        roles = self._acl.get(path, {}).get((kind, subject), {})
        if role not in roles:
            return False
        del roles[role]
        self._tidy()
        return True

    def delete_path(self, path: str) -> None:
        """Remove all rows of one path."""
        if self._acl.pop(path, None):
            self.changed()

    def _tidy(self) -> None:
        """Drop rows of subjects and roles that are gone, and what is empty then."""
        for path in list(self._acl):
            subjects = self._acl[path]
            for kind, subject in list(subjects):
                roles = {role: flag for role, flag in subjects[kind, subject].items() if role in self.roles}
                if roles and self.exists(kind, subject):
                    subjects[kind, subject] = roles
                else:
                    del subjects[kind, subject]
            if not subjects:
                del self._acl[path]
        self.changed()

    # ---- subjects

    def exists(self, kind: SubjectKind, subject: str) -> bool:
        """Whether a row's subject is there."""
        match kind:
            case SubjectKind.USER:
                return subject in self.users
            case SubjectKind.GROUP:
                return subject in self.groups
            case SubjectKind.TOKEN:
                owner, _, name = subject.partition("!")
                return owner in self.users and name in self.users[owner].tokens

    def groups_of(self, userid: str) -> list[str]:
        """The names of the groups a user is in, sorted."""
        return sorted(name for name, group in self.groups.items() if userid in group.members)

    def groups_with(self, auth: str, privileges: Iterable[str]) -> set[str]:
        """The groups on which an auth id holds one of the privileges."""
        wanted = tuple(privileges)
        return {name for name in self.groups if self.has_any(auth, f"/access/groups/{name}", wanted)}

    def members_of(self, groups: Iterable[str]) -> set[str]:
        """The users who are in one of the groups."""
        return {userid for name in groups for userid in self.groups[name].members}

    def delete_user(self, userid: str) -> None:
        """Remove a user with its tokens, memberships and rows."""
        del self.users[userid]
        for group in self.groups.values():
            group.members.discard(userid)
        self._tidy()

    def delete_token(self, userid: str, name: str) -> None:
        """Remove a token and its rows."""
        del self.users[userid].tokens[name]
        self._tidy()

    def delete_group(self, name: str) -> None:
        """Remove a group and its rows."""
        del self.groups[name]
        self._tidy()

    def delete_role(self, name: str) -> None:
        """Remove a role and the rows that give it."""
        del self.roles[name]
        self._tidy()

    # ---- state

    def to_json(self) -> dict[str, Any]:
        """The whole state, token values included: it belongs into a file that only its owner may read."""
        return {
            "users": {userid: asdict(user) for userid, user in self.users.items()},
            "groups": {name: {"comment": group.comment, "members": sorted(group.members)} for name, group in self.groups.items()},
            "roles": {name: sorted(privileges) for name, privileges in self.roles.items() if name not in BUILTIN_ROLES},
            "acl": [[row.path, row.kind.value, row.subject, row.role, row.propagate] for row in self.rows()],
        }

    def load_json(self, state: Mapping[str, Any]) -> None:
        """Replace the whole state."""
        self.users = {
            userid: User(**{**user, "tokens": {name: Token(**token) for name, token in user["tokens"].items()}})
            for userid, user in state["users"].items()
        }
        self.groups = {name: Group(comment=group["comment"], members=set(group["members"])) for name, group in state["groups"].items()}
        self.roles = {**BUILTIN_ROLES, **{name: frozenset(privileges) for name, privileges in state["roles"].items()}}
        self._acl = {}
        for path, kind, subject, role, propagate in state["acl"]:
            self._acl.setdefault(path, {}).setdefault((SubjectKind(kind), subject), {})[role] = bool(propagate)
        self.changed()


def _levels(path: str) -> Iterator[str]:
    yield "/"
    end = path.find("/", 1)
    while end > 0:
        yield path[:end]
        end = path.find("/", end + 1)
    if path != "/":
        yield path


def _applying(roles: Mapping[str, bool], *, final: bool) -> Mapping[str, bool]:
    """The roles of a row set that count: rows without propagation only on their own path."""
    return roles if final else {role: True for role, propagates in roles.items() if propagates}
