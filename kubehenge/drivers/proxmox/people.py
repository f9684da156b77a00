"""
People: signing in with Proxmox VE's realms, and what someone may do (facts: 2 Sign-in; reference kubehenge-architecture, Interface).

Nothing is kept here: the ticket belongs to whoever asked for it. Limits on failed sign-ins are the caller's, since Proxmox VE has
none for passwords.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

from pydantic import SecretStr

from kubehenge.drivers.politeness import Limits, Politeness
from kubehenge.drivers.proxmox.client import ProxmoxClient, checked_endpoints
from kubehenge.drivers.proxmox.connections import TimeLimits
from kubehenge.drivers.proxmox.errors import NotSignedInError
from kubehenge.errors import RefusedError, TransientError, UncertainError

LONGEST_USER = 64
TICKET_LIFE_S = 7200
"""A ticket lives two hours; it is renewed before, and has no end of its own: the session sets one."""

_PEOPLE_LIMITS = TimeLimits(connect_s=4.0, read_s=10.0, change_s=15.0)
_PATIENCE_S = 3.0
"""Somebody sits and waits for the answer."""

_TOKEN_HEADER = re.compile(r"PVEAPIToken=(?P<id>[^@!=\s]+@[^@!=\s]+![A-Za-z][A-Za-z0-9._-]+)=(?P<secret>[0-9A-Za-z-]+)")
_CHALLENGE = re.compile(r"PVE:!tfa!(?P<challenge>[^:]+):")


class SecondFactor(StrEnum):
    """A second factor as Proxmox VE names it."""

    TOTP = "totp"
    RECOVERY = "recovery"
    YUBICO = "yubico"
    WEBAUTHN = "webauthn"
    U2F = "u2f"


ANSWERABLE = frozenset({SecondFactor.TOTP, SecondFactor.RECOVERY, SecondFactor.YUBICO})
"""Factors that are a code to type. A security key is bound to Proxmox VE's own address, and cannot be used from another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Realm:
    """A realm that one may sign in to; `kind` is pam, pve, ldap, ad or openid."""

    name: str
    kind: str
    comment: str
    default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A sign-in: `username` with its realm, and the node that it was made at."""

    username: str
    ticket: SecretStr
    csrf: SecretStr
    endpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """A password was right and a second factor is asked for. This is no sign-in: it opens nothing (ACCEPTANCE 4.3)."""

    username: str
    factors: frozenset[SecondFactor]
    ticket: SecretStr
    endpoint: str

    @property
    def answerable(self) -> frozenset[SecondFactor]:
        """The factors that can be answered here."""
        return self.factors & ANSWERABLE


class SignIn:
    """Sign-ins at one Proxmox VE cluster; each keeps to the node it began at."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        ca_file: str | None,
        limits: TimeLimits = _PEOPLE_LIMITS,
        politeness: Politeness | None = None,
    ) -> None:
        self._endpoints = checked_endpoints(endpoints)
        self._ca_file = ca_file
        self._limits = limits
        self._politeness = politeness or Politeness("Proxmox VE", Limits(requests_per_s=50, burst=50))

    def realms(self) -> tuple[Realm, ...]:
        """Return the realms, the default one first; readable without a sign-in."""
        with self._client() as client:
            rows = client.get("/access/domains")
            self._prefer(client.endpoint)
        realms = (
            Realm(name=row["realm"], kind=row.get("type", ""), comment=row.get("comment", ""), default=bool(row.get("default")))
            for row in rows
        )
        return tuple(sorted(realms, key=lambda realm: (not realm.default, realm.name)))

    def sign_in(self, username: str, realm: str, password: SecretStr) -> Ticket | Challenge:
        """
        Sign in with a password.

        Errors: RefusedError when it is not accepted, in one sentence for all reasons; TransientError when no node answers.
        """
        user = f"{username.strip()}@{realm}"
        plain = password.get_secret_value()
        # A ticket is taken for a password too, one of root@pam even for anybody's: only what people type is passed on.
        if not username.strip() or not plain or len(user) > LONGEST_USER or plain.startswith("PVE:") or re.search(r"[\s:/]", user):
            raise _not_accepted()
        with self._client(secrets=(password,)) as client:
            answer = self._ticket(client, username=user, password=plain)
            self._prefer(client.endpoint)
            return _ticket_or_challenge(answer, client.endpoint)

    def answer_challenge(self, challenge: Challenge, factor: SecondFactor, code: str) -> Ticket:
        """
        Answer a second factor with a code as it was typed; codes are text, leading zeros and all.

        Errors: RefusedError when it is wrong, or for a factor that is no code; the same challenge may be tried again.
        """
        if factor not in challenge.answerable:
            raise RefusedError("This second factor cannot be used here: use a code, or sign in to Proxmox VE itself.")
        typed = SecretStr(code.strip())
        if not typed.get_secret_value():
            raise RefusedError("The code of the second factor is missing.")
        with self._client(only=challenge.endpoint, secrets=(challenge.ticket, typed)) as client:
            try:
                answer = self._ticket(
                    client,
                    username=challenge.username,
                    tfa_challenge=challenge.ticket.get_secret_value(),
                    password=f"{factor}:{typed.get_secret_value()}",
                )
            except RefusedError:
                raise RefusedError("Proxmox VE does not accept this code. Type the newest one, or sign in again.") from None
        signed_in = _ticket_or_challenge(answer, challenge.endpoint)
        if isinstance(signed_in, Challenge):
            raise RefusedError("Proxmox VE asks for the second factor again. Sign in again.")
        return signed_in

    def renew(self, ticket: Ticket) -> Ticket:
        """Return a new ticket for an old one, without password or second factor; RefusedError when the user is gone or disabled."""
        with self._client(first=ticket.endpoint, secrets=(ticket.ticket,)) as client:
            try:
                answer = self._ticket(client, username=ticket.username, password=ticket.ticket.get_secret_value())
            except RefusedError:
                raise NotSignedInError(f"The sign-in of {ticket.username} has ended. Sign in again.", "authentication failure") from None
        renewed = _ticket_or_challenge(answer, ticket.endpoint)
        if isinstance(renewed, Challenge):
            raise NotSignedInError(f"The sign-in of {ticket.username} has ended. Sign in again.", "second factor")
        return renewed

    def permissions(self, ticket: Ticket, path: str) -> frozenset[str]:
        """Return the privileges of whoever holds the ticket on exactly one path; NotSignedInError when the sign-in has ended."""
        with self._as(ticket) as client:
            return _privileges(client.get("/access/permissions", path=path), path)

    def permissions_of_token(self, header: SecretStr, path: str) -> frozenset[str]:
        """Return the privileges of an API token on one path; `header` is the Authorization header as it came."""
        with self._as_token(header) as client:
            return _privileges(client.get("/access/permissions", path=path), path)

    def rights(self, ticket: Ticket) -> Mapping[str, Mapping[str, bool]]:
        """Return all rights of whoever holds the ticket, in one request: path to privilege to whether it propagates."""
        with self._as(ticket) as client:
            return _rights(client.get("/access/permissions"))

    def rights_of_token(self, header: SecretStr) -> Mapping[str, Mapping[str, bool]]:
        """Return all rights of an API token, as `rights` does."""
        with self._as_token(header) as client:
            return _rights(client.get("/access/permissions"))

    def groups(self, ticket: Ticket) -> frozenset[str]:
        """Return the groups that someone is in, as far as their own rights show them; none where they show nothing."""
        with self._as(ticket) as client:
            rows = client.get("/access/groups")
        return frozenset(row["groupid"] for row in rows if ticket.username in str(row.get("users", "")).split(","))

    def _as(self, ticket: Ticket) -> ProxmoxClient:
        cookie = SecretStr(f"PVEAuthCookie={ticket.ticket.get_secret_value()}")
        return self._client(first=ticket.endpoint, headers={"Cookie": cookie}, secrets=(ticket.ticket,))

    def _as_token(self, header: SecretStr) -> ProxmoxClient:
        parts = _TOKEN_HEADER.fullmatch(header.get_secret_value())
        if parts is None:
            raise NotSignedInError("The Authorization header is none of an API token: PVEAPIToken=USER@REALM!NAME=SECRET.", "no token")
        return self._client(headers={"Authorization": header}, secrets=(SecretStr(parts["secret"]),))

    def _ticket(self, client: ProxmoxClient, **params: Any) -> Mapping[str, Any]:
        try:
            answer = client.post("/access/ticket", **params)
        except NotSignedInError:
            raise _not_accepted() from None
        except UncertainError:
            raise TransientError(f"{client.endpoint} did not answer the sign-in. Try again.") from None
        if not isinstance(answer, dict) or not answer.get("ticket"):
            raise TransientError(f"{client.endpoint} answered the sign-in with something unknown. Try again.")
        return answer

    def _client(
        self,
        *,
        first: str = "",
        only: str = "",
        headers: Mapping[str, SecretStr] | None = None,
        secrets: Sequence[SecretStr] = (),
    ) -> ProxmoxClient:
        order = (only,) if only else tuple(sorted(self._endpoints, key=lambda endpoint: endpoint != first))
        return ProxmoxClient(
            order,
            ca_file=self._ca_file,
            headers=headers or {},
            secrets=secrets,
            limits=self._limits,
            politeness=self._politeness,
            patience_s=_PATIENCE_S,
        )

    def _prefer(self, endpoint: str) -> None:
        """Begin with the endpoint that answered last, so that a dead one costs its time once."""
        self._endpoints = tuple(sorted(self._endpoints, key=lambda known: known != endpoint))


