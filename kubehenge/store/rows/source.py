"""Git sources and the documents read from them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from kubehenge.store.rows.base import Id, Instant, JsonValue, Key, Row, words


class SourceState(StrEnum):
    """How the last poll of a source went."""

    NEW = "new"
    READ = "read"
    UNREACHABLE = "unreachable"
    REWRITTEN = "rewritten"
    GONE = "gone"
    EMPTY = "empty"


class SourceRow(Row):
    """One Git repository, branch and path that is read. `accepted_sha` is the revision whose documents are in force."""

    __tablename__ = "source"
    __table_args__ = (UniqueConstraint("site_id", "name"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    name: Mapped[str] = mapped_column(Key)
    url: Mapped[str] = mapped_column(Text)
    branch: Mapped[str] = mapped_column(Text)
    path: Mapped[str] = mapped_column(Text, default="")
    credentials: Mapped[dict[str, Any]] = mapped_column(JsonValue, default=dict)
    """Paths of key, known-hosts and token files or a command; never a secret itself."""
    may_create: Mapped[dict[str, Any]] = mapped_column(JsonValue, default=dict)
    """What its documents may create (MODEL 16): {} is everything."""
    state: Mapped[SourceState] = mapped_column(words(SourceState), default=SourceState.NEW)
    reason: Mapped[str] = mapped_column(Text, default="")
    accepted_sha: Mapped[str] = mapped_column(String(64), default="")
    accepted_author: Mapped[str] = mapped_column(Text, default="")
    accepted_subject: Mapped[str] = mapped_column(Text, default="")
    accepted_at: Mapped[datetime | None] = mapped_column(Instant)
    seen_sha: Mapped[str] = mapped_column(String(64), default="")
    """The head that was seen last; differs from the accepted one while a rewritten history waits for a person."""
    lost_commits: Mapped[list[str]] = mapped_column(JsonValue, default=list)
    polled_at: Mapped[datetime | None] = mapped_column(Instant)
    ignored: Mapped[list[dict[str, str]]] = mapped_column(JsonValue, default=list)
    """Files that were not read, each with `path` and `reason`."""


class Verdict(StrEnum):
    """What became of a document."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    SKIPPED = "skipped"


class DocumentRow(Row):
    """
    One YAML document as it stood from `from_tick` to `to_tick` (None: still). Kept for ever.

    `declared_hash` is the body in force for its cluster: of this version when accepted, of the last good version when refused.
    """

    __tablename__ = "document"
    __table_args__ = (
        Index(None, "source_id", "path", "position", "from_tick"),
        Index("ix_document_in_force", "source_id", "to_tick", "path"),
        Index(None, "site_id", "namespace", "name"),
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id"))
    source_id: Mapped[int] = mapped_column(ForeignKey("source.id"))
    path: Mapped[str] = mapped_column(Key)
    position: Mapped[int]
    """Which document of its file, from 1."""
    line: Mapped[int]
    blob_id: Mapped[str] = mapped_column(String(64))
    revision: Mapped[str] = mapped_column(String(64))
    kind: Mapped[str] = mapped_column(Text, default="")
    namespace: Mapped[str] = mapped_column(Key, default="")
    name: Mapped[str] = mapped_column(Key, default="")
    verdict: Mapped[Verdict] = mapped_column(words(Verdict))
    own_verdict: Mapped[Verdict] = mapped_column(words(Verdict))
    """The verdict by the document alone, before the cross-document rules."""
    problems: Mapped[list[dict[str, Any]]] = mapped_column(JsonValue, default=list)
    declared_hash: Mapped[str | None] = mapped_column(ForeignKey("body.hash"))
    declared_blob: Mapped[str] = mapped_column(String(64), default="")
    """The blob that `declared_hash` came from."""
    from_tick: Mapped[int] = mapped_column(Id)
    to_tick: Mapped[int | None] = mapped_column(Id)
