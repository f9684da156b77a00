"""The permission rule that the API schema declares for a call, judged for a caller and its parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubehenge.lab.proxmox.errors import PveError, denied, failed
from kubehenge.lab.proxmox.rights import ROOT, Rights, acl_path, modifiers

_PLACEHOLDER = re.compile(r"\{([\w-]+)\}")
_NORMAL_PATH = re.compile(r"[A-Za-z0-9./_-]+")
_USER_GROUPS = "/access/groups"


def check_call(rights: Rights, auth: str | None, permissions: Mapping[str, Any] | None, params: Mapping[str, Any]) -> None:
    """
    Let a call pass or refuse it; this comes before its parameters are looked at.

    Shape: `permissions` as in the schema: None is root@pam only, else {"user": "world"|"all"} or {"check": rule}.
    Errors: a 403 that names path and privilege, or is bare where several ways would have done.
    """
    if auth == ROOT or (permissions and permissions.get("user") in {"world", "all"}):
        return
    if permissions is None or auth is None:
        raise PveError(403, "Permission check failed (user != root@pam)")
    _Judge(rights, auth, params).require(permissions["check"])


def check_acl_write(rights: Rights, auth: str, path: str) -> None:
    """Refuse whoever may not write ACL rows on a path at all."""
    wanted = modifiers(path)
    if not rights.has_any(auth, path, wanted):
        raise denied(path, wanted)


def check_userid(userid: str) -> tuple[str, str]:
    """
    Return a user id as (name, realm).

    Errors: a 500 in Proxmox VE's words.
    """
    if len(userid) < 3:
        raise failed(f"user name '{userid}' is too short")
    if len(userid) > 64:
        raise failed(f"user name '{userid}' is too long ({len(userid)} > 64)")
    found = re.fullmatch(r"([^\s:/]+)@([A-Za-z][A-Za-z0-9._-]+)", userid)
    if not found:
        raise failed(f"value '{userid}' does not look like a valid user name")
    return found[1], found[2]


class _Judge:
    def __init__(self, rights: Rights, auth: str, params: Mapping[str, Any]) -> None:
        self.rights = rights
        self.auth = auth
        self.params = params

    def require(self, rule: Sequence[Any]) -> None:
        """Raise the refusal that a rule ends with, if it does."""
        form, *rest = rule
        forms: dict[str, Callable[..., None]] = {
            "and": self._all,
            "or": self._any,
            "perm": self._perm,
            "perm-modify": self._modify,
            "userid-param": self._user_param,
            "userid-group": self._user_group,
        }
        forms[form](*rest)

    def _all(self, *rules: Sequence[Any]) -> None:
        for rule in rules:
            self.require(rule)

    def _any(self, *rules: Sequence[Any]) -> None:
        for rule in rules:
            try:
                self.require(rule)
            except PveError:
                continue
            return
        raise denied()

    def _perm(self, template: str, privileges: Sequence[str], *options: Any) -> None:
        how = dict(zip(options[::2], options[1::2], strict=True))
        if how.get("require_param") and self.params.get(how["require_param"]) is None:
            raise denied()
        path = self._filled(template)
        if how.get("any"):
            if not self.rights.has_any(self.auth, path, privileges):
                raise denied(path, privileges)
            return
        for privilege in privileges:
            if not self.rights.has(self.auth, path, privilege):
                raise denied(path, (privilege,))

    def _modify(self, template: str) -> None:
        check_acl_write(self.rights, self.auth, self._filled(template))

    def _user_param(self, test: str) -> None:
        userid = str(self.params.get("userid", ""))
        _, realm = check_userid(userid)
        if test == "self":
            # The user itself, not one of its tokens.
            if self.auth != userid or userid not in self.rights.users:
                raise denied()
        else:
            self._perm(f"/access/realm/{realm}", (test,))

    def _user_group(self, privileges: Sequence[str], *options: str) -> None:
        """Whether the caller may manage this user: by a privilege on all groups, or on those the user is in."""
        how = dict(zip(options[::2], options[1::2], strict=True))
        existing = how.get("groups_param") != "create"
        userid = str(self.params.get("userid", ""))
        if existing and userid not in self.rights.users:
            raise failed(f"no such user ('{userid}')")
        if self.rights.has_any(self.auth, _USER_GROUPS, privileges):
            return
        mine = self.rights.groups_with(self.auth, privileges)
        if "groups_param" in how:
            named = [name for name in re.split(r"[\s,;]+", str(self.params.get("groups") or "")) if name]
            if not named:
                raise denied(_USER_GROUPS, privileges)
            for name in named:
                if name not in mine:
                    raise denied(f"{_USER_GROUPS}/{name}", privileges)
        if existing and userid not in self.rights.members_of(mine):
            raise denied()

    def _filled(self, template: str) -> str:
        path = _PLACEHOLDER.sub(lambda found: str(self.params.get(found[1], "")), template)
        # What cannot be normalised gives nobody anything, and is shown as an empty path.
        return acl_path(path) if _NORMAL_PATH.fullmatch(path) else ""
