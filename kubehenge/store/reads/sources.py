"""Git sources and the verdicts on their documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, or_, select
from sqlalchemy.orm import Session

from kubehenge.model.document import Severity
from kubehenge.store.reads.paging import Page, page_of
from kubehenge.store.reads.sql import scope_of
from kubehenge.store.reads.visible import Visible
from kubehenge.store.rows import DocumentRow, SourceRow, SourceState, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """A source, how its last poll went, and how many of its documents have which verdict."""

    id: int
    name: str
    url: str
    branch: str
    path: str
    state: SourceState
    reason: str
    accepted_sha: str
    accepted_author: str
    accepted_subject: str
    accepted_at: datetime | None
    seen_sha: str
    lost_commits: tuple[str, ...]
    polled_at: datetime | None
    ignored: tuple[tuple[str, str], ...]
    counts: Mapping[Verdict, int]

    @property
    def documents(self) -> int:
        """How many documents it holds, as far as they may be seen."""
        return sum(self.counts.values())

    @property
    def refused(self) -> int:
        """How many of them are refused."""
        return self.counts.get(Verdict.REFUSED, 0)

    @property
    def rewritten(self) -> bool:
        """Whether its history was rewritten and waits for someone to accept the new head (ACCEPTANCE 1.9)."""
        return self.state is SourceState.REWRITTEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a document, where, and what to do about it; a warning refuses nothing."""

    line: int
    column: int
    field: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLine:
    """One document of a source and its verdict; `in_force` says that an earlier good version of it stays in force."""

    path: str
    position: int
    line: int
    kind: str
    namespace: str
    name: str
    verdict: Verdict
    revision: str
    problems: tuple[Problem, ...]
    in_force: bool

    @property
    def scope(self) -> str:
        """`<namespace>/<name>`, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


_SEVERITY = case({Verdict.REFUSED.value: 0, Verdict.ACCEPTED.value: 1}, value=DocumentRow.verdict, else_=2)


def _seen(visible: Visible) -> ColumnElement[bool]:
    """A Cluster's document is seen by who sees the cluster, any other by who sees what clusters share."""
    clusters = and_(DocumentRow.kind == "Cluster", visible.clusters(scope_of(DocumentRow.namespace, DocumentRow.name)))
    return or_(clusters, DocumentRow.kind != "Cluster") if visible.site else clusters


def sources(session: Session, site_id: int, visible: Visible) -> tuple[SourceView, ...]:
    """Return the sources that someone sees a document of, or all for who sees what clusters share; by name."""
    rows = session.scalars(select(SourceRow).where(SourceRow.site_id == site_id).order_by(SourceRow.name)).all()
    counted = session.execute(
        select(DocumentRow.source_id, DocumentRow.verdict, func.count())
        .where(DocumentRow.source_id.in_([row.id for row in rows]), DocumentRow.to_tick.is_(None), _seen(visible))
        .group_by(DocumentRow.source_id, DocumentRow.verdict)
    )
    counts: dict[int, dict[Verdict, int]] = {}
    for source_id, verdict, count in counted:
        counts.setdefault(source_id, {})[verdict] = count
    return tuple(_source(row, counts.get(row.id, {}), visible) for row in rows if visible.site or counts.get(row.id))


def find_source(session: Session, site_id: int, visible: Visible, source_id: int) -> SourceView | None:
    """Return one source, None when there is none that may be seen."""
    return next((one for one in sources(session, site_id, visible) if one.id == source_id), None)


def document_page(session: Session, source_id: int, visible: Visible, number: int = 1, *, size: int = 100) -> Page[DocumentLine]:
    """Return a page of a source's documents as they stand: the refused first, then by file."""
    query = (
        select(DocumentRow)
        .where(DocumentRow.source_id == source_id, DocumentRow.to_tick.is_(None), _seen(visible))
        .order_by(_SEVERITY, DocumentRow.path, DocumentRow.position)
    )
    return page_of(session, query, number, size=size).map(lambda rows: [_document(row[0]) for row in rows])


def _source(row: SourceRow, counts: Mapping[Verdict, int], visible: Visible) -> SourceView:
    return SourceView(
        id=row.id,
        name=row.name,
        url=row.url,
        branch=row.branch,
        path=row.path,
        state=row.state,
        reason=row.reason,
        accepted_sha=row.accepted_sha,
        accepted_author=row.accepted_author,
        accepted_subject=row.accepted_subject,
        accepted_at=row.accepted_at,
        seen_sha=row.seen_sha,
        lost_commits=tuple(row.lost_commits),
        polled_at=row.polled_at,
        ignored=tuple((one.get("path", ""), one.get("reason", "")) for one in row.ignored) if visible.site else (),
        counts=counts,
    )


def _document(row: DocumentRow) -> DocumentLine:
    return DocumentLine(
        path=row.path,
        position=row.position,
        line=row.line,
        kind=row.kind,
        namespace=row.namespace,
        name=row.name,
        verdict=row.verdict,
        revision=row.revision,
        problems=tuple(_problem(one) for one in row.problems),
        in_force=row.verdict is Verdict.REFUSED and row.declared_hash is not None,
    )


def _problem(one: Mapping[str, Any]) -> Problem:
    return Problem(
        line=int(one.get("line") or 0),
        column=int(one.get("column") or 0),
        field=str(one.get("field") or ""),
        message=str(one.get("message") or ""),
        warning=one.get("severity") == Severity.WARNING,
    )
