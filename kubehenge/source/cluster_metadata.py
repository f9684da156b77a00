"""Takes out of a Cluster document what others fill in, so that a file saved by `kubectl get -o yaml` declares the same (MODEL 17)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import islice
from typing import Any

from kubehenge.model import identity
from kubehenge.model.document import ProblemKind, Severity
from kubehenge.source.findings import Finding
from kubehenge.source.shape import quoted
from kubehenge.source.yaml_values import FAULT_LIMIT

_BY_THE_SERVER = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
_BY_KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"
_BY_KUBEHENGE = frozenset(
    {
        identity.ANNOTATION_SITE,
        identity.ANNOTATION_CLUSTER,
        identity.ANNOTATION_INCARNATION,
        identity.ANNOTATION_ONLINE_NODES,
        identity.ANNOTATION_VM_ID_RANGE,
        identity.ANNOTATION_POOL,
        "kubehenge.dev/cluster-name",
        "kubehenge.dev/auto-upgraded",
        "kubehenge.dev/held",
    }
)
_BY_PEOPLE = {"annotations": (identity.ANNOTATION_PROTECT,), "labels": ("kubehenge.dev/canary",)}


def without_foreign_fields(value: dict[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
    """
    Return the document without what the API server, kubectl and Kubehenge write, and what was found on the way.

    Left out with a warning: status, server-side metadata, Kubehenge's own annotations and labels. An unknown `kubehenge.dev/` name is an
    error: a misspelled `protect` protects nothing.
    """
    findings: list[Finding] = []
    kept = dict(value)
    if "status" in kept:
        del kept["status"]
        findings.append(_left_out(("status",), "`status` says how a cluster is, not how it is to be. It is left out."))
    metadata = kept.get("metadata")
    if not isinstance(metadata, dict):
        return kept, findings
    kept["metadata"] = metadata = dict(metadata)
    by_the_server = [name for name in _BY_THE_SERVER if metadata.pop(name, None) is not None]
    findings += [_left_out(("metadata", name), f"`{name}` is set by the API server. It is left out.") for name in by_the_server]
    for part in ("annotations", "labels"):
        names = metadata.get(part)
        if isinstance(names, dict):
            metadata[part] = dict(names)
            findings.extend(islice(_look_at_names(part, metadata[part]), FAULT_LIMIT))
    return kept, findings


def _look_at_names(part: str, names: dict[str, Any]) -> Iterator[Finding]:
    for name in [name for name in names if name.startswith(identity.LABEL_PREFIX) or name == _BY_KUBECTL]:
        path = ("metadata", part, name)
        if name in _BY_KUBEHENGE or name == _BY_KUBECTL:
            del names[name]
            writer = "kubectl" if name == _BY_KUBECTL else "Kubehenge"
            yield _left_out(path, f"`{name}` is written by {writer}. It is left out.")
        elif name not in _BY_PEOPLE[part]:
            known = [known for names in _BY_PEOPLE.values() for known in names]
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean `{near[0]}`?" if near else f"Known are {' and '.join(known)}."
            yield Finding(path=path, kind=ProblemKind.UNKNOWN, message=f"{quoted(name)} is not known among {part}. {hint}", on_key=True)


def _left_out(path: tuple[str, ...], message: str) -> Finding:
    return Finding(path=path, kind=ProblemKind.IGNORED, message=message, severity=Severity.WARNING, on_key=True)
