"""What every answer and every change must bear: headers, the CSRF token, the origin, and limits of size (ACCEPTANCE 4.2)."""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import Flask, Response, abort, g, request, session
from flask_wtf.csrf import CSRFProtect, generate_csrf

from kubehenge.web.services import WebSettings

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
STATIC_LASTS_S = 3600


class CsrfError(Exception):
    """A change came without the token of its session, or from another site."""


def secure(app: Flask, settings: WebSettings) -> CSRFProtect:
    """Set up headers, tokens and limits of size; returns the judge of tokens, which the check before each request calls."""
    app.config.update(
        MAX_CONTENT_LENGTH=settings.form_bytes,
        MAX_FORM_MEMORY_SIZE=settings.form_bytes,
        MAX_FORM_PARTS=50,
        WTF_CSRF_TIME_LIMIT=None,  # a token lives as long as its session
        WTF_CSRF_CHECK_DEFAULT=False,  # the check before each request decides who is exempt
        WTF_CSRF_SSL_STRICT=False,  # the Origin header is judged instead: a Referer may be left out by the browser
        SEND_FILE_MAX_AGE_DEFAULT=STATIC_LASTS_S,
    )
    csrf = CSRFProtect(app)
    app.jinja_env.globals["csrf_token"] = form_token
    app.after_request(_headers)
    return csrf


def form_token() -> str:
    """Return the token of this visitor's session for a form, and see to it that they get the session's cookie."""
    session.wanted = True  # type: ignore[attr-defined]  # our own session, kubehenge.web.sessions
    token: str = generate_csrf()
    return token


def check_change(csrf: CSRFProtect, settings: WebSettings) -> None:
    """Refuse a change that bears no token of its session, or says that it comes from elsewhere."""
    if request.method not in CHANGING:
        return
    origin = request.headers.get("Origin")
    if origin is not None and origin not in _origins(settings):
        raise CsrfError(f"it came from {origin}")
    csrf.protect()


def _origins(settings: WebSettings) -> frozenset[str]:
    own = urlsplit(settings.public_url or request.host_url)
    return frozenset({f"{own.scheme}://{own.netloc}"})


def limit_size(most: int) -> None:
    """Allow this request a body of so many bytes, and refuse one that says it is longer before it is read."""
    request.max_content_length = most
    if request.content_length is not None and request.content_length > most:
        abort(413)


def _headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers[name] = value
    if request.endpoint != "static":
        response.headers["Cache-Control"] = "no-store"
        response.headers.add("Vary", "Cookie")
    if g.get("retry_after"):
        response.headers["Retry-After"] = str(g.retry_after)
    return response
