"""Facts: the parts of what was observed that `expand` and the bill may use (DESIGN, Words)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFact:
    """A Proxmox VE node: whether it is online by the rule of MODEL 30, its cores and memory (MiB)."""

    name: str
    online: bool
    cores: int
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VmFact:
    """A VM as far as the bill needs it; memory in MiB. `pool` is its Proxmox VE pool or ''."""

    vmid: int
    name: str
    node: str
    pool: str
    cores: int
    memory_mib: int
    running: bool
    template: bool = False
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFact:
    """A Cluster API Machine: its cluster (`namespace/name`), role, version, VMID where it is known, age, and whether its node is ready."""

    name: str
    cluster: str
    control_plane: bool
    deployment: str
    version: str
    vmid: int | None
    ready: bool
    deleting: bool = False
    created_at: str = ""
    """ISO, UTC; Cluster API replaces the oldest first."""
    vm_node: str = ""
    """The Proxmox VE node that its VM was made on; where it is now, the VM itself says once it was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFact:
    """What is known of a cluster's tokens: the generations that exist, and the one that its Secret holds (MODEL 8)."""

    existing: tuple[int, ...] = ()
    held: int | None = None
    last: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What one cluster's expansion and bill may use."""

    machines: tuple[MachineFact, ...] = ()
    vms: tuple[VmFact, ...] = ()
    token: TokenFact = TokenFact()
    available: bool = False
    rolling: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFacts:
    """What is the same for all clusters of a site. Memory used per node counts what its VMs may take (MiB), as capmox's scheduler does."""

    nodes: tuple[NodeFact, ...] = ()
    memory_taken_mib: Mapping[str, int] = field(default_factory=dict)
    templates: tuple[VmFact, ...] = ()
    rancher_cluster: str | None = None
    capmox_token_id: str = ""
    capmox_token_hmac: str = ""
    proxmox_url: str = ""

    @property
    def online_nodes(self) -> tuple[str, ...]:
        """The names of the nodes that are online, sorted."""
        return tuple(sorted(node.name for node in self.nodes if node.online))
