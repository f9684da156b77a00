"""Garbage collection: objects whose owners are gone, foreground and orphaning deletion, and the contents of ended namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.errors import ApiError
from kubehenge.lab.kube.registry import FOREGROUND, ORPHAN, DeleteOptions, Registry, WriteOptions
from kubehenge.lab.kube.storage import Change, ChangeType, Record

_AGENT = WriteOptions(manager="kube-controller-manager")


class Collector:
    """Follows every change and removes, a moment later, what nobody owns any more."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        self._touched: dict[str, None] = {}
        self._planned = False
        self._stop = self._store.listen(self._note)

    def start(self) -> None:
        """Look at everything once, as after a restart."""
        for kind in kinds.KINDS:
            for record in self._store.scan(kind):
                if record.owners or record.deleting:
                    self._plan(record.uid)

    def stop(self) -> None:
        """Follow no more changes."""
        self._stop()

    def _note(self, change: Change) -> None:
        record = change.record
        if change.type is ChangeType.DELETED:
            for dependant in self._store.owned_by(record.uid):
                self._plan(dependant.uid)
            for owner in record.owners:  # a foreground deletion may wait for this one
                self._plan(owner)
            if record.namespace and (namespace := self._store.find(kinds.NAMESPACE, "", record.namespace)) and namespace.deleting:
                self._plan(namespace.uid)
        elif record.deleting or (record.owners and (change.before is None or change.before.owners != record.owners)):
            self._plan(record.uid)

    def _plan(self, uid: str) -> None:
        self._touched[uid] = None
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._planned = False
        touched, self._touched = self._touched, {}
        for uid in touched:
            record = self._store.find_uid(uid)
            if record is None:
                continue
            try:
                self._collect(record)
            except ApiError:
                continue  # refused for now; a later change brings it up again

    def _collect(self, record: Record) -> None:
        if record.owners and not record.deleting:
            self._judge_owners(record)
        elif record.deleting and record.kind is kinds.NAMESPACE:
            self._empty(record)
        elif record.deleting:
            finalizers = record.obj()["metadata"].get("finalizers") or []
            if FOREGROUND in finalizers:
                self._finish_foreground(record)
            elif ORPHAN in finalizers:
                self._orphan(record)

    def _judge_owners(self, record: Record) -> None:
        owners = [self._store.find_uid(uid) for uid in record.owners]
        alive = [owner for owner in owners if owner is not None]
        if not alive:
            self._registry.delete(record.kind, record.namespace, record.name, DeleteOptions(uid=record.uid))
        elif len(alive) < len(owners):
            self._keep_owners(record, {owner.uid for owner in alive})

    def _keep_owners(self, record: Record, uids: set[str]) -> None:
        obj = record.obj()
        kept = [reference for reference in obj["metadata"]["ownerReferences"] if reference["uid"] in uids]
        obj["metadata"]["ownerReferences"] = kept
        self._registry.update(record.kind, record.namespace, record.name, obj, _AGENT)

    def _finish_foreground(self, record: Record) -> None:
        dependants = self._store.owned_by(record.uid)
        for dependant in dependants:
            if not dependant.deleting:
                self._registry.delete(dependant.kind, dependant.namespace, dependant.name, DeleteOptions(policy="Foreground"))
        if not self._store.owned_by(record.uid):
            self._drop_finalizer(record, FOREGROUND)

    def _orphan(self, record: Record) -> None:
        for dependant in self._store.owned_by(record.uid):
            self._keep_owners(dependant, set(dependant.owners) - {record.uid})
        self._drop_finalizer(record, ORPHAN)

    def _drop_finalizer(self, record: Record, finalizer: str) -> None:
        obj = record.obj()
        obj["metadata"]["finalizers"] = [name for name in obj["metadata"]["finalizers"] if name != finalizer]
        self._registry.update(record.kind, record.namespace, record.name, obj, _AGENT)

    def _empty(self, namespace: Record) -> None:
        for record in list(self._contents(namespace.name)):
            if not record.deleting:
                self._registry.delete(record.kind, record.namespace, record.name, DeleteOptions())
        if next(self._contents(namespace.name), None) is None:
            self._store.remove(namespace)

    def _contents(self, namespace: str) -> Iterator[Record]:
        for kind in kinds.KINDS:
            if kind.namespaced:
                yield from self._store.scan(kind, namespace)
