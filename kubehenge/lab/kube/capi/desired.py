"""What a Cluster with its class asks of capmox: cluster and machine specs out of its variables. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.capi import addresses, classes
from kubehenge.lab.kube.capi.classes import Distribution
from kubehenge.lab.kube.capi.composition import Part, Plan, PoolPlan
from kubehenge.lab.kube.kinds import Kind, Obj
from kubehenge.model.identity import ANNOTATION_ONLINE_NODES, ANNOTATION_VM_ID_RANGE

API_PORT = 6443


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """A Cluster's topology, read once."""

    name: str
    namespace: str
    distribution: Distribution
    control_plane_kind: Kind
    version: str
    control_plane_replicas: int
    pools: tuple[tuple[str, int], ...]
    variables: Mapping[str, Any]
    annotations: Mapping[str, str]
    workload_pool: str

    @property
    def pool(self) -> str:
        """The Proxmox VE pool of the cluster's VMs."""
        return f"{self.workload_pool}/{self.namespace}.{self.name}"


def read(cluster: Obj, cluster_class: Obj, *, workload_pool: str) -> Blueprint:
    """
    The blueprint of a Cluster.

    Errors: ValueError in people's words when class or variables cannot be built from.
    """
    topology, meta = cluster["spec"]["topology"], cluster["metadata"]
    kind_name = cluster_class["spec"]["controlPlane"]["templateRef"]["kind"].removesuffix("Template")
    distribution = classes.of_control_plane(kind_name)
    kind = kinds.find_by_name("controlplane.cluster.x-k8s.io", kind_name)
    if distribution is None or kind is None:
        raise ValueError(f"the lab has no control-plane provider for {kind_name}")
    known = {pool["class"] for pool in (cluster_class["spec"].get("workers") or {}).get("machineDeployments") or []}
    pools = (topology.get("workers") or {}).get("machineDeployments") or []
    if unknown := [pool["class"] for pool in pools if pool["class"] not in known]:
        raise ValueError(f"MachineDeploymentClass {unknown[0]} not found in ClusterClass {cluster_class['metadata']['name']}")
    return Blueprint(
        name=meta["name"],
        namespace=meta["namespace"],
        distribution=distribution,
        control_plane_kind=kind,
        version=topology["version"],
        control_plane_replicas=(topology.get("controlPlane") or {}).get("replicas", 1),
        pools=tuple((pool["name"], pool.get("replicas", 1)) for pool in pools),
        variables={entry["name"]: entry.get("value") for entry in topology.get("variables") or []},
        annotations=meta.get("annotations") or {},
        workload_pool=workload_pool,
    )


def plan(blueprint: Blueprint, cluster_class: Obj) -> Plan:
    """
    What one of the lab's own classes makes of a Cluster: it is known here, and stands in no patch.

    Errors: ValueError when a variable cannot be built from.
    """
    spec = cluster_class["spec"]
    control, workers = spec["controlPlane"], spec["workers"]["machineDeployments"][0]
    bootstrap = kinds.find_by_name("bootstrap.cluster.x-k8s.io", workers["bootstrap"]["templateRef"]["kind"])
    if bootstrap is None:
        raise ValueError(f"the lab has no bootstrap provider for {workers['bootstrap']['templateRef']['kind']}")
    worker = machine_spec(blueprint, worker=True, version=blueprint.version)
    return Plan(
        infra=_part(kinds.PROXMOX_CLUSTER, spec["infrastructure"], proxmox_cluster_spec(blueprint)),
        control_plane=_part(blueprint.control_plane_kind, control, {}),
        machine=_part(
            kinds.PROXMOX_MACHINE_TEMPLATE,
            control["machineInfrastructure"],
            machine_spec(blueprint, worker=False, version=blueprint.version),
        ),
        rolls=bootstrap_settings(blueprint),
        health_check=control.get("healthCheck"),
        pools=tuple(
            PoolPlan(
                name=name,
                replicas=replicas,
                machine=_part(kinds.PROXMOX_MACHINE_TEMPLATE, workers["infrastructure"], worker),
                bootstrap=_part(bootstrap, workers["bootstrap"], {}),
                health_check=workers.get("healthCheck"),
                metadata={},
            )
            for name, replicas in blueprint.pools
        ),
    )


