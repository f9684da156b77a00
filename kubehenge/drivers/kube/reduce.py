"""Reducing objects of the management cluster to what Kubehenge keeps of them (MODEL 4, 21; facts: cluster-api, 1.3, 1.10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kubehenge.drivers.kube import kinds
from kubehenge.drivers.kube.errors import as_mapping
from kubehenge.model.distribution import CLASS_NAMESPACE, find_distribution, is_content_name
from kubehenge.model.identity import (
    ANNOTATION_CLUSTER,
    ANNOTATION_INCARNATION,
    ANNOTATION_SITE,
    ANNOTATION_TOKEN_GENERATION,
    ANNOTATION_TOKEN_ID,
    Incarnation,
)
from kubehenge.model.resource import Observed, ResourceRef

Object = Mapping[str, Any]

RESOURCE_SET_TYPE = "addons.cluster.x-k8s.io/resource-set"
_OF_THE_SERVER = frozenset({"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp"})
_MOVING = ("RollingOut", "ScalingUp", "ScalingDown", "Remediating")
_UP_TO_DATE = ("ControlPlaneMachinesUpToDate", "WorkerMachinesUpToDate")


def key_of(obj: Object) -> str:
    """Return `namespace/name`, or the name alone."""
    meta = obj["metadata"]
    namespace = meta.get("namespace")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def mark_of(obj: Object) -> str | None:
    """Return the mark that three annotations make up, None where they do not."""
    annotations = as_mapping(obj["metadata"].get("annotations"))
    site, scope, number = (annotations.get(name, "") for name in (ANNOTATION_SITE, ANNOTATION_CLUSTER, ANNOTATION_INCARNATION))
    namespace, slash, name = scope.partition("/")
    if not (site and slash and namespace and name and number.isdecimal()):
        return None
    return Incarnation(site=site, namespace=namespace, name=name, number=int(number)).mark


def whole(kind: str, obj: Object) -> Observed:
    """Reduce an object to its body: all but the server's own metadata and the status."""
    return Observed(ref=ResourceRef(kind=kind, name=key_of(obj)), body=_body(obj, kinds.WRITTEN[kind]), mark=mark_of(obj))


def _body(obj: Object, served: kinds.Served) -> dict[str, Any]:
    body = {name: value for name, value in obj.items() if name not in {"metadata", "status"}}
    body["metadata"] = {name: value for name, value in obj["metadata"].items() if name not in _OF_THE_SERVER}
    return body | {"apiVersion": served.api_version, "kind": served.kind}  # items of a list come without


def template(obj: Object, kind: str = "") -> Observed:
    """Reduce a template of a class; `kind` is its kind in the API, where the object does not say it."""
    kind = kind or str(obj["kind"])
    name = f"{kind}/{key_of(obj)}"
    return Observed(ref=ResourceRef(kind=kinds.TEMPLATE, name=name), body=_body(obj, kinds.TEMPLATES[kind]), mark=mark_of(obj))


def a_class(obj: Object) -> Observed | None:
    """Reduce a ClusterClass of ours: one under a plain name is a kind of its own; None for any other."""
    meta = obj["metadata"]
    if meta.get("namespace") != CLASS_NAMESPACE or find_distribution(meta["name"]) is None:
        return None
    return whole(kinds.CLASS if is_content_name(meta["name"]) else kinds.CLASS_ALIAS, obj)


def secret(obj: Object) -> Observed:
    """
    Reduce a Secret, of which nothing but the metadata is read.

    Its type is no metadata. It can never change once a Secret is made, so it is the one that we make such a Secret with.
    """
    found = whole(kinds.SECRET, obj)
    annotations = as_mapping(obj["metadata"].get("annotations"))
    generation = annotations.get(ANNOTATION_TOKEN_GENERATION, "")
    body = {name: value for name, value in found.body.items() if name not in {"data", "stringData", "immutable"}}
    body["type"] = RESOURCE_SET_TYPE if generation else "Opaque"
    outputs = {"generation": int(generation), "token_id": annotations.get(ANNOTATION_TOKEN_ID, "")} if generation.isdecimal() else {}
    return Observed(ref=found.ref, body=body, mark=found.mark, outputs=outputs)


def conditions_of(obj: Object) -> dict[str, Mapping[str, Any]]:
    """Return an object's conditions by type."""
    return {condition["type"]: condition for condition in as_mapping(obj.get("status")).get("conditions") or ()}


def is_true(conditions: Mapping[str, Mapping[str, Any]], kind: str) -> bool:
    """Tell whether a condition is there and True."""
    return conditions.get(kind, {}).get("status") == "True"


