"""Clusters, resources, their bodies and versions (MODEL 2, 3, 9)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ForeignKey, Index, Text, UniqueConstraint, or_
from sqlalchemy.orm import Mapped, mapped_column

from kubehenge.model.resource import ClusterState
from kubehenge.store.rows.base import Hash, Id, Instant, JsonValue, Key, Row, words


class BodyRow(Row):
    """A body, by the hash of its canonical form."""

    __tablename__ = "body"

    hash: Mapped[str] = mapped_column(Hash, primary_key=True)
    canon: Mapped[int]
    content: Mapped[dict[str, Any]] = mapped_column(JsonValue)


class ClusterRow(Row):
    """One incarnation of a cluster's name."""

    __tablename__ = "cluster"
    __table_args__ = (
        UniqueConstraint("site_id", "namespace", "name", "incarnation"),
        Index(None, "site_id", "state"),
        Index(None, "holder_source_id", "holder_path", "holder_position"),
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    namespace: Mapped[str] = mapped_column(Key)
    name: Mapped[str] = mapped_column(Key)
    incarnation: Mapped[int]
    state: Mapped[ClusterState] = mapped_column(words(ClusterState))
    holder_source_id: Mapped[int | None] = mapped_column(ForeignKey("source.id"))
    holder_path: Mapped[str] = mapped_column(Key, default="")
    holder_position: Mapped[int] = mapped_column(default=0)
    declared_hash: Mapped[str | None] = mapped_column(ForeignKey("body.hash"))
    """The declaration in force; None once its holder is gone, or for a cluster made elsewhere."""
    declared_blob: Mapped[str] = mapped_column(Text, default="")
    declared_revision: Mapped[str] = mapped_column(Text, default="")
    removed_revision: Mapped[str] = mapped_column(Text, default="")
    """The commit that removed its holder."""
    class_name: Mapped[str] = mapped_column(Text, default="")
    vm_id_first: Mapped[int | None]
    """Its range of VM ids, given once and not again while a trace of it is left (MODEL 35)."""
    vm_id_last: Mapped[int | None]
    fixed: Mapped[dict[str, Any]] = mapped_column(JsonValue, default=dict)
    """What was copied onto it when it was first planned, and is not read again."""
    inputs: Mapped[dict[str, str]] = mapped_column(JsonValue, default=dict)
    """What its last expansion read: name of the setting or fact to the digest of its value (MODEL 12)."""
    status: Mapped[dict[str, Any]] = mapped_column(JsonValue, default=dict)
    """What the management cluster says of it last, for lists: phase, available, counts, conditions worth a look."""
    due: Mapped[bool] = mapped_column(default=True)
    """Something that its expansion reads has changed: the next tick expands it again."""
    opened_tick: Mapped[int] = mapped_column(Id)
    closed_tick: Mapped[int | None] = mapped_column(Id)


Index("ix_cluster_due", ClusterRow.site_id, sqlite_where=ClusterRow.due, postgresql_where=ClusterRow.due)


class ClassPinRow(Row):
    """The ClusterClass, by its content name, that a declared cluster runs; only its own plan moves it (MODEL 31)."""

    __tablename__ = "class_pin"

    cluster_id: Mapped[int] = mapped_column(ForeignKey("cluster.id"), primary_key=True, autoincrement=False)
    class_name: Mapped[str] = mapped_column(Key)


class ClassAliasRow(Row):
    """The ClusterClass, by its content name, that a plain name such as `kubehenge-rke2` stands for."""

    __tablename__ = "class_alias"

    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"), primary_key=True, autoincrement=False)
    alias: Mapped[str] = mapped_column(Key, primary_key=True)
    class_name: Mapped[str] = mapped_column(Key)


class ResourceRow(Row):
    """
    A thing that Kubehenge keeps or looks at, with its desired, applied and observed body (MODEL 3).

    `missing_reads` counts the readings in a row that did not find it; its absence counts from the second on (MODEL 20).
    """

    __tablename__ = "resource"
    __table_args__ = (UniqueConstraint("site_id", "kind", "name"), Index(None, "cluster_id", "kind"))

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    cluster_id: Mapped[int | None] = mapped_column(ForeignKey("cluster.id"))
    kind: Mapped[str] = mapped_column(Key)
    name: Mapped[str] = mapped_column(Key)
    desired_hash: Mapped[str | None] = mapped_column(ForeignKey("body.hash"))
    applied_hash: Mapped[str | None] = mapped_column(ForeignKey("body.hash"))
    observed_hash: Mapped[str | None] = mapped_column(ForeignKey("body.hash"))
    mark: Mapped[str | None] = mapped_column(Text)
    outputs: Mapped[dict[str, Any]] = mapped_column(JsonValue, default=dict)
    """Values that others refer to (MODEL 5), such as a VMID; never a secret."""
    requires: Mapped[list[str]] = mapped_column(JsonValue, default=list)
    missing_reads: Mapped[int] = mapped_column(default=0)
    touched_at: Mapped[datetime | None] = mapped_column(Instant)
    """When a run wrote it last; what was read before then is older than what we know."""


_differs = or_(
    ResourceRow.desired_hash.is_distinct_from(ResourceRow.applied_hash),
    ResourceRow.observed_hash.is_distinct_from(ResourceRow.applied_hash),
)
_kept = or_(ResourceRow.desired_hash.is_not(None), ResourceRow.applied_hash.is_not(None))
Index("ix_resource_differs", ResourceRow.site_id, ResourceRow.cluster_id, sqlite_where=_differs & _kept, postgresql_where=_differs & _kept)


class VersionSide(StrEnum):
    """Which body a version is of."""

    DESIRED = "desired"
    APPLIED = "applied"
    OBSERVED = "observed"


class VersionRow(Row):
    """A body that a resource had from `from_tick` until before `to_tick` (None: still); no body means that it had none."""

    __tablename__ = "version"
    __table_args__ = (Index("ix_version_as_of", "resource_id", "side", "from_tick"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    resource_id: Mapped[int] = mapped_column(ForeignKey("resource.id"))
    side: Mapped[VersionSide] = mapped_column(words(VersionSide))
    body_hash: Mapped[str | None] = mapped_column(ForeignKey("body.hash"))
    from_tick: Mapped[int] = mapped_column(Id)
    to_tick: Mapped[int | None] = mapped_column(Id)
