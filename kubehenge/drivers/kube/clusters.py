"""How a Cluster stands while Cluster API builds, changes or removes it (facts: cluster-api, 1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kubehenge.drivers.kube import explaining
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


def progress(obj: Object, *, rolled: bool, now: datetime) -> tuple[str, int, int]:
    """Say what is waited for, and how much of it is there: done, of."""
    spec, status = as_mapping(obj.get("spec")), as_mapping(obj.get("status"))
    if spec.get("paused"):
        return "the Cluster, which is paused", 0, 0
    told = " ".join(trouble.text for trouble in explaining.of_cluster(obj) if trouble.counts(now))
    stuck = f"; {told}" if told else ""
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


def deletion(obj: Object) -> str:
    """Say what a deletion waits for."""
    condition = conditions_of(obj).get("Deleting", {})
    message = " ".join(str(condition.get("message") or "").split())
    finalizers = ", ".join(obj["metadata"].get("finalizers") or ())
    return message or (f"the finalizers {finalizers}" if finalizers else "its deletion")
