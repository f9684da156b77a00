"""Who is asking: the session or the API token, what they may see, and the check that every route must name."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar, assert_never, cast

from flask import Flask, Request, abort, current_app, g, redirect, request, session, url_for
from flask.typing import ResponseReturnValue
from flask_wtf.csrf import CSRFProtect
from pydantic import SecretStr
from sqlalchemy.orm import Session

from kubehenge.drivers.proxmox.people import token_user
from kubehenge.errors import InvariantError, RefusedError
from kubehenge.model.site import ApprovalRules, SiteSettings
from kubehenge.store.reads.decision import Asked, Person
from kubehenge.store.reads.plans import PlanLine
from kubehenge.store.reads.site import SiteView, find_site
from kubehenge.store.reads.visible import Visible
from kubehenge.web.asking import asked_of
from kubehenge.web.permissions import Act, Needed, Rights, needed, telling
from kubehenge.web.security import check_change
from kubehenge.web.services import ApiToken, Credential, Services, Ticket, WebSettings
from kubehenge.web.sessions import MemorySessions, SignedIn, WebSession

LONGEST_HEADER = 512
View = TypeVar("View", bound=Callable[..., Any])


class Check(StrEnum):
    """What a route asks before it answers."""

    PUBLIC = "nothing: it shows nothing of the site"
    SIGNED_IN = "someone who signed in"
    API = "someone who signed in, or their API token"
    SIGNATURE = "the signature of a code host"
    BEARER = "the bearer token of the settings, or this machine"


def _marking(check: Check) -> Callable[[View], View]:
    def mark(view: View) -> View:
        cast("Any", view).check = check
        return view

    return mark


public = _marking(Check.PUBLIC)
signed_in = _marking(Check.SIGNED_IN)
api_caller = _marking(Check.API)
signature = _marking(Check.SIGNATURE)
bearer = _marking(Check.BEARER)


def check_of(app: Flask, endpoint: str) -> Check | None:
    """Return the check that a route names, None when it names none."""
    if endpoint == "static":
        return Check.PUBLIC
    return getattr(app.view_functions[endpoint], "check", None)


class SignInNeeded(Exception):  # noqa: N818 - it is no error
    """Someone asked for a page without a session, or with one that has ended."""


class PrivilegeMissing(Exception):  # noqa: N818
    """Someone may see a thing but not do this to it; the text names privilege and path."""


@dataclass
class Caller:
    """
    Someone whose request is being answered.

    `rights` are what Proxmox VE said at most 30 seconds ago; they decide what is seen. `person` asks anew, for changes.
    """

    credential: Credential
    groups: frozenset[str]
    rights: Rights
    services: Services
    settings: WebSettings
    signed_in: SignedIn | None = None
    _asked: dict[int, Asked] = field(default_factory=dict)

    @property
    def database(self) -> Session:
        """One view of the database for the whole request, opened when it is first used."""
        return open_reading(self.services)

    def release(self) -> None:
        """Close that view: none stays open across a call outward or a write."""
        close_reading()

    @property
    def userid(self) -> str:
        """Proxmox VE's `name@realm`."""
        return self.credential.username

    @cached_property
    def site_settings(self) -> SiteSettings:
        """The site's settings, looked up once a request."""
        return self.services.settings()

    @cached_property
    def rules(self) -> tuple[ApprovalRules, int]:
        """The approval rules with their version, looked up once a request."""
        return self.services.rules()

    @property
    def workload_pool(self) -> str:
        """The pool that all clusters' pools lie below."""
        return self.site_settings.workload_pool

    @cached_property
    def visible(self) -> Visible:
        """Which clusters they see."""
        return self.rights.visible(self.workload_pool)

    @cached_property
    def site(self) -> SiteView:
        """The site that this page shows."""
        found = find_site(self.database, self.settings.site)
        if found is None:
            raise InvariantError(f"the database holds no site {self.settings.site}")
        return found

    @property
    def person(self) -> Person:
        """The same person for the engine; their privileges are asked of Proxmox VE when it looks."""
        return Person(userid=self.userid, name=self.userid, groups=self.groups, privileges=self.privileges_now)

    def privileges_now(self, path: str) -> frozenset[str]:
        """Ask Proxmox VE for the privileges on a path."""
        match self.credential:
            case ApiToken(header=header):
                return self.services.people.permissions_of_token(header, path)
            case Ticket():
                return self.services.people.permissions(self.credential, path)
            case _:
                assert_never(self.credential)

    def may(self, act: Act, on: str = "") -> bool:
        """Tell whether they hold what an act needs, as far as is known."""
        return self.rights.hold(needed(act, self.workload_pool, on))

    def require(self, what: Needed) -> None:
        """Ask Proxmox VE now whether they hold a privilege; refuses with words when they do not."""
        self.release()
        held = self.privileges_now(what.path)
        if what.privilege not in held:
            raise PrivilegeMissing(f"This needs {what}; you hold {telling(held)} there.")

    def asked(self, plans: list[PlanLine]) -> Mapping[int, Asked]:
        """Return what the rules ask of plans and of this person; looked up once a request."""
        missing = [plan for plan in plans if plan.id not in self._asked]
        if missing:
            self._asked.update(
                asked_of(
                    self.database,
                    missing,
                    userid=self.userid,
                    groups=self.groups,
                    rights=self.rights,
                    workload_pool=self.workload_pool,
                    rules=self.rules,
                    now=self.services.clock(),
                )
            )
        return self._asked


