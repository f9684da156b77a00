"""How a Cluster stands while Cluster API builds, changes or removes it (facts: cluster-api, 1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubehenge.drivers.kube.errors import as_mapping
from kubehenge.drivers.kube.reduce import Object, conditions_of, is_rolling, is_true

AVAILABLE = "available"
ROLLED = "rolled"


def is_settled(obj: Object, *, generation: int, rolled: bool) -> bool:
    """Tell whether Cluster API has seen a generation and made it so; `rolled` also waits for every machine."""
    status = as_mapping(obj.get("status"))
    conditions = conditions_of(obj)
    seen = status.get("observedGeneration", 0) >= generation
    return seen and is_true(conditions, "Available") and not (rolled and is_rolling(conditions))


def progress(obj: Object, *, rolled: bool) -> tuple[str, int, int]:
    """Say what is waited for, and how much of it is there: done, of."""
    spec, status = as_mapping(obj.get("spec")), as_mapping(obj.get("status"))
    if spec.get("paused"):
        return "the Cluster, which is paused", 0, 0
    stuck = _stuck(conditions_of(obj))
    for name, part, wanted in (
        ("control-plane nodes", as_mapping(status.get("controlPlane")), _control_planes(spec)),
        ("workers", as_mapping(status.get("workers")), _workers(spec)),
    ):
        of = part.get("desiredReplicas", wanted) or wanted
        done = min(part.get("readyReplicas", 0), part.get("upToDateReplicas", 0)) if rolled else part.get("readyReplicas", 0)
        if of and done < of:
            return f"{done} of {of} {name}{stuck}", done, of
    return f"the Cluster to be available{stuck}", 0, 0


def _control_planes(spec: Mapping[str, Any]) -> int:
    return int(as_mapping(as_mapping(spec.get("topology")).get("controlPlane")).get("replicas") or 0)


def _workers(spec: Mapping[str, Any]) -> int:
    workers = as_mapping(as_mapping(spec.get("topology")).get("workers"))
    return sum(int(pool.get("replicas") or 0) for pool in workers.get("machineDeployments") or ())


def _stuck(conditions: Mapping[str, Mapping[str, Any]]) -> str:
    """What Cluster API says when it cannot go on by itself."""
    topology = conditions.get("TopologyReconciled", {})
    if topology.get("status") == "False" and topology.get("reason") in {"ReconcileFailed", "ClusterClassNotReconciled"}:
        return f"; Cluster API says: {' '.join(str(topology.get('message', '')).split())}"
    return ""


def deletion(obj: Object) -> str:
    """Say what a deletion waits for."""
    condition = conditions_of(obj).get("Deleting", {})
    message = " ".join(str(condition.get("message") or "").split())
    finalizers = ", ".join(obj["metadata"].get("finalizers") or ())
    return message or (f"the finalizers {finalizers}" if finalizers else "its deletion")
