"""The calls below /access for sign-in, own permissions, roles and ACL rows; users, tokens and groups are in users.py."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from fakepve.routing import split_list

from kubehenge.lab.proxmox.call import ApiCall, Route
from kubehenge.lab.proxmox.errors import PveError, bad_parameter, denied, failed
from kubehenge.lab.proxmox.rights import (
    BUILTIN_ROLES,
    NO_ACCESS,
    PRIVILEGES,
    ROOT,
    AclRow,
    SubjectKind,
    acl_path,
    is_acl_path,
    modifiers,
)
from kubehenge.lab.proxmox.users import REALMS, UserCalls

_SUBDIRS = ("users", "groups", "roles", "acl", "domains", "openid", "tfa", "ticket", "password")
# What GET /access/ticket's `cap` counts for each of its sections: ACL paths, and beginnings of privileges.
_CAPABILITIES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "vms": (("/vms", "/pool"), ("VM.", "Permissions.Modify")),
    "storage": (("/storage",), ("Datastore.", "Permissions.Modify")),
    "access": (("/access",), ("User.", "Group.", "Realm.", "Permissions.Modify")),
    "nodes": (("/nodes",), ("Sys.", "Permissions.Modify")),
    "dc": ((), ("Sys.Audit", "Sys.Modify", "SDN.")),
    "sdn": (("/sdn",), ("SDN.", "Permissions.Modify")),
    "mapping": (("/mapping",), ("Mapping.", "Permissions.Modify")),
}


class AccessCalls(UserCalls):
    """Mixin of the server: sign-in and rights, kept in `signin` and `rights`."""

    def _calls_access(self) -> list[Route]:
        role = "/access/roles"
        return [
            ("GET", "/access", self._access_index),
            ("GET", "/access/domains", self._domains),
            ("POST", "/access/ticket", self._sign_in),
            ("PUT", "/access/password", self._password_set),
            ("GET", "/access/permissions", self._permissions_get),
            ("GET", role, self._roles),
            ("POST", role, self._role_create),
            ("GET", role + "/{roleid}", self._role_get),
            ("PUT", role + "/{roleid}", self._role_update),
            ("DELETE", role + "/{roleid}", self._role_delete),
            ("GET", "/access/acl", self._acl_list),
            ("PUT", "/access/acl", self._acl_update),
        ]

    # ---- sign-in

    async def _access_index(self, _call: ApiCall) -> Any:
        return [{"subdir": name} for name in _SUBDIRS]

    async def _domains(self, _call: ApiCall) -> Any:
        return [dict(realm) for realm in REALMS]

    async def _sign_in(self, call: ApiCall) -> Any:
        userid = str(call["username"])
        if call.get("realm") and not userid.endswith(f"@{call['realm']}"):
            userid = f"{userid}@{call['realm']}"
        verify = call.get("path") is not None and call.get("privs") is not None
        allowed = self.signin.check_password(userid, str(call["password"]))
        if allowed and verify:
            allowed = self.rights.has(userid, acl_path(str(call["path"])), *split_list(call["privs"]))
        if not allowed:
            raise PveError(401, "authentication failure")
        answer: dict[str, Any] = {"username": userid, "cap": self._capabilities(userid)}
        if not verify:
            answer |= {"ticket": self.signin.issue_ticket(userid), "CSRFPreventionToken": self.signin.csrf_token(userid)}
            if self.rights.has(userid, "/", "Sys.Audit"):
                answer["clustername"] = self.cluster_name
        return answer

    def _capabilities(self, userid: str) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {section: {} for section in _CAPABILITIES}
        for path, held in self._effective(userid).items():
            for section, (prefixes, beginnings) in _CAPABILITIES.items():
                if path == "/" or path.startswith(prefixes or ("\0",)):
                    found[section] |= {name: 1 for name in held if name.startswith(beginnings)}
        return found

    async def _password_set(self, call: ApiCall) -> Any:
        userid = call["userid"]
        if call.auth != ROOT and not self.signin.check_password(call.auth, str(call.get("confirmation-password", ""))):
            raise PveError(401, "authentication failure")
        self.get_user(userid)
        self.signin.set_password(userid, call["password"])

    async def _permissions_get(self, call: ApiCall) -> Any:
        who = call.get("userid") or call.auth
        own = who == call.auth or ("!" not in call.auth and who.partition("!")[0] == call.auth)
        if not own and not self.rights.has(call.auth, "/access", "Sys.Audit"):
            raise denied("/access", ("Sys.Audit",))
        if call.get("path") is not None:
            path = acl_path(call["path"])
            found = {path: self.rights.privileges(who, path)}
        else:
            found = self._effective(who)
        return {path: {name: int(propagates) for name, propagates in held.items()} for path, held in found.items()}

    def _effective(self, auth: str) -> dict[str, Mapping[str, bool]]:
        return self.rights.effective(auth, self.member_paths(), self.pools)

    # ---- roles

    async def _roles(self, _call: ApiCall) -> Any:
        return [
            {"roleid": name, "privs": ",".join(sorted(held)), "special": int(name in BUILTIN_ROLES)}
            for name, held in self.in_any_order(self.rights.roles.items())
        ]

    def _role(self, name: str) -> frozenset[str]:
        if name not in self.rights.roles:
            raise failed(f"role '{name}' does not exist")
        return self.rights.roles[name]

    async def _role_get(self, call: ApiCall) -> Any:
        return dict.fromkeys(sorted(self._role(call["roleid"])), 1)

    async def _role_create(self, call: ApiCall) -> Any:
        name = call["roleid"]
        held = _privileges(call)
        if name.lower().startswith("pve"):
            raise bad_parameter({"roleid": "cannot use role ID starting with the (case-insensitive) 'PVE' namespace"})
        with self.user_cfg("create role failed"):
            if name in self.rights.roles:
                raise failed(f"role '{name}' already exists")
            self.rights.roles[name] = held

    async def _role_update(self, call: ApiCall) -> Any:
        name = call["roleid"]
        held = _privileges(call)
        if name in BUILTIN_ROLES:
            raise failed(f"auto-generated role '{name}' cannot be modified")
        with self.user_cfg("update role failed"):
            self.rights.roles[name] = self._role(name) | held if call.get("append") else held

    async def _role_delete(self, call: ApiCall) -> Any:
        if call["roleid"] in BUILTIN_ROLES:
            raise failed(f"auto-generated role '{call['roleid']}' cannot be deleted")
        with self.user_cfg("delete role failed"):
            self._role(call["roleid"])
            self.rights.delete_role(call["roleid"])

    # ---- ACL rows

    async def _acl_list(self, call: ApiCall) -> Any:
        judged: dict[str, bool] = {}
        out = []
        for row in self.in_any_order(self.rights.rows()):
            if row.path not in judged:
                judged[row.path] = self.rights.has_any(call.auth, row.path, modifiers(row.path))
            if judged[row.path]:
                out.append(
                    {
                        "path": row.path,
                        "type": row.kind.value,
                        "ugid": row.subject,
                        "roleid": row.role,
                        "propagate": int(row.propagate),
                    }
                )
        return out

    async def _acl_update(self, call: ApiCall) -> Any:
        subjects = [
            (kind, subject)
            for kind, key in ((SubjectKind.GROUP, "groups"), (SubjectKind.USER, "users"), (SubjectKind.TOKEN, "tokens"))
            for subject in split_list(call.get(key))
        ]
        if not subjects:
            raise bad_parameter(dict.fromkeys(("users", "groups", "tokens"), "either 'users', 'groups' or 'tokens' is required."))
        path = acl_path(call["path"])
        if not is_acl_path(path):
            raise bad_parameter({"path": f"invalid ACL path '{call['path']}'"})
        propagate = bool(call.get("propagate", 1))
        with self.user_cfg("ACL update failed"):
            roles = split_list(call["roles"])
            for role in roles:
                self._role(role)
                self._check_superset(call.auth, path, role, propagate=propagate, verb="remove" if call.get("delete") else "add")
            for kind, subject in subjects:
                self._check_subject(kind, subject)
            for role, (kind, subject) in itertools.product(roles, subjects):
                if call.get("delete"):
                    self.rights.delete_row(path, kind, subject, role)
                else:
                    self.rights.put_row(AclRow(path=path, kind=kind, subject=subject, role=role, propagate=propagate))

    def _check_superset(self, auth: str, path: str, role: str, *, propagate: bool, verb: str) -> None:
        """Without Permissions.Modify one hands on only what one holds, as far down as one holds it."""
        held = self.rights.privileges(auth, path)
        if "Permissions.Modify" in held:
            return
        needed = self._role(role)
        why = None
        if role == NO_ACCESS:
            why = f"Cannot {verb} role '{role}' - requires 'Permissions.Modify'"
        elif not all(name in held for name in needed):
            why = f"Cannot {verb} role '{role}' - requires 'Permissions.Modify' or superset of privileges."
        elif propagate and not all(held[name] for name in needed):
            why = f"Cannot {verb} role '{role}' with propagation - requires 'Permissions.Modify' or propagated superset of privileges."
        if why:
            raise bad_parameter({"role": why})

    def _check_subject(self, kind: SubjectKind, subject: str) -> None:
        if self.rights.exists(kind, subject):
            return
        if kind is SubjectKind.TOKEN:
            userid, _, name = subject.partition("!")
            raise failed(f"no such token '{name}' for user '{userid}'")
        raise failed(f"{kind.value} '{subject}' does not exist")


def _privileges(call: ApiCall) -> frozenset[str]:
    names = split_list(call.get("privs"))
    for name in names:
        if name not in PRIVILEGES:
            raise bad_parameter({"privs": f"invalid format - invalid privilege '{name}'\n"})
    return frozenset(names)
