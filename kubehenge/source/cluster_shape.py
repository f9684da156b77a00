"""
The shape of a Cluster file but for its variables (reference: kubehenge-clusters, With kubectl).

What one field settles by itself stands here; what takes two fields, or the distribution, stands in `cluster_rules`. Parts that
Cluster API knows and Kubehenge does not look into (`Open`) are left to its own judgement.
"""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from kubehenge.model.cluster import PROTECT_ANNOTATION
from kubehenge.model.distribution import CLASS_NAMESPACE, CLASS_PATTERN, Distribution, class_alias, find_distribution
from kubehenge.model.document import ProblemKind
from kubehenge.source.forms import ClusterName, HostName, Label, LabelValue, Namespace, NetworkText
from kubehenge.source.shape import OneOf, Shape, Whole, quoted, refuse

API_VERSION = "cluster.x-k8s.io/v1beta2"

POOLS_LIMIT = 2000
"""Machine deployments of one Cluster that Cluster API takes."""
VARIABLES_LIMIT = 1000
"""Variables of one list that Cluster API takes."""

Open = dict[str, Any]
"""A part that Cluster API judges."""


class ClusterMetadata(Shape):
    """`metadata` of a Cluster; the fields that an API server fills in are taken out before."""

    name: ClusterName = Field(description="Names the cluster, its Proxmox VE pool and its VMs.")
    namespace: Namespace = Field(
        description="The namespace; with the name it makes the cluster's pool, <workload pool>/<namespace>.<name>."
    )
    labels: dict[str, LabelValue] = Field(default={}, description="Labels of the Cluster.")
    annotations: dict[str, str] = Field(
        default={},
        description='Annotations of the Cluster; kubehenge.dev/protect: "true" refuses its deletion.',
        json_schema_extra={"properties": {PROTECT_ANNOTATION: {"enum": ["true", "false"]}}},
    )


class Ranges(Shape):
    """The pod or the service range."""

    cidr_blocks: list[NetworkText] = Field(alias="cidrBlocks", min_length=1, max_length=1, description="One IPv4 network in CIDR notation.")


class ClusterRanges(Shape):
    """`spec.clusterNetwork`."""

    pods: Ranges | None = Field(default=None, description="The pod range; the distribution's own unless set.")
    services: Ranges | None = Field(default=None, description="The service range; the distribution's own unless set.")
    service_domain: HostName | None = Field(default=None, alias="serviceDomain", description="The DNS domain of services.")
    api_server_port: Annotated[int, Whole(minimum=1, maximum=65535, both_ends=True)] | None = Field(
        default=None, alias="apiServerPort", description="The port of the API server."
    )


