"""Whether this process lives, whether it can serve, and its metrics."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, make_response
from flask.typing import ResponseReturnValue
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy import text

from kubehenge.errors import KubehengeError
from kubehenge.store.reads.site import leases
from kubehenge.web.auth import bearer, public
from kubehenge.web.services import Services, WebSettings


class Health:
    """The routes that monitoring asks."""

    def __init__(self, services: Services, settings: WebSettings) -> None:
        self.services = services
        self.settings = settings

    def blueprint(self) -> Blueprint:
        """Return the routes."""
        routes = Blueprint("health", __name__)
        routes.get("/healthz", endpoint="live")(self.live)
        routes.get("/readyz", endpoint="ready")(self.ready)
        routes.get("/metrics", endpoint="metrics")(self.metrics)
        return routes

    @public
    def live(self) -> ResponseReturnValue:
        """Answer that the process answers; asks nothing of anything else."""
        return Response("ok\n", mimetype="text/plain")

    @public
    def ready(self) -> ResponseReturnValue:
        """Answer whether the database answers and the loops hold their leases; names no host and no cluster."""
        try:
            with self.services.read() as session:
                session.execute(text("SELECT 1"))
                held = {lease.name: lease for lease in leases(session)}
        except KubehengeError:
            return make_response({"ready": False, "database": "does not answer"}, 503)
        now = self.services.clock()
        loops: dict[str, Any] = {}
        for name in self.settings.loops:
            lease = held.get(name)
            alive = lease is not None and lease.expires_at > now
            loops[name] = {"alive": alive, "renewed_s_ago": round((now - lease.renewed_at).total_seconds(), 1) if lease else None}
        ready = all(loop["alive"] for loop in loops.values())
        return make_response({"ready": ready, "database": "answers", "loops": loops}, 200 if ready else 503)

    @bearer
    def metrics(self) -> ResponseReturnValue:
        """Return the metrics in Prometheus' text form."""
        return Response(generate_latest(self.services.registry), content_type=CONTENT_TYPE_LATEST)
