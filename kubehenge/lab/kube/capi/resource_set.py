"""ClusterResourceSets, and the stand-in for what they reach inside a cluster: which token its CCM and CSI run with."""

from __future__ import annotations

import hashlib
import json

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.admission import CLUSTER_NAME_LABEL
from kubehenge.lab.kube.capi.conditions import Condition, condition, is_true
from kubehenge.lab.kube.capi.objects import Objects, owner
from kubehenge.lab.kube.capi.pace import CONSUMER_ROLL_S, Pace
from kubehenge.lab.kube.kinds import Obj
from kubehenge.lab.kube.selectors import matches
from kubehenge.model.identity import ANNOTATION_TOKEN_GENERATION

SECRET_TYPE = "addons.cluster.x-k8s.io/resource-set"
CONSUMERS = ("ccm", "csi")
_ROLLED = "lab.kubehenge.dev/rolled-at"


def consumers_name(cluster: str) -> str:
    """The ConfigMap that says which token generation a cluster's CCM and CSI run with."""
    return f"{cluster}-lab-consumers"


class ResourceSets:
    """Applies ClusterResourceSets to the clusters they select, as soon as those have a control plane."""

    def __init__(self, objects: Objects, pace: Pace) -> None:
        self._objects = objects
        self._pace = pace

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Bring one ClusterResourceSet further; the answer is when a consumer has rolled."""
        objects = self._objects
        found = objects.find(kinds.CLUSTER_RESOURCE_SET, namespace, name)
        if found is None or "deletionTimestamp" in found["metadata"]:
            return None
        clusters = [
            record.obj()
            for record in objects.registry.store.scan(kinds.CLUSTER, namespace)
            if matches(found["spec"]["clusterSelector"], record.labels)
        ]
        resources = [(entry["kind"], self._resource(namespace, entry)) for entry in found["spec"]["resources"]]
        problem = self._problem(found, resources)
        ready = [
            cluster
            for cluster in clusters
            if is_true(cluster, "ControlPlaneInitialized")
            and not cluster["spec"].get("paused")
            and "deletionTimestamp" not in cluster["metadata"]
        ]
        after: float | None = None
        if problem is None:
            for cluster in ready:
                self._bind(found, cluster, [resource for _, resource in resources if resource is not None])
            waits = [left for cluster in ready if (left := self._roll(cluster, resources)) is not None]
            after = min(waits, default=None)
        applied = problem or condition("ResourcesApplied", True, "Applied")
        if problem is None and len(ready) < len(clusters):
            names = ", ".join(cluster["metadata"]["name"] for cluster in clusters if cluster not in ready)
            applied = condition("ResourcesApplied", False, "NotApplied", f"waiting for the control plane of {names}")
        status = {"observedGeneration": found["metadata"]["generation"]}
        objects.set_status(kinds.CLUSTER_RESOURCE_SET, found, status, [applied, condition("Paused", False, "NotPaused")])
        return after

    def _resource(self, namespace: str, entry: Obj) -> Obj | None:
        kind = kinds.SECRET if entry["kind"] == "Secret" else kinds.CONFIG_MAP
        return self._objects.find(kind, namespace, entry["name"])

    def _problem(self, found: Obj, resources: list[tuple[str, Obj | None]]) -> Condition | None:
        for (kind, resource), entry in zip(resources, found["spec"]["resources"], strict=True):
            if resource is None:
                return condition("ResourcesApplied", False, "InternalError", f"failed to get {kind} {entry['name']}: not found")
            if kind == "Secret" and resource.get("type") != SECRET_TYPE:
                return condition("ResourcesApplied", False, "WrongSecretType", f"Secret type {resource.get('type')} is not supported")
            self._own(found, kind, resource)
        return None

    def _own(self, found: Obj, kind: str, resource: Obj) -> None:
        reference = {**owner(kinds.CLUSTER_RESOURCE_SET, found), "controller": False, "blockOwnerDeletion": False}
        owners = resource["metadata"].get("ownerReferences") or []
        if all(entry["uid"] != reference["uid"] for entry in owners):
            resource["metadata"]["ownerReferences"] = [*owners, reference]
            self._objects.update(kinds.SECRET if kind == "Secret" else kinds.CONFIG_MAP, resource)

    def _bind(self, found: Obj, cluster: Obj, resources: list[Obj]) -> None:
        """Record in the cluster's binding what has been applied; ApplyOnce applies a resource once, Reconcile again when it changes."""
        objects, meta = self._objects, cluster["metadata"]
        kind, set_name = kinds.CLUSTER_RESOURCE_SET_BINDING, found["metadata"]["name"]
        binding = objects.find(kind, meta["namespace"], meta["name"]) or objects.create(
            kind,
            {
                "metadata": {
                    "name": meta["name"],
                    "namespace": meta["namespace"],
                    "ownerReferences": [owner(kinds.CLUSTER, cluster)],
                },
                "spec": {"clusterName": meta["name"]},
            },
        )
        others = [entry for entry in binding["spec"].get("bindings") or [] if entry["clusterResourceSetName"] != set_name]
        mine: Obj = next((entry for entry in binding["spec"].get("bindings") or [] if entry["clusterResourceSetName"] == set_name), {})
        before = {(entry["kind"], entry["name"]): entry for entry in mine.get("resources") or []}
        once = found["spec"].get("strategy", "ApplyOnce") == "ApplyOnce"
        entries = []
        for resource in resources:
            known = before.get((resource["kind"], resource["metadata"]["name"]))
            digest = "sha256:" + hashlib.sha256(json.dumps(resource.get("data"), sort_keys=True).encode()).hexdigest()
            if known is not None and (once or known["hash"] == digest):
                entries.append(known)
            else:
                identity = {"kind": resource["kind"], "name": resource["metadata"]["name"]}
                entries.append({**identity, "applied": True, "hash": digest, "lastAppliedTime": objects.now()})
        binding["spec"]["bindings"] = [*others, {"clusterResourceSetName": set_name, "resources": entries}]
        objects.update(kind, binding)

    def _roll(self, cluster: Obj, resources: list[tuple[str, Obj | None]]) -> float | None:
        """Let CCM, then CSI, take up the newest token, one after the other; the answer is when to look again."""
        generation = next(
            (
                found
                for kind, resource in resources
                if kind == "Secret"
                and resource is not None
                and (found := (resource["metadata"].get("annotations") or {}).get(ANNOTATION_TOKEN_GENERATION))
            ),
            None,
        )
        if generation is None:
            return None
        objects, meta = self._objects, cluster["metadata"]
        name = consumers_name(meta["name"])
        current = objects.find(kinds.CONFIG_MAP, meta["namespace"], name)
        if current is None:
            fresh = {
                "name": name,
                "namespace": meta["namespace"],
                "labels": {CLUSTER_NAME_LABEL: meta["name"]},
                "annotations": {_ROLLED: objects.now()},
                "ownerReferences": [owner(kinds.CLUSTER, cluster)],
            }
            objects.create(kinds.CONFIG_MAP, {"metadata": fresh, "data": dict.fromkeys(CONSUMERS, generation)})
            return None
        behind = [consumer for consumer in CONSUMERS if (current.get("data") or {}).get(consumer) != generation]
        if not behind:
            return None
        since = current["metadata"]["annotations"].get(_ROLLED, "")
        pending = current["metadata"]["annotations"].get(ANNOTATION_TOKEN_GENERATION)
        if pending != generation:  # seen just now: the roll begins
            current["metadata"]["annotations"].update({_ROLLED: objects.now(), ANNOTATION_TOKEN_GENERATION: generation})
            objects.update(kinds.CONFIG_MAP, current)
            return CONSUMER_ROLL_S
        if (left := self._pace.left(since, CONSUMER_ROLL_S)) > 0:
            return left
        current["data"][behind[0]] = generation
        current["metadata"]["annotations"][_ROLLED] = objects.now()
        objects.update(kinds.CONFIG_MAP, current)
        return CONSUMER_ROLL_S if len(behind) > 1 else None
