"""The Cluster itself: what was declared, with our marks, its nodes and its range of VM ids (MODEL 17, 30, 35)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubehenge.model.canon import Body
from kubehenge.model.identity import ANNOTATION_ONLINE_NODES, ANNOTATION_POOL, ANNOTATION_VM_ID_RANGE, Incarnation, mark_annotations
from kubehenge.model.resource import DesiredResource, ResourceRef
from kubehenge.resources.credentials import OWN_LABEL, namespace_ref


def cluster_ref(who: Incarnation) -> ResourceRef:
    """Return the key of a cluster's Cluster."""
    return ResourceRef(kind="kube.cluster", name=who.scope)


def cluster(
    who: Incarnation, declared: Body, *, poolid: str, vm_ids: tuple[int, int], nodes: Sequence[str], fixed: Mapping[str, Any]
) -> DesiredResource:
    """
    Return the Cluster as it is asked for.

    `poolid` is the Proxmox VE pool of its VMs. `nodes` are the Proxmox VE nodes that new VMs may go to; without any the annotation is
    left out, and the class's own rule applies. `fixed` may hold `oidc`, the providers that were the site's default when the cluster
    was first planned.
    """
    metadata = declared["metadata"]
    annotations = {
        **metadata.get("annotations", {}),
        **mark_annotations(who),
        ANNOTATION_POOL: poolid,
        ANNOTATION_VM_ID_RANGE: f"{vm_ids[0]}-{vm_ids[1]}",
    }
    if nodes:
        annotations[ANNOTATION_ONLINE_NODES] = ",".join(nodes)
    return DesiredResource(
        ref=cluster_ref(who),
        body={
            "apiVersion": declared["apiVersion"],
            "kind": declared["kind"],
            "metadata": {
                "name": who.name,
                "namespace": who.namespace,
                "labels": {**metadata.get("labels", {}), OWN_LABEL: who.name},
                "annotations": annotations,
            },
            "spec": _with_providers(declared["spec"], fixed.get("oidc")),
        },
        requires=(namespace_ref(who.namespace),),
    )


def _with_providers(spec: Mapping[str, Any], providers: Any) -> Mapping[str, Any]:
    topology = spec["topology"]
    variables = topology.get("variables", [])
    if not providers or any(item["name"] == "oidc" for item in variables):
        return spec
    return {**spec, "topology": {**topology, "variables": [*variables, {"name": "oidc", "value": providers}]}}
