"""Adding a source, and finding one by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from kubehenge.commands.opening import Deciding
from kubehenge.engine.sources import spec_of
from kubehenge.errors import UsageError
from kubehenge.source.git import GitError, GitMirror
from kubehenge.store import ledger
from kubehenge.store.reads.sources import SourceView, sources
from kubehenge.store.reads.visible import EVERYTHING
from kubehenge.store.rows import SourceRow
from kubehenge.store.ticks import last_tick


def add_source(deciding: Deciding, *, name: str, url: str, branch: str, path: str, credentials: Mapping[str, Any], check: bool) -> str:
    """Keep a source, after a look at its branch; returns what to say. Errors: UsageError and SettingsError, in words."""
    core = deciding.core
    row = SourceRow(site_id=core.site_id, name=name, url=url, branch=branch, path=path.strip("/"), credentials=dict(credentials))
    with core.db.read() as session:
        _refuse_second(session, core.site_id, name)
    head = _look(row) if check else None
    with core.db.write() as session:
        _refuse_second(session, core.site_id, name)
        session.add(row)
        session.flush()
        ledger.append(
            session,
            site_id=core.site_id,
            tick=last_tick(session, core.site_id),
            event="source_added",
            subject=name,
            who=deciding.person.userid,
            facts={"url": url, "branch": branch, "path": row.path},
            at=core.clock.now(),
        )
    return f"Added {name}: {url}, branch {branch}" + (f", now at {head[:12]}." if head else ".")


def _refuse_second(session: Session, site_id: int, name: str) -> None:
    if session.scalar(select(SourceRow.id).where(SourceRow.site_id == site_id, SourceRow.name == name)) is not None:
        raise UsageError(f"There is a source {name} already. Choose another name.")


def _look(row: SourceRow) -> str:
    """Ask the repository where its branch is, by one `ls-remote`."""
    with TemporaryDirectory(prefix="kubehenge-") as folder:
        try:
            head = GitMirror(Path(folder), spec_of(row)).remote_head()
        except GitError as error:
            raise UsageError(f"The source cannot be read, so it was not added: {error} (--unchecked adds it anyway.)") from error
    if head is None:
        raise UsageError(
            f"The repository has no branch {row.branch}, so it was not added. Name another with --branch, or push that one first."
        )
    return head


def find_by_name(session: Session, site_id: int, name: str) -> SourceView:
    """Return a source. Errors: UsageError naming those that there are."""
    known = sources(session, site_id, EVERYTHING)
    found = next((one for one in known if one.name == name), None)
    if found is None:
        raise UsageError(f"There is no source {name}. Those are: {', '.join(one.name for one in known) or 'none'}.")
    return found
