"""Sites, their settings, ticks, coverage, leases and readings kept aside."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from kubehenge.store.rows.base import Id, Instant, JsonValue, Key, Row, words


class SiteMode(StrEnum):
    """ACTING carries out what is approved; OBSERVING writes nothing outward until a person confirms (MODEL 21)."""

    ACTING = "acting"
    OBSERVING = "observing"


class SiteRow(Row):
    """One Proxmox VE cluster with its management cluster; everything is keyed by it."""

    __tablename__ = "site"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(Key, unique=True)
    mode: Mapped[SiteMode] = mapped_column(words(SiteMode), default=SiteMode.ACTING)
    mode_reason: Mapped[str] = mapped_column(Text, default="")
    rights: Mapped[dict[str, Any]] = mapped_column(JsonValue, default=dict)
    """Proxmox VE's rights of Kubehenge's own token, path by path, as last accepted (MODEL 20)."""
    facts: Mapped[dict[str, Any]] = mapped_column(JsonValue, default=dict)
    """Nodes, templates and the like as last read, for `expand` and the bill."""
    created_at: Mapped[datetime] = mapped_column(Instant)


class SettingOrigin(StrEnum):
    """Where a version of a stored setting came from; Git wins over the page."""

    DEFAULT = "default"
    GIT = "git"
    PAGE = "page"


class SettingRow(Row):
    """One version of a stored setting: `site` (kind Site) or `rules` (kind ApprovalRules). In force is the newest with `in_force_at`."""

    __tablename__ = "setting"
    __table_args__ = (UniqueConstraint("site_id", "name", "version"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    name: Mapped[str] = mapped_column(Key)
    version: Mapped[int]
    value: Mapped[dict[str, Any]] = mapped_column(JsonValue)
    origin: Mapped[SettingOrigin] = mapped_column(words(SettingOrigin))
    revision: Mapped[str] = mapped_column(String(64), default="")
    path: Mapped[str] = mapped_column(Text, default="")
    author: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text, default="")
    made_at: Mapped[datetime] = mapped_column(Instant)
    in_force_at: Mapped[datetime | None] = mapped_column(Instant)


class TickRow(Row):
    """A pass that changed something; maps its number to an instant that is forced to rise (MODEL 9). `seen_at` moves in idle passes."""

    __tablename__ = "tick"

    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    at: Mapped[datetime] = mapped_column(Instant)
    seen_at: Mapped[datetime] = mapped_column(Instant)

    __table_args__ = (Index(None, "site_id", "at"),)


class CoverageState(StrEnum):
    """Whether a tier was read."""

    OK = "ok"
    FAILED = "failed"
    SUSPECT = "suspect"


class CoverageRow(Row):
    """A stretch of passes in which a tier was read, or was not, and why; extended in place (MODEL 9)."""

    __tablename__ = "coverage"
    __table_args__ = (Index(None, "site_id", "tier", "id"), CheckConstraint("to_tick >= from_tick", name="rises"))

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    tier: Mapped[str] = mapped_column(Key)
    from_tick: Mapped[int] = mapped_column(Id)
    to_tick: Mapped[int] = mapped_column(Id)
    state: Mapped[CoverageState] = mapped_column(words(CoverageState))
    reason: Mapped[str] = mapped_column(Text, default="")
    from_at: Mapped[datetime] = mapped_column(Instant)
    to_at: Mapped[datetime] = mapped_column(Instant)


class SuspicionRow(Row):
    """A reading in which too much vanished at once, kept aside until more readings or a person confirm it (MODEL 20)."""

    __tablename__ = "suspicion"
    __table_args__ = (Index(None, "site_id", "kind", "closed_at"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    kind: Mapped[str] = mapped_column(Key)
    missing: Mapped[list[str]] = mapped_column(JsonValue)
    readings: Mapped[list[dict[str, Any]]] = mapped_column(JsonValue)
    """Each agreeing reading: `at` (ISO, UTC) and `node` that answered."""
    opened_at: Mapped[datetime] = mapped_column(Instant)
    closed_at: Mapped[datetime | None] = mapped_column(Instant)
    outcome: Mapped[str] = mapped_column(Text, default="")


class LeaseRow(Row):
    """The right to act on one thing; every write that needs it matches the fence (MODEL 26)."""

    __tablename__ = "lease"

    name: Mapped[str] = mapped_column(Key, primary_key=True)
    holder: Mapped[str] = mapped_column(Text)
    fence: Mapped[int] = mapped_column(Id)
    expires_at: Mapped[datetime] = mapped_column(Instant)
    renewed_at: Mapped[datetime] = mapped_column(Instant)


class FreezeRow(Row):
    """Nothing of the scope is carried out for now (MODEL 28). `duties` holds duties too, and then `until` is at most four hours away."""

    __tablename__ = "freeze"
    __table_args__ = (Index(None, "site_id", "ended_at"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    scope: Mapped[str] = mapped_column(Key, default="")
    """`<namespace>/<name>` of one cluster, or '' for the whole site."""
    duties: Mapped[bool] = mapped_column(default=False)
    who: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text, default="")
    began_at: Mapped[datetime] = mapped_column(Instant)
    until: Mapped[datetime | None] = mapped_column(Instant)
    ended_at: Mapped[datetime | None] = mapped_column(Instant)
    ended_by: Mapped[str] = mapped_column(Text, default="")
