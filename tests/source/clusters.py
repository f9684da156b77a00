"""Builds documents for tests: a Cluster that is accepted, with single fields set or taken out."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from kubehenge.model.document import JudgedDocument
from kubehenge.source.judge import judge_file

GONE = object()
"""Takes a field out."""

VARIABLES: dict[str, Any] = {
    "controlPlaneEndpoint": "192.0.2.50",
    "network": {
        "bridge": "vmbr0",
        "addresses": ["192.0.2.51-192.0.2.69"],
        "prefix": 24,
        "gateway": "192.0.2.1",
        "dnsServers": ["192.0.2.1"],
    },
    "storage": "shared-storage",
}
RKE2: dict[str, Any] = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": {"name": "prod", "namespace": "clusters"},
    "spec": {
        "topology": {
            "classRef": {"name": "kubehenge-rke2", "namespace": "kubehenge-system"},
            "version": "v1.36.5+rke2r1",
            "controlPlane": {"replicas": 3},
            "workers": {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": 3}]},
            "variables": [],
        },
    },
}
DISTRIBUTIONS = {"kubeadm": "v1.36.5", "rke2": "v1.36.5+rke2r1", "k3s": "v1.36.5+k3s1"}


def changed(document: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a copy with fields set; `__` stands between the steps of a path, and `_3` in it for a place in a list."""
    document = deepcopy(document)
    for path, value in fields.items():
        *steps, last = (int(step[1:]) if step[:1] == "_" and step[1:].isdigit() else step for step in path.split("__"))
        inner: Any = document
        for step in steps:
            inner = inner[step] if isinstance(step, int) else inner.setdefault(step, {})
        if value is GONE:
            del inner[last]
        else:
            inner[last] = value
    return document


def cluster(distribution: str = "rke2", *, variables: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Return a Cluster; `variables` change single variables, by name and path, `fields` the rest."""
    values = changed(VARIABLES | ({"cni": "cilium"} if distribution == "kubeadm" else {}), **(variables or {}))
    document = changed(
        RKE2,
        spec__topology__classRef__name=f"kubehenge-{distribution}",
        spec__topology__version=DISTRIBUTIONS[distribution],
        spec__topology__variables=[{"name": name, "value": value} for name, value in values.items()],
    )
    return changed(document, **fields)


def text(document: Any) -> bytes:
    """Write a document; JSON behind `---` is YAML."""
    return b"---\n" + json.dumps(document, indent=1).encode() + b"\n"


def judge(document: Any) -> JudgedDocument:
    """Judge one document."""
    (judged,) = judge_file("prod.yaml", text(document))
    return judged


def findings(document: Any) -> list[tuple[str, str]]:
    """Return field and kind of every problem, warnings marked by a `?`."""
    return [(problem.field, f"{problem.kind}{'?' if problem.severity == 'warning' else ''}") for problem in judge(document).problems]