def caller() -> Caller:
    """Return who is asking; only routes that are not public may."""
    found: Caller | None = g.get("caller")
    if found is None:
        raise InvariantError(f"{request.endpoint} is public and asks for its caller")
    return found


class Gate:
    """The check before each request."""

    def __init__(self, services: Services, settings: WebSettings, sessions: MemorySessions, csrf: CSRFProtect) -> None:
        self.services = services
        self.settings = settings
        self.sessions = sessions
        self.csrf = csrf

    def set_up(self, app: Flask) -> None:
        """Check every request from now on, and close what it opened."""
        app.before_request(self.check)
        app.teardown_request(close_reading)

    def check(self) -> ResponseReturnValue | None:
        """Let a request pass whose route's check holds."""
        if request.endpoint is None:  # there is no such address, which only someone who signed in is told
            g.caller = self._by_session()
            return None
        match check_of(current_app, request.endpoint):
            case None:
                raise InvariantError(f"the route {request.endpoint} names no check")
            case Check.PUBLIC:
                check_change(self.csrf, self.settings)
            case Check.SIGNATURE:
                pass  # judged by the service over the raw body
            case Check.BEARER:
                _check_bearer(request, self.settings.metrics_token)
            case Check.API if "Authorization" in request.headers:
                g.caller = self._by_token(request.headers["Authorization"])
            case Check.API | Check.SIGNED_IN:
                g.caller = self._by_session()
                check_change(self.csrf, self.settings)
        return None

    def _by_token(self, header: str) -> Caller:
        secret = SecretStr(header)
        token_id = token_user(secret) if len(header) <= LONGEST_HEADER else None
        if token_id is None:
            abort(401)
        try:
            rights = Rights(listed=self.services.people.rights_of_token(secret))
        except RefusedError:
            abort(401)
        return self._caller(ApiToken(header=secret, token_id=token_id), frozenset(), rights, None)

    def _by_session(self) -> Caller:
        kept = cast("WebSession", session)
        person = kept.person
        if person is None:
            raise SignInNeeded
        try:
            rights = self._fresh_rights(person)
        except RefusedError as error:  # Proxmox VE does not know the ticket any more: disabled, deleted, or its key has changed
            self.sessions.end(kept)
            raise SignInNeeded from error
        return self._caller(person.ticket, person.groups, rights, person)

    def _fresh_rights(self, person: SignedIn) -> Rights:
        now = self.services.clock()
        with person.lock:
            if now - person.ticket_at >= self.settings.ticket_renewed_after:
                person.ticket, person.ticket_at = self.services.people.renew(person.ticket), now
            if person.rights is None or person.rights_at is None or now - person.rights_at >= self.settings.rights_last:
                person.rights, person.rights_at = Rights(listed=self.services.people.rights(person.ticket)), now
            return person.rights

    def _caller(self, credential: Credential, groups: frozenset[str], rights: Rights, person: SignedIn | None) -> Caller:
        return Caller(
            credential=credential,
            groups=groups,
            rights=rights,
            services=self.services,
            settings=self.settings,
            signed_in=person,
        )


def open_reading(services: Services) -> Session:
    """Open one view of the database for the whole request; it is closed when the request ends."""
    if "reading" not in g:
        g.reading_context = services.read()
        g.reading = g.reading_context.__enter__()
    found: Session = g.reading
    return found


def close_reading(error: BaseException | None = None) -> None:  # noqa: ARG001 - Flask's signature
    """Close the view that this request opened, if it did."""
    context = g.pop("reading_context", None)
    g.pop("reading", None)
    if context is not None:
        context.__exit__(None, None, None)


def _check_bearer(asked: Request, token: SecretStr | None) -> None:
    given = asked.headers.get("Authorization", "").removeprefix("Bearer ")
    if token is not None:
        if not hmac.compare_digest(given.encode(), token.get_secret_value().encode()):
            abort(401)
    elif asked.remote_addr not in {"127.0.0.1", "::1"} or "X-Forwarded-For" in asked.headers:
        abort(404)


def to_sign_in() -> ResponseReturnValue:
    """Lead someone without a session to the sign-in, and back afterwards to a page that they asked for."""
    wanted = request.full_path.rstrip("?") if request.method == "GET" and not request.path.startswith("/fragments/") else ""
    return redirect(url_for("sign_in.form", next=wanted) if wanted not in {"", "/"} else url_for("sign_in.form"), code=303)
