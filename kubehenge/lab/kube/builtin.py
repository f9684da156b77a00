"""What the API server does by itself with the built-in kinds: namespaces, Secrets, ConfigMaps."""

from __future__ import annotations

import base64
import binascii

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.errors import Cause, FieldError, bad_request, invalid
from kubehenge.lab.kube.kinds import Kind, Obj

NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def prepare(kind: Kind, live: Obj | None, new: Obj) -> None:
    """
    Fill in, in place, what the server sets on a new or changed object of a built-in kind.

    Errors: ApiError 400 for Secret data that is no base64.
    """
    for name in ("data", "binaryData"):
        if not kind.custom and new.get(name) == {}:
            del new[name]  # what is empty is left out of a built-in kind's JSON
    if kind is kinds.NAMESPACE:
        _prepare_namespace(live, new)
    elif kind is kinds.SECRET:
        _prepare_secret(new)
    elif kind is kinds.DEPLOYMENT:
        _prepare_deployment(live, new)


def _prepare_namespace(live: Obj | None, new: Obj) -> None:
    new["metadata"].setdefault("labels", {})[NAMESPACE_LABEL] = new["metadata"]["name"]
    if live is None:
        new["spec"] = {"finalizers": ["kubernetes"]}
        new["status"] = {"phase": "Active"}
    else:
        new["spec"] = live["spec"]


def _prepare_deployment(live: Obj | None, new: Obj) -> None:
    """Nothing here runs Pods: a Deployment has at once what it asks for."""
    replicas = new.setdefault("spec", {}).setdefault("replicas", 1)
    changed = live is not None and live["spec"] != new["spec"]
    generation = 1 if live is None else live["metadata"]["generation"] + changed
    counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "updatedReplicas"), replicas) if replicas else {}
    new["status"] = {"observedGeneration": generation, **counts}


def encode_plain_text(kind: Kind, obj: Obj) -> Obj:
    """A Secret's `stringData` moved into its `data`; anything else as it is."""
    if kind is not kinds.SECRET or "stringData" not in obj:
        return obj
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in (obj["stringData"] or {}).items()}
    data = {**(obj.get("data") or {}), **encoded}
    return {**{name: value for name, value in obj.items() if name != "stringData"}, **({"data": data} if data else {})}


def _prepare_secret(new: Obj) -> None:
    for value in (new.get("data") or {}).values():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as exc:
            raise bad_request(f'Secret in version "v1" cannot be handled as a Secret: illegal base64 data: {exc}') from exc
    new.setdefault("type", "Opaque")


def check_update(kind: Kind, live: Obj, new: Obj) -> None:
    """
    Refuse changes that a built-in kind does not take.

    Errors: ApiError 422 for a Secret's type, and for data marked immutable.
    """
    errors: list[FieldError] = []
    if kind is kinds.SECRET and live.get("type") != new.get("type"):
        errors.append(FieldError(field="type", cause=Cause.INVALID, value=new.get("type"), detail="field is immutable"))
    if kind in {kinds.SECRET, kinds.CONFIG_MAP} and live.get("immutable"):
        errors.extend(
            FieldError(field=name, cause=Cause.FORBIDDEN, detail="field is immutable when `immutable` is set")
            for name in ("immutable", "data", "binaryData")
            if live.get(name) != new.get(name)
        )
    if errors:
        raise invalid(kind, new["metadata"]["name"], errors)
