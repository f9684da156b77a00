"""What the bill, the risks and the obstacles need of a Cluster's body, and which changes of it replace nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from kubehenge.model.canon import Body, canonical
from kubehenge.model.distribution import machines_of

KUBEHENGE_CLASSES = "kubehenge-"
"""How the names of our classes begin."""

DEFAULT_CORES = 2
DEFAULT_MEMORY_MIB = 4096
DEFAULT_CONTROL_PLANE_DISK_GIB = 30
DEFAULT_WORKER_DISK_GIB = 40

_ROLLS_ALL = ("storage", "cni")
_ROLLS_CONTROL_PLANE = ("oidc",)

_NETWORK_ROLLS = ("bridge", "vlan", "prefix", "gateway", "dnsServers")
"""The parts of `network` that a running node keeps; its addresses are only drawn from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A machine's size."""

    cores: int
    memory_mib: int
    disk_gib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The parts of a Cluster that decide about its machines; defaults as in reference kubehenge-clusters (Variables)."""

    class_name: str
    version: str
    control_plane_replicas: int
    pools: Mapping[str, int]
    variables: Mapping[str, Any]
    control_plane: Size
    worker: Size

    @classmethod
    def of(cls, body: Body) -> Self:
        """Read a judged Cluster's body."""
        topology = body["spec"]["topology"]
        variables = {item["name"]: item.get("value") for item in topology.get("variables", [])}
        deployments = topology.get("workers", {}).get("machineDeployments", [])
        return cls(
            class_name=topology["classRef"]["name"],
            version=topology["version"],
            control_plane_replicas=topology.get("controlPlane", {}).get("replicas", 1),
            pools={item["name"]: item.get("replicas", 1) for item in deployments},
            variables=variables,
            control_plane=_size(variables.get("controlPlaneMachine"), DEFAULT_CONTROL_PLANE_DISK_GIB),
            worker=_size(variables.get("workerMachine"), DEFAULT_WORKER_DISK_GIB),
        )

    @property
    def workers(self) -> int:
        """Workers of all pools."""
        return sum(self.pools.values())

    @property
    def machines(self) -> int:
        """Machines in all."""
        return self.control_plane_replicas + self.workers

    @property
    def memory_mib(self) -> int:
        """Memory of all machines."""
        return self.control_plane_replicas * self.control_plane.memory_mib + self.workers * self.worker.memory_mib

    @property
    def cores(self) -> int:
        """Cores of all machines."""
        return self.control_plane_replicas * self.control_plane.cores + self.workers * self.worker.cores

    @property
    def network(self) -> Mapping[str, Any]:
        """The variable `network`."""
        found = self.variables.get("network")
        return found if isinstance(found, Mapping) else {}

    @property
    def addresses(self) -> tuple[str, ...]:
        """The node address blocks as written."""
        return tuple(self.network.get("addresses", ()))

    @property
    def allowed_nodes(self) -> tuple[str, ...]:
        """The Proxmox VE nodes that it may use; () is any."""
        return tuple(self.variables.get("allowedNodes") or ())

    @property
    def issuers(self) -> frozenset[str]:
        """The issuers of its identity providers."""
        return frozenset(provider.get("issuerURL", "") for provider in self.variables.get("oidc") or ())

    @property
    def installs_rancher(self) -> bool:
        """Whether Rancher is installed into it."""
        return bool((self.variables.get("rancher") or {}).get("install"))

    @property
    def distribution(self) -> str:
        """`kubeadm`, `rke2` or `k3s`, from the class's name."""
        return self.class_name.removeprefix("kubehenge-").split("-")[0]


def _size(value: Any, default_disk_gib: int) -> Size:
    size = value if isinstance(value, Mapping) else {}
    return Size(
        cores=size.get("cores", DEFAULT_CORES),
        memory_mib=size.get("memoryMiB", DEFAULT_MEMORY_MIB),
        disk_gib=size.get("diskGiB", default_disk_gib),
    )


def rolls_control_plane(old: Topology, new: Topology) -> bool:
    """
    Tell whether a change replaces the control-plane nodes.

    Source: reference kubehenge-clusters (sizes roll the nodes, identity providers replace control planes), kubehenge-upgrading.
    """
    return _rolls_all(old, new) or _differs(old, new, _ROLLS_CONTROL_PLANE) or old.control_plane != new.control_plane


def rolls_workers(old: Topology, new: Topology) -> bool:
    """Tell whether a change replaces the workers."""
    return _rolls_all(old, new) or old.worker != new.worker


def _rolls_all(old: Topology, new: Topology) -> bool:
    if old.version != new.version or _differs(old, new, _ROLLS_ALL) or machines_of(old.class_name) != machines_of(new.class_name):
        return True
    return any(old.network.get(key) != new.network.get(key) for key in _NETWORK_ROLLS)


def _differs(old: Topology, new: Topology, names: tuple[str, ...]) -> bool:
    return any(canonical(old.variables.get(name)) != canonical(new.variables.get(name)) for name in names)
