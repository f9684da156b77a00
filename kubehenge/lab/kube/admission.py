"""
The webhooks that judge objects: Cluster API's on Clusters and ClusterClasses, the providers' on their templates.

Source: what they refuse, in their words, as tried on Cluster API 1.14.2 and capmox 0.9.0.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from kubehenge.lab.kube import cluster_rules, kinds, schema, versions
from kubehenge.lab.kube.cluster_rules import TOPOLOGY, class_of
from kubehenge.lab.kube.errors import Cause, FieldError, denied, invalid, not_unmarshalled
from kubehenge.lab.kube.kinds import Kind, Obj
from kubehenge.lab.kube.storage import Store

CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"
OWNED_LABEL = "topology.cluster.x-k8s.io/owned"
SKIP_VERSION_CHECK = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check"
UNSAFE_CLASS = "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check"
_DEFAULTING = "default.cluster.cluster.x-k8s.io"
_VALIDATING = "validation.cluster.cluster.x-k8s.io"
_CLASS_MISSING = (
    "Cluster refers to ClusterClass {}, but this ClusterClass does not exist. Cluster topology has not been fully validated. "
    "The ClusterClass must be created to reconcile the Cluster"
)
_NO_REFERENCE = ": cannot get object - object reference not set"
# Kinds with a webhook that reads them as what they should be, before the API server checks them.
_TYPED = frozenset({kinds.CLUSTER, kinds.CLUSTER_CLASS, kinds.PROXMOX_MACHINE_TEMPLATE})
_GO_TYPES = {"integer": "int32", "boolean": "bool"}
_IMMUTABLE = {kinds.PROXMOX_MACHINE_TEMPLATE: "ProxmoxMachineTemplate is immutable"}


class Admission:
    """The verdict on each create, update and delete; it reads the store and writes nothing but defaults into the object."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def fill_in(self, kind: Kind, live: Obj | None, new: Obj) -> tuple[str, ...]:
        """
        Fill in defaults, in place, before anything is checked; the answer are warnings.

        Errors: ApiError 400 for what is of another type than it must be, 422 for variables.
        """
        if kind in _TYPED:
            _check_types(kind, new)
        if kind is kinds.CLUSTER:
            return self._variables(live, new)
        return ()

    def judge(self, kind: Kind, live: Obj | None, new: Obj) -> tuple[str, ...]:
        """
        Judge an object of the right form; the answer are warnings.

        Errors: ApiError 422.
        """
        if kind is kinds.CLUSTER:
            return self._cluster(live, new)
        if live is not None and kind in _IMMUTABLE and live.get("spec") != new.get("spec"):
            error = FieldError(field="spec", cause=Cause.FORBIDDEN, detail=_IMMUTABLE[kind])
            raise invalid(kind, new["metadata"]["name"], [error], webhook=f"validation.{kind.kind.lower()}.{kind.group}")
        if kind is kinds.CLUSTER_RESOURCE_SET:
            self._resource_set(live, new)
        return ()

    def check_delete(self, kind: Kind, live: Obj) -> None:
        """
        Judge a deletion.

        Errors: ApiError 403 for a ClusterClass that a Cluster uses.
        """
        if kind is not kinds.CLUSTER_CLASS:
            return
        key = (live["metadata"]["namespace"], live["metadata"]["name"])
        users = [f"{record.namespace}/{record.name}" for record in self._store.scan(kinds.CLUSTER) if class_of(record.obj()) == key]
        if users:
            webhook = "validation.clusterclass.cluster.x-k8s.io"
            raise denied(webhook, f"ClusterClass cannot be deleted because it is used by Cluster(s): {','.join(users)}")

    def _cluster(self, live: Obj | None, new: Obj) -> tuple[str, ...]:
        wrong = [*cluster_rules.check_name(new["metadata"]["name"]), *self._spec(live, new), *self._topology(live, new)]
        if ((live or {}).get("spec") or {}).get("topology") and "topology" not in (new.get("spec") or {}):
            wrong.append(FieldError(field=TOPOLOGY, cause=Cause.FORBIDDEN, detail="cannot be removed from an existing Cluster"))
        if wrong:
            raise invalid(kinds.CLUSTER, new["metadata"]["name"], wrong, webhook=_VALIDATING)
        key = class_of(new)
        if key is not None and self._store.find(kinds.CLUSTER_CLASS, *key) is None:
            return (_CLASS_MISSING.format("/".join(key)),)
        return ()

    def _variables(self, live: Obj | None, new: Obj) -> tuple[str, ...]:
        """Fill in and judge the variables by the class, where that is there."""
        topology = (new.get("spec") or {}).get("topology")
        if not topology:
            return ()
        version = topology.get("version", "")
        topology["version"] = version if version.startswith("v") else f"v{version}"
        key = class_of(new)
        if key is None:
            error = FieldError(field=f"{TOPOLOGY}.classRef.name", cause=Cause.REQUIRED, detail="cannot be empty")
            raise invalid(kinds.CLUSTER, new["metadata"]["name"], [error], webhook=_DEFAULTING)
        found = self._store.find(kinds.CLUSTER_CLASS, *key)
        if found is None:
            return ()
        definitions = found.obj()["spec"].get("variables") or []
        wrong = list(cluster_rules.fill_in(topology, definitions))
        old = ((live or {}).get("spec") or {}).get("topology") or {}
        wrong += cluster_rules.check_variables(topology, old, definitions)
        if wrong:
            raise invalid(kinds.CLUSTER, new["metadata"]["name"], wrong, webhook=_DEFAULTING)
        return ()

    def _spec(self, live: Obj | None, new: Obj) -> Iterator[FieldError]:
        spec, old = new.get("spec") or {}, (live or {}).get("spec") or {}
        for name in ("infrastructureRef", "controlPlaneRef"):
            if name in old and name not in spec:
                yield FieldError(field=f"spec.{name}", cause=Cause.FORBIDDEN, detail="cannot be removed")
        if not {"controlPlaneRef", "infrastructureRef", "topology"} & spec.keys():
            detail = "one of spec.controlPlaneRef, spec.infrastructureRef or spec.topology must be set"
            yield FieldError(field="spec", cause=Cause.FORBIDDEN, detail=detail)
        for name in ("pods", "services"):
            blocks = ((spec.get("clusterNetwork") or {}).get(name) or {}).get("cidrBlocks") or []
            for index, block in enumerate(blocks):
                if not _is_network(block):
                    field = f"spec.clusterNetwork.{name}.cidrBlocks[{index}]"
                    yield FieldError(field=field, cause=Cause.INVALID, value=block, detail=f"invalid CIDR address: {block}")

    def _topology(self, live: Obj | None, new: Obj) -> Iterator[FieldError]:
        topology, key = (new.get("spec") or {}).get("topology"), class_of(new)
        if not topology or key is None:
            return
        found = self._store.find(kinds.CLUSTER_CLASS, *key)
        cluster_class = found.obj() if found is not None else None
        yield from cluster_rules.check_topology(new, cluster_class)
        if live is None:
            return
        old_key = class_of(live)
        if cluster_class is None:
            yield cluster_rules.class_missing(key)
        elif old_key is None:
            if UNSAFE_CLASS not in (new["metadata"].get("annotations") or {}):
                yield cluster_rules.class_not_settable()
        else:
            yield from self._version_change(live, new, ceiling=not cluster_class["spec"].get("kubernetesVersions"))
            if key != old_key:
                yield from self._class_change(old_key, cluster_class)

    def _version_change(self, live: Obj, new: Obj, *, ceiling: bool) -> Iterator[FieldError]:
        wanted = new["spec"]["topology"]["version"]
        version, before = versions.parse(wanted), versions.parse(live["spec"]["topology"]["version"])
        if version is None:
            yield FieldError(field=f"{TOPOLOGY}.version", cause=Cause.INVALID, value=wanted, detail=cluster_rules.UNREADABLE)
        if before is None or SKIP_VERSION_CHECK in (new["metadata"].get("annotations") or {}):
            return
        if version is None:
            if detail := self._version_unsettled(live, before):
                yield FieldError(field=f"{TOPOLOGY}.version", cause=Cause.INVALID, value=wanted, detail=detail)
            return
        if version.text == before.text:
            return
        if detail := cluster_rules.version_step(before, version, ceiling=ceiling) or self._version_unsettled(live, before):
            yield FieldError(field=f"{TOPOLOGY}.version", cause=Cause.INVALID, value=wanted, detail=detail)

    def _class_change(self, before: tuple[str, str], after: Obj) -> Iterator[FieldError]:
        found = self._store.find(kinds.CLUSTER_CLASS, *before)
        if found is None:
            old, new = "/".join(before), f"{after['metadata']['namespace']}/{after['metadata']['name']}"
            detail = (
                f'valid ClusterClass with name "{old}" could not be retrieved, change from class "{old}" to class "{new}" cannot be '
                f'validated. Error: ClusterClass.cluster.x-k8s.io "{before[1]}" not found'
            )
            yield FieldError(field=f"{TOPOLOGY}.class", cause=Cause.FORBIDDEN, detail=detail)
        else:
            yield from cluster_rules.check_compatible(found.obj(), after)

    def _version_unsettled(self, live: Obj, before: versions.Version) -> str:
        """Why the version cannot be changed now: an earlier version has not reached every machine yet."""
        reasons = []
        reference = live["spec"].get("controlPlaneRef")
        control = self._find(reference, live["metadata"]["namespace"]) if reference else None
        if control is None:
            reasons.append(
                f"failed to check if control plane is upgrading: failed to get control plane object{_NO_REFERENCE if not reference else ''}"
            )
        else:
            asked, seen = control["spec"].get("version", ""), (control.get("status") or {}).get("version", "")
            if asked.removeprefix("v") != before.text:
                shown = asked.removeprefix("v")
                reasons.append(
                    f"Cluster.spec.topology.version {before.text} was not propagated to control plane yet (control plane version {shown})"
                )
            elif not seen:
                reasons.append("control plane is currently provisioning")
            elif seen != asked:
                reasons.append("control plane is still completing a previous upgrade")
        busy = [pool["metadata"]["name"] for pool in self._pools(live) if _pool_upgrading(pool, before)]
        if busy:
            reasons.append(f"there are still MachineDeployments completing a previous upgrade: [{', '.join(busy)}]")
        if not reasons:
            return ""
        text = reasons[0] if len(reasons) == 1 else "[" + ", ".join(reasons) + "]"
        return f"version cannot be changed: {text}"

    def _pools(self, cluster: Obj) -> Iterator[Obj]:
        name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
        for record in self._store.scan(kinds.MACHINE_DEPLOYMENT, namespace):
            if record.labels.get(CLUSTER_NAME_LABEL) == name and OWNED_LABEL in record.labels:
                yield record.obj()

    def _find(self, reference: dict[str, str], namespace: str) -> Obj | None:
        kind = kinds.find_by_name(reference["apiGroup"], reference["kind"])
        record = self._store.find(kind, namespace, reference["name"]) if kind is not None else None
        return record.obj() if record is not None else None

    def _resource_set(self, live: Obj | None, new: Obj) -> None:
        spec = new["spec"]
        spec.setdefault("strategy", "ApplyOnce")
        if live is not None and live["spec"].get("strategy") != spec["strategy"]:
            error = FieldError(field="spec.strategy", cause=Cause.INVALID, value=spec["strategy"], detail="field is immutable")
            webhook = "validation.clusterresourceset.addons.cluster.x-k8s.io"
            raise invalid(kinds.CLUSTER_RESOURCE_SET, new["metadata"]["name"], [error], webhook=webhook)


def _check_types(kind: Kind, new: Obj) -> None:
    for error in schema.check(kind.schema.fields["spec"], new.get("spec") or {}, "spec"):
        if error.cause is Cause.TYPE:
            wanted = error.detail.partition("must be of type ")[2].partition(":")[0]
            what = f"{error.value} into Go struct field {kind.kind}.{error.field} of type {_GO_TYPES.get(wanted, wanted)}"
            raise not_unmarshalled(f"default.{kind.kind.lower()}.{kind.group}", what)


def _pool_upgrading(pool: Obj, before: versions.Version) -> bool:
    if pool["spec"]["template"]["spec"].get("version", "").removeprefix("v") != before.text:
        return True
    seen: list[dict[str, Any]] = (pool.get("status") or {}).get("versions") or []
    return any(entry["version"].removeprefix("v") != before.text for entry in seen)


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text
