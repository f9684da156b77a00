"""
Sessions in the memory of this process, and nowhere else (ACCEPTANCE 4.2).

The browser holds a random id in a `__Host-` cookie. A session ends at a fixed time however active it is. A visitor who has not
signed in has an id too, so that the sign-in form carries a token, but takes no memory: the token is computed from the id.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from flask import Flask, Request, Response
from flask.sessions import SessionInterface, SessionMixin

from kubehenge.web.permissions import Rights
from kubehenge.web.services import Challenge, Ticket

COOKIE = "__Host-kubehenge"
CSRF = "csrf_token"
MOST_SESSIONS = 10_000
CHALLENGE_LASTS = timedelta(minutes=5)


@dataclass(slots=True)
class SignedIn:
    """Someone who signed in: the ticket, when it was got, what Proxmox VE said of their rights and when, and when it all ends."""

    ticket: Ticket
    ticket_at: datetime
    began_at: datetime
    ends_at: datetime
    groups: frozenset[str] = frozenset()
    rights: Rights | None = None
    rights_at: datetime | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenged:
    """Someone whose password was accepted and whose second factor is asked for; opens nothing."""

    challenge: Challenge
    until: datetime


class WebSession(dict[str, Any], SessionMixin):
    """What Flask and Flask-WTF keep of a visitor; `person` is None before the sign-in."""

    def __init__(self, key: str, csrf: str, *, new: bool) -> None:
        super().__init__({CSRF: csrf})
        self.key = key
        self.new = new
        self.person: SignedIn | None = None
        self.challenged: Challenged | None = None
        self.ended = False
        self.wanted = False
        self.successor: WebSession | None = None


class MemorySessions(SessionInterface):
    """The sessions of one process."""

    def __init__(self, clock: Callable[[], datetime], lasts: timedelta) -> None:
        self._clock = clock
        self._lasts = lasts
        self._secret = secrets.token_bytes(32)
        self._kept: dict[str, WebSession] = {}
        self._lock = threading.Lock()

    def open_session(self, app: Flask, request: Request) -> WebSession:  # noqa: ARG002 - Flask's signature
        """Return the session that a request's cookie names, or a new one without a person."""
        key = request.cookies.get(COOKIE, "")
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and self._is_over(kept):
                del self._kept[key]
                kept = None
        if kept is not None:
            return kept
        new = len(key) != 43  # what token_urlsafe(32) makes; an id of our form may be one of before the last start
        key = secrets.token_urlsafe(32) if new else key
        return WebSession(key, self._csrf(key), new=new)

    def save_session(self, app: Flask, session: SessionMixin, response: Response) -> None:  # noqa: ARG002
        """Hand out the cookie where a visitor needs one, and take it back at the end."""
        if not isinstance(session, WebSession):
            return
        session = session.successor or session
        if session.ended:
            response.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="Strict")
        elif session.new and session.wanted:
            response.set_cookie(COOKIE, session.key, max_age=self._lasts, path="/", secure=True, httponly=True, samesite="Strict")
            session.new = False

    def begin(self, old: WebSession, ticket: Ticket, groups: frozenset[str]) -> WebSession:
        """Begin the session of someone who signed in, under an id that was not known before."""
        now = self._clock()
        begun = self._fresh()
        begun.person = SignedIn(ticket=ticket, ticket_at=now, began_at=now, ends_at=now + self._lasts, groups=groups)
        self.end(old)
        old.successor = begun
        self._keep(begun)
        return begun

    def challenge(self, old: WebSession, challenge: Challenge) -> WebSession:
        """Remember a second factor that is asked for, for a few minutes, under a new id."""
        begun = self._fresh()
        begun.challenged = Challenged(challenge=challenge, until=self._clock() + CHALLENGE_LASTS)
        self.end(old)
        old.successor = begun
        self._keep(begun)
        return begun

    def end(self, session: WebSession) -> None:
        """End a session at once."""
        with self._lock:
            self._kept.pop(session.key, None)
        session.person, session.challenged, session.ended = None, None, True

    def __len__(self) -> int:
        """How many people are signed in, or on their way."""
        return len(self._kept)

    def _fresh(self) -> WebSession:
        key = secrets.token_urlsafe(32)
        session = WebSession(key, self._csrf(key), new=True)
        session.wanted = True
        return session

    def _keep(self, session: WebSession) -> None:
        with self._lock:
            for key in [key for key, kept in self._kept.items() if self._is_over(kept)]:
                del self._kept[key]
            while len(self._kept) >= MOST_SESSIONS:
                del self._kept[next(iter(self._kept))]
            self._kept[session.key] = session

    def _is_over(self, session: WebSession) -> bool:
        now = self._clock()
        if session.person is not None:
            return session.person.ends_at <= now
        return session.challenged is None or session.challenged.until <= now

    def _csrf(self, key: str) -> str:
        return hmac.new(self._secret, key.encode(), hashlib.sha256).hexdigest()
