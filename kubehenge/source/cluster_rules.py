"""
The rules of a Cluster that take two fields, or its distribution (reference: kubehenge-clusters, kubehenge-architecture).

Each rule looks at what can be used of a document although other parts may be wrong, so that all errors come at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubehenge.model.cluster import AUTOSCALER_MAX_ANNOTATION, AUTOSCALER_MIN_ANNOTATION, PROTECT_ANNOTATION
from kubehenge.model.distribution import FACTS, Cni
from kubehenge.model.document import ProblemKind, Severity
from kubehenge.model.network import AddressBlock, count_addresses, format_address
from kubehenge.model.versions import describe_form, find_version
from kubehenge.source.cluster_draft import ClusterDraft, PoolDraft
from kubehenge.source.findings import VERSION, Finding, variable
from kubehenge.source.shape import quoted

POOL_NAME_LIMIT = 50
"""Characters of `<cluster>-<pool>` (MODEL 34), so that host names of nodes stay within one DNS label."""
RANCHER_CORES = 4
"""The least virtual cores of a node that runs Rancher, by Rancher's documentation."""


def find_cluster_problems(draft: ClusterDraft) -> Iterator[Finding]:
    """Yield what the rules find wrong with a Cluster, warnings included."""
    for rule in _RULES:
        yield from rule(draft)


# Distribution


def _version_has_the_form_of_the_distribution(draft: ClusterDraft) -> Iterator[Finding]:
    if draft.distribution is None or draft.version is None:
        return
    version = find_version(draft.version)
    if version is not None and version.distribution is draft.distribution:
        return
    form = describe_form(draft.distribution)
    if version is not None:
        message = f"{draft.version} is {FACTS[version.distribution].title}'s form; {form}."
    else:
        message = f"{quoted(draft.version)} is no version of {FACTS[draft.distribution].title}: {form}."
    yield Finding(path=VERSION, kind=ProblemKind.FORM, message=message)


def _cni_is_one_of_the_distribution(draft: ClusterDraft) -> Iterator[Finding]:
    if draft.distribution is None:
        return
    facts = FACTS[draft.distribution]
    choices = " or ".join((", ".join(facts.cnis[:-1]), facts.cnis[-1]))
    if draft.cni is None:
        if facts.default_cni is None and not draft.has_variable("cni"):
            message = f"{facts.title} brings no pod network of its own. Set `cni` to {choices}."
            yield Finding(path=variable("cni"), kind=ProblemKind.REQUIRED, message=message)
        return
    if draft.cni in facts.cnis:
        return
    known = draft.cni in set(Cni)
    message = f"{quoted(draft.cni)} is {'not for' if known else 'no pod network of'} {facts.title}. Write {choices}."
    yield Finding(path=variable("cni"), kind=ProblemKind.NOT_ALLOWED, message=message)


def _control_planes_have_the_memory_of_the_distribution(draft: ClusterDraft) -> Iterator[Finding]:
    memory = draft.control_plane_machine.memory_mib
    if draft.distribution is None or memory is None:
        return
    facts = FACTS[draft.distribution]
    if memory < facts.control_plane_memory_mib:
        message = f"{memory} MiB is too little: a control-plane node of {facts.title} needs at least {facts.control_plane_memory_mib} MiB."
        yield Finding(path=(*draft.control_plane_machine.path, "memoryMiB"), kind=ProblemKind.MINIMUM, message=message)


# Network


def _endpoint_is_free_and_in_the_network(draft: ClusterDraft) -> Iterator[Finding]:
    endpoint, network = draft.endpoint, draft.node_network
    if endpoint is None:
        return
    path, text = variable("controlPlaneEndpoint"), format_address(endpoint)
    for index, block in draft.blocks:
        if endpoint in block:
            message = f"{text} is one of the node addresses ({block}, network.addresses[{index}]). Take one outside them."
            yield Finding(path=path, kind=ProblemKind.OVERLAP, message=message)
    if endpoint == draft.gateway:
        yield Finding(path=path, kind=ProblemKind.OVERLAP, message=f"{text} is the gateway. Take an unused address.")
    if network is None:
        return
    if endpoint not in network:
        message = f"{text} is outside the nodes' network, {network}. Take an unused address in it."
        yield Finding(path=path, kind=ProblemKind.OUTSIDE, message=message)
    elif network.count > 2 and endpoint in {network.first, network.last}:
        message = f"{text} is the {'first' if endpoint == network.first else 'last'} address of {network}, which no machine may have. Take another."
        yield Finding(path=path, kind=ProblemKind.NOT_ALLOWED, message=message)


