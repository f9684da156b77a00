"""How the model reads and writes the API server: in its own process, under the names of the controllers it stands for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from kubehenge.lab.kube import kinds, patch
from kubehenge.lab.kube.admission import CLUSTER_NAME_LABEL
from kubehenge.lab.kube.capi.conditions import Condition, stamped
from kubehenge.lab.kube.kinds import Kind, Obj
from kubehenge.lab.kube.registry import DeleteOptions, Registry, WriteOptions
from kubehenge.lab.kube.storage import Change, ChangeType, Record

CONTROL_PLANE_LABEL = "cluster.x-k8s.io/control-plane"
DEPLOYMENT_LABEL = "cluster.x-k8s.io/deployment-name"
POOL_LABEL = "topology.cluster.x-k8s.io/deployment-name"
SET_LABEL = "cluster.x-k8s.io/set-name"
CLONED_FROM_KIND = "cluster.x-k8s.io/cloned-from-groupkind"
CLONED_FROM = "cluster.x-k8s.io/cloned-from-name"
_MANAGER = WriteOptions(manager="manager")
_STATUS = WriteOptions(manager="manager", subresource="status")
_TOPOLOGY = WriteOptions(manager="capi-topology", force=True)


class Objects:
    """The objects of the API server, with those of a cluster found by its label."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._store = registry.store
        self._applied: dict[tuple[Kind, str, str], tuple[str, int, Obj]] = {}
        self._of_cluster: dict[tuple[Kind, str, str], set[str]] = defaultdict(set)
        for kind in kinds.KINDS:
            for record in self._store.scan(kind):
                self._index(record)
        self.close = self._store.listen(self._note)

    def _note(self, change: Change) -> None:
        record = change.record
        if change.type is ChangeType.DELETED:
            self._of_cluster[record.kind, record.namespace, record.labels.get(CLUSTER_NAME_LABEL, "")].discard(record.name)
            self._applied.pop((record.kind, record.namespace, record.name), None)
        else:
            self._index(record)

    def _index(self, record: Record) -> None:
        if cluster := record.labels.get(CLUSTER_NAME_LABEL):
            self._of_cluster[record.kind, record.namespace, cluster].add(record.name)

    def now(self) -> str:
        """The time as objects have it."""
        return self.registry.now()

    def find(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        """An object, or None."""
        record = self._store.find(kind, namespace, name)
        return record.obj() if record is not None else None

    def of_cluster(self, kind: Kind, namespace: str, cluster: str) -> list[Obj]:
        """The objects of a kind that bear a cluster's label, by name."""
        names = self.names_of_cluster(kind, namespace, cluster)
        return [found for name in names if (found := self.find(kind, namespace, name)) is not None]

    def names_of_cluster(self, kind: Kind, namespace: str, cluster: str) -> list[str]:
        """The names of the objects of a kind that bear a cluster's label."""
        return sorted(self._of_cluster.get((kind, namespace, cluster), ()))

    def resolve(self, reference: Mapping[str, str] | None, namespace: str) -> tuple[Kind, Obj] | None:
        """The kind and object that a reference (apiGroup, kind, name) names, or None."""
        if not reference:
            return None
        kind = kinds.find_by_name(reference["apiGroup"], reference["kind"])
        found = self.find(kind, namespace, reference["name"]) if kind is not None else None
        return (kind, found) if kind is not None and found is not None else None

    def create(self, kind: Kind, obj: Obj) -> Obj:
        """
        A new object.

        Errors: ApiError.
        """
        return self.registry.create(kind, obj["metadata"]["namespace"], obj, _MANAGER).record.obj()

    def apply(self, kind: Kind, obj: Obj) -> Obj:
        """
        An object of the topology controller, applied with force; left alone when it was applied so before and its spec has not changed since.

        Errors: ApiError.
        """
        meta = obj["metadata"]
        key = (kind, meta["namespace"], meta["name"])
        live = self.find(*key)
        if live is not None and self._applied.get(key) == (live["metadata"]["uid"], live["metadata"]["generation"], obj):
            return live
        result = self.registry.patch(*key, patch.APPLY, obj, _TOPOLOGY).record.obj()
        self._applied[key] = (result["metadata"]["uid"], result["metadata"]["generation"], obj)
        return result

    def update(self, kind: Kind, obj: Obj) -> Obj:
        """
        The object as it should be, over the one just read.

        Errors: ApiError.
        """
        meta = obj["metadata"]
        if obj == self.find(kind, meta["namespace"], meta["name"]):
            return obj
        return self.registry.update(kind, meta["namespace"], meta["name"], obj, _MANAGER).record.obj()

    def set_status(self, kind: Kind, obj: Obj, status: Mapping[str, Any], conditions: Iterable[Condition]) -> Obj:
        """
        An object's whole status; conditions keep the time of their last change.

        Errors: ApiError.
        """
        meta = obj["metadata"]
        old = (obj.get("status") or {}).get("conditions") or ()
        current = stamped(old, conditions, now=self.now(), generation=meta["generation"])
        body = {**obj, "status": {**status, "conditions": current}}
        if body == obj:
            return obj
        return self.registry.update(kind, meta["namespace"], meta["name"], body, _STATUS).record.obj()

    def delete(self, kind: Kind, obj: Obj) -> None:
        """An object, unless it is gone or going already."""
        meta = obj["metadata"]
        record = self._store.find(kind, meta["namespace"], meta["name"])
        if record is not None and record.uid == meta["uid"] and not record.deleting:
            self.registry.delete(kind, meta["namespace"], meta["name"], DeleteOptions())

    def add_finalizer(self, kind: Kind, obj: Obj, finalizer: str) -> Obj:
        """The object with a finalizer."""
        held = obj["metadata"].get("finalizers") or []
        if finalizer in held:
            return obj
        obj["metadata"]["finalizers"] = [*held, finalizer]
        return self.update(kind, obj)

    def drop_finalizer(self, kind: Kind, obj: Obj, finalizer: str) -> None:
        """The object without a finalizer; it may be gone afterwards."""
        found = self.find(kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
        held = (found or {}).get("metadata", {}).get("finalizers") or []
        if found is None or finalizer not in held:
            return
        found["metadata"]["finalizers"] = [name for name in held if name != finalizer]
        self.update(kind, found)


def owner(kind: Kind, obj: Obj) -> dict[str, Any]:
    """An ownerReference to an object, as its controller."""
    meta = obj["metadata"]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def mention(kind: Kind, obj: Obj) -> dict[str, Any]:
    """An ownerReference to an object that does not control."""
    return {name: value for name, value in owner(kind, obj).items() if name not in {"controller", "blockOwnerDeletion"}}


def reference(kind: Kind, name: str) -> dict[str, str]:
    """A reference as Cluster API's own kinds hold it."""
    return {"apiGroup": kind.group, "kind": kind.kind, "name": name}
