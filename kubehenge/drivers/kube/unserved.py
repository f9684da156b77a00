"""Kinds that the management cluster does not serve: which resource definition is missing or too old, and what to install."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PATH = re.compile(r"^/apis/(?P<group>[^/]+)/(?P<version>[^/]+)/(?:namespaces/[^/]+/)?(?P<plural>[^/?]+)")

_BRINGS = {
    "cluster.x-k8s.io": "Cluster API 1.11 or newer",
    "addons.cluster.x-k8s.io": "Cluster API 1.11 or newer, with ClusterResourceSets",
    "infrastructure.cluster.x-k8s.io": "Cluster API's Proxmox provider (capmox) 0.8 or newer",
    "bootstrap.cluster.x-k8s.io": "the distribution's bootstrap provider of Cluster API",
    "controlplane.cluster.x-k8s.io": "the distribution's control-plane provider of Cluster API",
}
"""What serves the version of a group that Kubehenge speaks."""


_OF_KUBERNETES = frozenset({"apps", "admissionregistration.k8s.io"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A kind of a group and version, as a path names it."""

    group: str
    version: str
    plural: str


def wanted_by(path: str) -> Wanted | None:
    """Return the kind that a path is about, None for those of Kubernetes itself, which is never without them, and for paths of no kind."""
    found = _PATH.match(path)
    if found is None or found["group"] in _OF_KUBERNETES:
        return None
    return Wanted(group=found["group"], version=found["version"], plural=found["plural"])


def explain(wanted: Wanted, served: Iterable[str]) -> str:
    """Say what is missing and what to install; `served` are the versions of its group that the management cluster serves."""
    name = f"{wanted.plural}.{wanted.group}"
    brings = _BRINGS.get(wanted.group, f"what serves {wanted.group}/{wanted.version}")
    versions = sorted(served)
    if wanted.version in versions:
        return f"The management cluster serves {wanted.group}/{wanted.version} without {wanted.plural}: the CRD {name} is missing. Install {brings}."
    if versions:
        return (
            f"The management cluster serves {wanted.group} only as {', '.join(versions)}, and Kubehenge needs {wanted.version} for {wanted.plural}. "
            f"Upgrade to {brings}."
        )
    return f"The management cluster does not serve {wanted.group}: the CRD {name} is missing. Install {brings}."