def _addresses_lie_in_the_network(draft: ClusterDraft) -> Iterator[Finding]:
    network = draft.node_network
    if network is None:
        return
    for index, block in draft.blocks:
        if not network.contains(block):
            ends = f"{format_address(network.first)} to {format_address(network.last)}"
            message = f"{block} leaves the gateway's network, {network} ({ends}). Stay inside it, or mend `prefix`."
            yield Finding(path=variable("network", "addresses", index), kind=ProblemKind.OUTSIDE, message=message)


def _addresses_are_named_once(draft: ClusterDraft) -> Iterator[Finding]:
    furthest: tuple[int, AddressBlock] | None = None
    for index, block in sorted(draft.blocks, key=lambda item: (item[1].first, item[0])):
        if furthest is not None and block.overlaps(furthest[1]):
            (low, other), (high, named) = sorted((furthest, (index, block)), key=lambda item: item[0])
            message = f"{named} shares addresses with addresses[{low}], {other}. They count once."
            path = variable("network", "addresses", high)
            yield Finding(path=path, kind=ProblemKind.OVERLAP, message=message, severity=Severity.WARNING)
        if furthest is None or block.last > furthest[1].last:
            furthest = (index, block)
    for index, server in draft.dns_servers:
        if server != draft.gateway and any(server in block for _, block in draft.blocks):
            message = f"{format_address(server)} is one of the node addresses: a node may be given it. Take it out of `addresses`."
            yield Finding(
                path=variable("network", "dnsServers", index), kind=ProblemKind.OVERLAP, message=message, severity=Severity.WARNING
            )


def _ranges_are_clear_of_the_network_and_each_other(draft: ClusterDraft) -> Iterator[Finding]:
    network = draft.node_network
    for cluster_range in (draft.pods, draft.services):
        if network is not None and cluster_range is not None and cluster_range.block.overlaps(network):
            hint = (
                f"Set `{cluster_range.field}` to a range that is clear of it." if cluster_range.default else "Take one that is clear of it."
            )
            message = f"{cluster_range.words} meets the nodes' network, {network}. {hint}"
            yield Finding(path=cluster_range.path, kind=ProblemKind.OVERLAP, message=message)
    pods, services = draft.pods, draft.services
    if pods is None or services is None or not pods.block.overlaps(services.block):
        return
    named, other = (services, pods) if pods.default else (pods, services)
    message = (
        f"{named.words} ({named.field}) meets {other.words[0].lower()}{other.words[1:]} ({other.field}). Take ranges apart from each other."
    )
    yield Finding(path=named.path, kind=ProblemKind.OVERLAP, message=message)


def _one_address_is_spare(draft: ClusterDraft) -> Iterator[Finding]:
    nodes, network = draft.most_nodes, draft.node_network
    if nodes is None or network is None or draft.gateway is None or not draft.blocks_are_complete:
        return
    reserved = {int(draft.gateway)} | ({network.first, network.last} if network.count > 2 else set())
    usable = count_addresses((block for _, block in draft.blocks), without=reserved)
    if usable > nodes:
        return
    there_are = f"{usable} usable address{'' if usable == 1 else 'es'} for {nodes} node{'' if nodes == 1 else 's'}"
    if usable == nodes:
        message = f"{there_are}: an upgrade or a replacement has none for its extra node. Add at least one address."
    else:
        short = nodes + 1 - usable
        message = f"{there_are}: the cluster cannot be made as asked. Add at least {short} addresses, one of them for upgrades."
    yield Finding(path=variable("network", "addresses"), kind=ProblemKind.CAPACITY, message=message, severity=Severity.WARNING)


# Worker pools


def _pools_have_names_of_their_own(draft: ClusterDraft) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for pool in draft.pools:
        if pool.name is None:
            continue
        if pool.name in seen:
            message = f"{quoted(pool.name)} names machineDeployments[{seen[pool.name]}], too. Give each worker pool a name of its own."
            yield Finding(path=(*pool.path, "name"), kind=ProblemKind.DUPLICATE, message=message)
        seen.setdefault(pool.name, pool.index)
        full = f"{draft.name}-{pool.name}"
        if draft.name is not None and len(full) > POOL_NAME_LIMIT:
            message = f"{full} has {len(full)} characters; cluster and worker pool with the dash have at most {POOL_NAME_LIMIT}. Shorten one of them."
            yield Finding(path=(*pool.path, "name"), kind=ProblemKind.LENGTH, message=message)


def _someone_sets_the_replicas(draft: ClusterDraft) -> Iterator[Finding]:
    for pool in draft.pools:
        scaled = pool.autoscaler_texts != (None, None)
        if scaled:
            yield from _autoscaler_sizes_are_bounds(pool)
        if not pool.has_replicas and not scaled:
            message = "`replicas` is missing. It is the number of workers in this pool, 0 to 100; only the autoscaler's annotations take its place."
            yield Finding(path=(*pool.path, "replicas"), kind=ProblemKind.REQUIRED, message=message, on_key=True)
        elif pool.has_replicas and scaled:
            message = "Both this file and the autoscaler would set the number of workers. Leave `replicas` out."
            yield Finding(path=(*pool.path, "replicas"), kind=ProblemKind.IGNORED, message=message, severity=Severity.WARNING)