def _check_class(name: str) -> str:
    if find_distribution(name) is None:
        aliases = [class_alias(distribution) for distribution in Distribution]
        near = difflib.get_close_matches(name, aliases, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Write {', '.join(aliases[:-1])} or {aliases[-1]}."
        refuse(ProblemKind.UNKNOWN, f"{quoted(name)} is none of Kubehenge's classes. {hint}")
    return name


class ClassReference(Shape):
    """`classRef`: one of Kubehenge's classes."""

    name: Annotated[str, AfterValidator(_check_class)] = Field(
        description="kubehenge-kubeadm, kubehenge-rke2 or kubehenge-k3s, or the content name of one of them.",
        json_schema_extra={"pattern": f"^{CLASS_PATTERN}$", "examples": ["kubehenge-rke2"]},
    )
    namespace: Literal["kubehenge-system"] = Field(description=f"The namespace of the classes, {CLASS_NAMESPACE}.")


class Variable(Shape):
    """One entry of a list of variables; its value is judged by the shape of that variable."""

    name: str = Field(description="The name of the variable.")
    value: Any = Field(description="The value of the variable.")


class Overrides(Shape):
    """Variables that differ for the control plane or one pool."""

    overrides: list[Variable] = Field(default=[], description="The variables that differ.")


class TopologyMetadata(Shape):
    """Labels and annotations that Cluster API puts on machines."""

    labels: dict[str, LabelValue] = Field(default={}, description="Labels.")
    annotations: dict[str, str] = Field(default={}, description="Annotations.")


class ControlPlane(Shape):
    """`controlPlane`."""

    replicas: Annotated[int, OneOf(numbers=(1, 3, 5, 7), why="an odd number, so that etcd keeps a majority when one fails")] = Field(
        description="The number of control-plane nodes: 1, 3, 5 or 7."
    )
    metadata: TopologyMetadata | None = Field(default=None, description="Labels and annotations of the machines.")
    rollout: Open | None = Field(default=None, description="Cluster API: when machines are replaced.")
    deletion: Open | None = Field(default=None, description="Cluster API: time limits of a machine's deletion.")
    health_check: Open | None = Field(
        default=None, alias="healthCheck", description="Cluster API: which machines are replaced as unhealthy."
    )
    readiness_gates: list[Open] | None = Field(
        default=None, alias="readinessGates", description="Cluster API: conditions that count for Ready."
    )
    taints: list[Open] | None = Field(default=None, description="Cluster API: taints of the nodes.")
    variables: Overrides | None = Field(default=None, description="A machine size of its own, as controlPlaneMachine.")


class MachineDeployment(Shape):
    """One worker pool."""

    class_name: Literal["worker"] = Field(alias="class", description="The class of the machines: worker.")
    name: Label = Field(description="The name of the worker pool.")
    replicas: Annotated[int, Whole(minimum=0, maximum=100, unit="workers for each pool", both_ends=True)] | None = Field(
        default=None, description="The number of workers in this pool, 0 to 100; left out only when the autoscaler sets it."
    )
    metadata: TopologyMetadata | None = Field(default=None, description="Labels and annotations of the machines; the autoscaler's sizes.")
    failure_domain: str | None = Field(default=None, alias="failureDomain", description="Cluster API: the failure domain.")
    min_ready_seconds: int | None = Field(
        default=None, alias="minReadySeconds", description="Cluster API: how long a node is ready before it counts."
    )
    rollout: Open | None = Field(default=None, description="Cluster API: how and when machines are replaced.")
    deletion: Open | None = Field(default=None, description="Cluster API: order and time limits of deletions.")
    health_check: Open | None = Field(
        default=None, alias="healthCheck", description="Cluster API: which machines are replaced as unhealthy."
    )
    readiness_gates: list[Open] | None = Field(
        default=None, alias="readinessGates", description="Cluster API: conditions that count for Ready."
    )
    taints: list[Open] | None = Field(default=None, description="Cluster API: taints of the nodes.")
    variables: Overrides | None = Field(default=None, description="A machine size of its own, as workerMachine.")


class Workers(Shape):
    """`workers`."""

    machine_deployments: list[MachineDeployment] = Field(
        default=[], alias="machineDeployments", max_length=POOLS_LIMIT, description="The worker pools."
    )


class Topology(Shape):
    """`spec.topology`."""

    class_ref: ClassReference = Field(alias="classRef", description="The class that the cluster is made from.")
    version: str = Field(description="The Kubernetes version, in the distribution's own form.", examples=["v1.36.5+rke2r1"])
    control_plane: ControlPlane = Field(alias="controlPlane", description="The control plane.")
    workers: Workers | None = Field(default=None, description="The worker pools; with none, the control-plane nodes run the workloads.")
    variables: list[Variable] = Field(max_length=VARIABLES_LIMIT, description="The variables of the class.")


class ClusterSpec(Shape):
    """`spec`."""

    cluster_network: ClusterRanges | None = Field(default=None, alias="clusterNetwork", description="Pod and service ranges.")
    topology: Topology = Field(description="What the cluster is made of.")
    paused: bool | None = Field(default=None, description="Cluster API: whether the cluster is left alone.")
    availability_gates: list[Open] | None = Field(
        default=None, alias="availabilityGates", description="Cluster API: conditions that count for Available."
    )


class ClusterShape(Shape):
    """A whole Cluster file."""

    api_version: Literal["cluster.x-k8s.io/v1beta2"] = Field(alias="apiVersion", description="The version of Cluster API.")
    kind: Literal["Cluster"] = Field(description="The kind of the document.")
    metadata: ClusterMetadata = Field(description="Name, namespace, labels and annotations.")
    spec: ClusterSpec = Field(description="What the cluster is to be.")
