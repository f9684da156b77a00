"""Signing in with a Proxmox VE realm, its second factor, and signing out."""

from __future__ import annotations

from typing import cast
from urllib.parse import urlsplit

from flask import Blueprint, g, make_response, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue
from pydantic import SecretStr

from kubehenge.errors import RefusedError, TransientError
from kubehenge.log import get_logger
from kubehenge.web.auth import caller, public, signed_in
from kubehenge.web.limits import SignInLimits, Tries
from kubehenge.web.present import counted, span
from kubehenge.web.services import Challenge, SecondFactor, Services, Ticket, WebSettings
from kubehenge.web.sessions import MemorySessions, WebSession

log = get_logger()

LONGEST_NAME = 64
"""Proxmox VE takes no longer user names."""

FACTORS = {SecondFactor.TOTP: "Code from an app", SecondFactor.YUBICO: "Yubico OTP", SecondFactor.RECOVERY: "Recovery key"}


class SignIn:
    """The routes around signing in."""

    def __init__(self, services: Services, settings: WebSettings, sessions: MemorySessions, limits: SignInLimits) -> None:
        self.services = services
        self.settings = settings
        self.sessions = sessions
        self.limits = limits

    def blueprint(self) -> Blueprint:
        """Return the routes."""
        routes = Blueprint("sign_in", __name__)
        routes.get("/sign-in", endpoint="form")(self.form)
        routes.post("/sign-in", endpoint="submit")(self.submit)
        routes.get("/sign-in/second-factor", endpoint="factor_form")(self.factor_form)
        routes.post("/sign-in/second-factor", endpoint="factor")(self.factor)
        routes.post("/sign-out", endpoint="out")(self.out)
        return routes

    @public
    def form(self) -> ResponseReturnValue:
        """Show the form, or go on for someone who has signed in."""
        if _kept().person is not None:
            return redirect(_target(request.args.get("next", "")), code=303)
        return self._form()

    @public
    def submit(self) -> ResponseReturnValue:
        """Try a name and a password."""
        username = request.form.get("username", "").strip()[:LONGEST_NAME]
        realm = request.form.get("realm", "")[:LONGEST_NAME]
        password = SecretStr(request.form.get("password", ""))
        if not username or not realm or not password.get_secret_value():
            return self._form(error="Type a user name and a password, and choose a realm.", username=username, realm=realm), 422
        user = f"{username}@{realm}"
        tries = self.limits.begin(user)
        if tries.over:
            return self._too_many(tries, username, realm)
        try:
            answer = self.services.people.sign_in(username, realm, password)
        except RefusedError:
            log.warning("sign_in_refused", userid=user, address=request.remote_addr)
            words = f"Proxmox VE did not accept this user name and password in the realm {realm}. {self._left(tries)}"
            return self._form(error=words, username=username, realm=realm), 401
        except TransientError as error:
            self.limits.succeeded(user)
            return self._form(error=f"Proxmox VE does not answer, so nobody can sign in now. {error}", username=username, realm=realm), 503
        self.limits.succeeded(user)
        if isinstance(answer, Challenge):
            self.sessions.challenge(_kept(), answer)
            return redirect(url_for("sign_in.factor_form", next=request.form.get("next") or None), code=303)
        return self._begin(answer)

    @public
    def factor_form(self) -> ResponseReturnValue:
        """Ask for the second factor."""
        return self._factor_form()

    @public
    def factor(self) -> ResponseReturnValue:
        """Try a second factor."""
        challenged = _kept().challenged
        if challenged is None:
            return redirect(url_for("sign_in.form"), code=303)
        factor = next((one for one in challenged.challenge.answerable if one.value == request.form.get("factor")), None)
        code = request.form.get("code", "").strip()
        if factor is None or not code:
            return make_response(self._factor_form(error="Choose which factor it is, and type its code."), 422)
        user = challenged.challenge.username
        tries = self.limits.begin(user)
        if tries.over:
            self.sessions.end(_kept())
            return self._too_many(tries, *user.rpartition("@")[::2])
        try:
            ticket = self.services.people.answer_challenge(challenged.challenge, factor, code)
        except RefusedError:
            log.warning("second_factor_refused", userid=user, address=request.remote_addr)
            words = f"That code was not accepted. Codes change every 30 seconds; type the one shown now. {self._left(tries)}"
            return make_response(self._factor_form(error=words), 401)
        self.limits.succeeded(user)
        return self._begin(ticket)

    @signed_in
    def out(self) -> ResponseReturnValue:
        """End the session."""
        log.info("signed_out", userid=caller().userid)
        self.sessions.end(_kept())
        return redirect(url_for("sign_in.form"), code=303)

    def _begin(self, ticket: Ticket) -> ResponseReturnValue:
        try:
            groups = self.services.people.groups(ticket)
        except RefusedError:  # someone with no right at all may not read their groups; no rule that asks for one counts them then
            groups = frozenset()
        self.sessions.begin(_kept(), ticket, groups)
        log.info("signed_in", userid=ticket.username, address=request.remote_addr)
        return redirect(_target(request.form.get("next", "")), code=303)

    def _form(self, *, error: str = "", username: str = "", realm: str = "") -> str:
        try:
            realms = tuple(self.services.people.realms())
        except TransientError as trouble:
            realms, error = (), error or f"Proxmox VE does not answer, so nobody can sign in now. {trouble}"
        chosen = realm or next((one.name for one in realms if one.default), "")
        wanted = request.values.get("next", "")
        return render_template(
            "sign_in/form.html", realms=realms, chosen=chosen, error=error, username=username, next=wanted, hours=self._hours()
        )

    def _factor_form(self, *, error: str = "") -> ResponseReturnValue:
        challenged = _kept().challenged
        if challenged is None:
            return redirect(url_for("sign_in.form"), code=303)
        factors = [(factor, FACTORS[factor]) for factor in FACTORS if factor in challenged.challenge.answerable]
        return render_template(
            "sign_in/second_factor.html",
            userid=challenged.challenge.username,
            factors=factors,
            error=error,
            next=request.values.get("next", ""),
        )

    def _too_many(self, tries: Tries, username: str, realm: str) -> ResponseReturnValue:
        g.retry_after = tries.wait_s
        wait = counted(max(1, -(-tries.wait_s // 60)), "minute")
        words = f"Too many sign-ins for this user name, or from your address, did not work. Try again in {wait}."
        return self._form(error=words, username=username, realm=realm), 429

    def _left(self, tries: Tries) -> str:
        within = counted(int(self.settings.tries_within.total_seconds() // 60), "minute")
        if tries.left <= 0:
            return f"No more tries in the next {within}."
        return f"{counted(tries.left, 'more try', 'more tries')} in the next {within}."

    def _hours(self) -> str:
        return span(self.settings.session_lasts)


def _kept() -> WebSession:
    return cast("WebSession", session)


def _target(wanted: str) -> str:
    """Return an address of our own to go on to: never another host, whatever the form says."""
    parts = urlsplit(wanted)
    if not wanted.startswith("/") or wanted.startswith(("//", "/\\")) or parts.scheme or parts.netloc or "\\" in wanted:
        return url_for("clusters.index")
    return wanted
