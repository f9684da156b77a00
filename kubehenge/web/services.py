"""What the page is given: its settings, and the services that read, decide and vouch for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

from prometheus_client import REGISTRY, CollectorRegistry
from pydantic import SecretStr
from sqlalchemy.orm import Session

from kubehenge.drivers.proxmox.people import Challenge, Realm, SecondFactor, Ticket
from kubehenge.model.site import ApprovalRules, SiteSettings
from kubehenge.source.webhook import MAX_BODY_BYTES
from kubehenge.store.reads.decision import Answer, AnswerKind, Asked, AskedLine, Mark, Person

__all__ = [
    "Answer",
    "AnswerKind",
    "ApiToken",
    "Asked",
    "AskedLine",
    "Challenge",
    "Credential",
    "Decisions",
    "Mark",
    "People",
    "Person",
    "Realm",
    "SecondFactor",
    "Services",
    "Ticket",
    "WebSettings",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """
    What the page needs to know when it starts; it reads no environment.

    `public_url`: the address as people write it, '' when any will do; forms come from there only. `proxies`: how many reverse
    proxies stand in front and name the visitor's address; 0 trusts no header. `metrics_token`: without it /metrics answers this
    machine only. `loops`: the leases whose age /readyz looks at, none when the loops run elsewhere.
    """

    site: str = "default"
    version: str = ""
    public_url: str = ""
    proxies: int = 0
    metrics_token: SecretStr | None = None
    loops: tuple[str, ...] = ()
    session_lasts: timedelta = timedelta(hours=8)
    """However active it is (ACCEPTANCE 4.2)."""
    rights_last: timedelta = timedelta(seconds=30)
    """How long what Proxmox VE said of someone's rights counts for reading; a change asks anew."""
    ticket_renewed_after: timedelta = timedelta(hours=1)
    """Half the life of a Proxmox VE ticket."""
    tries_per_user: int = 5
    tries_per_address: int = 20
    """More than for one user, since an office may share an address."""
    tries_within: timedelta = timedelta(minutes=5)
    fresh_within: timedelta = timedelta(minutes=2)
    """Without a reading for so long a page says so; four times the slowest bulk reading."""
    form_bytes: int = 64 * 1024
    """No form of ours is longer than a comment."""
    hook_bytes: int = MAX_BODY_BYTES
    """What the judge of a code host's call reads at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    """Someone's own Proxmox VE API token, as it came in the Authorization header: passed on for the check, never stored."""

    header: SecretStr
    token_id: str

    @property
    def username(self) -> str:
        """The user whose token it is; one person under two log-ins counts once (ACCEPTANCE 1.6)."""
        return self.token_id.partition("!")[0]


Credential: TypeAlias = Ticket | ApiToken
"""What vouches for someone to Proxmox VE."""


class People(Protocol):
    """
    Proxmox VE as the directory of people.

    Errors: RefusedError when Proxmox VE does not accept name, password, code, ticket or token; TransientError when it does not answer.
    """

    def realms(self) -> Sequence[Realm]:
        """Return the realms, readable without signing in."""
        ...

    def sign_in(self, username: str, realm: str, password: SecretStr) -> Ticket | Challenge:
        """Sign someone in, or return the challenge of their second factor."""
        ...

    def answer_challenge(self, challenge: Challenge, factor: SecondFactor, code: str) -> Ticket:
        """Answer a challenge."""
        ...

    def renew(self, ticket: Ticket) -> Ticket:
        """Return a ticket that lasts longer."""
        ...

    def permissions(self, ticket: Ticket, path: str) -> frozenset[str]:
        """Return the privileges on one path, asked now."""
        ...

    def permissions_of_token(self, header: SecretStr, path: str) -> frozenset[str]:
        """Return the privileges of an API token on one path, asked now."""
        ...

    def rights(self, ticket: Ticket) -> Mapping[str, Mapping[str, bool]]:
        """Return all rights in one request: path to privilege to whether it propagates."""
        ...

    def rights_of_token(self, header: SecretStr) -> Mapping[str, Mapping[str, bool]]:
        """Return all rights of an API token in one request."""
        ...

    def groups(self, ticket: Ticket) -> frozenset[str]:
        """Return the groups that someone is in, as far as Proxmox VE tells."""
        ...


class Decisions(Protocol):
    """What people decide; each is one short transaction, and is answered, never raised."""

    def approve(self, plan_id: int, digest: str, person: Person, typed_name: str, comment: str) -> Answer:
        """Approve a plan's row, as it was read: CONFLICT when its digest is another by now."""
        ...

    def reject(self, plan_id: int, digest: str, person: Person, comment: str) -> Answer:
        """Reject a plan's row; blocks until withdrawn."""
        ...

    def withdraw(self, plan_id: int, person: Person) -> Answer:
        """Take back one's own word on a plan's row."""
        ...

    def freeze(self, scope: str, person: Person, reason: str, *, duties: bool, hours: float | None) -> Answer:
        """Hold a cluster's plans, or with '' the site's (MODEL 28)."""
        ...

    def thaw(self, freeze_id: int, person: Person) -> Answer:
        """End a freeze."""
        ...

    def accept_rewritten(self, source_id: int, sha: str, person: Person) -> Answer:
        """Accept the new head of a source whose history was rewritten (ACCEPTANCE 1.9)."""
        ...

    def webhook(self, source: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Judge a signed call of a code host, and have the source read soon; lower-case header names."""
        ...

    def nudge(self) -> None:
        """Have sources and the world read now, and planned afresh."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """
    The services behind the page.

    `read` opens a session that only reads. `settings` and `rules` answer with what is in force, the rules with their version.
    """

    read: Callable[[], AbstractContextManager[Session]]
    decisions: Decisions
    people: People
    clock: Callable[[], datetime]
    settings: Callable[[], SiteSettings] = SiteSettings
    rules: Callable[[], tuple[ApprovalRules, int]] = lambda: (ApprovalRules(), 0)
    registry: CollectorRegistry = field(default_factory=lambda: REGISTRY)
