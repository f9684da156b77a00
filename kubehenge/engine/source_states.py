"""How the last poll of each source went, in its row: what a page says of it, and which head is in force."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from kubehenge.engine.sources import SourceReading
from kubehenge.model.document import JudgedDocument, Problem, Severity
from kubehenge.source.git import Failed, Gone, Moved
from kubehenge.store.rows import SourceRow, SourceState

log = structlog.get_logger()


def take_state(session: Session, row: SourceRow, reading: SourceReading, now: datetime) -> None:
    """Record how a poll went, where that changed."""
    polled = reading.polled
    match polled:
        case Failed():
            state, reason = SourceState.UNREACHABLE, polled.message
        case Gone():
            state, reason = SourceState.GONE, polled.message
        case Moved() if not polled.descendant and polled.old is not None:
            state, reason = SourceState.REWRITTEN, f"The branch was rewritten: {polled.new[:7]} does not follow {polled.old[:7]}."
            if row.seen_sha != polled.new or row.state is not state:
                row.seen_sha = polled.new
                row.lost_commits = [f"{commit.sha[:12]} {commit.subject}" for commit in polled.lost]
                log.warning("history_rewritten", source=row.name, old=polled.old[:12], new=polled.new[:12])
        case _:
            state, reason = (SourceState.EMPTY, reading.vanished) if reading.vanished else (SourceState.READ, "")
            if reading.files is None and row.state in {SourceState.EMPTY, SourceState.READ}:
                return
            _take_head(row, reading, now)
    if row.state is not state or row.reason != reason:
        row.state, row.reason = state, reason
        row.polled_at = now
        if reason:
            log.warning("source_state_changed", source=row.name, state=state.value, reason=reason)
        else:
            log.info("source_state_changed", source=row.name, state=state.value)
    session.flush()


def _tell_unread(row: SourceRow, reading: SourceReading) -> None:
    """Say in the log which files have the name of a declaration and cannot be read, once each."""
    known = {(one["path"], one["reason"]) for one in row.ignored}
    for path, reason in reading.ignored:
        if path in reading.present and (path, reason) not in known:
            log.warning("file_not_read", source=row.name, path=path, reason=reason)


def tell_refused(document: JudgedDocument, problems: Sequence[Problem]) -> None:
    """Say in the log that a document is refused, by the first of its errors; page and command line have them all."""
    errors = [one for one in problems if one.severity is Severity.ERROR]
    first = errors[0] if errors else None
    log.warning(
        "document_refused",
        path=document.path,
        document=document.number,
        line=first.line if first else document.line,
        field=first.field if first else "",
        reason=first.message if first else document.reason,
        errors=len(errors),
    )


def _take_head(row: SourceRow, reading: SourceReading, now: datetime) -> None:
    if reading.revision and (row.accepted_sha != reading.revision or row.state is SourceState.NEW):  # NEW: a person accepted that head
        row.accepted_sha = row.seen_sha = reading.revision
        row.accepted_at, row.polled_at, row.lost_commits = now, now, []
        if reading.commit is not None:
            row.accepted_author = f"{reading.commit.author.name} <{reading.commit.author.email}>"
            row.accepted_subject = reading.commit.subject
    if reading.files is not None:
        _tell_unread(row, reading)
        row.ignored = [{"path": path, "reason": reason} for path, reason in reading.ignored]
