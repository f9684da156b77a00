"""
The three ClusterClasses that the lab starts with, and their templates.

Source: the variables that clusters have (reference, "Variables"); templates as capmox and the control-plane providers take them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.kinds import Kind, Obj
from kubehenge.lab.kube.variables import IMMUTABLE_RULE

NAMESPACE = "kubehenge-system"
WORKER_CLASS = "worker"
_INFRA = "infrastructure.cluster.x-k8s.io/v1alpha2"
_CONTROL = "controlplane.cluster.x-k8s.io/v1beta2"
_BOOTSTRAP = "bootstrap.cluster.x-k8s.io/v1beta2"
_HEALTH = {
    "checks": {
        "nodeStartupTimeoutSeconds": 1200,
        "unhealthyNodeConditions": [
            {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300},
            {"type": "Ready", "status": "False", "timeoutSeconds": 300},
        ],
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """What tells one distribution from another, as far as Cluster API and Proxmox VE can see it."""

    name: str
    control_plane: str
    bootstrap: str
    networks: tuple[str, ...]
    default_network: str | None
    control_plane_memory_mib: int
    bare_settings: str  # the field that a control-plane template needs, left empty

    @property
    def class_name(self) -> str:
        """The name of its ClusterClass."""
        return f"kubehenge-{self.name}"


DISTRIBUTIONS = (
    Distribution(
        name="kubeadm",
        control_plane="KubeadmControlPlane",
        bootstrap="KubeadmConfigTemplate",
        networks=("cilium", "calico"),
        default_network=None,
        control_plane_memory_mib=2048,
        bare_settings="kubeadmConfigSpec",
    ),
    Distribution(
        name="rke2",
        control_plane="RKE2ControlPlane",
        bootstrap="RKE2ConfigTemplate",
        networks=("canal", "calico", "cilium"),
        default_network="canal",
        control_plane_memory_mib=3072,
        bare_settings="serverConfig",
    ),
    Distribution(
        name="k3s",
        control_plane="KThreesControlPlane",
        bootstrap="KThreesConfigTemplate",
        networks=("flannel", "cilium", "calico"),
        default_network="flannel",
        control_plane_memory_mib=2048,
        bare_settings="kthreesConfigSpec",
    ),
)


def of_control_plane(kind: str) -> Distribution | None:
    """The distribution whose control plane is of this kind, or None."""
    return next((known for known in DISTRIBUTIONS if known.control_plane == kind), None)


def is_built_in(cluster_class: Obj) -> bool:
    """Whether a class is one of the lab's own, or like them: it has no patches, its variables say it all. Any other is played by its patches."""
    names = {variable["name"] for variable in cluster_class["spec"].get("variables") or []}
    return not cluster_class["spec"].get("patches") and names >= {"controlPlaneEndpoint", "network", "storage"}


def template_tags(distribution: Distribution, version: str) -> list[str]:
    """The tags of the VM template that a machine is cloned from: kubeadm's are built for one version, the others share one."""
    return ["kubehenge", f"kubeadm-{version.lower()}" if distribution.name == "kubeadm" else "cloud-image"]


def _machine(memory_mib: int, disk_gib: int) -> Obj:
    return {
        "type": "object",
        "default": {},
        "properties": {
            "cores": {"type": "integer", "minimum": 1, "default": 2},
            "memoryMiB": {"type": "integer", "minimum": memory_mib, "default": 4096},
            "diskGiB": {"type": "integer", "minimum": 20, "default": disk_gib},
        },
    }


