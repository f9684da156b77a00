"""Polling Git: one `ls-remote` a source when nothing moved, and only changed blobs read when something did (DESIGN, Parts)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from kubehenge.errors import KubehengeError, SettingsError
from kubehenge.model.document import JudgedDocument
from kubehenge.source.git import (
    CommitInfo,
    Credentials,
    EmptyTree,
    Failed,
    GitError,
    GitLimits,
    GitMirror,
    Gone,
    HttpsToken,
    Moved,
    NotRead,
    Polled,
    SourceSpec,
    SshKey,
    SubPathVanished,
    Tree,
    TreeFile,
    Unread,
    parse_source_url,
)
from kubehenge.source.git_errors import GitReason
from kubehenge.source.tree import SourceFile, VerdictCache
from kubehenge.store.rows import SourceRow

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReading:
    """
    What polling one source brought.

    `files` is everything that its revision declares, by path, when that was read anew; None when it stays as it was. `present` are
    paths that are there and cannot be read: what they declared is not gone. `vanished` says why the whole folder is not there.
    """

    source_id: int
    polled: Polled
    revision: str = ""
    commit: CommitInfo | None = None
    files: Mapping[str, tuple[JudgedDocument, ...]] | None = None
    present: frozenset[str] = frozenset()
    ignored: tuple[tuple[str, str], ...] = ()
    vanished: str = ""


def spec_of(row: SourceRow) -> SourceSpec:
    """Return a source's row as the mirror takes it. Errors: SettingsError."""
    given: Mapping[str, Any] = row.credentials or {}
    login: SshKey | HttpsToken | None = None
    if given.get("key_file"):
        login = SshKey(key_file=Path(given["key_file"]), known_hosts_file=Path(given["known_hosts_file"]))
    elif given.get("token_file") or given.get("token_command"):
        login = HttpsToken(
            token_file=Path(given["token_file"]) if given.get("token_file") else None, token_command=tuple(given.get("token_command", ()))
        )
    ca_file = Path(given["ca_file"]) if given.get("ca_file") else None
    return SourceSpec(
        id=row.name,
        url=parse_source_url(row.url),
        branch=row.branch,
        path=row.path,
        credentials=Credentials(login=login, ca_file=ca_file),
    )


@dataclass(slots=True)
class Sources:
    """Polls the sources of one site, and keeps what was judged, by blob."""

    state_dir: Path
    limits: GitLimits = field(default_factory=GitLimits)
    _verdicts: dict[int, VerdictCache] = field(default_factory=dict)
    _revisions: dict[int, str] = field(default_factory=dict)
    _told: set[int] = field(default_factory=set)
    """The sources of which what they declare was handed on."""

    def poll(self, rows: Iterable[SourceRow]) -> tuple[SourceReading, ...]:
        """Poll every source; one that fails says why and holds up no other."""
        return tuple(self._poll(row) for row in rows)

    def _poll(self, row: SourceRow) -> SourceReading:
        try:
            mirror = GitMirror(self.state_dir, spec_of(row), limits=self.limits)
        except SettingsError as error:
            return SourceReading(source_id=row.id, polled=Failed(reason=GitReason.CREDENTIALS, message=str(error), retry=False))
        try:
            return self._read(row, mirror, mirror.poll(row.accepted_sha or None))
        except (KubehengeError, OSError) as error:
            reason = error.reason if isinstance(error, GitError) else GitReason.STORAGE
            return SourceReading(source_id=row.id, polled=Failed(reason=reason, message=str(error), retry=True))

    def _read(self, row: SourceRow, mirror: GitMirror, polled: Polled) -> SourceReading:
        if isinstance(polled, Failed | Gone):
            self._revisions.pop(row.id, None)  # when it is back its row must say anew what it holds
            return self._as_before(row, mirror, polled)
        if isinstance(polled, Moved) and not polled.descendant:
            return self._as_before(row, mirror, polled)
        revision = polled.new if isinstance(polled, Moved) else polled.head
        if self._revisions.get(row.id) == revision:
            return SourceReading(source_id=row.id, polled=polled, revision=revision)
        return self._read_revision(row, mirror, polled, revision)

    def _as_before(self, row: SourceRow, mirror: GitMirror, polled: Polled) -> SourceReading:
        """A source that cannot be followed now declares what was accepted last; a process that just started has that from our own copy."""
        if row.accepted_sha and row.id not in self._told:
            try:
                return self._read_revision(row, mirror, polled, row.accepted_sha)
            except (KubehengeError, OSError) as error:
                log.warning("own_copy_not_read", source=row.name, revision=row.accepted_sha[:12], reason=str(error))
        return SourceReading(source_id=row.id, polled=polled)

    def _read_revision(self, row: SourceRow, mirror: GitMirror, polled: Polled, revision: str) -> SourceReading:
        tree = mirror.tree(revision)
        commit = mirror.commit_info(revision)
        match tree:
            case SubPathVanished():
                files: Mapping[str, tuple[JudgedDocument, ...]] = {}
                reading = SourceReading(
                    source_id=row.id, polled=polled, revision=revision, commit=commit, files=files, vanished=tree.reason
                )
            case EmptyTree():
                reading = SourceReading(
                    source_id=row.id,
                    polled=polled,
                    revision=revision,
                    commit=commit,
                    files={},
                    vanished="The revision holds no file at all.",
                )
            case Tree():
                reading = SourceReading(
                    source_id=row.id,
                    polled=polled,
                    revision=revision,
                    commit=commit,
                    files=self._judge(row.id, mirror, tree),
                    present=frozenset(one.path for one in tree.unreadable),
                    ignored=tuple((one.path, one.reason) for one in (*tree.unreadable, *tree.ignored)),
                )
        if not isinstance(polled, Failed | Gone):
            self._revisions[row.id] = revision
        self._told.add(row.id)
        return reading

    def _judge(self, source_id: int, mirror: GitMirror, tree: Tree) -> dict[str, tuple[JudgedDocument, ...]]:
        cache = self._verdicts.setdefault(source_id, VerdictCache())
        wanted = cache.missing(one.blob for one in tree.files)
        blobs = mirror.read_blobs(wanted) if wanted else {}
        judged: dict[str, list[JudgedDocument]] = {one.path: [] for one in tree.files}
        for document in cache.judge_files(_file(one, blobs.get(one.blob)) for one in tree.files):
            judged[document.path].append(document)
        return {path: tuple(documents) for path, documents in judged.items()}

    def forget_all(self) -> None:
        """Have every source read whole at its next poll."""
        self._revisions.clear()
        self._told.clear()

    def forget(self, source_id: int) -> None:
        """Have a source read whole at its next poll, as after a failed transaction."""
        self._revisions.pop(source_id, None)
        self._told.discard(source_id)


def _file(file: TreeFile, content: bytes | Unread | None) -> SourceFile:
    if isinstance(content, Unread):
        return SourceFile(path=file.path, blob_id=file.blob, content=None, unread=NotRead(path=file.path, why=content).reason)
    return SourceFile(path=file.path, blob_id=file.blob, content=content)
