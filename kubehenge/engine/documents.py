"""
Documents: what the sources declare, which document holds which cluster, and what that makes of the clusters (MODEL 2, 19, 22).

A document that is wrong keeps its last good declaration. A cluster's holder is gone only when no document names the cluster any
more and nothing that might name it is unreadable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

import structlog
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from kubehenge.engine.source_states import take_state, tell_refused
from kubehenge.engine.sources import SourceReading
from kubehenge.errors import DeclarationError, InvariantError
from kubehenge.model.canon import Body, canonical
from kubehenge.model.cluster import ClusterDeclaration
from kubehenge.model.document import JudgedDocument, Verdict
from kubehenge.model.resource import ClusterState
from kubehenge.model.site import SiteSettings
from kubehenge.plan.guard import CommitSum, hold_reason
from kubehenge.source.crossdoc import Claim, DocumentKey, check_against_site, judge_together
from kubehenge.source.judge import declare, place_findings
from kubehenge.store import clusters, ledger
from kubehenge.store.bodies import get_bodies, put_bodies
from kubehenge.store.bulk import chunks, insert_many
from kubehenge.store.clusters import Holding
from kubehenge.store.rows import DocumentRow, SourceRow
from kubehenge.store.rows import Verdict as RowVerdict

log = structlog.get_logger()

Key: TypeAlias = tuple[int, str, int]
"""A document's place: source, path, and which document of the file."""

Own: TypeAlias = Mapping[Key, JudgedDocument]
"""All documents of the site, by place."""

_NEW = 2**62
"""Stands for the running tick where documents are compared by when they came."""

_LAST_GOOD = 1_000_000
"""Keeps the place of a last good declaration apart from the document that broke it."""


