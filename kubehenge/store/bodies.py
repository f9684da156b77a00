"""Bodies by their hash, and the versions of resources (MODEL 3, 9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from kubehenge.model.canon import CANON, Body, body_hash
from kubehenge.store.bulk import chunks, insert_many, table_of
from kubehenge.store.rows import BodyRow, VersionRow, VersionSide

_PUT = "bodies_put"
"""Under this name a session remembers the bodies that it put, by hash: what comes next in a tick reads them again at once."""


def put_bodies(session: Session, bodies: Mapping[str, Body]) -> None:
    """Keep bodies under their hashes, those that are there already as they are."""
    put: dict[str, Body] = session.info.setdefault(_PUT, {})
    fresh = {key: body for key, body in bodies.items() if key not in put}
    insert_many(session, BodyRow, [{"hash": key, "canon": CANON, "content": body} for key, body in fresh.items()], ignoring=True)
    put.update(fresh)


def hashed(bodies: Iterable[Body | None]) -> dict[str, Body]:
    """Return bodies by hash; None stands for absence and is passed over."""
    return {body_hash(body): body for body in bodies if body is not None}


def get_bodies(session: Session, hashes: Iterable[str | None]) -> Mapping[str, Body]:
    """Return bodies by hash."""
    put: Mapping[str, Body] = session.info.get(_PUT, {})
    wanted = {one for one in hashes if one is not None}
    found = {key: put[key] for key in wanted if key in put}
    for batch in chunks(wanted - found.keys()):
        found.update(
            (row.hash, row.content) for row in session.execute(select(BodyRow.hash, BodyRow.content).where(BodyRow.hash.in_(batch)))
        )
    return found


def begin_versions(session: Session, side: VersionSide, hashes: Mapping[int, str | None], tick: int) -> None:
    """Open the first version of resources that had none on this side, by their ids."""
    insert_many(
        session,
        VersionRow,
        [{"resource_id": key, "side": side, "body_hash": hashed, "from_tick": tick, "to_tick": None} for key, hashed in hashes.items()],
    )


def record_versions(session: Session, sides: Sequence[VersionSide], changed: Mapping[int, str | None], tick: int) -> None:
    """
    Close the running version of each resource on each of these sides and open the next one.

    Shape: `changed` maps a resource's id to its new hash. A version that began in this very tick is replaced in place, so an
    interval is never empty.
    """
    for batch in chunks(changed.items()):
        these = (VersionRow.resource_id.in_([key for key, _ in batch]), VersionRow.side.in_(sides), VersionRow.to_tick.is_(None))
        same_tick = session.execute(
            select(VersionRow.id, VersionRow.resource_id, VersionRow.side).where(*these, VersionRow.from_tick == tick)
        ).all()
        session.execute(update(table_of(VersionRow)).where(*these, VersionRow.from_tick < tick).values(to_tick=tick))
        if same_tick:
            session.execute(update(VersionRow), [{"id": row.id, "body_hash": changed[row.resource_id]} for row in same_tick])
        replaced = {(row.resource_id, row.side) for row in same_tick}
        for side in sides:
            begin_versions(session, side, {key: hashed for key, hashed in batch if (key, side) not in replaced}, tick)
