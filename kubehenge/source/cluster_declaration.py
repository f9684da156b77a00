"""Makes the typed declaration out of a Cluster document whose shape and rules hold."""

from __future__ import annotations

from typing import Any

from kubehenge.errors import InvariantError
from kubehenge.model.cluster import (
    AUTOSCALER_MAX_ANNOTATION,
    AUTOSCALER_MIN_ANNOTATION,
    PROTECT_ANNOTATION,
    AutoscalerSizes,
    ClusterDeclaration,
    ClusterRange,
    Headlamp,
    MachineSize,
    NodeNetwork,
    Rancher,
    Upgrades,
    WorkerPool,
)
from kubehenge.model.distribution import FACTS, Cni, find_distribution
from kubehenge.model.network import Address, AddressBlock, Unreadable, parse_address, parse_block, parse_network
from kubehenge.model.versions import find_version
from kubehenge.source.cluster_draft import named_values
from kubehenge.source.cluster_shape import ClusterShape, MachineDeployment, Overrides, Ranges
from kubehenge.source.cluster_variables import (
    ControlPlaneMachine,
    ControlPlaneOverrides,
    NetworkVariable,
    Variables,
    WorkerMachine,
    WorkerOverrides,
)


def declare_cluster(shape: ClusterShape, variables: Variables) -> ClusterDeclaration:
    """
    Return what a Cluster declares, every default filled in.

    Errors: InvariantError for a document that the shape or the rules refuse.
    """
    topology, metadata = shape.spec.topology, shape.metadata
    distribution, version = find_distribution(topology.class_ref.name), find_version(topology.version)
    if distribution is None or version is None:
        raise InvariantError(f"{metadata.namespace}/{metadata.name} is declared although it was refused")
    facts = FACTS[distribution]
    ranges = shape.spec.cluster_network
    control_plane = _overridden_control_plane(topology.control_plane.variables, variables.control_plane_machine)
    cni = variables.cni or facts.default_cni
    if cni is None:
        raise InvariantError(f"{metadata.namespace}/{metadata.name} has no pod network although it was accepted")
    return ClusterDeclaration(
        namespace=metadata.namespace,
        name=metadata.name,
        distribution=distribution,
        class_name=topology.class_ref.name,
        version=version,
        control_plane_replicas=topology.control_plane.replicas,
        control_plane_machine=_size(control_plane),
        worker_machine=_size(variables.worker_machine),
        pools=tuple(_pool(pool, variables.worker_machine) for pool in (topology.workers.machine_deployments if topology.workers else ())),
        endpoint=_address(variables.control_plane_endpoint),
        network=_network(variables.network),
        pods=_range(ranges.pods if ranges else None, facts.pods),
        services=_range(ranges.services if ranges else None, facts.services),
        storage=variables.storage,
        allowed_nodes=None if variables.allowed_nodes is None else tuple(sorted(set(variables.allowed_nodes))),
        proxmox_ha=variables.proxmox_ha,
        cni=Cni(cni),
        headlamp=Headlamp(
            enabled=variables.headlamp.enabled,
            hostname=variables.headlamp.hostname or "",
            tls_secret=variables.headlamp.tls_secret or "",
        ),
        rancher=Rancher(install=variables.rancher.install, hostname=variables.rancher.hostname or "", register=variables.rancher.register_),
        oidc=None if variables.oidc is None else tuple(provider.declare() for provider in variables.oidc),
        upgrades=Upgrades(mode=variables.upgrades.mode, window=variables.upgrades.window.declare()),
        protect=metadata.annotations.get(PROTECT_ANNOTATION) == "true",
        labels=tuple(sorted(metadata.labels.items())),
        annotations=tuple(sorted(metadata.annotations.items())),
    )


def _pool(pool: MachineDeployment, default: WorkerMachine) -> WorkerPool:
    annotations = pool.metadata.annotations if pool.metadata else {}
    sizes = None
    if AUTOSCALER_MIN_ANNOTATION in annotations:
        sizes = AutoscalerSizes(minimum=int(annotations[AUTOSCALER_MIN_ANNOTATION]), maximum=int(annotations[AUTOSCALER_MAX_ANNOTATION]))
    overrides = WorkerOverrides.model_validate(_values(pool.variables))
    return WorkerPool(name=pool.name, replicas=pool.replicas, machine=_size(overrides.worker_machine or default), autoscaler=sizes)


def _overridden_control_plane(overrides: Overrides | None, default: ControlPlaneMachine) -> ControlPlaneMachine:
    return ControlPlaneOverrides.model_validate(_values(overrides)).control_plane_machine or default


def _values(overrides: Overrides | None) -> dict[str, Any]:
    return named_values([entry.model_dump() for entry in overrides.overrides]) if overrides else {}


def _size(machine: ControlPlaneMachine | WorkerMachine) -> MachineSize:
    return MachineSize(cores=machine.cores, memory_mib=machine.memory_mib, disk_gib=machine.disk_gib)


def _network(network: NetworkVariable) -> NodeNetwork:
    return NodeNetwork(
        bridge=network.bridge,
        vlan=network.vlan,
        blocks=tuple(_readable(parse_block(text)) for text in network.addresses),
        prefix=network.prefix,
        gateway=_address(network.gateway),
        dns_servers=tuple(_address(text) for text in network.dns_servers),
    )


def _range(written: Ranges | None, default: str) -> ClusterRange:
    text = default if written is None else written.cidr_blocks[0]
    return ClusterRange(block=_readable(parse_network(text)), default=written is None)


def _readable(block: AddressBlock | Unreadable) -> AddressBlock:
    if isinstance(block, Unreadable):
        raise InvariantError(f"{block.reason} It was accepted before.")
    return block


def _address(text: str) -> Address:
    found = parse_address(text)
    if isinstance(found, Unreadable):
        raise InvariantError(f"{found.reason} It was accepted before.")
    return found
