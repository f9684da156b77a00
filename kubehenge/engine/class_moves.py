"""Moving to another ClusterClass: one cluster, or a plain name, by a person's word; its own plan follows (MODEL 31)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from kubehenge.clock import Clock
from kubehenge.model.distribution import is_content_name, machines_of
from kubehenge.model.resource import ClusterState
from kubehenge.store import ledger, pins
from kubehenge.store.database import Database
from kubehenge.store.reads.decision import Answer, AnswerKind, Person
from kubehenge.store.rows import ClusterRow
from kubehenge.store.ticks import last_tick


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMoves:
    """The moves of one site, to the classes of this release."""

    db: Database
    site_id: int
    clock: Clock
    newest: dict[str, str]
    """Content name of the newest class by its plain name."""

    def move_cluster(self, scope: str, person: Person) -> Answer:
        """Let a declared cluster run the newest class of its distribution; the plan says what that replaces."""
        namespace, _, name = scope.partition("/")
        with self.db.write() as session:
            row = session.scalars(
                select(ClusterRow).where(
                    ClusterRow.site_id == self.site_id,
                    ClusterRow.namespace == namespace,
                    ClusterRow.name == name,
                    ClusterRow.state == ClusterState.DECLARED,
                )
            ).first()
            if row is None:
                return Answer(kind=AnswerKind.NOT_FOUND, message=f"{scope} is no declared cluster: only those are pinned to a class.")
            if is_content_name(row.class_name):
                return _refused(f"The file of {scope} names {row.class_name} itself; change it there, or write the plain name.")
            if row.class_name not in self.newest:
                return _refused(f"{scope} is of {row.class_name}, which is none of the classes of this release.")
            old, new = pins.pins_of(session, [row.id]).get(row.id, row.class_name), self.newest[row.class_name]
            if old == new:
                return Answer(kind=AnswerKind.ALREADY, message=f"{scope} is on {new}, the newest, already.")
            pins.move_pin(session, row.id, new)
            row.due = True
            self._record(session, scope, person, old, new)
        replaces = "replaces nodes and waits for approval" if machines_of(old) != machines_of(new) else "replaces no node"
        return Answer(kind=AnswerKind.ACCEPTED, message=f"{scope} moves from {old} to {new}; the plan for it {replaces}.")

    def move_alias(self, alias: str, person: Person) -> Answer:
        """Let a plain name, which clusters made elsewhere use, stand for the newest class; its plan waits for approval."""
        if alias not in self.newest:
            return Answer(kind=AnswerKind.NOT_FOUND, message=f"There is no class {alias}. There are {', '.join(sorted(self.newest))}.")
        with self.db.write() as session:
            old, new = pins.aliases(session, self.site_id).get(alias, ""), self.newest[alias]
            if old == new:
                return Answer(kind=AnswerKind.ALREADY, message=f"{alias} stands for {new}, the newest, already.")
            pins.set_alias(session, self.site_id, alias, new)
            self._record(session, alias, person, old, new)
        return Answer(
            kind=AnswerKind.ACCEPTED,
            message=f"{alias} is to stand for {new}; its plan waits for approval, since clusters made elsewhere use it.",
        )

    def _record(self, session: Session, subject: str, person: Person, old: str, new: str) -> None:
        ledger.append(
            session,
            site_id=self.site_id,
            tick=last_tick(session, self.site_id),
            event="class_moved",
            subject=subject,
            who=person.userid,
            facts={"from": old, "to": new},
            at=self.clock.now(),
        )


def _refused(message: str) -> Answer:
    return Answer(kind=AnswerKind.REFUSED, message=message)
