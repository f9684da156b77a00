"""
The shapes of the variables of Kubehenge's classes (reference: kubehenge-clusters, Variables).

What one field settles by itself stands here; what takes two fields, or the distribution, stands in `cluster_rules`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kubehenge.model.cluster import UpgradeMode
from kubehenge.model.distribution import Cni
from kubehenge.source.forms import LABEL_PATTERN, AddressText, BlockText, BridgeName, HostName, NodeName, StorageName
from kubehenge.source.identity_shape import ProviderShape
from kubehenge.source.shape import Form, Shape, Whole, always
from kubehenge.source.window_shape import WindowShape

ADDRESSES_LIMIT = 1000
"""Entries of `addresses`: ranges for more nodes than a cluster can have."""
DNS_SERVERS_LIMIT = 16
"""Entries of `dnsServers`; a resolver asks three."""


class NetworkVariable(Shape):
    """`network`."""

    bridge: BridgeName = Field(description="The bridge that the VMs attach to.")
    vlan: Annotated[int, Whole(minimum=1, maximum=4094, both_ends=True)] | None = Field(
        default=None, description="The VLAN tag, 1 to 4094."
    )
    addresses: list[BlockText] = Field(
        min_length=1, description="The nodes' addresses: ranges, networks in CIDR notation or single addresses."
    )
    prefix: Annotated[int, Whole(minimum=1, maximum=32, both_ends=True)] = Field(
        description="The prefix length of the nodes' network, 1 to 32."
    )
    gateway: AddressText = Field(description="The nodes' default gateway, an IPv4 address.")
    dns_servers: list[AddressText] = Field(
        alias="dnsServers", min_length=1, max_length=DNS_SERVERS_LIMIT, description="The nodes' DNS servers, IPv4 addresses."
    )


_CORES = Annotated[int, Whole(minimum=1, unit="core")]
_DISK = Annotated[int, Whole(minimum=20, unit="GiB")]


class ControlPlaneMachine(Shape):
    """`controlPlaneMachine`; how much memory is the least depends on the distribution."""

    cores: _CORES = Field(default=2, description="Virtual cores.")
    memory_mib: Annotated[int, Whole(minimum=0, step=8, unit="MiB")] = Field(
        default=4096, alias="memoryMiB", description="Memory in MiB, in steps of 8."
    )
    disk_gib: _DISK = Field(default=30, alias="diskGiB", description="Disk in GiB, at least 20; it only grows.")


class WorkerMachine(Shape):
    """`workerMachine`."""

    cores: _CORES = Field(default=2, description="Virtual cores.")
    memory_mib: Annotated[int, Whole(minimum=1024, step=8, unit="MiB")] = Field(
        default=4096, alias="memoryMiB", description="Memory in MiB, in steps of 8, at least 1024."
    )
    disk_gib: _DISK = Field(default=40, alias="diskGiB", description="Disk in GiB, at least 20; it only grows.")


class HeadlampVariable(Shape):
    """`headlamp`."""

    enabled: bool = Field(default=False, description="Whether Headlamp is installed.")
    hostname: HostName | None = Field(default=None, description="The host name that the ingress controller serves it at.")
    tls_secret: (
        Annotated[
            str, Form(pattern=rf"{LABEL_PATTERN}(\.{LABEL_PATTERN})*", wants="the name of a Secret", example="headlamp-tls", longest=253)
        ]
        | None
    ) = Field(default=None, alias="tlsSecret", description="A Secret in the headlamp namespace with the certificate for the host name.")


class RancherVariable(Shape):
    """`rancher`."""

    install: bool = Field(default=False, description="Whether Rancher is installed into this cluster; only one cluster may have it.")
    hostname: HostName | None = Field(
        default=None, description="The host name that people and clusters reach Rancher at; install needs it."
    )
    register_: bool = Field(
        default=True, alias="register", description="Whether the cluster registers with the Rancher that Kubehenge installed."
    )


class UpgradesVariable(Shape):
    """`upgrades`."""

    mode: Annotated[UpgradeMode, Field(strict=False)] = Field(default=UpgradeMode.OFF, description="Which releases are followed.")
    window: WindowShape = Field(default_factory=always(WindowShape()), description="When an upgrade may start.")


class Variables(Shape):
    """Every variable of Kubehenge's classes, by name."""

    control_plane_endpoint: AddressText = Field(
        alias="controlPlaneEndpoint",
        description="The control plane's virtual IP: an unused IPv4 address in the nodes' network, outside network.addresses.",
    )
    network: NetworkVariable = Field(description="The nodes' network.")
    storage: StorageName = Field(description="The storage for the nodes' disks and the persistent volumes.")
    allowed_nodes: list[NodeName] | None = Field(
        default=None, alias="allowedNodes", min_length=1, description="The Proxmox VE nodes that the VMs may run on; every node unless set."
    )
    proxmox_ha: bool = Field(
        default=True, alias="proxmoxHA", description="Whether Proxmox VE HA keeps the control-plane VMs on separate nodes."
    )
    control_plane_machine: ControlPlaneMachine = Field(
        default_factory=always(ControlPlaneMachine()), alias="controlPlaneMachine", description="The size of control-plane VMs."
    )
    worker_machine: WorkerMachine = Field(
        default_factory=always(WorkerMachine()), alias="workerMachine", description="The size of worker VMs."
    )
    cni: str | None = Field(default=None, description="The pod network.", json_schema_extra={"enum": [str(cni) for cni in Cni]})
    headlamp: HeadlampVariable = Field(
        default_factory=always(HeadlampVariable()), description="The web interface Headlamp inside the cluster."
    )
    rancher: RancherVariable = Field(default_factory=always(RancherVariable()), description="Rancher: installed here, or registered with.")
    oidc: list[ProviderShape] | None = Field(
        default=None, max_length=8, description="OpenID Connect providers; those set for every cluster unless set, none when empty."
    )
    upgrades: UpgradesVariable = Field(default_factory=always(UpgradesVariable()), description="Automatic Kubernetes upgrades.")


class ControlPlaneOverrides(Shape):
    """The variables that the control plane may override."""

    control_plane_machine: ControlPlaneMachine | None = Field(
        default=None, alias="controlPlaneMachine", description="The size of control-plane VMs."
    )


class WorkerOverrides(Shape):
    """The variables that a worker pool may override."""

    worker_machine: WorkerMachine | None = Field(default=None, alias="workerMachine", description="The size of this pool's VMs.")
