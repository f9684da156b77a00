"""The site's stored settings and approval rules as they are in force, typed."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from kubehenge.errors import InvariantError
from kubehenge.model.site import ApprovalRules, SiteSettings
from kubehenge.source.judge import declare
from kubehenge.store.rows import SettingRow
from kubehenge.store.sites import setting_in_force

SITE = "site"
RULES = "rules"


def settings_in_force(session: Session, site_id: int) -> SiteSettings:
    """Return the site's settings: those of the last `Site` document that was carried out, or the defaults."""
    found = setting_in_force(session, site_id, SITE)
    if not found.version:
        return SiteSettings()
    settings = declare(found.value)
    if not isinstance(settings, SiteSettings):
        raise InvariantError("The stored site settings are no Site document.")
    return settings


def rules_of_version(session: Session, site_id: int, version: int) -> ApprovalRules:
    """Return the approval rules as they were in force under a version; the default ones under version 0."""
    value = session.scalar(
        select(SettingRow.value).where(SettingRow.site_id == site_id, SettingRow.name == RULES, SettingRow.version == version)
    )
    rules = declare(value) if value is not None else ApprovalRules()
    if not isinstance(rules, ApprovalRules):
        raise InvariantError("The stored approval rules are no ApprovalRules document.")
    return rules


def rules_in_force(session: Session, site_id: int) -> tuple[ApprovalRules, int]:
    """Return the approval rules with their version; version 0 are the default rules."""
    found = setting_in_force(session, site_id, RULES)
    if not found.version:
        return ApprovalRules(), 0
    rules = declare(found.value)
    if not isinstance(rules, ApprovalRules):
        raise InvariantError("The stored approval rules are no ApprovalRules document.")
    return rules, found.version
