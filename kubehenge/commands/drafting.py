"""
`plan --from`: the plans that a folder or a revision would open, if it were pushed.

The tick itself plans, on what was recorded last, in a transaction that is undone: there is no second planner that could differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import click
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from kubehenge import wiring
from kubehenge.commands.local_git import LocalRevision, find_revision
from kubehenge.commands.opening import open_core
from kubehenge.commands.plan_view import WholePlan, load
from kubehenge.commands.plans import wanted
from kubehenge.engine.sources import SourceReading, Sources, spec_of
from kubehenge.errors import UsageError
from kubehenge.model.document import JudgedDocument, Verdict
from kubehenge.source.git import CommitInfo, GitMirror, Moved, Unchanged
from kubehenge.source.judge import judge_file, refuse_unread
from kubehenge.source.tree import read_directory
from kubehenge.store.database import Database
from kubehenge.store.rows import PlanRow, SourceRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What a folder or a revision holds, as the tick takes it: the judged files, and the paths that cannot be read."""

    files: Mapping[str, tuple[JudgedDocument, ...]]
    present: frozenset[str] = frozenset()
    vanished: str = ""
    revision: str = ""
    commit: CommitInfo | None = None


def plan_from(origin: str, source_name: str | None, scopes: tuple[str, ...]) -> tuple[WholePlan, ...]:
    """Return the plans that would be opened. Errors: UsageError when there is no such folder, revision or source."""
    with open_core() as core, core.db.rehearse() as session:
        row = _source(session, core.site_id, source_name)
        files = _read(origin, row)
        tick = wiring.make_tick(core, {})
        tick.db = _Rehearsal(core.db, session)
        tick.sources = _Draft(core.settings.state_dir, target=row.id, files=files)
        before = session.scalar(select(func.max(PlanRow.id))) or 0
        tick.run_pass(families=())
        rows = session.execute(select(PlanRow.id, PlanRow.scope).where(PlanRow.site_id == core.site_id, PlanRow.id > before)).all()
        opened = (load(session, core.site_id, one.id) for one in rows if wanted(one.scope, scopes))
        found = tuple(_unnumbered(one) for one in opened if one is not None and one.view.line.is_open)
    _say_refused(files)
    return found


def _unnumbered(plan: WholePlan) -> WholePlan:
    """Take away the number: it was never kept, and someone else's plan will have it."""
    return replace(plan, view=replace(plan.view, line=replace(plan.view.line, id=0)))


def _source(session: Session, site_id: int, name: str | None) -> SourceRow:
    rows = session.scalars(select(SourceRow).where(SourceRow.site_id == site_id).order_by(SourceRow.name)).all()
    chosen = [row for row in rows if name in {None, row.name}]
    if len(chosen) == 1:
        return chosen[0]
    if not rows:
        raise UsageError("There is no source yet whose place the folder could take: add one with `kubehenge source add`.")
    raise UsageError(f"Say with --source which source it takes the place of: {', '.join(row.name for row in rows)}.")


def _read(origin: str, row: SourceRow) -> Files:
    if Path(origin).is_dir():
        return _from_folder(Path(origin), row)
    return _from_revision(find_revision(Path.cwd(), origin), row.path)


def _from_folder(folder: Path, row: SourceRow) -> Files:
    """Read a checkout, or the part of it that the source reads."""
    root = folder / row.path if row.path and (folder / row.path).is_dir() else folder
    judged = {}
    present = set()
    for file in read_directory(root).files:
        path = f"{row.path}/{file.path}" if row.path else file.path
        if file.content is None:
            present.add(path)
        else:
            judged[path] = judge_file(path, file.content, blob_id=_blob_id(file.content, like=row.accepted_sha))
    return Files(files=judged, present=frozenset(present), vanished="" if judged or present else "The folder holds no file at all.")


def _blob_id(content: bytes, *, like: str) -> str:
    """Return the id that Git gives this content, so that a plan of it is the plan that a push opens."""
    kind = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return kind(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _from_revision(local: LocalRevision, sub_path: str) -> Files:
    tree = local.tree(sub_path)
    if tree is None:
        return Files(
            files={}, vanished=f"{sub_path or 'The revision'} holds no file at all.", revision=local.revision, commit=local.commit()
        )
    judged = {}
    for path, blob, content in local.contents(tree):
        judged[path] = (
            judge_file(path, content, blob_id=blob)
            if isinstance(content, bytes)
            else (refuse_unread(path, "It is too large to be read.", blob_id=blob),)
        )
    return Files(files=judged, present=frozenset(one.path for one in tree.unreadable), revision=local.revision, commit=local.commit())


class _Rehearsal(Database):
    """The database as the tick of a draft sees it: one session, whose changes are undone when the draft is done."""

    def __init__(self, database: Database, session: Session) -> None:
        super().__init__(database.engine)
        self._session = session

    @contextmanager
    def read(self) -> Iterator[Session]:
        yield self._session

    @contextmanager
    def write(self) -> Iterator[Session]:
        yield self._session
        self._session.flush()


class _Draft(Sources):
    """Sources as they were accepted last, but for one, which is the draft."""

    def __init__(self, state_dir: Path, *, target: int, files: Files) -> None:
        super().__init__(state_dir)
        self._target = target
        self._files = files

    def poll(self, rows: Iterable[SourceRow]) -> tuple[SourceReading, ...]:
        """Answer with the draft for its source, and with what was accepted last for all others; nobody is asked."""
        return tuple(self._of_draft(row) if row.id == self._target else self._as_accepted(row) for row in rows if self._is_known(row))

    def _is_known(self, row: SourceRow) -> bool:
        return row.id == self._target or bool(row.accepted_sha)

    def _of_draft(self, row: SourceRow) -> SourceReading:
        revision = self._files.revision or row.accepted_sha or "draft"
        return SourceReading(
            source_id=row.id,
            polled=Moved(old=row.accepted_sha or None, new=revision, descendant=True),
            revision=revision,
            commit=self._files.commit,
            files=self._files.files,
            present=self._files.present,
            vanished=self._files.vanished,
        )

    def _as_accepted(self, row: SourceRow) -> SourceReading:
        mirror = GitMirror(self.state_dir, spec_of(row), limits=self.limits)
        return self._read_revision(row, mirror, Unchanged(head=row.accepted_sha), row.accepted_sha)


def _say_refused(files: Files) -> None:
    refused = [one for documents in files.files.values() for one in documents if one.verdict is Verdict.REFUSED]
    for path in sorted({one.path for one in refused}):
        click.echo(f"{path} is refused, so what was declared there before stays in force; `kubehenge validate` says why.", err=True)


__all__: Sequence[str] = ("plan_from",)
