"""What a new management cluster holds before anybody has asked for a cluster: its providers, and ClusterClasses with their templates."""

from __future__ import annotations

from collections.abc import Iterator

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.capi import classes
from kubehenge.lab.kube.kinds import Kind, Obj
from kubehenge.lab.kube.registry import Registry, WriteOptions

_OPTIONS = WriteOptions(manager="kubehenge-lab")
_CLUSTERCTL = WriteOptions(manager="clusterctl")
_PROVIDER = "cluster.x-k8s.io/provider"
_PREFIX = {"kubeadm": "capi-kubeadm", "rke2": "rke2", "k3s": "capi-k3s"}


def seed_classes(registry: Registry) -> None:
    """Make the classes and templates that are not there yet; those that are stay as they are."""
    for distribution in classes.DISTRIBUTIONS:
        wanted = [*classes.templates(distribution), (kinds.CLUSTER_CLASS, classes.cluster_class(distribution))]
        for kind, obj in wanted:
            _make(registry, kind, classes.NAMESPACE, obj, _OPTIONS)


def seed_providers(registry: Registry) -> None:
    """Make the providers' namespaces and Deployments, and capmox's webhooks; a distribution's controllers rest until they are used."""
    for namespace, name, provider, replicas in _deployments():
        _make(registry, kinds.NAMESPACE, "", {"metadata": {"name": namespace}}, _CLUSTERCTL)
        labels = {_PROVIDER: provider}
        body = {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": {"replicas": replicas}}
        _make(registry, kinds.DEPLOYMENT, namespace, body, _CLUSTERCTL)
    service = {"name": "capmox-webhook-service", "namespace": "capmox-system", "path": "/validate"}
    webhook = {
        "name": "validation.proxmoxmachinetemplate.infrastructure.cluster.x-k8s.io",
        "clientConfig": {"service": service},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    body = {"metadata": {"name": "capmox-validating-webhook-configuration"}, "webhooks": [webhook]}
    _make(registry, kinds.VALIDATING_WEBHOOKS, "", body, _CLUSTERCTL)


def _deployments() -> Iterator[tuple[str, str, str, int]]:
    """Namespace, name, provider and replicas of each."""
    yield "capi-system", "capi-controller-manager", "cluster-api", 1
    yield "capmox-system", "capmox-controller-manager", "infrastructure-proxmox", 1
    for distribution in classes.DISTRIBUTIONS:
        for role in ("bootstrap", "control-plane"):
            stem = f"{_PREFIX[distribution.name]}-{role}"
            yield f"{stem}-system", f"{stem}-controller-manager", f"{role}-{distribution.name}", 0


def _make(registry: Registry, kind: Kind, namespace: str, obj: Obj, options: WriteOptions) -> None:
    if registry.store.find(kind, namespace, obj["metadata"]["name"]) is None:
        registry.create(kind, namespace, obj, options)
