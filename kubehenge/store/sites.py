"""Sites and their stored settings: versioned rows; in force is the newest that was carried out (DESIGN, Kinds)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from kubehenge.store.rows import FreezeRow, SettingOrigin, SettingRow, SiteRow


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """A stored setting as it is in force: its value, its version (0: the default), and where it came from."""

    value: Mapping[str, Any]
    version: int
    origin: SettingOrigin


def ensure_site(session: Session, name: str, now: datetime) -> SiteRow:
    """Return the site of that name, made when it is not there yet."""
    row = session.scalars(select(SiteRow).where(SiteRow.name == name)).first()
    if row is None:
        row = SiteRow(name=name, created_at=now)
        session.add(row)
        session.flush()
    return row


def setting_in_force(session: Session, site_id: int, name: str) -> InForce:
    """Return a stored setting's value in force; {} with version 0 when none was ever carried out."""
    row = session.scalars(
        select(SettingRow)
        .where(SettingRow.site_id == site_id, SettingRow.name == name, SettingRow.in_force_at.is_not(None))
        .order_by(SettingRow.version.desc())
        .limit(1)
    ).first()
    if row is None:
        return InForce(value={}, version=0, origin=SettingOrigin.DEFAULT)
    return InForce(value=row.value, version=row.version, origin=row.origin)


def put_setting(
    session: Session,
    site_id: int,
    name: str,
    value: Mapping[str, Any],
    *,
    origin: SettingOrigin,
    author: str,
    reason: str,
    now: datetime,
    revision: str = "",
    path: str = "",
    in_force: bool,
) -> SettingRow:
    """Add a version of a stored setting."""
    last = session.scalar(select(func.max(SettingRow.version)).where(SettingRow.site_id == site_id, SettingRow.name == name))
    row = SettingRow(
        site_id=site_id,
        name=name,
        version=(last or 0) + 1,
        value=dict(value),
        origin=origin,
        revision=revision,
        path=path,
        author=author,
        reason=reason,
        made_at=now,
        in_force_at=now if in_force else None,
    )
    session.add(row)
    session.flush()
    return row


def freezes(session: Session, site_id: int, now: datetime) -> tuple[FreezeRow, ...]:
    """Return the freezes that hold now (MODEL 28)."""
    rows = session.scalars(select(FreezeRow).where(FreezeRow.site_id == site_id, FreezeRow.ended_at.is_(None))).all()
    return tuple(row for row in rows if row.until is None or row.until > now)


def is_frozen(held: tuple[FreezeRow, ...], scope: str, *, duty_only: bool) -> bool:
    """Tell whether a plan of this scope may not start; duties go on unless a freeze names them."""
    return any((not row.scope or row.scope == scope) and (row.duties or not duty_only) for row in held)
