"""Proxmox VE as the directory of people, in memory: it holds passwords and rights, and fails once on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import SecretStr

from kubehenge.drivers.proxmox.people import Challenge, Realm, SecondFactor, Ticket, token_user
from kubehenge.errors import RefusedError, TransientError

POOL = "/pool/kubehenge"
LOOKS = {"VM.Audit": True, "Pool.Audit": True}
KEEPS = {**LOOKS, "VM.Allocate": True}
RULES = {**KEEPS, "Sys.Modify": True}


@dataclass(slots=True)
class FakePeople:
    """Who there is, what they may, and what was asked; `down` says that Proxmox VE does not answer."""

    passwords: dict[str, str] = field(default_factory=dict)
    listed: dict[str, dict[str, dict[str, bool]]] = field(default_factory=dict)
    members: dict[str, frozenset[str]] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    disabled: set[str] = field(default_factory=set)
    down: bool = False
    asked: list[str] = field(default_factory=list)

    def realms(self) -> Sequence[Realm]:
        self._answer("realms")
        return (
            Realm(name="corp", kind="ad", comment="company directory", default=True),
            Realm(name="pve", kind="pve", comment="Proxmox VE authentication server", default=False),
            Realm(name="sso", kind="openid", comment="", default=False),
        )

    def sign_in(self, username: str, realm: str, password: SecretStr) -> Ticket | Challenge:
        self._answer("sign_in")
        user = f"{username}@{realm}"
        if self.passwords.get(user) != password.get_secret_value() or user in self.disabled:
            raise RefusedError("Proxmox VE does not accept this user name, realm and password.")
        if user in self.codes:
            return Challenge(
                username=user, factors=frozenset({SecondFactor.TOTP, SecondFactor.WEBAUTHN}), ticket=SecretStr("PVE:!tfa!"), endpoint="pve1"
            )
        return self._ticket(user)

    def answer_challenge(self, challenge: Challenge, factor: SecondFactor, code: str) -> Ticket:
        self._answer("answer_challenge")
        if factor not in challenge.answerable or self.codes.get(challenge.username) != code:
            raise RefusedError("Proxmox VE does not accept this code.")
        return self._ticket(challenge.username)

    def renew(self, ticket: Ticket) -> Ticket:
        self._answer("renew")
        self._known(ticket)
        return self._ticket(ticket.username)

    def permissions(self, ticket: Ticket, path: str) -> frozenset[str]:
        self._answer(f"permissions {path}")
        self._known(ticket)
        return self._on(ticket.username, path)

    def permissions_of_token(self, header: SecretStr, path: str) -> frozenset[str]:
        self._answer(f"permissions {path}")
        return self._on(self._token(header), path)

    def rights(self, ticket: Ticket) -> Mapping[str, Mapping[str, bool]]:
        self._answer("rights")
        self._known(ticket)
        return self.listed.get(ticket.username, {})

    def rights_of_token(self, header: SecretStr) -> Mapping[str, Mapping[str, bool]]:
        self._answer("rights")
        return self.listed.get(self._token(header), {})

    def groups(self, ticket: Ticket) -> frozenset[str]:
        self._answer("groups")
        return self.members.get(ticket.username, frozenset())

    def _ticket(self, user: str) -> Ticket:
        return Ticket(username=user, ticket=SecretStr(f"PVE:{user}"), csrf=SecretStr("csrf"), endpoint="https://pve1:8006")

    def _known(self, ticket: Ticket) -> None:
        if ticket.username in self.disabled:
            raise RefusedError("The sign-in has ended.")

    def _token(self, header: SecretStr) -> str:
        user = (token_user(header) or "").partition("!")[0]
        if self.tokens.get(header.get_secret_value()) != user or not user:
            raise RefusedError("Proxmox VE does not accept this token.")
        return user

    def _on(self, user: str, path: str) -> frozenset[str]:
        listed = self.listed.get(user, {})
        if path in listed:
            return frozenset(listed[path])
        above = path
        while above not in {"", "/"}:
            above = above.rpartition("/")[0] or "/"
            if above in listed:
                return frozenset(privilege for privilege, propagates in listed[above].items() if propagates)
        return frozenset()

    def _answer(self, what: str) -> None:
        if self.down:
            raise TransientError("Proxmox VE does not answer at https://pve1:8006.")
        self.asked.append(what)


def usual_people() -> FakePeople:
    """Maria rules the pool, Tomas looks, Jonas keeps one cluster, Nobody has no rights, Aisha has a second factor."""
    return FakePeople(
        passwords={"maria@corp": "oak", "tomas@corp": "elm", "jonas@corp": "ash", "nobody@pve": "fir", "aisha@corp": "yew"},
        listed={
            "maria@corp": {"/": {}, POOL: RULES},
            "tomas@corp": {"/": {}, POOL: LOOKS},
            "aisha@corp": {"/": {}, POOL: KEEPS},
            "jonas@corp": {"/": {}, f"{POOL}/lab.ml": KEEPS},
            "nobody@pve": {"/": {}},
        },
        codes={"aisha@corp": "012345"},
        tokens={
            "PVEAPIToken=maria@corp!ci=11111111-2222-3333-4444-555555555555": "maria@corp",
            "PVEAPIToken=jonas@corp!ci=11111111-2222-3333-4444-666666666666": "jonas@corp",
        },
    )
