"""The kinds that the API server serves: group, version, names, scope, fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubehenge.lab.kube import provider_schemas, schemas
from kubehenge.lab.kube.schema import ANY, BOOLEAN, INTEGER, STRING, Schema, list_of, map_of, obj

Obj = dict[str, Any]

OBJECT_META = obj(
    {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "uid": STRING,
        "resourceVersion": STRING,
        "generation": INTEGER,
        "creationTimestamp": STRING,
        "deletionTimestamp": STRING,
        "deletionGracePeriodSeconds": INTEGER,
        "selfLink": STRING,
        "labels": map_of(STRING),
        "annotations": map_of(STRING),
        "finalizers": list_of(STRING, unique=True),
        "ownerReferences": list_of(
            obj(
                {
                    "apiVersion!": STRING,
                    "kind!": STRING,
                    "name!": STRING,
                    "uid!": STRING,
                    "controller": BOOLEAN,
                    "blockOwnerDeletion": BOOLEAN,
                },
                atomic=True,
            ),
            keys=("uid",),
        ),
        "managedFields": list_of(ANY),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """
    One kind as discovery lists it.

    Shape: `columns` are (title, path) of what `kubectl get` prints; `custom` is False for the built-in kinds, which differ in small ways.
    """

    group: str
    version: str
    kind: str
    plural: str
    schema: Schema
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    has_status: bool = False
    has_scale: bool = False
    custom: bool = True
    has_rules: bool = False  # of x-kubernetes-validations
    categories: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    selectable: frozenset[str] = field(default_factory=frozenset)

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`plural.group`, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified(self) -> str:
        """`Kind.group`, as messages name it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


# Beginnings of the names of those whose types have x-kubernetes-validations.
_WITH_RULES = ("Cluster", "Kubeadm", "MachineHealthCheck", "Proxmox", "RKE2")


def _kind(group_version: str, name: str, plural: str, fields: Mapping[str, Schema], **more: Any) -> Kind:
    group, _, version = group_version.rpartition("/")
    body = {"apiVersion": STRING, "kind": STRING, "metadata": OBJECT_META, **fields}
    has_status = more.pop("has_status", "status" in fields)
    rules = name.startswith(_WITH_RULES) and not name.startswith("ClusterResource")
    return Kind(group=group, version=version, kind=name, plural=plural, schema=obj(body), has_status=has_status, has_rules=rules, **more)


_CAPI = "cluster.x-k8s.io/v1beta2"
_ADDONS = "addons.cluster.x-k8s.io/v1beta2"
_INFRA = "infrastructure.cluster.x-k8s.io/v1alpha2"
_CONTROL = "controlplane.cluster.x-k8s.io/v1beta2"
_BOOTSTRAP = "bootstrap.cluster.x-k8s.io/v1beta2"
_IN_CAPI = ("cluster-api",)
_COUNTS = (
    ("Desired", ".spec.replicas"),
    ("Current", ".status.replicas"),
    ("Ready", ".status.readyReplicas"),
    ("Available", ".status.availableReplicas"),
    ("Up-to-date", ".status.upToDateReplicas"),
)
_DATA = {"data": map_of(STRING), "immutable": BOOLEAN}
_OBJECT_REF = obj(dict.fromkeys(("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"), STRING), atomic=True)

NAMESPACE = _kind(
    "v1",
    "Namespace",
    "namespaces",
    {
        "spec": obj({"finalizers": list_of(STRING)}),
        "status": obj({"phase": STRING, "conditions": list_of(ANY)}),
    },
    short_names=("ns",),
    namespaced=False,
    custom=False,
    columns=(("Status", ".status.phase"),),
)
SECRET = _kind(
    "v1",
    "Secret",
    "secrets",
    {**_DATA, "stringData": map_of(STRING), "type": STRING},
    custom=False,
    columns=(("Type", ".type"),),
    selectable=frozenset({"type"}),
)
CONFIG_MAP = _kind("v1", "ConfigMap", "configmaps", {**_DATA, "binaryData": map_of(STRING)}, short_names=("cm",), custom=False)
EVENT = _kind(
    "v1",
    "Event",
    "events",
    {
        "involvedObject": _OBJECT_REF,
        "related": _OBJECT_REF,
        "series": ANY,
        "source": obj({"component": STRING, "host": STRING}),
        "count": INTEGER,
        **dict.fromkeys(
            (
                "reason",
                "message",
                "type",
                "firstTimestamp",
                "lastTimestamp",
                "eventTime",
                "action",
                "reportingComponent",
                "reportingInstance",
            ),
            STRING,
        ),
    },
    short_names=("ev",),
    custom=False,
    columns=(("Type", ".type"), ("Reason", ".reason"), ("Object", ".involvedObject.name"), ("Message", ".message")),
    selectable=frozenset(
        {"type", "reason", "involvedObject.kind", "involvedObject.name", "involvedObject.namespace", "involvedObject.uid"}
    ),
)