def is_rolling(conditions: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether machines are being replaced, added or removed, or wait for it."""
    behind = any(conditions.get(kind, {}).get("status") == "False" for kind in _UP_TO_DATE)
    topology = conditions.get("TopologyReconciled", {})
    waits = topology.get("status") == "False" and topology.get("reason") in {"ClusterUpgrading", "MachineDeploymentsUpgradeDeferred"}
    return behind or waits or any(is_true(conditions, kind) for kind in _MOVING)


def cluster_status(obj: Object) -> Observed:
    """Reduce a Cluster to how it stands."""
    meta, spec, status = obj["metadata"], as_mapping(obj.get("spec")), as_mapping(obj.get("status"))
    topology = as_mapping(spec.get("topology"))
    endpoint = as_mapping(spec.get("controlPlaneEndpoint"))
    conditions = conditions_of(obj)
    body = {
        "phase": status.get("phase", ""),
        "available": is_true(conditions, "Available"),
        "rolling": is_rolling(conditions),
        "control_plane": _counts(as_mapping(status.get("controlPlane"))),
        "workers": _counts(as_mapping(status.get("workers"))),
        "conditions": [
            {
                "type": kind,
                "status": condition.get("status", ""),
                "reason": condition.get("reason", ""),
                "message": condition.get("message", ""),
                "since": condition.get("lastTransitionTime", ""),
            }
            for kind, condition in sorted(conditions.items())
        ],
        "endpoint": f"{endpoint['host']}:{endpoint.get('port', 6443)}" if endpoint.get("host") else "",
        "version": topology.get("version", ""),
        "class": as_mapping(topology.get("classRef")).get("name", ""),
        "control_plane_kind": as_mapping(spec.get("controlPlaneRef")).get("kind", ""),
        "paused": bool(spec.get("paused")),
        "deleting": "deletionTimestamp" in meta,
        "observed_generation": status.get("observedGeneration", 0),
        "generation": meta.get("generation", 0),
    }
    return Observed(ref=ResourceRef(kind=kinds.STATUS, name=key_of(obj)), body=body, mark=mark_of(obj))


def _counts(part: Mapping[str, Any]) -> dict[str, int]:
    return {
        "desired": part.get("desiredReplicas", 0),
        "replicas": part.get("replicas", 0),
        "ready": part.get("readyReplicas", 0),
        "up_to_date": part.get("upToDateReplicas", 0),
    }


def machine(obj: Object) -> tuple[Observed, str]:
    """Reduce a Machine, still without its VM's id and node; returns the key of the ProxmoxMachine that has them."""
    meta, spec, status = obj["metadata"], as_mapping(obj.get("spec")), as_mapping(obj.get("status"))
    labels = as_mapping(meta.get("labels"))
    namespace = meta.get("namespace", "")
    body = {
        "cluster": f"{namespace}/{spec.get('clusterName', '')}",
        "control_plane": "cluster.x-k8s.io/control-plane" in labels,
        "deployment": labels.get("topology.cluster.x-k8s.io/deployment-name", ""),
        "version": spec.get("version", ""),
        "vmid": None,
        "vm_node": "",
        "ready": is_true(conditions_of(obj), "Ready"),
        "deleting": "deletionTimestamp" in meta,
        "phase": status.get("phase", ""),
        "node_name": as_mapping(status.get("nodeRef")).get("name", ""),
        "addresses": sorted({address["address"] for address in status.get("addresses") or () if address.get("address")}),
        "created_at": meta.get("creationTimestamp", ""),
    }
    found = Observed(ref=ResourceRef(kind=kinds.MACHINE, name=key_of(obj)), body=body)
    return found, f"{namespace}/{as_mapping(spec.get('infrastructureRef')).get('name', '')}"


class VmPlace(NamedTuple):
    """The VM that a ProxmoxMachine has: its id, None before it has one, the Proxmox VE node that it was made on, and what is wrong."""

    vmid: int | None = None
    node: str = ""
    trouble: str = ""


def vm_place(obj: Object, trouble: str = "") -> VmPlace:
    """Return the VM of a ProxmoxMachine."""
    vmid = as_mapping(obj.get("spec")).get("virtualMachineID")
    return VmPlace(int(vmid) if vmid else None, as_mapping(obj.get("status")).get("proxmoxNode") or "", trouble)


def with_vms(machines: Iterable[tuple[Observed, str]], places: Mapping[str, VmPlace]) -> tuple[Observed, ...]:
    """Put their VMs into machines."""
    nowhere = VmPlace()
    found = ((machine, places.get(behind, nowhere)) for machine, behind in machines)
    return tuple(
        Observed(ref=one.ref, body={**one.body, "vmid": place.vmid, "vm_node": place.node, **_wrong(place)}) for one, place in found
    )


def _wrong(place: VmPlace) -> Mapping[str, str]:
    return {"trouble": place.trouble} if place.trouble else {}


def with_troubles(status: Observed, troubles: Sequence[Mapping[str, Any]]) -> Observed:
    """Put what keeps a cluster from going on into how it stands; what is well says nothing."""
    if not troubles:
        return status
    return Observed(ref=status.ref, body={**status.body, "troubles": [*status.body.get("troubles", ()), *troubles]}, mark=status.mark)
