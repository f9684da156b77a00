"""What can be used of a Cluster document although parts of it may be missing or wrong; the rules look at nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kubehenge.model.cluster import AUTOSCALER_MAX_ANNOTATION, AUTOSCALER_MIN_ANNOTATION, PROTECT_ANNOTATION
from kubehenge.model.distribution import FACTS, Distribution, find_distribution
from kubehenge.model.network import Address, AddressBlock, Unreadable, network_of, parse_address, parse_block, parse_network
from kubehenge.source.cluster_shape import POOLS_LIMIT
from kubehenge.source.cluster_variables import ADDRESSES_LIMIT, DNS_SERVERS_LIMIT, ControlPlaneMachine, WorkerMachine
from kubehenge.source.findings import variable
from kubehenge.source.yaml_values import Path


class Part:
    """A mapping that may be anything: a field that is absent or of another type is None, or empty."""

    __slots__ = ("fields",)

    def __init__(self, value: Any) -> None:
        self.fields: dict[str, Any] = value if type(value) is dict else {}

    def text(self, name: str) -> str | None:
        value = self.fields.get(name)
        return value if isinstance(value, str) else None

    def whole(self, name: str) -> int | None:
        value = self.fields.get(name)
        return value if type(value) is int else None

    def part(self, name: str) -> Part:
        return Part(self.fields.get(name))

    def items(self, name: str) -> list[Any]:
        value = self.fields.get(name)
        return value if isinstance(value, list) else []

    def __contains__(self, name: str) -> bool:
        return name in self.fields


def named_values(entries: list[Any]) -> dict[str, Any]:
    """Return the values of a list of variables by name; of two with one name the first."""
    values: dict[str, Any] = {}
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and "value" in entry:
            values.setdefault(entry["name"], entry["value"])
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDraft:
    """A machine size: where it is written, and its cores and memory with defaults; None where they cannot be read."""

    path: Path
    cores: int | None
    cores_written: bool
    memory_mib: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDraft:
    """One worker pool; `autoscaler_texts` are its least and most size as they are written, None where they are not."""

    path: Path
    index: int
    name: str | None
    has_replicas: bool
    replicas: int | None
    autoscaler_texts: tuple[str | None, str | None]
    machine: MachineDraft

    @property
    def most_replicas(self) -> int | None:
        """The most workers of this pool, None where that cannot be read."""
        most = self.autoscaler_texts[1]
        if most is not None:
            return int(most) if most.isascii() and most.isdigit() and len(most) <= 3 else None
        return self.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDraft:
    """The pod or service range that applies; `default` when the file names none."""

    field: str
    path: Path
    title: str
    block: AddressBlock
    default: bool

    @property
    def words(self) -> str:
        """What it is, for the beginning of a sentence."""
        return f"The default {self.title} range {self.block}" if self.default else f"{self.title.capitalize()} range {self.block}"


class ClusterDraft:
    """A Cluster document as far as it can be read; nothing here raises."""

    def __init__(self, value: dict[str, Any]) -> None:
        document = Part(value)
        self._metadata = document.part("metadata")
        self._spec = document.part("spec")
        self._topology = self._spec.part("topology")
        self._values = named_values(self._topology.items("variables"))
        self._network = Part(self._values.get("network"))
        self.distribution: Distribution | None = find_distribution(self._topology.part("classRef").text("name") or "")
        """The distribution by the class's name."""
        self.endpoint: Address | None = _address(self._values.get("controlPlaneEndpoint"))
        """The control plane's virtual IP."""
        self.gateway: Address | None = _address(self._network.fields.get("gateway"))
        """The nodes' gateway."""
        self.node_network: AddressBlock | None = self._read_node_network()
        """The gateway's network."""
        self.blocks: tuple[tuple[int, AddressBlock], ...] = tuple(
            _readable(self._network.items("addresses")[:ADDRESSES_LIMIT], parse_block)
        )
        """The node addresses that can be read, each with its place in the list."""
        self.dns_servers: tuple[tuple[int, Address], ...] = tuple(
            _readable(self._network.items("dnsServers")[:DNS_SERVERS_LIMIT], parse_address)
        )
        """The DNS servers that can be read, each with its place in the list."""
        self.pods: RangeDraft | None = self._read_range("pods", "pod", FACTS[self.distribution].pods if self.distribution else "")
        """The pod range that applies."""
        self.services: RangeDraft | None = self._read_range(
            "services", "service", FACTS[self.distribution].services if self.distribution else ""
        )
        """The service range that applies."""
        self.control_plane_machine: MachineDraft = self._read_control_plane_machine()
        """The size of control-plane VMs, an override included."""
        self.pools: tuple[PoolDraft, ...] = self._read_pools()
        """The worker pools that are mappings."""

    def has_variable(self, name: str) -> bool:
        """Tell whether a variable is set, to whatever."""
        return name in self._values

    @property
    def name(self) -> str | None:
        """The cluster's name."""
        return self._metadata.text("name")

    @property
    def protect(self) -> str | None:
        """The annotation that refuses deletion."""
        return self._metadata.part("annotations").text(PROTECT_ANNOTATION)

    @property
    def version(self) -> str | None:
        """The Kubernetes version as written."""
        return self._topology.text("version")

    @property
    def cni(self) -> str | None:
        """The pod network as written."""
        return Part(self._values).text("cni")

    # Network

    def _read_node_network(self) -> AddressBlock | None:
        prefix = self._network.whole("prefix")
        return network_of(self.gateway, prefix) if self.gateway is not None and prefix is not None and 1 <= prefix <= 32 else None

    @property
    def blocks_are_complete(self) -> bool:
        """Whether every entry of the list could be read, and there is one."""
        return 0 < len(self._network.items("addresses")) == len(self.blocks)

    def _read_range(self, name: str, title: str, default: str) -> RangeDraft | None:
        ranges = self._spec.part("clusterNetwork")
        written = name in ranges
        texts = ranges.part(name).items("cidrBlocks") if written else [default]
        block = parse_network(texts[0]) if texts and isinstance(texts[0], str) else None
        if block is None or isinstance(block, Unreadable):
            return None
        path: Path = ("spec", "clusterNetwork", name)
        return RangeDraft(field=".".join(map(str, path)), path=path, title=title, block=block, default=not written)

    # Machines

    def _read_control_plane_machine(self) -> MachineDraft:
        control_plane = self._topology.part("controlPlane")
        overrides = named_values(control_plane.part("variables").items("overrides"))
        if "controlPlaneMachine" in overrides:
            path: Path = ("spec", "topology", "controlPlane", "variables", "overrides", "controlPlaneMachine")
            return _machine(path, Part(overrides["controlPlaneMachine"]), ControlPlaneMachine())
        return _machine(variable("controlPlaneMachine"), Part(self._values.get("controlPlaneMachine")), ControlPlaneMachine())

    def _read_pools(self) -> tuple[PoolDraft, ...]:
        deployments = self._topology.part("workers").items("machineDeployments")[:POOLS_LIMIT]
        return tuple(self._pool(index, Part(item)) for index, item in enumerate(deployments) if isinstance(item, dict))

    def _pool(self, index: int, pool: Part) -> PoolDraft:
        path: Path = ("spec", "topology", "workers", "machineDeployments", index)
        overrides = named_values(pool.part("variables").items("overrides"))
        if "workerMachine" in overrides:
            machine = _machine((*path, "variables", "overrides", "workerMachine"), Part(overrides["workerMachine"]), WorkerMachine())
        else:
            machine = _machine(variable("workerMachine"), Part(self._values.get("workerMachine")), WorkerMachine())
        annotations = pool.part("metadata").part("annotations")
        return PoolDraft(
            path=path,
            index=index,
            name=pool.text("name"),
            has_replicas="replicas" in pool,
            replicas=pool.whole("replicas"),
            autoscaler_texts=(annotations.text(AUTOSCALER_MIN_ANNOTATION), annotations.text(AUTOSCALER_MAX_ANNOTATION)),
            machine=machine,
        )

    @property
    def most_nodes(self) -> int | None:
        """The most nodes that the file allows, None where a number cannot be read."""
        replicas = [self._topology.part("controlPlane").whole("replicas"), *(pool.most_replicas for pool in self.pools)]
        numbers = [number for number in replicas if number is not None]
        return sum(numbers) if len(numbers) == len(replicas) else None

    # Add-ons and sign-in

    @property
    def rancher_install(self) -> bool:
        """Whether Rancher is installed here."""
        return Part(self._values.get("rancher")).fields.get("install") is True

    @property
    def rancher_has_hostname(self) -> bool:
        """Whether Rancher's host name is set, to whatever."""
        return "hostname" in Part(self._values.get("rancher"))

    @property
    def headlamp_secret_without_hostname(self) -> bool:
        """Whether Headlamp has a certificate and no name to use it for."""
        headlamp = Part(self._values.get("headlamp"))
        return "tlsSecret" in headlamp and "hostname" not in headlamp

    @property
    def issuers(self) -> tuple[tuple[int, str], ...]:
        """The issuers of the identity providers, each with its place in the list."""
        providers = Part(self._values).items("oidc")
        texts = ((index, Part(provider).text("issuerURL")) for index, provider in enumerate(providers))
        return tuple((index, text) for index, text in texts if text is not None)


def _address(value: Any) -> Address | None:
    found = parse_address(value) if isinstance(value, str) else None
    return None if isinstance(found, Unreadable) else found


def _readable(texts: list[Any], parse: Any) -> Iterator[tuple[int, Any]]:
    for index, text in enumerate(texts):
        found = parse(text) if isinstance(text, str) else None
        if found is not None and not isinstance(found, Unreadable):
            yield index, found


def _machine(path: Path, written: Part, default: ControlPlaneMachine | WorkerMachine) -> MachineDraft:
    return MachineDraft(
        path=path,
        cores=written.whole("cores") if "cores" in written else default.cores,
        cores_written="cores" in written,
        memory_mib=written.whole("memoryMiB") if "memoryMiB" in written else default.memory_mib,
    )