@dataclass(slots=True)
class Documents:
    """The documents of one site in memory, and their rows."""

    site_id: int
    site_name: str
    files: dict[int, Mapping[str, tuple[JudgedDocument, ...]]] = field(default_factory=dict)
    present: dict[int, frozenset[str]] = field(default_factory=dict)
    authors: dict[str, str] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    site_body: Body | None = None
    rules_body: Body | None = None
    settings_moved: bool = False
    _recorded: dict[Key, str] = field(default_factory=dict)
    _since: dict[Key, tuple[str, int]] = field(default_factory=dict)
    """The blob of each document that is in force, and the tick from which it is."""
    _waiting: bool = False
    _unjudged: dict[int, SourceReading] = field(default_factory=dict)
    """What was read anew and is not judged yet, since another source was never read."""

    def take_states(self, session: Session, readings: Iterable[SourceReading], now: datetime) -> None:
        """Record how each poll went, where that changed."""
        for reading in readings:
            row = session.get(SourceRow, reading.source_id)
            if row is not None:
                take_state(session, row, reading, now)

    def accept(
        self,
        session: Session,
        readings: Iterable[SourceReading],
        settings: SiteSettings,
        draw_tick: Callable[[], int],
        now: datetime,
    ) -> bool:
        """Take over what was read anew; tells whether any document or cluster changed."""
        for reading in readings:
            if reading.files is not None:
                self._take(reading, reading.files)
        if not (self._unjudged or self._waiting) or not self._all_read(session):
            return False
        fresh = list(self._unjudged.values())
        if not self._recorded:
            self._recorded = self._load_recorded(session)
        own = self._documents()
        holders = {one.scope: one for one in clusters.holdings(session, self.site_id)}
        finals = self._judge_together(session, own, holders, settings)
        revisions = {reading.source_id: reading.revision for reading in fresh}
        changed = self._record(session, own, finals, revisions, draw_tick)
        self._take_settings(own, finals)
        before = sum(1 for one in holders.values() if one.declared_hash is not None)
        moved = self._assign(session, own, holders, finals, revisions, draw_tick, now)
        after = len(_named(own))
        for reading in fresh:
            reason = hold_reason(
                CommitSum(
                    machines_before=0,
                    machines_removed=0,
                    clusters_before=before,
                    clusters_after=after,
                    subpath_vanished=bool(reading.vanished),
                )
            )
            if reason:
                self.held[reading.revision] = reason
        self._unjudged.clear()
        return changed or moved

    def _take(self, reading: SourceReading, files: Mapping[str, tuple[JudgedDocument, ...]]) -> None:
        self.files[reading.source_id], self.present[reading.source_id] = files, reading.present
        self._unjudged[reading.source_id] = reading
        if reading.commit is not None:
            self.authors[reading.revision] = f"{reading.commit.author.name} <{reading.commit.author.email}>"

    def _all_read(self, session: Session) -> bool:
        """Nothing is judged across documents before every source that was ever read is in memory: absence is not deletion."""
        known = session.execute(select(SourceRow.id, SourceRow.name).where(SourceRow.site_id == self.site_id, SourceRow.accepted_sha != ""))
        unread = sorted(row.name for row in known if row.id not in self.files)
        if unread:
            log.warning("documents_not_judged", waits_for=unread)
        return not unread

    # -- judging

    def _documents(self) -> Own:
        """Return all documents in the order of their places."""
        return {
            (source_id, path, document.number): document
            for source_id, files in sorted(self.files.items())
            for path, documents in sorted(files.items())
            for document in documents
        }

    def _judge_together(
        self, session: Session, own: Own, holders: Mapping[str, Holding], settings: SiteSettings
    ) -> dict[Key, JudgedDocument]:
        names = {row.id: row.name for row in session.execute(select(SourceRow.id, SourceRow.name).where(SourceRow.site_id == self.site_id))}
        places = {key: DocumentKey(source=names[key[0]], path=key[1], number=key[2]) for key in own}
        holding = {one.scope: self._holder_key(one) for one in holders.values()}
        claims = self._claims(own, places, holding)
        found = judge_together([*claims, *self._claims_of_broken(session, own, names, holders, holding)])
        finals = dict(own)
        for key, document in own.items():
            findings = found.get(places[key], ())
            if isinstance(document.declaration, ClusterDeclaration):
                findings = (*findings, *check_against_site(document.declaration, settings))
            if findings:
                finals[key] = place_findings(document, findings, None)
        return finals

    def _claims(self, own: Own, places: Mapping[Key, DocumentKey], holding: Mapping[str, Key | None]) -> Iterable[Claim]:
        for key, document in own.items():
            if document.declaration is None:
                continue
            blob, since = self._since.get(key, ("", _NEW))
            yield Claim(
                key=places[key],
                line=document.line,
                declaration=document.declaration,
                held=isinstance(document.declaration, ClusterDeclaration) and holding.get(document.scope) == key,
                since=since if blob == document.blob_id else _NEW,
            )

    def _holder_key(self, row: Holding) -> Key | None:
        """Return the document that holds a cluster: where it was, or in the same file when documents before it came or went."""
        if row.holder_source_id is None or row.state is not ClusterState.DECLARED:
            return None
        source_id, path = row.holder_source_id, row.holder_path
        there = self.files.get(source_id, {}).get(path, ())
        numbers = [document.number for document in there if document.scope == row.scope and document.declaration is not None]
        number = min(numbers, key=lambda one: (one != row.holder_position, one), default=None)
        return None if number is None else (source_id, path, number)

    def _claims_of_broken(
        self,
        session: Session,
        own: Own,
        names: Mapping[int, str],
        holders: Mapping[str, Holding],
        holding: Mapping[str, Key | None],
    ) -> Iterable[Claim]:
        """A holder that is broken keeps its last good declaration, and with it its name and addresses."""
        broken = [row for row in holders.values() if row.declared_hash and row.holder_source_id in names and holding[row.scope] is None]
        bodies = get_bodies(session, (row.declared_hash for row in broken))
        named = {document.scope for document in own.values() if document.declaration is None and document.name}
        for row in broken:
            if not self._may_still_name(row) and row.scope not in named:
                continue
            with suppress(DeclarationError):
                key = DocumentKey(source=names[row.holder_source_id or 0], path=row.holder_path, number=_LAST_GOOD + row.holder_position)
                yield Claim(key=key, line=1, declaration=declare(bodies[row.declared_hash or ""]), held=True, since=0)

    def _take_settings(self, own: Own, finals: Own) -> None:
        before = (self.site_body, self.rules_body)
        for key, document in own.items():
            if finals[key].verdict is Verdict.ACCEPTED and document.body is not None and document.name == self.site_name:
                if document.kind == "Site":
                    self.site_body = document.body
                elif document.kind == "ApprovalRules":
                    self.rules_body = document.body
        self.settings_moved = self.settings_moved or before != (self.site_body, self.rules_body)

    # -- rows of documents

    def _record(self, session: Session, own: Own, finals: Own, revisions: Mapping[int, str], draw_tick: Callable[[], int]) -> bool:
        wanted = {key: _fingerprint(own[key].blob_id, final.verdict, _problems(own[key], final)) for key, final in finals.items()}
        changed = [key for key, mark in wanted.items() if self._recorded.get(key) != mark]
        gone = [key for key in self._recorded if key not in wanted]
        if not changed and not gone:
            return False
        tick = draw_tick()
        for batch in chunks([key for key in (*changed, *gone) if key in self._recorded]):
            for source_id, path, position in batch:
                session.execute(
                    update(DocumentRow)
                    .where(
                        DocumentRow.source_id == source_id,
                        DocumentRow.path == path,
                        DocumentRow.position == position,
                        DocumentRow.to_tick.is_(None),
                    )
                    .values(to_tick=tick)
                )
        put_bodies(session, {hashed: body for key in changed if (hashed := own[key].body_hash) and (body := own[key].body)})
        rows = [self._row(key, own[key], finals[key], revisions, tick) for key in changed]
        insert_many(session, DocumentRow, rows)
        self._recorded = wanted
        for key in gone:
            self._since.pop(key, None)
        for key in changed:
            if finals[key].verdict is Verdict.REFUSED:
                tell_refused(own[key], finals[key].problems)
            blob, since = own[key].blob_id, self._since.get(key, ("", 0))
            self._since[key] = since if since[0] == blob else (blob, tick)
        return True

    def _row(self, key: Key, document: JudgedDocument, final: JudgedDocument, revisions: Mapping[int, str], tick: int) -> dict[str, Any]:
        source_id, path, position = key
        return {
            "site_id": self.site_id,
            "source_id": source_id,
            "path": path,
            "position": position,
            "line": document.line,
            "blob_id": document.blob_id,
            "revision": revisions.get(source_id, ""),
            "kind": document.kind,
            "namespace": document.namespace,
            "name": document.name,
            "verdict": RowVerdict(final.verdict.value),
            "own_verdict": RowVerdict(document.verdict.value),
            "problems": _problems(document, final),
            "declared_hash": document.body_hash,
            "declared_blob": document.blob_id if document.body is not None else "",
            "from_tick": tick,
            "to_tick": None,
        }

    def _load_recorded(self, session: Session) -> dict[Key, str]:
        rows = session.execute(
            select(
                DocumentRow.source_id,
                DocumentRow.path,
                DocumentRow.position,
                DocumentRow.blob_id,
                DocumentRow.verdict,
                DocumentRow.problems,
            ).where(DocumentRow.site_id == self.site_id, DocumentRow.to_tick.is_(None))
        )
        return {(row.source_id, row.path, row.position): _fingerprint(row.blob_id, row.verdict, row.problems) for row in rows}

    # -- clusters

    def _assign(
        self,
        session: Session,
        own: Own,
        holders: Mapping[str, Holding],
        finals: Own,
        revisions: Mapping[int, str],
        draw_tick: Callable[[], int],
        now: datetime,
    ) -> bool:
        """Give each declared cluster its holder, take the holder from those that nothing names any more."""
        by_scope: dict[str, list[tuple[Key, JudgedDocument]]] = defaultdict(list)
        for key, document in own.items():
            if document.kind == "Cluster" and finals[key].verdict is Verdict.ACCEPTED and document.body is not None:
                by_scope[document.scope].append((key, document))
        named = _named(own)
        incarnations = clusters.last_incarnations(session, self.site_id) if by_scope.keys() - holders.keys() else {}
        entries: list[ledger.Entry] = []
        kept: list[Holding] = []
        self._waiting = False
        for scope, candidates in sorted(by_scope.items()):
            row = holders.get(scope)
            if row is not None and row.state is ClusterState.LEAVING:
                self._waiting = True  # as the next incarnation, once this one is gone
                continue
            key, document = _choose(row, candidates)
            revision = revisions.get(key[0], row.declared_revision if row is not None else "")
            if row is None:
                row = _declare(document, incarnations)
                entries.append(_entry("cluster_declared", scope, document.path, revision))
            if _hold(row, key, document, revision):
                kept.append(row)
        for scope, row in holders.items():
            if scope in named or row.state is not ClusterState.DECLARED or row.declared_hash is None or self._may_still_name(row):
                continue
            revision = revisions.get(row.holder_source_id or 0, "")
            entries.append(_entry("cluster_removed", scope, row.holder_path, revision))
            row.declared_hash, row.declared_blob, row.holder_source_id = None, "", None
            row.removed_revision, row.due = revision, True
            kept.append(row)
        if kept:
            clusters.keep_holdings(session, self.site_id, kept, draw_tick())
        if entries:
            ledger.append_all(session, entries, site_id=self.site_id, tick=draw_tick(), at=now)
        return bool(kept)

    def _may_still_name(self, row: Holding) -> bool:
        """
        Tell whether something that is there may still name a cluster that no accepted document names (ACCEPTANCE 1.8).

        That is a refused document in the holder's file, one that is skipped in the holder's very place, and a refused one anywhere in
        its source that does not say what it is about: a file may have been moved and broken at once.
        """
        source_id, path = row.holder_source_id, row.holder_path
        if source_id is None or source_id not in self.files:
            return True
        if path in self.present.get(source_id, frozenset()):
            return True
        there = self.files[source_id].get(path, ())
        if any(one.verdict is Verdict.REFUSED or (one.verdict is Verdict.SKIPPED and one.number == row.holder_position) for one in there):
            return True
        everywhere = (one for documents in self.files[source_id].values() for one in documents)
        return any(one.verdict is Verdict.REFUSED and not one.name for one in everywhere)