def _autoscaler_sizes_are_bounds(pool: PoolDraft) -> Iterator[Finding]:
    annotations = (*pool.path, "metadata", "annotations")
    sizes: list[int] = []
    for name, text in zip((AUTOSCALER_MIN_ANNOTATION, AUTOSCALER_MAX_ANNOTATION), pool.autoscaler_texts, strict=True):
        path = (*annotations, name)
        if text is None:
            message = f"`{name}` is missing: the autoscaler needs both sizes."
            yield Finding(path=path, kind=ProblemKind.REQUIRED, message=message, on_key=True)
        elif not (text.isascii() and text.isdigit() and int(text) <= 100):
            yield Finding(
                path=path,
                kind=ProblemKind.RANGE,
                message=f'{quoted(text)} is no size. Write a number from 0 to 100 in quotes, such as "3".',
            )
        else:
            sizes.append(int(text))
    if len(sizes) == 2 and sizes[0] > sizes[1]:
        message = f"The least size, {sizes[0]}, is more than the most, {sizes[1]}. Turn them round."
        yield Finding(path=(*annotations, AUTOSCALER_MIN_ANNOTATION), kind=ProblemKind.RANGE, message=message)


# Add-ons, sign-in, protection


def _rancher_has_a_host_name_and_large_nodes(draft: ClusterDraft) -> Iterator[Finding]:
    if not draft.rancher_install:
        return
    if not draft.rancher_has_hostname:
        message = "`hostname` is missing: installing Rancher needs a host name that people and every registered cluster reach it at."
        yield Finding(path=variable("rancher", "hostname"), kind=ProblemKind.REQUIRED, message=message, on_key=True)
    machines = {draft.control_plane_machine.path: draft.control_plane_machine}
    machines |= {pool.machine.path: pool.machine for pool in draft.pools}
    for path, machine in machines.items():
        if machine.cores is not None and machine.cores < RANCHER_CORES:
            default = "" if machine.cores_written else ", the default,"
            message = f"{machine.cores}{default} is too few: every node of Rancher's cluster needs at least {RANCHER_CORES} cores."
            yield Finding(path=(*path, "cores"), kind=ProblemKind.MINIMUM, message=message)
    if draft.distribution is not None and not FACTS[draft.distribution].brings_ingress:
        message = f"Rancher is reached through an ingress controller, and {FACTS[draft.distribution].title} brings none. Use RKE2 or k3s, or install one."
        yield Finding(path=variable("rancher", "install"), kind=ProblemKind.NOT_ALLOWED, message=message, severity=Severity.WARNING)


def _headlamp_certificate_has_a_host_name(draft: ClusterDraft) -> Iterator[Finding]:
    if draft.headlamp_secret_without_hostname:
        message = "`tlsSecret` holds the certificate for `hostname`, which is not set. Set it, or leave the Secret out."
        yield Finding(path=variable("headlamp", "tlsSecret"), kind=ProblemKind.IGNORED, message=message, severity=Severity.WARNING)


def _issuers_are_named_once(draft: ClusterDraft) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, issuer in draft.issuers:
        if issuer in seen:
            message = f"{quoted(issuer)} is in the list already. An API server takes each issuer once."
            yield Finding(path=variable("oidc", index, "issuerURL"), kind=ProblemKind.DUPLICATE, message=message)
        seen.add(issuer)


def _protect_is_true_or_false(draft: ClusterDraft) -> Iterator[Finding]:
    value = draft.protect
    if value is not None and value not in {"true", "false"}:
        message = f'{quoted(value)} is not allowed here. Write "true" or "false", in quotes.'
        yield Finding(path=("metadata", "annotations", PROTECT_ANNOTATION), kind=ProblemKind.NOT_ALLOWED, message=message)


_RULES: tuple[Callable[[ClusterDraft], Iterator[Finding]], ...] = (
    _version_has_the_form_of_the_distribution,
    _cni_is_one_of_the_distribution,
    _control_planes_have_the_memory_of_the_distribution,
    _endpoint_is_free_and_in_the_network,
    _addresses_lie_in_the_network,
    _addresses_are_named_once,
    _ranges_are_clear_of_the_network_and_each_other,
    _one_address_is_spare,
    _pools_have_names_of_their_own,
    _someone_sets_the_replicas,
    _rancher_has_a_host_name_and_large_nodes,
    _headlamp_certificate_has_a_host_name,
    _issuers_are_named_once,
    _protect_is_true_or_false,
)
