"""What a Cluster file asks for, as typed values with every default filled in (reference: kubehenge-clusters)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kubehenge.model.distribution import Cni, Distribution
from kubehenge.model.network import Address, AddressBlock, count_addresses, network_of
from kubehenge.model.versions import Version
from kubehenge.model.window import UpgradeWindow

PROTECT_ANNOTATION = "kubehenge.dev/protect"
AUTOSCALER_MIN_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
AUTOSCALER_MAX_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSize:
    """The size of one VM: virtual cores, memory in MiB, disk in GiB."""

    cores: int
    memory_mib: int
    disk_gib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerSizes:
    """The bounds between which the cluster autoscaler sets a pool's replicas; 0 <= minimum <= maximum <= 100."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPool:
    """
    One machine deployment of the class `worker`.

    `replicas` is None when the autoscaler owns the number; then `autoscaler` is set. `machine` is the size that its VMs get.
    """

    name: str
    replicas: int | None
    machine: MachineSize
    autoscaler: AutoscalerSizes | None = None

    @property
    def most_replicas(self) -> int:
        """The most nodes that the file allows at once, the one more of a rollout left out."""
        return max(self.replicas or 0, self.autoscaler.maximum if self.autoscaler else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNetwork:
    """
    The network that the nodes are in, and the addresses that they may take.

    `vlan` is 1 to 4094 or None. `blocks` are in the order of the file. The network itself is the gateway with the prefix length.
    """

    bridge: str
    vlan: int | None
    blocks: tuple[AddressBlock, ...]
    prefix: int
    gateway: Address
    dns_servers: tuple[Address, ...]

    @property
    def network(self) -> AddressBlock:
        """The nodes' network."""
        return network_of(self.gateway, self.prefix)

    @property
    def usable_addresses(self) -> int:
        """
        How many addresses nodes can get: each once, without the gateway, the network's own and its broadcast address.

        Source: Cluster API's in-cluster IPAM provider 1.1, which never hands those three out.
        """
        reserved = {int(self.gateway)}
        if self.prefix < 31:  # RFC 3021: a /31 has neither a network nor a broadcast address
            reserved |= {self.network.first, self.network.last}
        return count_addresses(self.blocks, without=reserved)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRange:
    """The pod or the service range; `default` says that the file names none and the distribution's own applies."""

    block: AddressBlock
    default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Headlamp:
    """The web interface inside the cluster; '' for a host name or Secret that is not set."""

    enabled: bool = False
    hostname: str = ""
    tls_secret: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rancher:
    """Whether Rancher is installed into the cluster, and whether it registers with the one that Kubehenge installed."""

    install: bool = False
    hostname: str = ""
    register: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityProvider:
    """An OpenID Connect provider whose ID tokens the API server accepts; `certificate_authority` is PEM or ''."""

    issuer_url: str
    client_id: str
    username_claim: str = "email"
    username_prefix: str = "oidc:"
    groups_claim: str = "groups"
    groups_prefix: str = "oidc:"
    scopes: tuple[str, ...] = ("email", "profile")
    certificate_authority: str = ""


class UpgradeMode(StrEnum):
    """Which releases automatic upgrades follow."""

    OFF = "off"
    PATCH = "patch"
    MINOR = "minor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrades:
    """Automatic Kubernetes upgrades."""

    mode: UpgradeMode = UpgradeMode.OFF
    window: UpgradeWindow = field(default_factory=UpgradeWindow)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDeclaration:
    """
    What one Cluster file asks for.

    `class_name` is as written: an alias or a content name (MODEL 31). `allowed_nodes` is None for every node. `oidc` is None when
    the file sets no list, so the providers set for every cluster apply; an empty tuple trusts none. `labels` and `annotations` are
    sorted pairs.
    """

    namespace: str
    name: str
    distribution: Distribution
    class_name: str
    version: Version
    control_plane_replicas: int
    control_plane_machine: MachineSize
    worker_machine: MachineSize
    pools: tuple[WorkerPool, ...]
    endpoint: Address
    network: NodeNetwork
    pods: ClusterRange
    services: ClusterRange
    storage: str
    allowed_nodes: tuple[str, ...] | None
    proxmox_ha: bool
    cni: Cni
    headlamp: Headlamp
    rancher: Rancher
    oidc: tuple[IdentityProvider, ...] | None
    upgrades: Upgrades
    protect: bool
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]

    @property
    def scope(self) -> str:
        """`<namespace>/<name>`, as people and plans name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def most_nodes(self) -> int:
        """The most nodes that the file allows at once, the one more of a rollout left out."""
        return self.control_plane_replicas + sum(pool.most_replicas for pool in self.pools)
