"""What a new management cluster holds before anybody has asked for a cluster: the ClusterClasses with their templates."""

from __future__ import annotations

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.capi import classes
from kubehenge.lab.kube.registry import Registry, WriteOptions

_OPTIONS = WriteOptions(manager="kubehenge-lab")


def seed(registry: Registry) -> None:
    """Make the classes and templates that are not there yet; those that are stay as they are."""
    for distribution in classes.DISTRIBUTIONS:
        wanted = [*classes.templates(distribution), (kinds.CLUSTER_CLASS, classes.cluster_class(distribution))]
        for kind, obj in wanted:
            if registry.store.find(kind, classes.NAMESPACE, obj["metadata"]["name"]) is None:
                registry.create(kind, classes.NAMESPACE, obj, _OPTIONS)
