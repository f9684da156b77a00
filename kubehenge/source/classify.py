"""Which documents are Kubehenge's, and which are skipped and why (ACCEPTANCE 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kubehenge.model.distribution import CLASS_NAMESPACE, CLASS_PREFIX
from kubehenge.model.document import ProblemKind
from kubehenge.source import cluster_shape, site_shape
from kubehenge.source.cluster_draft import Part
from kubehenge.source.findings import Finding
from kubehenge.source.shape import quoted


class OurKind(StrEnum):
    """The kinds that Kubehenge reads."""

    CLUSTER = "Cluster"
    SITE = "Site"
    APPROVAL_RULES = "ApprovalRules"


_VERSIONS = {
    OurKind.CLUSTER: cluster_shape.API_VERSION,
    OurKind.SITE: site_shape.API_VERSION,
    OurKind.APPROVAL_RULES: site_shape.API_VERSION,
}
_OUR_GROUP = site_shape.API_VERSION.partition("/")[0]
_CLUSTER_GROUP = cluster_shape.API_VERSION.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """Exactly one of: the kind to judge by, the reason to skip, the finding that refuses it before anything else is looked at."""

    kind: OurKind | None = None
    skipped: str = ""
    refused: Finding | None = None


def classify(value: Any) -> Classified:
    """Tell what a document is, by `apiVersion`, `kind`, and for a Cluster its class."""
    document = Part(value)
    if "sops" in document and isinstance(document.fields["sops"], dict) and _may_be_ours(document):
        message = "The file is encrypted by SOPS, so nothing of it can be read. Commit the Cluster in the clear: it holds no secret."
        return Classified(refused=Finding(path=("sops",), kind=ProblemKind.ENCRYPTED, message=message, on_key=True))
    api_version, kind = document.text("apiVersion"), document.text("kind")
    if kind == "List" and any(classify(item).skipped == "" for item in document.items("items")):
        message = "A List holds what Kubehenge reads. Write each as a document of its own, with a line of `---` between them."
        return Classified(refused=Finding(path=("kind",), kind=ProblemKind.NOT_ALLOWED, message=message))
    group = (api_version or "").partition("/")[0]
    if group == _CLUSTER_GROUP:
        return _classify_of_cluster_api(document, api_version or "", kind)
    if group == _OUR_GROUP:
        return _classify_of_kubehenge(document, api_version or "", kind)
    if api_version is None and kind in set(OurKind):
        return _refuse("apiVersion", ProblemKind.REQUIRED, f"`apiVersion` is missing. Write {_VERSIONS[OurKind(kind)]}.", missing=True)
    if api_version is None and kind is None:
        return Classified(skipped="no Kubernetes object: it has neither apiVersion nor kind")
    return Classified(skipped="kind not kept by Kubehenge")


def _may_be_ours(document: Part) -> bool:
    kind = document.text("kind") or ""
    return kind in {*OurKind, "List"} or kind.startswith("ENC[")


def _classify_of_cluster_api(document: Part, api_version: str, kind: str | None) -> Classified:
    if kind is None:
        return _missing_kind("Cluster", written="kind" in document)
    if kind != OurKind.CLUSTER:
        if kind.lower() in {"cluster", "clusters"}:
            return _refuse("kind", ProblemKind.UNKNOWN, f"{quoted(kind)} is no kind. Write Cluster.")
        return Classified(skipped="kind not kept by Kubehenge")
    skipped = _class_is_not_ours(document.part("spec"))
    if skipped:
        return Classified(skipped=skipped)
    if api_version != cluster_shape.API_VERSION:
        message = f"{quoted(api_version)} is not read. Write {cluster_shape.API_VERSION}, whose fields differ in places."
        return _refuse("apiVersion", ProblemKind.NOT_ALLOWED, message)
    return Classified(kind=OurKind.CLUSTER)


def _class_is_not_ours(spec: Part) -> str:
    """Return why a Cluster is of none of Kubehenge's classes; '' when it is, or when that cannot be told."""
    if "topology" not in spec:
        return "" if not spec.fields else "a Cluster without a topology, so of none of Kubehenge's classes"
    topology = spec.part("topology")
    reference = topology.part("classRef")
    name = reference.text("name") or topology.text("class")
    if name is None or name.startswith(CLASS_PREFIX.rstrip("-")) or reference.text("namespace") == CLASS_NAMESPACE:
        return ""
    return f"its class, {quoted(name)}, is none of Kubehenge's"


def _classify_of_kubehenge(document: Part, api_version: str, kind: str | None) -> Classified:
    if kind is None:
        return _missing_kind("Site or ApprovalRules", written="kind" in document)
    if kind not in {OurKind.SITE, OurKind.APPROVAL_RULES}:
        return _refuse("kind", ProblemKind.UNKNOWN, f"{quoted(kind)} is no kind of Kubehenge's. Write Site or ApprovalRules.")
    if api_version != site_shape.API_VERSION:
        return _refuse("apiVersion", ProblemKind.NOT_ALLOWED, f"{quoted(api_version)} is not known. Write {site_shape.API_VERSION}.")
    return Classified(kind=OurKind(kind))


def _missing_kind(kinds: str, *, written: bool) -> Classified:
    if written:
        return _refuse("kind", ProblemKind.TYPE, f"`kind` is no text. Write {kinds}.")
    return _refuse("kind", ProblemKind.REQUIRED, f"`kind` is missing. Write {kinds}.", missing=True)


def _refuse(field: str, kind: ProblemKind, message: str, *, missing: bool = False) -> Classified:
    return Classified(refused=Finding(path=(field,), kind=kind, message=message, on_key=missing))
