"""
The two Secrets of a cluster and the ClusterResourceSet that hands one of them over (MODEL 8).

No body holds a secret: a Secret's body is its metadata, with the generation, the token's id and an HMAC of the token's secret.
"""

from __future__ import annotations

from typing import Any

from kubehenge.model.canon import ref
from kubehenge.model.identity import (
    ANNOTATION_TOKEN_GENERATION,
    ANNOTATION_TOKEN_HMAC,
    ANNOTATION_TOKEN_ID,
    Incarnation,
    mark_annotations,
)
from kubehenge.model.resource import DesiredResource, ResourceRef
from kubehenge.resources.access import token_ref
from kubehenge.resources.volumes import owner_ref

CLUSTER_LABEL = "cluster.x-k8s.io/cluster-name"
OWN_LABEL = "kubehenge.dev/cluster-name"
ANNOTATION_VOLUME_OWNER = "kubehenge.dev/volume-owner"


def namespace_ref(namespace: str) -> ResourceRef:
    """Return the key of a namespace of the management cluster, which is the site's and not a cluster's (MODEL 6)."""
    return ResourceRef(kind="kube.namespace", name=namespace)


def token_secret_name(cluster: str) -> str:
    """Return the name of the Secret that holds the cluster's own token."""
    return f"{cluster}-proxmox-token"


def cluster_token(who: Incarnation, poolid: str, generation: int) -> DesiredResource:
    """Return the Secret with the cluster's token, which the ClusterResourceSet hands over; it is the one that counts."""
    token = token_ref(who, generation)
    return _secret(
        who,
        token_secret_name(who.name),
        "addons.cluster.x-k8s.io/resource-set",
        {
            ANNOTATION_TOKEN_GENERATION: str(generation),
            ANNOTATION_TOKEN_ID: token.name,
            ANNOTATION_TOKEN_HMAC: ref(str(token), "hmac"),
            ANNOTATION_VOLUME_OWNER: ref(str(owner_ref(poolid)), "vmid"),
        },
    )


def capmox(who: Incarnation, token_id: str, hmac: str) -> DesiredResource:
    """Return capmox's Secret, which goes with its ProxmoxCluster."""
    return _secret(
        who,
        f"{who.name}-proxmox-credentials",
        "Opaque",
        {ANNOTATION_TOKEN_ID: token_id, ANNOTATION_TOKEN_HMAC: hmac},
    )


def _secret(who: Incarnation, name: str, kind: str, annotations: dict[str, Any]) -> DesiredResource:
    return DesiredResource(
        ref=ResourceRef(kind="kube.secret", name=f"{who.namespace}/{name}"),
        body={
            "apiVersion": "v1",
            "kind": "Secret",
            "type": kind,
            "metadata": {
                "name": name,
                "namespace": who.namespace,
                "labels": {CLUSTER_LABEL: who.name},
                "annotations": {**mark_annotations(who), **annotations},
            },
        },
        requires=(namespace_ref(who.namespace),),
    )


def resource_set(who: Incarnation) -> DesiredResource:
    """Return the ClusterResourceSet; strategy Reconcile, so that a new generation reaches the cluster."""
    name = f"{who.name}-proxmox"
    return DesiredResource(
        ref=ResourceRef(kind="kube.resource_set", name=f"{who.namespace}/{name}"),
        body={
            "apiVersion": "addons.cluster.x-k8s.io/v1beta2",
            "kind": "ClusterResourceSet",
            "metadata": {
                "name": name,
                "namespace": who.namespace,
                "annotations": mark_annotations(who),
            },
            "spec": {
                "strategy": "Reconcile",
                "clusterSelector": {"matchLabels": {OWN_LABEL: who.name}},
                "resources": [{"kind": "Secret", "name": token_secret_name(who.name)}],
            },
        },
        requires=(namespace_ref(who.namespace),),
    )