def _named(own: Own) -> frozenset[str]:
    """Return the clusters that some document still names, rightly or not."""
    return frozenset(document.scope for document in own.values() if document.kind == "Cluster" and document.name)


def _declare(document: JudgedDocument, incarnations: Mapping[tuple[str, str], int]) -> Holding:
    number = incarnations.get((document.namespace, document.name), 0) + 1
    return Holding(namespace=document.namespace, name=document.name, incarnation=number, state=ClusterState.DECLARED)


def _hold(row: Holding, key: Key, document: JudgedDocument, revision: str) -> bool:
    """Make a document the holder of a cluster; tells whether that changed anything."""
    if document.body is None:
        raise InvariantError(f"{document.path} declares {document.scope} without a body.")
    if row.state is ClusterState.DECLARED and not row.removed_revision and _held_by(row) == (key, document.body_hash, document.blob_id):
        return False
    # A move of the file changes the holder and plans nothing; only another body or blob is planned on.
    if (row.declared_hash, row.declared_blob) != (document.body_hash, document.blob_id):
        row.declared_revision, row.due = revision, True
    row.holder_source_id, row.holder_path, row.holder_position = key
    row.declared_hash, row.declared_blob = document.body_hash, document.blob_id
    row.state, row.removed_revision = ClusterState.DECLARED, ""
    row.class_name = document.body["spec"]["topology"]["classRef"]["name"]
    return True


def _held_by(row: Holding) -> tuple[tuple[int | None, str, int], str | None, str]:
    return (row.holder_source_id, row.holder_path, row.holder_position), row.declared_hash, row.declared_blob


def _entry(event: str, scope: str, path: str, revision: str) -> ledger.Entry:
    return ledger.Entry(event=event, subject=scope, who="git", facts={"path": path, "revision": revision[:12]})


def _choose(row: Holding | None, candidates: list[tuple[Key, JudgedDocument]]) -> tuple[Key, JudgedDocument]:
    """Prefer the document that holds the cluster, then one in the same file, then the first."""
    if row is None or row.holder_source_id is None:
        return candidates[0]
    held = (row.holder_source_id, row.holder_path)
    return min(candidates, key=lambda one: (one[0] != (*held, row.holder_position), one[0][:2] != held, one[0]))


def _problems(document: JudgedDocument, final: JudgedDocument) -> list[dict[str, Any]]:
    return [problem.as_json() for problem in final.problems] or ([{"message": document.reason}] if document.reason else [])


def _fingerprint(blob_id: str, verdict: Verdict | RowVerdict, problems: list[dict[str, Any]]) -> str:
    return f"{blob_id} {verdict.value} {canonical(problems) if problems else ''}"
