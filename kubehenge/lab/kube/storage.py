"""The objects: serialised once, found by kind and name, with a history that watches read and one number that rises with every write."""

from __future__ import annotations

import bisect
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kubehenge.lab.kube.kinds import Kind, Obj, kind_of

HISTORY = 5_000  # changes kept for each kind: a watch from before the oldest answers 410
Key = tuple[str, str]  # namespace, name


class ChangeType(StrEnum):
    """What happened to an object, in the words of a watch."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """
    One stored state of an object.

    Shape: `raw` is the object as JSON, `raw[meta_from:meta_to]` its metadata; what lists and the collector look at stands beside it.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    version: int
    labels: Mapping[str, str]
    owners: tuple[str, ...]
    deleting: bool
    raw: bytes
    meta_from: int
    meta_to: int

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return (self.namespace, self.name)

    @property
    def meta(self) -> bytes:
        """The metadata as JSON."""
        return self.raw[self.meta_from : self.meta_to]

    def obj(self) -> Obj:
        """The object, parsed afresh: the caller's own copy."""
        parsed: Obj = json.loads(self.raw)
        return parsed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """One write: the state it left (or, for a deletion, the last one) and the labels before it."""

    type: ChangeType
    record: Record
    before: Record | None


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def encode(kind: Kind, obj: Obj, version: int) -> Record:
    """The record of an object at a version; the metadata comes third, so that its bytes can be cut out."""
    meta = {**obj["metadata"], "resourceVersion": str(version)}
    head = f'{{"apiVersion":{json.dumps(kind.api_version)},"kind":{json.dumps(kind.kind)},"metadata":'.encode()
    meta_raw = _dump(meta)
    rest = _dump({name: value for name, value in obj.items() if name not in {"apiVersion", "kind", "metadata"}})
    tail = b"}" if rest == b"{}" else b"," + rest[1:]
    return Record(
        kind=kind,
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta["uid"],
        version=version,
        labels=meta.get("labels") or {},
        owners=tuple(reference["uid"] for reference in meta.get("ownerReferences") or ()),
        deleting="deletionTimestamp" in meta,
        raw=head + meta_raw + tail,
        meta_from=len(head),
        meta_to=len(head) + len(meta_raw),
    )


class Store:
    """All objects. Calls never wait, so what one task reads and writes between two awaits is one transaction."""

    def __init__(self) -> None:
        self.version = 1
        self._records: dict[Kind, dict[Key, Record]] = defaultdict(dict)
        self._order: dict[Kind, list[Key]] = defaultdict(list)
        self._by_owner: dict[str, set[tuple[Kind, Key]]] = defaultdict(set)
        self._by_uid: dict[str, Record] = {}
        self._history: dict[Kind, deque[Change]] = defaultdict(lambda: deque(maxlen=HISTORY))
        self._forgotten: dict[Kind, int] = {}
        self._start = 0
        self._listeners: list[Callable[[Change], None]] = []

    def load(self, version: int, bodies: Iterable[bytes]) -> None:
        """
        Take over saved objects; nothing before `version` can be watched any more.

        Errors: ValueError for a body that is no object of a served kind.
        """
        for body in bodies:
            obj = json.loads(body)
            kind = kind_of(obj)
            if kind is None:
                raise ValueError(f"{obj.get('apiVersion')} {obj.get('kind')} is no kind that this version serves")
            self._set(encode(kind, obj, int(obj["metadata"]["resourceVersion"])))
        self.version = self._start = version

    def begin(self) -> None:
        """Forget how what is there came to be: the types of a real server are younger than its first numbers, too."""
        self._start = self.version

    def bodies(self) -> list[bytes]:
        """Every object as JSON, for saving."""
        return [record.raw for records in self._records.values() for record in records.values()]

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` after every write; the answer ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def find(self, kind: Kind, namespace: str, name: str) -> Record | None:
        """The record of this name, or None."""
        return self._records[kind].get((namespace, name))

    def find_uid(self, uid: str) -> Record | None:
        """The record of this uid, of whatever kind, or None."""
        return self._by_uid.get(uid)

    def owned_by(self, uid: str) -> tuple[Record, ...]:
        """The records whose ownerReferences name this uid."""
        return tuple(self._records[kind][key] for kind, key in sorted(self._by_owner.get(uid, ()), key=lambda item: item[1]))

    def count(self, kind: Kind) -> int:
        """How many objects of a kind there are."""
        return len(self._records[kind])

    def scan(self, kind: Kind, namespace: str = "", after: Key | None = None) -> Iterator[Record]:
        """The records of a kind, of one namespace when given, by namespace and name, those behind `after` only."""
        order, records = self._order[kind], self._records[kind]
        start = (namespace, "") if namespace else ("", "")
        at = bisect.bisect_left(order, start) if after is None or after < start else bisect.bisect_right(order, after)
        for key in order[at:]:
            if namespace and key[0] != namespace:
                return
            yield records[key]

    def put(self, kind: Kind, obj: Obj) -> Record:
        """Store an object as a new version and tell the listeners."""
        self.version += 1
        record = encode(kind, obj, self.version)
        before = self._records[kind].get(record.key)
        self._set(record)
        self._tell(Change(type=ChangeType.ADDED if before is None else ChangeType.MODIFIED, record=record, before=before))
        return record

    def remove(self, record: Record) -> None:
        """Remove an object; the state given is told as its last, with the version of the removal."""
        self.version += 1
        self._unset(record)
        last = encode(record.kind, record.obj(), self.version)
        self._tell(Change(type=ChangeType.DELETED, record=last, before=record))

    def since(self, kind: Kind, version: int) -> list[Change] | None:
        """The changes of a kind after a version; None when they are no longer all kept."""
        if version < max(self._forgotten.get(kind, 0), self._start):
            return None
        found: list[Change] = []
        for change in reversed(self._history[kind]):
            if change.record.version <= version:
                break
            found.append(change)
        return found[::-1]

    def forget(self, kind: Kind) -> None:
        """Drop the kind's history, as the real server does when it compacts: older watches and lists have to start again."""
        self._history[kind].clear()
        self._forgotten[kind] = self.version

    def _set(self, record: Record) -> None:
        records = self._records[record.kind]
        before = records.get(record.key)
        if before is None:
            bisect.insort(self._order[record.kind], record.key)
        else:
            self._unlink(before)
        records[record.key] = record
        self._by_uid[record.uid] = record
        for owner in record.owners:
            self._by_owner[owner].add((record.kind, record.key))

    def _unset(self, record: Record) -> None:
        stored = self._records[record.kind].pop(record.key)
        order = self._order[record.kind]
        del order[bisect.bisect_left(order, record.key)]
        self._unlink(stored)
        self._by_uid.pop(record.uid, None)

    def _unlink(self, record: Record) -> None:
        for owner in record.owners:
            held = self._by_owner[owner]
            held.discard((record.kind, record.key))
            if not held:
                del self._by_owner[owner]

    def _tell(self, change: Change) -> None:
        history = self._history[change.record.kind]
        if len(history) == history.maxlen:
            self._forgotten[change.record.kind] = history[0].record.version
        history.append(change)
        for listener in tuple(self._listeners):
            listener(change)