DEPLOYMENT = _kind(
    "apps/v1",
    "Deployment",
    "deployments",
    {"spec": ANY, "status": ANY},
    short_names=("deploy",),
    has_scale=True,
    columns=(("Ready", ".status.readyReplicas"), ("Available", ".status.availableReplicas")),
)
VALIDATING_WEBHOOKS = _kind(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    {
        "webhooks": list_of(
            obj(
                {
                    "name!": STRING,
                    "clientConfig!": ANY,
                    "sideEffects!": STRING,
                    "admissionReviewVersions!": list_of(STRING),
                    "rules": list_of(ANY),
                    "failurePolicy": STRING,
                    "matchPolicy": STRING,
                    "namespaceSelector": ANY,
                    "objectSelector": ANY,
                    "timeoutSeconds": INTEGER,
                    "matchConditions": list_of(obj({"name!": STRING, "expression!": STRING}), keys=("name",)),
                }
            ),
            keys=("name",),
        )
    },
    namespaced=False,
)

CLUSTER = _kind(
    _CAPI,
    "Cluster",
    "clusters",
    schemas.CLUSTER,
    short_names=("cl",),
    categories=_IN_CAPI,
    columns=(
        ("ClusterClass", ".spec.topology.classRef.name"),
        ("Available", "?Available"),
        ("CP Desired", ".status.controlPlane.desiredReplicas"),
        ("CP Available", ".status.controlPlane.availableReplicas"),
        ("W Desired", ".status.workers.desiredReplicas"),
        ("W Available", ".status.workers.availableReplicas"),
        ("Phase", ".status.phase"),
        ("Version", ".spec.topology.version"),
    ),
)
CLUSTER_CLASS = _kind(_CAPI, "ClusterClass", "clusterclasses", schemas.CLUSTER_CLASS, short_names=("cc",), categories=_IN_CAPI)
MACHINE = _kind(
    _CAPI,
    "Machine",
    "machines",
    schemas.MACHINE,
    short_names=("ma",),
    categories=_IN_CAPI,
    columns=(
        ("Cluster", ".spec.clusterName"),
        ("Node Name", ".status.nodeRef.name"),
        ("Ready", "?Ready"),
        ("Up-to-date", "?UpToDate"),
        ("Phase", ".status.phase"),
        ("Version", ".spec.version"),
    ),
)
MACHINE_DEPLOYMENT = _kind(
    _CAPI,
    "MachineDeployment",
    "machinedeployments",
    schemas.MACHINE_DEPLOYMENT,
    short_names=("md",),
    categories=_IN_CAPI,
    columns=(("Cluster", ".spec.clusterName"), *_COUNTS, ("Version", ".spec.template.spec.version")),
)
MACHINE_SET = _kind(_CAPI, "MachineSet", "machinesets", schemas.MACHINE_SET, short_names=("ms",), categories=_IN_CAPI, columns=_COUNTS)
MACHINE_HEALTH_CHECK = _kind(
    _CAPI, "MachineHealthCheck", "machinehealthchecks", schemas.MACHINE_HEALTH_CHECK, short_names=("mhc", "mhcs"), categories=_IN_CAPI
)
CLUSTER_RESOURCE_SET = _kind(_ADDONS, "ClusterResourceSet", "clusterresourcesets", schemas.CLUSTER_RESOURCE_SET, categories=_IN_CAPI)
CLUSTER_RESOURCE_SET_BINDING = _kind(
    _ADDONS, "ClusterResourceSetBinding", "clusterresourcesetbindings", schemas.CLUSTER_RESOURCE_SET_BINDING, categories=_IN_CAPI
)
PROXMOX_CLUSTER = _kind(
    _INFRA,
    "ProxmoxCluster",
    "proxmoxclusters",
    provider_schemas.PROXMOX_CLUSTER,
    categories=_IN_CAPI,
    columns=(("Ready", "?Ready"), ("Endpoint", ".spec.controlPlaneEndpoint.host")),
)
PROXMOX_CLUSTER_TEMPLATE = _kind(
    _INFRA, "ProxmoxClusterTemplate", "proxmoxclustertemplates", provider_schemas.PROXMOX_CLUSTER_TEMPLATE, categories=_IN_CAPI
)
PROXMOX_MACHINE = _kind(
    _INFRA,
    "ProxmoxMachine",
    "proxmoxmachines",
    provider_schemas.PROXMOX_MACHINE,
    short_names=("moxm",),
    categories=_IN_CAPI,
    columns=(("Ready", "?Ready"), ("VMID", ".spec.virtualMachineID"), ("Node", ".status.proxmoxNode"), ("ProviderID", ".spec.providerID")),
)
PROXMOX_MACHINE_TEMPLATE = _kind(
    _INFRA, "ProxmoxMachineTemplate", "proxmoxmachinetemplates", provider_schemas.PROXMOX_MACHINE_TEMPLATE, categories=_IN_CAPI
)