def token_user(header: SecretStr) -> str | None:
    """Return `user@realm!name` out of an Authorization header, None when it is none; it says nothing until Proxmox VE accepted it."""
    parts = _TOKEN_HEADER.fullmatch(header.get_secret_value())
    return parts["id"] if parts else None


def _not_accepted() -> NotSignedInError:
    return NotSignedInError("Proxmox VE does not accept this user name, realm and password.", "authentication failure")


def _privileges(answer: Any, path: str) -> frozenset[str]:
    return frozenset(answer.get(path) or ()) if isinstance(answer, dict) else frozenset()


def _rights(answer: Any) -> Mapping[str, Mapping[str, bool]]:
    if not isinstance(answer, dict):
        return {}
    return {path: {name: bool(propagates) for name, propagates in held.items()} for path, held in answer.items()}


def _ticket_or_challenge(answer: Mapping[str, Any], endpoint: str) -> Ticket | Challenge:
    username, ticket = str(answer["username"]), SecretStr(str(answer["ticket"]))
    if answer.get("NeedTFA") or _CHALLENGE.match(ticket.get_secret_value()):
        return Challenge(username=username, factors=_factors(ticket), ticket=ticket, endpoint=endpoint)
    return Ticket(username=username, ticket=ticket, csrf=SecretStr(str(answer["CSRFPreventionToken"])), endpoint=endpoint)


def _factors(ticket: SecretStr) -> frozenset[SecondFactor]:
    """Read which factors a challenge offers, out of the JSON inside it."""
    found = _CHALLENGE.match(ticket.get_secret_value())
    try:
        offered = json.loads(unquote(found["challenge"])) if found else {}
    except ValueError:
        offered = {}
    return frozenset(factor for factor in SecondFactor if isinstance(offered, dict) and offered.get(factor))
