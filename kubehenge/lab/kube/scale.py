"""The subresource `scale`: how many replicas an object asks for and has, as an object of its own."""

from __future__ import annotations

from kubehenge.lab.kube.errors import bad_request
from kubehenge.lab.kube.kinds import Obj

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def of(obj: Obj) -> Obj:
    """An object's scale."""
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: obj["metadata"][name] for name in _KEPT},
        "spec": {"replicas": obj["spec"]["replicas"]} if obj["spec"].get("replicas") else {},
        "status": {"replicas": (obj.get("status") or {}).get("replicas", 0)},
    }


def change(obj: Obj, body: Obj) -> Obj:
    """
    The merge patch of an object that brings it to a changed scale.

    Errors: ApiError 400 for a number of replicas that is none.
    """
    replicas = (body.get("spec") or {}).get("replicas", obj["spec"]["replicas"])
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
        raise bad_request(f"spec.replicas: {replicas!r} is no number of replicas")
    version = (body.get("metadata") or {}).get("resourceVersion")
    return {"spec": {"replicas": replicas}, **({"metadata": {"resourceVersion": version}} if version else {})}