def _part(kind: Kind, holder: Obj, spec: Obj) -> Part:
    reference = holder["templateRef"]
    source_kind = f"{reference['kind']}.{reference['apiVersion'].partition('/')[0]}"
    return Part(kind=kind, source=reference["name"], source_kind=source_kind, spec=spec)


def credentials_secret(cluster: str) -> str:
    """The name of the Secret with capmox's token for a cluster."""
    return f"{cluster}-proxmox-credentials"


def proxmox_cluster_spec(blueprint: Blueprint) -> Obj:
    """
    The ProxmoxCluster's spec: where VMs may run, and their addresses.

    Errors: ValueError when a variable cannot be built from.
    """
    network, endpoint = _network(blueprint), blueprint.variables.get("controlPlaneEndpoint")
    if not endpoint:
        raise ValueError("variable controlPlaneEndpoint is not set")
    try:
        runs = addresses.pool(network["addresses"], gateway=network["gateway"], prefix=network["prefix"])
        host = int(ipaddress.IPv4Address(endpoint))
    except (KeyError, ValueError) as exc:
        raise ValueError(f"ProxmoxCluster is invalid: spec.ipv4Config.addresses: {exc}") from exc
    if any(first <= host <= last for first, last in runs):
        raise ValueError(f"ProxmoxCluster is invalid: addresses may not contain the endpoint IP {endpoint}")
    spec: Obj = {
        "controlPlaneEndpoint": {"host": endpoint, "port": API_PORT},
        "credentialsRef": {"name": credentials_secret(blueprint.name)},
        "dnsServers": list(network["dnsServers"]),
        "ipv4Config": {"addresses": list(network["addresses"]), "prefix": network["prefix"], "gateway": network["gateway"]},
    }
    online = blueprint.annotations.get(ANNOTATION_ONLINE_NODES, "")
    nodes = [node.strip() for node in online.split(",") if node.strip()] or list(blueprint.variables.get("allowedNodes") or [])
    if nodes:
        spec["allowedNodes"] = nodes
    return spec


def machine_spec(blueprint: Blueprint, *, worker: bool, version: str) -> Obj:
    """
    The spec of a machine template: a change of it replaces the machines.

    Errors: ValueError when a variable or the annotation of VM ids cannot be built from.
    """
    network = _network(blueprint)
    size = blueprint.variables.get("workerMachine" if worker else "controlPlaneMachine") or {}
    device: Obj = {"name": "net0", "bridge": network["bridge"], "model": "virtio", "defaultIPv4": True}
    if network.get("vlan"):
        device["vlan"] = network["vlan"]
    spec: Obj = {
        "templateSelector": {"matchTags": classes.template_tags(blueprint.distribution, version), "matchPolicy": "uniqueSubset"},
        "full": True,
        "storage": blueprint.variables.get("storage"),
        "pool": blueprint.pool,
        "numSockets": 1,
        "numCores": size.get("cores", 2),
        "memoryMiB": size.get("memoryMiB", 4096),
        "disks": {"bootVolume": {"disk": "scsi0", "sizeGb": size.get("diskGiB", 40 if worker else 30)}},
        "network": {"networkDevices": [device]},
        "metadataSettings": {"providerIDInjection": True},
    }
    if text := blueprint.annotations.get(ANNOTATION_VM_ID_RANGE):
        spec["vmIDRange"] = _id_range(text)
    return {name: value for name, value in spec.items() if value is not None}


def bootstrap_settings(blueprint: Blueprint) -> Obj:
    """What else a control plane's nodes are made from: a change of it replaces them too."""
    return {name: blueprint.variables[name] for name in ("oidc",) if blueprint.variables.get(name)}


def _network(blueprint: Blueprint) -> Mapping[str, Any]:
    network: Mapping[str, Any] = blueprint.variables.get("network") or {}
    try:
        ipaddress.IPv4Network(f"{network['gateway']}/{network['prefix']}", strict=False)
    except (KeyError, ValueError) as exc:
        raise ValueError(f"variable network is missing or incomplete: {exc}") from exc
    return network


def _id_range(text: str) -> Obj:
    first, _, last = text.partition("-")
    try:
        start, end = int(first), int(last)
    except ValueError as exc:
        raise ValueError(f"annotation {ANNOTATION_VM_ID_RANGE}: {text!r} is no range of two numbers") from exc
    if not 100 <= start <= end:
        raise ValueError(f"annotation {ANNOTATION_VM_ID_RANGE}: {text!r} is no range from 100 up")
    return {"start": start, "end": end}
