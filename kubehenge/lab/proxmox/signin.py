"""Who asks: passwords, tickets with their CSRF tokens, and API tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from typing import Any

from kubehenge.lab.proxmox.rights import ROOT, Rights

TICKET_S = 7200  # a ticket and its CSRF token live two hours
_SCRYPT = {"n": 2**10, "r": 8, "p": 1}  # a lab's passwords are generated: length protects them


class SignIn:
    """
    Passwords and tickets of the users in `rights`.

    Shape: tickets are signed, not kept, so they stay good when the lab is started again. Their age is in real seconds.
    """

    def __init__(self, rights: Rights) -> None:
        self.rights = rights
        self._key = secrets.token_bytes(32)
        self._passwords: dict[str, str] = {}

    def set_password(self, userid: str, password: str) -> None:
        """Keep a user's password, salted and hashed."""
        salt = secrets.token_bytes(16)
        self._passwords[userid] = f"{salt.hex()}${_hash(password, salt)}"

    def forget(self, userid: str) -> None:
        """Drop a user's password."""
        self._passwords.pop(userid, None)

    def check_password(self, userid: str, password: str) -> bool:
        """Whether an enabled user has this password, or gives a valid ticket (its own, or root's) in its place."""
        if not self.is_active(userid):
            return False
        if password.startswith("PVE:"):
            return self.ticket_user(password) in {userid, ROOT}
        salt, _, known = self._passwords.get(userid, "").partition("$")
        return bool(known) and hmac.compare_digest(_hash(password, bytes.fromhex(salt)), known)

    def is_active(self, userid: str) -> bool:
        """Whether a user is there, enabled and not expired."""
        user = self.rights.users.get(userid)
        return user is not None and user.enable and not 0 < user.expire <= time.time()

    def issue_ticket(self, userid: str) -> str:
        """A ticket for a user, from now on."""
        text = f"PVE:{userid}:{int(time.time()):08X}"
        return f"{text}::{self._sign(text)}"

    def ticket_user(self, ticket: str) -> str | None:
        """The active user whom a ticket names, None when it is not valid (any more)."""
        text, separator, signature = ticket.partition("::")
        if not separator or not hmac.compare_digest(signature.encode(), self._sign(text).encode()):
            return None
        _, userid, stamp = text.split(":")
        return userid if _is_fresh(stamp) and self.is_active(userid) else None

    def csrf_token(self, userid: str) -> str:
        """The token that a user's writing calls must carry beside the ticket."""
        stamp = f"{int(time.time()):08X}"
        return f"{stamp}:{self._sign(f'csrf:{stamp}:{userid}')}"

    def check_csrf(self, userid: str, token: str) -> bool:
        """Whether a CSRF token is this user's and not too old."""
        stamp, _, signature = token.partition(":")
        expected = self._sign(f"csrf:{stamp}:{userid}")
        return _is_fresh(stamp) and hmac.compare_digest(signature.encode(), expected.encode())

    def token_user(self, header: str) -> str | None:
        """The auth id of an `Authorization: PVEAPIToken=user!token=value` header, None when it opens nothing."""
        full, _, value = header.removeprefix("PVEAPIToken=").partition("=")
        userid, _, name = full.partition("!")
        user = self.rights.users.get(userid)
        token = user.tokens.get(name) if user else None
        if token is None or not self.is_active(userid) or 0 < token.expire <= time.time():
            return None
        return full if hmac.compare_digest(token.value.encode(), value.encode()) else None

    def end_all_sessions(self) -> None:
        """Make every ticket invalid."""
        self._key = secrets.token_bytes(32)

    def to_json(self) -> dict[str, Any]:
        """The whole state; secrets are in it."""
        return {"key": self._key.hex(), "passwords": dict(self._passwords)}

    def load_json(self, state: Mapping[str, Any]) -> None:
        """Replace the whole state."""
        self._key = bytes.fromhex(state["key"])
        self._passwords = dict(state["passwords"])

    def _sign(self, text: str) -> str:
        return base64.b64encode(hmac.new(self._key, text.encode(), hashlib.sha256).digest()).decode()


def _hash(password: str, salt: bytes) -> str:
    return hashlib.scrypt(password.encode(), salt=salt, **_SCRYPT).hex()


def _is_fresh(stamp: str) -> bool:
    try:
        age_s = time.time() - int(stamp, 16)
    except ValueError:
        return False
    return -300 < age_s < TICKET_S