def _control_plane(name: str, plural: str, short: str) -> tuple[Kind, Kind]:
    return (
        _kind(
            _CONTROL,
            name,
            plural,
            provider_schemas.control_plane(name),
            short_names=(short,) if short else (),
            categories=_IN_CAPI,
            columns=(*_COUNTS, ("Version", ".spec.version")),
        ),
        _kind(_CONTROL, f"{name}Template", f"{plural[:-1]}templates", provider_schemas.control_plane_template(name), categories=_IN_CAPI),
    )


CONTROL_PLANES = (
    *_control_plane("KubeadmControlPlane", "kubeadmcontrolplanes", "kcp"),
    *_control_plane("RKE2ControlPlane", "rke2controlplanes", ""),
    *_control_plane("KThreesControlPlane", "kthreescontrolplanes", "ktcp"),
)
BOOTSTRAP_TEMPLATES = tuple(
    _kind(_BOOTSTRAP, name, f"{name.lower()}s", provider_schemas.FREE_TEMPLATE, categories=_IN_CAPI)
    for name in ("KubeadmConfigTemplate", "RKE2ConfigTemplate", "KThreesConfigTemplate")
)

KINDS: tuple[Kind, ...] = (
    NAMESPACE,
    SECRET,
    CONFIG_MAP,
    EVENT,
    DEPLOYMENT,
    VALIDATING_WEBHOOKS,
    CLUSTER,
    CLUSTER_CLASS,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    MACHINE_HEALTH_CHECK,
    CLUSTER_RESOURCE_SET,
    CLUSTER_RESOURCE_SET_BINDING,
    PROXMOX_CLUSTER,
    PROXMOX_CLUSTER_TEMPLATE,
    PROXMOX_MACHINE,
    PROXMOX_MACHINE_TEMPLATE,
    *CONTROL_PLANES,
    *BOOTSTRAP_TEMPLATES,
)

_BY_PLURAL = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
_BY_NAME = {(kind.group, kind.kind): kind for kind in KINDS}


def find_by_plural(group: str, version: str, plural: str) -> Kind | None:
    """The kind that a path names, or None."""
    return _BY_PLURAL.get((group, version, plural))


def find_by_name(group: str, name: str) -> Kind | None:
    """The kind that an object or a reference names, in whatever version, or None."""
    return _BY_NAME.get((group, name))


def kind_of(body: Mapping[str, Any]) -> Kind | None:
    """The kind of an object by its apiVersion and kind, or None."""
    group, _, version = str(body.get("apiVersion", "")).rpartition("/")
    kind = find_by_name(group, str(body.get("kind", "")))
    return kind if kind is not None and kind.version == version else None


def groups(kinds: Iterable[Kind] = KINDS) -> dict[str, str]:
    """Group to version, the core group left out."""
    return {kind.group: kind.version for kind in kinds if kind.group}
