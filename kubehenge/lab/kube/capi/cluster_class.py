"""ClusterClasses: what they say about themselves, and that their templates are theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.capi.conditions import condition
from kubehenge.lab.kube.capi.objects import Objects, mention
from kubehenge.lab.kube.cluster_rules import pools_of
from kubehenge.lab.kube.kinds import Obj


class ClusterClasses:
    """Looks after ClusterClasses, as Cluster API does."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def reconcile(self, namespace: str, name: str) -> None:
        """Take hold of a class's templates, and write down its variables; templates that are not there yet wake it when they come."""
        found = self._objects.find(kinds.CLUSTER_CLASS, namespace, name)
        if found is None or "deletionTimestamp" in found["metadata"]:
            return
        missing = [reference for reference in references(found) if not self._hold(found, reference)]
        why = "; ".join(f"{reference['kind']} {reference['name']} not found" for reference in missing)
        variables = [
            {
                "name": variable["name"],
                "definitionsConflict": False,
                "definitions": [{"from": "inline", "required": variable["required"], "schema": variable["schema"]}],
            }
            for variable in sorted(found["spec"].get("variables") or [], key=lambda variable: variable["name"])
        ]
        listed = [
            condition("RefVersionsUpToDate", True, "RefVersionsUpToDate")
            if not missing
            else condition("RefVersionsUpToDate", None, "InternalError", why),
            condition("VariablesReady", True, "VariablesReady"),
            condition("Paused", False, "NotPaused"),
        ]
        status = {"observedGeneration": found["metadata"]["generation"], **({"variables": variables} if variables else {})}
        self._objects.set_status(kinds.CLUSTER_CLASS, found, status, listed)

    def _hold(self, cluster_class: Obj, reference: Mapping[str, str]) -> bool:
        """Make a class an owner of a template; whether that is there."""
        kind = kinds.find_by_name(reference["apiVersion"].partition("/")[0], reference["kind"])
        if kind is None:
            return False
        template = self._objects.find(kind, cluster_class["metadata"]["namespace"], reference["name"])
        if template is None or "deletionTimestamp" in template["metadata"]:
            return template is not None
        owners: list[dict[str, Any]] = template["metadata"].get("ownerReferences") or []
        mine = mention(kinds.CLUSTER_CLASS, cluster_class)
        if all(entry["uid"] != mine["uid"] for entry in owners):
            template["metadata"]["ownerReferences"] = [*owners, mine]
            self._objects.update(kind, template)
        return True


def references(cluster_class: Obj) -> Iterator[Mapping[str, str]]:
    """The templates that a class refers to."""
    spec = cluster_class["spec"]
    control = spec["controlPlane"]
    holders = [spec["infrastructure"], control, control.get("machineInfrastructure") or {}]
    for pool in pools_of(spec):
        holders += [pool["bootstrap"], pool["infrastructure"]]
    for holder in holders:
        if reference := holder.get("templateRef"):
            yield reference
