"""The page, made from what a process has opened."""

from __future__ import annotations

from datetime import timedelta
from importlib.metadata import version

from flask import Flask

from kubehenge import wiring
from kubehenge.drivers.proxmox.people import SignIn
from kubehenge.engine.stored import rules_in_force, settings_in_force
from kubehenge.errors import SettingsError
from kubehenge.model.site import ApprovalRules, SiteSettings
from kubehenge.web.app import create_app
from kubehenge.web.services import Services, WebSettings
from kubehenge.wiring import Core

LOOPS = ("watch", "tick", "apply")


def make_page(core: Core, *, with_loops: bool) -> Flask:
    """Return the page of a site. Errors: SettingsError when there is no Proxmox VE that people could sign in to."""
    settings = core.settings
    if not settings.proxmox_endpoints:
        raise SettingsError("Proxmox VE is not set, and people sign in there: give KUBEHENGE_PROXMOX_ENDPOINTS.")

    def site_settings() -> SiteSettings:
        with core.db.read() as session:
            return settings_in_force(session, core.site_id)

    def rules() -> tuple[ApprovalRules, int]:
        with core.db.read() as session:
            return rules_in_force(session, core.site_id)

    return create_app(
        WebSettings(
            site=settings.site,
            version=version("kubehenge"),
            public_url=settings.public_url.rstrip("/"),
            proxies=settings.proxies,
            metrics_token=settings.metrics_token,
            loops=tuple(f"{settings.site}/{name}" for name in LOOPS) if with_loops else (),
            session_lasts=timedelta(hours=settings.session_hours),
        ),
        Services(
            read=core.db.read,
            decisions=wiring.decisions(core),
            people=SignIn(settings.proxmox_endpoints, ca_file=str(settings.proxmox_ca_file) if settings.proxmox_ca_file else None),
            clock=core.clock.now,
            settings=site_settings,
            rules=rules,
        ),
    )
