"""Where each kind is found in the management cluster's API (facts: cluster-api, 1.1; capmox, 2.1)."""

from __future__ import annotations

from dataclasses import dataclass

from kubehenge.errors import InvariantError
from kubehenge.model.resource import ResourceRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One kind of object as the API server serves it; `group` is '' for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of its group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def all(self) -> str:
        """The path that lists it in every namespace."""
        return f"{self.root}/{self.plural}"

    def one(self, namespace: str, name: str) -> str:
        """The path of one object."""
        within = f"namespaces/{namespace}/" if self.namespaced else ""
        return f"{self.root}/{within}{self.plural}/{name}"

    def within(self, namespace: str) -> str:
        """The path that lists one namespace."""
        return f"{self.root}/namespaces/{namespace}/{self.plural}"


NAMESPACE = "kube.namespace"
SECRET = "kube.secret"  # noqa: S105 - a kind
RESOURCE_SET = "kube.resource_set"
CLUSTER = "kube.cluster"
STATUS = "kube.cluster_status"
MACHINE = "kube.machine"
CLASS = "kube.class"
CLASS_ALIAS = "kube.class_alias"
TEMPLATE = "kube.class_template"
PROVIDER_SCALE = "kube.provider_scale"
VENDOR_PATCH = "kube.vendor_patch"

CLUSTERS = Served(group="cluster.x-k8s.io", version="v1beta2", plural="clusters", kind="Cluster")
CLASSES = Served(group="cluster.x-k8s.io", version="v1beta2", plural="clusterclasses", kind="ClusterClass")
MACHINES = Served(group="cluster.x-k8s.io", version="v1beta2", plural="machines", kind="Machine")
PROXMOX_MACHINES = Served(group="infrastructure.cluster.x-k8s.io", version="v1alpha2", plural="proxmoxmachines", kind="ProxmoxMachine")
PROXMOX_CLUSTERS = Served(group="infrastructure.cluster.x-k8s.io", version="v1alpha2", plural="proxmoxclusters", kind="ProxmoxCluster")

DEPLOYMENTS = Served(group="apps", version="v1", plural="deployments", kind="Deployment")
WEBHOOKS = Served(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingwebhookconfigurations",
    kind="ValidatingWebhookConfiguration",
    namespaced=False,
)

WRITTEN: dict[str, Served] = {
    NAMESPACE: Served(group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False),
    SECRET: Served(group="", version="v1", plural="secrets", kind="Secret"),
    RESOURCE_SET: Served(group="addons.cluster.x-k8s.io", version="v1beta2", plural="clusterresourcesets", kind="ClusterResourceSet"),
    CLUSTER: CLUSTERS,
    CLASS: CLASSES,
    CLASS_ALIAS: CLASSES,
    VENDOR_PATCH: WEBHOOKS,
}
"""The kinds that are written, but for templates, which are of several kinds in the API, and scales, which are parts of objects."""

_BOOTSTRAP, _CONTROL_PLANE, _INFRASTRUCTURE = (f"{part}.cluster.x-k8s.io" for part in ("bootstrap", "controlplane", "infrastructure"))
TEMPLATES: dict[str, Served] = {
    served.kind: served
    for served in (
        Served(group=_INFRASTRUCTURE, version="v1alpha2", plural="proxmoxclustertemplates", kind="ProxmoxClusterTemplate"),
        Served(group=_INFRASTRUCTURE, version="v1alpha2", plural="proxmoxmachinetemplates", kind="ProxmoxMachineTemplate"),
        Served(group=_CONTROL_PLANE, version="v1beta2", plural="kubeadmcontrolplanetemplates", kind="KubeadmControlPlaneTemplate"),
        Served(group=_BOOTSTRAP, version="v1beta2", plural="kubeadmconfigtemplates", kind="KubeadmConfigTemplate"),
        Served(group=_CONTROL_PLANE, version="v1beta2", plural="rke2controlplanetemplates", kind="RKE2ControlPlaneTemplate"),
        Served(group=_BOOTSTRAP, version="v1beta2", plural="rke2configtemplates", kind="RKE2ConfigTemplate"),
        Served(group=_CONTROL_PLANE, version="v1beta2", plural="kthreescontrolplanetemplates", kind="KThreesControlPlaneTemplate"),
        Served(group=_BOOTSTRAP, version="v1beta2", plural="kthreesconfigtemplates", kind="KThreesConfigTemplate"),
    )
}
"""The templates that classes refer to, by their kind in the API."""

KINDS = frozenset({*WRITTEN, TEMPLATE, PROVIDER_SCALE, STATUS, MACHINE})
"""The kinds that are read."""

UNMARKED = frozenset({NAMESPACE, CLASS, CLASS_ALIAS, TEMPLATE, VENDOR_PATCH})
"""Kinds that bear no mark: shared, taken as they are found, and never deleted."""

WHOLE = frozenset({CLASS, CLASS_ALIAS, TEMPLATE})
"""Kinds that are ours as a whole by their names: another manager's field in them is taken over, once the plan that says so is approved."""

CLUSTER_LABEL = "cluster.x-k8s.io/cluster-name"


def find_place(ref: ResourceRef) -> tuple[Served, str, str]:
    """Return how a written resource is served, its namespace and its name."""
    namespace, _, name = ref.name.rpartition("/")
    if ref.kind == TEMPLATE:
        kind, _, namespace = namespace.partition("/")
        return TEMPLATES[kind], namespace, name
    served = WRITTEN.get(ref.kind)
    if served is None:
        raise InvariantError(f"{ref.kind} is not read or written one by one in the management cluster")
    return served, namespace, name


def called(ref: ResourceRef) -> str:
    """Return what people call a written resource: its kind in the API, namespace and name."""
    served, namespace, name = find_place(ref)
    return f"{served.kind} {namespace}/{name}" if namespace else f"{served.kind} {name}"
