"""The signed calls of code hosts: the raw body goes to the service that knows the secrets; nothing here reads it."""

from __future__ import annotations

from flask import Blueprint, make_response, request
from flask.typing import ResponseReturnValue

from kubehenge.store.reads.decision import AnswerKind
from kubehenge.web.auth import signature
from kubehenge.web.security import limit_size
from kubehenge.web.services import Services, WebSettings

REFUSED = "Its signature does not fit, or no source of this name takes webhooks."


class Webhooks:
    """The route that code hosts call."""

    def __init__(self, services: Services, settings: WebSettings) -> None:
        self.services = services
        self.settings = settings

    def blueprint(self) -> Blueprint:
        """Return the route."""
        routes = Blueprint("hooks", __name__)
        routes.post("/hooks/git/<source>", endpoint="git")(self.git)
        return routes

    @signature
    def git(self, source: str) -> ResponseReturnValue:
        """Take a call; the same answer for a wrong signature and a source that is not there."""
        limit_size(self.settings.hook_bytes)
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer = self.services.decisions.webhook(source, headers, request.get_data(cache=False))
        if answer.kind in {AnswerKind.REFUSED, AnswerKind.NOT_FOUND}:
            return make_response({"error": REFUSED, "status": 403}, 403)
        return make_response({"answer": answer.kind.value, "message": answer.message}, 202)
