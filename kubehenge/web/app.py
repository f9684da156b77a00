"""The application: its parts put together. It reads no environment; all comes by `WebSettings` and `Services`."""

from __future__ import annotations

import secrets
from importlib.metadata import version

from flask import Flask, get_flashed_messages, url_for
from jinja2 import StrictUndefined
from werkzeug.middleware.proxy_fix import ProxyFix

from kubehenge.errors import InvariantError
from kubehenge.model.canon import MISSING
from kubehenge.web import api, clusters, errors, find, fragments, freezes, plans, records, runs, sources
from kubehenge.web.auth import Gate, check_of
from kubehenge.web.health import Health
from kubehenge.web.limits import SignInLimits
from kubehenge.web.paths import with_query
from kubehenge.web.permissions import telling
from kubehenge.web.present import FILTERS, LOOKS, TONE_ICONS, is_cluster, percent
from kubehenge.web.security import secure
from kubehenge.web.services import Services, WebSettings
from kubehenge.web.sessions import MemorySessions
from kubehenge.web.sign_in import SignIn
from kubehenge.web.webhook import Webhooks


def create_app(settings: WebSettings, services: Services) -> Flask:
    """Return the page as a WSGI application; one process serves it, with threads, since sessions are in its memory."""
    app = Flask("kubehenge.web", root_path=None)
    app.secret_key = secrets.token_bytes(32)  # signs only tokens of sessions, which end with this process too
    sessions = MemorySessions(services.clock, settings.session_lasts)
    app.session_interface = sessions
    if settings.proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=settings.proxies, x_proto=settings.proxies, x_host=settings.proxies)  # type: ignore[method-assign]
    csrf = secure(app, settings)
    limits = SignInLimits(app, settings)
    Gate(services, settings, sessions, csrf).set_up(app)
    errors.set_up(app, services)
    _templates(app, settings)
    for part in (clusters, plans, runs, sources, records, freezes, find, fragments, api):
        app.register_blueprint(part.routes)
    for routes in (SignIn(services, settings, sessions, limits), Health(services, settings), Webhooks(services, settings)):
        app.register_blueprint(routes.blueprint())
    _require_checks(app)
    return app


def _templates(app: Flask, settings: WebSettings) -> None:
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(FILTERS)
    app.jinja_env.filters["telling"] = telling
    app.jinja_env.tests["cluster_scope"] = is_cluster
    icons = f"{app.static_url_path}/icons.svg"
    app.jinja_env.globals.update(
        icons=icons,
        looks=LOOKS,
        tone_icons=TONE_ICONS,
        percent=percent,
        missing=MISSING,
        with_query=with_query,
        version=settings.version or version("kubehenge"),
        site_name=settings.site,
        flashes=lambda: get_flashed_messages(with_categories=True),
        url_for=url_for,
    )


def _require_checks(app: Flask) -> None:
    """Refuse to start with a route that names no check (ACCEPTANCE 4.1)."""
    bare = [rule.endpoint for rule in app.url_map.iter_rules() if check_of(app, rule.endpoint) is None]
    if bare:
        raise InvariantError(f"routes without a check: {', '.join(sorted(bare))}")
