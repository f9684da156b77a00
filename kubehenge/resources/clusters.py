"""The Cluster itself: what was declared, with our marks, its nodes and its range of VM ids (MODEL 17, 30, 35)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubehenge.model.canon import Body
from kubehenge.model.cluster import IdentityProvider
from kubehenge.model.distribution import FACTS, find_distribution, is_content_name
from kubehenge.model.identity import ANNOTATION_ONLINE_NODES, ANNOTATION_POOL, ANNOTATION_VM_ID_RANGE, Incarnation, mark_annotations
from kubehenge.model.resource import DesiredResource, ResourceRef
from kubehenge.resources.class_objects import class_ref
from kubehenge.resources.credentials import OWN_LABEL, namespace_ref
from kubehenge.resources.providers import scale_ref


def cluster_ref(who: Incarnation) -> ResourceRef:
    """Return the key of a cluster's Cluster."""
    return ResourceRef(kind="kube.cluster", name=who.scope)


def cluster(
    who: Incarnation,
    declared: Body,
    *,
    poolid: str,
    vm_ids: tuple[int, int],
    nodes: Sequence[str],
    fixed: Mapping[str, Any],
    pinned: str = "",
) -> DesiredResource:
    """
    Return the Cluster as it is asked for.

    `poolid` is the Proxmox VE pool of its VMs. `nodes` are the Proxmox VE nodes that new VMs may go to; without any the annotation is
    left out, and the class's own rule applies. `fixed` is `fixed_for` of the declaration that was planned first. `pinned` is the
    content name of the class that it runs; a file that writes a content name itself is followed, and without a pin the class is the
    one that the file names (MODEL 31).
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
    spec = _of_class(_with_ranges(_with_providers(declared["spec"], fixed.get("oidc")), fixed.get("ranges", {})), pinned)
    named = spec["topology"]["classRef"]["name"]
    requires = (namespace_ref(who.namespace), class_ref(named), scale_ref(str(find_distribution(named))))
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
            "spec": spec,
        },
        requires=requires,
    )


def fixed_for(declared: Body, providers: Sequence[IdentityProvider]) -> dict[str, Any]:
    """
    Return what a cluster keeps from its first planning on: its ranges and the site's default identity providers where it names none.

    Another default later is for clusters made afterwards; and ranges can't change in a cluster's life.
    """
    fixed: dict[str, Any] = {}
    network = declared["spec"].get("clusterNetwork") or {}
    distribution = find_distribution(declared["spec"]["topology"]["classRef"]["name"])
    if distribution is not None:
        own = {"pods": FACTS[distribution].pods, "services": FACTS[distribution].services}
        fixed["ranges"] = {name: block for name, block in own.items() if not network.get(name)}
    if providers:
        fixed["oidc"] = [_provider(one) for one in providers]
    return fixed


def _provider(provider: IdentityProvider) -> dict[str, Any]:
    """Return a provider as the variable `oidc` writes it; what is empty is left to the class's defaults."""
    written = {
        "issuerURL": provider.issuer_url,
        "clientID": provider.client_id,
        "usernameClaim": provider.username_claim,
        "usernamePrefix": provider.username_prefix,
        "groupsClaim": provider.groups_claim,
        "groupsPrefix": provider.groups_prefix,
        "scopes": list(provider.scopes),
        "certificateAuthority": provider.certificate_authority,
    }
    return {name: value for name, value in written.items() if value or name.endswith("Prefix")}


def _with_ranges(spec: Mapping[str, Any], ranges: Mapping[str, str]) -> Mapping[str, Any]:
    network = spec.get("clusterNetwork") or {}
    missing = {name: {"cidrBlocks": [block]} for name, block in ranges.items() if not network.get(name)}
    return {**spec, "clusterNetwork": {**network, **missing}} if missing else spec


def _of_class(spec: Mapping[str, Any], pinned: str) -> Mapping[str, Any]:
    topology = spec["topology"]
    named = topology["classRef"]["name"]
    if not pinned or is_content_name(named) or find_distribution(named) is not find_distribution(pinned):
        return spec
    return {**spec, "topology": {**topology, "classRef": {**topology["classRef"], "name": pinned}}}


def _with_providers(spec: Mapping[str, Any], providers: Any) -> Mapping[str, Any]:
    topology = spec["topology"]
    variables = topology.get("variables", [])
    if not providers or any(item["name"] == "oidc" for item in variables):
        return spec
    return {**spec, "topology": {**topology, "variables": [*variables, {"name": "oidc", "value": providers}]}}
