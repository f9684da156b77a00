"""Answers when something is not as asked: words for people, no trace, and the same for what is gone and what is hidden."""

from __future__ import annotations

import secrets
from typing import Any

from flask import Flask, Response, g, make_response, render_template, request
from flask.typing import ResponseReturnValue
from flask_wtf.csrf import CSRFError as FlaskCsrfError
from sqlalchemy.exc import DBAPIError
from werkzeug.exceptions import HTTPException

from kubehenge.errors import KubehengeError, TransientError
from kubehenge.log import get_logger
from kubehenge.store.trouble import DatabaseError
from kubehenge.web.auth import PrivilegeMissing, SignInNeeded, to_sign_in
from kubehenge.web.present import find_zone
from kubehenge.web.security import CsrfError
from kubehenge.web.services import Services
from kubehenge.web.shell import render

log = get_logger()

WORDS: dict[int, tuple[str, str]] = {
    400: ("This cannot be read", "What was sent has not the form that this page expects. Go back and try once more."),
    401: ("Not signed in", "This address asks for a Proxmox VE API token or a session. Neither was accepted."),
    403: ("Not allowed", "Your account has not the privilege that this needs."),
    405: ("Not that way", "This address takes other methods only."),
    409: ("No longer so", "What this was about has changed meanwhile."),
    413: ("Too much at once", "What was sent is longer than this address takes."),
    415: ("Not that form", "This address takes JSON."),
    429: ("Too many tries", "Wait a little, then try again."),
    503: ("Not just now", "Something that this needs does not answer."),
}

NOT_FOUND = "There is no page here that you may see."


def _database(error: DBAPIError, services: Services) -> ResponseReturnValue:
    """Say what a database's own error means, where that is known; else it is a mistake of ours."""
    context = g.get("reading_context")
    if context is not None:
        try:
            context.__exit__(type(error), error, error.__traceback__)
        except KubehengeError as explained:
            g.pop("reading_context", None)
            return said(503, str(explained))
        except DBAPIError:
            g.pop("reading_context", None)
    return _mistake(error, services)


def wants_json() -> bool:
    """Tell whether a program asks."""
    return request.path.startswith(("/api/", "/hooks/", "/healthz", "/readyz", "/metrics"))


def set_up(app: Flask, services: Services) -> None:
    """Answer errors of any kind."""
    app.register_error_handler(SignInNeeded, _sign_in_needed)
    app.register_error_handler(PrivilegeMissing, lambda error: said(403, str(error)))
    app.register_error_handler(CsrfError, _csrf)
    app.register_error_handler(FlaskCsrfError, _csrf)
    app.register_error_handler(TransientError, lambda error: said(503, str(error)))
    app.register_error_handler(DatabaseError, lambda error: said(503, str(error)))
    app.register_error_handler(DBAPIError, lambda error: _database(error, services))
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, lambda error: _mistake(error, services))


def said(status: int, text: str = "") -> ResponseReturnValue:
    """Answer with a status and words, as a page or as JSON."""
    title, usual = WORDS.get(status, ("This did not work", "What was asked for cannot be given."))
    if wants_json():
        return make_response({"error": text or usual, "status": status}, status)
    return make_response(render_template("errors/said.html", title=title, text=text or usual, status=status), status)


def not_found() -> ResponseReturnValue:
    """Answer that there is nothing here that one may see; the words are the same whether it is gone or hidden."""
    if wants_json():
        return make_response({"error": NOT_FOUND, "status": 404}, 404)
    if g.get("caller") is None:
        return make_response(render_template("errors/said.html", title="Not found", text=NOT_FOUND, status=404), 404)
    return make_response(render("errors/not_found.html", path=request.path), 404)


def _sign_in_needed(_error: Exception) -> ResponseReturnValue:
    if wants_json() or request.path.startswith("/fragments/"):
        return make_response({"error": "Sign in, or send a Proxmox VE API token.", "status": 401}, 401)
    return to_sign_in()


def _csrf(_error: Exception) -> ResponseReturnValue:
    return said(
        400, "This form is of a session that has ended, or of another site. Nothing was changed. Open the page anew and send it again."
    )


def _http(error: HTTPException) -> ResponseReturnValue:
    status = error.code or 500
    if error.response is not None:
        return error.response
    if status == 404:
        return not_found()
    answer = make_response(said(status))
    if status == 405:
        answer.headers["Allow"] = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
    return answer


def _mistake(error: Exception, services: Services) -> Response:
    """Answer a mistake of ours by a number that the log bears too; the page needs nothing that may be broken."""
    key = secrets.token_hex(4)
    label = f"{key[:4]}-{key[4:]}"
    log.error("request_failed", number=label, path=request.path, method=request.method, error=type(error).__name__, exc_info=error)
    if wants_json():
        return make_response({"error": "The mistake is Kubehenge's. It is in the log.", "number": label, "status": 500}, 500)
    context: dict[str, Any] = {"number": label, "path": request.path, "at": "", "again": request.method == "GET"}
    try:
        zone = find_zone(services.settings().time_zone)
        context["at"] = f"{services.clock().astimezone(zone):%Y-%m-%d %H:%M:%S} {zone}"
    except Exception as also:  # noqa: BLE001 - the settings may be what is broken
        log.warning("time_unknown", number=label, error=type(also).__name__)
    return make_response(render_template("errors/mistake.html", **context), 500)
