"""The calls for users, their tokens and groups: /access/users and /access/groups."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from fakepve import FakePve
from fakepve.routing import split_list

from kubehenge.lab.proxmox.call import ApiCall, Route
from kubehenge.lab.proxmox.checks import check_userid
from kubehenge.lab.proxmox.errors import PveError, bad_parameter, failed, in_lock
from kubehenge.lab.proxmox.rights import Group, Rights, Token, User
from kubehenge.lab.proxmox.signin import SignIn

_PROFILE = ("comment", "email", "firstname", "keys", "lastname")
REALMS = (
    {"realm": "pam", "type": "pam", "comment": "Linux PAM standard authentication"},
    {"realm": "pve", "type": "pve", "comment": "Proxmox VE authentication server"},
)


class UserCalls(FakePve):
    """Mixin of the server: who is there, kept in `rights` and `signin`."""

    rights: Rights
    signin: SignIn

    def _calls_users(self) -> list[Route]:
        user, token, group = "/access/users/{userid}", "/access/users/{userid}/token", "/access/groups"
        return [
            ("GET", "/access/users", self._users),
            ("POST", "/access/users", self._user_create),
            ("GET", user, self._user_get),
            ("PUT", user, self._user_update),
            ("DELETE", user, self._user_delete),
            ("GET", token, self._tokens),
            ("GET", token + "/{tokenid}", self._token_get),
            ("POST", token + "/{tokenid}", self._token_create),
            ("PUT", token + "/{tokenid}", self._token_update),
            ("DELETE", token + "/{tokenid}", self._token_delete),
            ("GET", group, self._groups),
            ("POST", group, self._group_create),
            ("GET", group + "/{groupid}", self._group_get),
            ("PUT", group + "/{groupid}", self._group_update),
            ("DELETE", group + "/{groupid}", self._group_delete),
        ]

    @contextmanager
    def user_cfg(self, prefix: str) -> Iterator[None]:
        """Write the user configuration: with quorum only, and refusals get the call's prefix."""
        if not self.has_quorum():
            raise failed(f"{prefix}: cfs-lock 'file-user_cfg' error: no quorum!")
        try:
            yield
        except PveError as exc:
            raise in_lock(prefix, exc) from exc
        self.rights.changed()

    # ---- users

    def get_user(self, userid: str) -> User:
        if userid not in self.rights.users:
            raise failed(f"no such user ('{userid}')")
        return self.rights.users[userid]

    async def _users(self, call: ApiCall) -> Any:
        rights = self.rights
        everybody = rights.has_any(call.auth, "/access/groups", ("User.Modify", "Sys.Audit"))
        seen = (
            set(rights.users) if everybody else rights.members_of(rights.groups_with(call.auth, ("User.Modify", "Sys.Audit"))) | {call.auth}
        )
        memberships: dict[str, list[str]] = {}
        for name in sorted(rights.groups):
            for member in rights.groups[name].members:
                memberships.setdefault(member, []).append(name)
        out = []
        for userid, user in sorted(rights.users.items()):
            if userid not in seen or (call.get("enabled") is not None and bool(call["enabled"]) != user.enable):
                continue
            entry = {"userid": userid, "realm-type": userid.rpartition("@")[2], **_user_view(user)}
            if call.get("full"):
                tokens = [{"tokenid": name, **_token_view(token)} for name, token in user.tokens.items()]
                entry |= {"groups": ",".join(memberships.get(userid, ())), "tokens": tokens or None}
            out.append(entry)
        return out

    async def _user_get(self, call: ApiCall) -> Any:
        user = self.get_user(call["userid"])
        tokens = {name: _token_view(token) for name, token in user.tokens.items()}
        return {**_user_view(user), "groups": self.rights.groups_of(call["userid"]), "tokens": tokens or None}

    async def _user_create(self, call: ApiCall) -> Any:
        userid = call["userid"]
        _, realm = check_userid(userid)
        with self.user_cfg("create user failed"):
            if realm not in {known["realm"] for known in REALMS}:
                raise failed(f"domain '{realm}' does not exist")
            if userid in self.rights.users:
                raise failed(f"user '{userid}' already exists")
            self._join_groups(userid, split_list(call.get("groups")))
            user = User(enable=bool(call.get("enable", 1)), expire=int(call.get("expire", 0)))
            user.profile = {name: call[name] for name in _PROFILE if call.get(name) is not None}
            self.rights.users[userid] = user
        if call.get("password"):
            self.signin.set_password(userid, call["password"])

    def _join_groups(self, userid: str, names: Iterable[str]) -> None:
        names = list(names)
        for name in names:
            if name not in self.rights.groups:
                raise failed(f"no such group '{name}'")
        for name in names:
            self.rights.groups[name].members.add(userid)

    async def _user_update(self, call: ApiCall) -> Any:
        userid = call["userid"]
        with self.user_cfg("update user failed"):
            user = self.get_user(userid)
            if call.get("groups") is not None:
                names = split_list(call["groups"])
                self._join_groups(userid, names)
                if not call.get("append"):
                    for name, group in self.rights.groups.items():
                        if name not in names:
                            group.members.discard(userid)
            if call.get("enable") is not None:
                user.enable = bool(call["enable"])
            if call.get("expire") is not None:
                user.expire = int(call["expire"])
            for name in _PROFILE:
                if call.get(name) is not None:
                    user.profile[name] = call[name]

    async def _user_delete(self, call: ApiCall) -> Any:
        userid = call["userid"]
        self.get_user(userid)
        with self.user_cfg("delete user failed"):
            self.rights.delete_user(userid)
        self.signin.forget(userid)

    # ---- tokens

    def _token(self, userid: str, name: str) -> Token:
        user = self.get_user(userid)
        if name not in user.tokens:
            raise failed(f"no such token '{name}' for user '{userid}'")
        return user.tokens[name]

    async def _tokens(self, call: ApiCall) -> Any:
        return [{"tokenid": name, **_token_view(token)} for name, token in self.get_user(call["userid"]).tokens.items()]

    async def _token_get(self, call: ApiCall) -> Any:
        return _token_view(self._token(call["userid"], call["tokenid"]))

    async def _token_create(self, call: ApiCall) -> Any:
        userid, name = call["userid"], call["tokenid"]
        user = self.get_user(userid)
        if name in user.tokens:
            raise bad_parameter({"tokenid": "Token already exists."})
        with self.user_cfg("generating token failed"):
            token = Token(
                value=_secret(), privsep=bool(call.get("privsep", 1)), expire=int(call.get("expire", 0)), comment=call.get("comment")
            )
            user.tokens[name] = token
        # What was given comes back as text, as it was sent.
        info = {key: str(call[key]) for key in ("privsep", "expire", "comment") if call.get(key) is not None}
        return {"full-tokenid": f"{userid}!{name}", "info": {"privsep": 1, **info}, "value": token.value}

    async def _token_update(self, call: ApiCall) -> Any:
        token = self._token(call["userid"], call["tokenid"])
        answer: dict[str, Any] = {}
        with self.user_cfg("updating token failed"):
            if call.get("privsep") is not None:
                token.privsep = bool(call["privsep"])
            if call.get("expire") is not None:
                token.expire = int(call["expire"])
            if call.get("comment") is not None:
                token.comment = call["comment"]
            if call.get("regenerate"):
                token.value = _secret()
                answer = {"full-tokenid": f"{call['userid']}!{call['tokenid']}", "value": token.value}
        return {**_token_view(token), **answer}

    async def _token_delete(self, call: ApiCall) -> Any:
        self._token(call["userid"], call["tokenid"])
        with self.user_cfg("deleting token failed"):
            self.rights.delete_token(call["userid"], call["tokenid"])

    # ---- groups

    async def _groups(self, call: ApiCall) -> Any:
        seen = self.rights.groups_with(call.auth, ("User.Modify", "Sys.Audit", "Group.Allocate"))
        out = []
        for name in sorted(seen):
            group = self.rights.groups[name]
            comment = {"comment": group.comment} if group.comment else {}
            out.append({"groupid": name, "users": ",".join(sorted(group.members)), **comment})
        return out

    def _group(self, name: str) -> Group:
        if name not in self.rights.groups:
            raise failed(f"group '{name}' does not exist")
        return self.rights.groups[name]

    async def _group_get(self, call: ApiCall) -> Any:
        group = self._group(call["groupid"])
        return {"members": sorted(group.members), **({"comment": group.comment} if group.comment else {})}

    async def _group_create(self, call: ApiCall) -> Any:
        with self.user_cfg("create group failed"):
            if call["groupid"] in self.rights.groups:
                raise failed(f"group '{call['groupid']}' already exists")
            self.rights.groups[call["groupid"]] = Group(comment=call.get("comment"))

    async def _group_update(self, call: ApiCall) -> Any:
        with self.user_cfg("update group failed"):
            self._group(call["groupid"]).comment = call.get("comment")

    async def _group_delete(self, call: ApiCall) -> Any:
        with self.user_cfg("delete group failed"):
            self._group(call["groupid"])
            self.rights.delete_group(call["groupid"])


def _user_view(user: User) -> dict[str, Any]:
    return {"enable": int(user.enable), "expire": user.expire, "email": "", **user.profile}


def _token_view(token: Token) -> dict[str, Any]:
    comment = {"comment": token.comment} if token.comment else {}
    return {"privsep": int(token.privsep), "expire": token.expire, **comment}


def _secret() -> str:
    return str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))