_TEXT: Obj = {"type": "string"}
_TEXTS: Obj = {"type": "array", "items": _TEXT}
_ADDRESS: Obj = {"type": "string", "format": "ipv4"}
_NETWORK: Obj = {
    "type": "object",
    "required": ["bridge", "addresses", "prefix", "gateway", "dnsServers"],
    "properties": {
        "bridge": {"type": "string", "minLength": 1},
        "vlan": {"type": "integer", "minimum": 1, "maximum": 4094},
        "addresses": {**_TEXTS, "minItems": 1},
        "prefix": {"type": "integer", "minimum": 1, "maximum": 32},
        "gateway": _ADDRESS,
        "dnsServers": {"type": "array", "items": _ADDRESS, "minItems": 1},
    },
}
_PROVIDER: Obj = {
    "type": "object",
    "required": ["issuerURL", "clientID"],
    "properties": {
        **dict.fromkeys(
            ("issuerURL", "clientID", "usernameClaim", "usernamePrefix", "groupsClaim", "groupsPrefix", "certificateAuthority"), _TEXT
        ),
        "scopes": _TEXTS,
    },
}
_UPGRADES: Obj = {
    "type": "object",
    "default": {},
    "properties": {
        "mode": {"type": "string", "enum": ["off", "patch", "minor"], "default": "off"},
        "window": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def variables(distribution: Distribution) -> list[Obj]:
    """The variables of a distribution's class."""
    network: Obj = {
        "type": "string",
        "enum": list(distribution.networks),
        "x-kubernetes-validations": [{"rule": IMMUTABLE_RULE, "message": "the pod network is chosen at creation and stays"}],
    }
    if distribution.default_network:
        network["default"] = distribution.default_network
    schemas: dict[str, Obj] = {
        "controlPlaneEndpoint": _ADDRESS,
        "network": _NETWORK,
        "storage": {"type": "string", "minLength": 1},
        "allowedNodes": {**_TEXTS, "minItems": 1},
        "proxmoxHA": {"type": "boolean", "default": True},
        "controlPlaneMachine": _machine(distribution.control_plane_memory_mib, 30),
        "workerMachine": _machine(1024, 40),
        "cni": network,
        "headlamp": {
            "type": "object",
            "properties": {"enabled": {"type": "boolean", "default": False}, "hostname": _TEXT, "tlsSecret": _TEXT},
        },
        "rancher": {
            "type": "object",
            "properties": {
                "install": {"type": "boolean", "default": False},
                "hostname": _TEXT,
                "register": {"type": "boolean", "default": True},
            },
        },
        "oidc": {"type": "array", "maxItems": 8, "items": _PROVIDER},
        "upgrades": _UPGRADES,
    }
    required = {"controlPlaneEndpoint", "network", "storage", *(() if distribution.default_network else ("cni",))}
    return [{"name": name, "required": name in required, "schema": {"openAPIV3Schema": schema}} for name, schema in schemas.items()]


def _ref(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"templateRef": {"apiVersion": api_version, "kind": kind, "name": name}}


def cluster_class(distribution: Distribution) -> Obj:
    """A distribution's ClusterClass."""
    name = distribution.class_name
    workers = {
        "class": WORKER_CLASS,
        "bootstrap": _ref(_BOOTSTRAP, distribution.bootstrap, f"{name}-worker"),
        "infrastructure": _ref(_INFRA, "ProxmoxMachineTemplate", f"{name}-worker"),
        "healthCheck": {**_HEALTH, "remediation": {"maxInFlight": 1}},
    }
    control_plane = {
        **_ref(_CONTROL, f"{distribution.control_plane}Template", name),
        "machineInfrastructure": _ref(_INFRA, "ProxmoxMachineTemplate", f"{name}-control-plane"),
        "healthCheck": _HEALTH,
    }
    return {
        "apiVersion": kinds.CLUSTER_CLASS.api_version,
        "kind": "ClusterClass",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "infrastructure": _ref(_INFRA, "ProxmoxClusterTemplate", name),
            "controlPlane": control_plane,
            "workers": {"machineDeployments": [workers]},
            "variables": variables(distribution),
        },
    }


def templates(distribution: Distribution) -> list[tuple[Kind, Obj]]:
    """The templates that a distribution's class refers to; what a Cluster's variables say takes the place of what stands in them."""
    name = distribution.class_name
    device = {"name": "net0", "bridge": "vmbr0", "model": "virtio"}
    machine = {
        "templateSelector": {"matchTags": ["kubehenge"], "matchPolicy": "uniqueSubset"},
        "full": True,
        "network": {"networkDevices": [device]},
    }
    cluster = {
        "controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443},
        "dnsServers": ["192.0.2.1"],
        "ipv4Config": {"addresses": ["192.0.2.2-192.0.2.3"], "prefix": 24, "gateway": "192.0.2.254"},
    }
    specs: list[tuple[str, str, str, Obj]] = [
        (_INFRA, "ProxmoxClusterTemplate", name, cluster),
        (_INFRA, "ProxmoxMachineTemplate", f"{name}-control-plane", machine),
        (_INFRA, "ProxmoxMachineTemplate", f"{name}-worker", machine),
        (_CONTROL, f"{distribution.control_plane}Template", name, {distribution.bare_settings: {}}),
        (_BOOTSTRAP, distribution.bootstrap, f"{name}-worker", {}),
    ]
    made = []
    for api_version, kind_name, template, spec in specs:
        kind = kinds.find_by_name(api_version.partition("/")[0], kind_name)
        if kind is None:
            raise LookupError(kind_name)
        body = {"metadata": {"name": template, "namespace": NAMESPACE}, "spec": {"template": {"spec": spec}}}
        made.append((kind, {"apiVersion": api_version, "kind": kind_name, **body}))
    return made
