"""
What Cluster API's webhook asks of a Cluster's topology: of itself, of its class, and of a change of either. Pure.

Source: Cluster API 1.14.2, core/webhooks/admission/cluster.go and internal/topology/check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubehenge.lab.kube import variables, versions
from kubehenge.lab.kube.errors import Cause, FieldError
from kubehenge.lab.kube.kinds import Obj

TOPOLOGY = "spec.topology"
_POOLS = f"{TOPOLOGY}.workers.machineDeployments"
_LONGEST_LABEL = 63
_AUTOSCALED = frozenset(
    f"cluster.x-k8s.io/cluster-api-autoscaler-node-group-{end}-size"  # on a pool, in place of a number
    for end in ("min", "max")
)
UNREADABLE = "version must be a valid semantic version"


def class_of(cluster: Obj) -> tuple[str, str] | None:
    """Namespace and name of a Cluster's ClusterClass; None without a topology."""
    reference = ((cluster.get("spec") or {}).get("topology") or {}).get("classRef")
    if not reference:
        return None
    return (reference.get("namespace") or cluster["metadata"]["namespace"], reference["name"])


def pools_of(topology: Mapping[str, Any]) -> list[Obj]:
    """The worker pools of a topology."""
    pools: list[Obj] = (topology.get("workers") or {}).get("machineDeployments") or []
    return pools


def check_name(name: str) -> Iterator[FieldError]:
    """A Cluster's name becomes a label's value."""
    if len(name) > _LONGEST_LABEL:
        detail = f"must be a valid label value must be no more than {_LONGEST_LABEL} bytes"
        yield FieldError(field="metadata.name", cause=Cause.INVALID, value=name, detail=detail)


# ---- variables


def _overrides(topology: Mapping[str, Any]) -> Iterator[tuple[str, Obj]]:
    """Where a topology overrides variables: the path, and what holds them."""
    holders = [(f"{TOPOLOGY}.controlPlane", topology.get("controlPlane") or {})]
    holders += [(f"{_POOLS}[{pool['name']}]", pool) for pool in pools_of(topology)]
    for path, holder in holders:
        if (holder.get("variables") or {}).get("overrides"):
            yield f"{path}.variables.overrides", holder["variables"]


def fill_in(topology: Obj, definitions: list[Obj]) -> Iterator[FieldError]:
    """Write the defaults of the class's variables into a topology, in place; what is not defined is told, as it is again when it is checked."""
    known = {definition["name"] for definition in definitions}
    undefined = [entry for entry in topology.get("variables") or [] if entry["name"] not in known]
    if undefined:
        yield from variables.check_values(definitions, undefined, (), f"{TOPOLOGY}.variables", needed=False)
        return
    values = variables.default_values(definitions, topology.get("variables") or [])
    if values:
        topology["variables"] = values
    for _, holder in _overrides(topology):
        holder["overrides"] = variables.default_values(definitions, holder["overrides"], add=False)


def check_variables(topology: Obj, old: Mapping[str, Any], definitions: list[Obj]) -> Iterator[FieldError]:
    """What the class's schemas refuse, for the cluster and for its parts."""
    yield from variables.check_values(definitions, topology.get("variables") or [], old.get("variables") or [], f"{TOPOLOGY}.variables")
    before = dict(_overrides(old))
    for path, holder in _overrides(topology):
        known = before.get(path, {}).get("overrides") or []
        yield from variables.check_values(definitions, holder["overrides"], known, path, needed=False)


# ---- a topology and its class


def check_topology(cluster: Obj, cluster_class: Obj | None) -> Iterator[FieldError]:
    """What holds for every topology, new or changed."""
    topology = cluster["spec"]["topology"]
    if versions.parse(topology["version"]) is None:
        yield FieldError(field=f"{TOPOLOGY}.version", cause=Cause.INVALID, value=topology["version"], detail=UNREADABLE)
    if cluster_class is not None:
        yield from _check_against(topology, cluster_class)
    yield from _check_autoscaled(cluster, cluster_class)


def _check_against(topology: Obj, cluster_class: Obj) -> Iterator[FieldError]:
    spec, name = cluster_class["spec"], cluster_class["metadata"]["name"]
    if (known := spec.get("kubernetesVersions")) and topology["version"] not in known:
        detail = "version must match one of the versions defined in the ClusterClass"
        yield FieldError(field=f"{TOPOLOGY}.version", cause=Cause.INVALID, value=topology["version"], detail=detail)
    classes = {pool["class"]: pool for pool in pools_of(spec)}
    for index, pool in enumerate(pools_of(topology)):
        if pool["class"] not in classes:
            detail = f'MachineDeploymentClass with name "{pool["class"]}" does not exist in ClusterClass "{name}"'
            yield FieldError(field=f"{_POOLS}[{index}].class", cause=Cause.INVALID, value=pool["class"], detail=detail)
    parts = [(f"{TOPOLOGY}.controlPlane", topology.get("controlPlane") or {}, spec["controlPlane"])]
    parts += [(f"{_POOLS}[{pool['name']}]", pool, classes[pool["class"]]) for pool in pools_of(topology) if pool["class"] in classes]
    for path, part, part_class in parts:
        check = part.get("healthCheck") or {}
        if check.get("enabled") and not (check.keys() - {"enabled"}) and not part_class.get("healthCheck"):
            detail = "cannot be set to true as healthCheck definition is not available in the Cluster topology or the ClusterClass"
            yield FieldError(field=f"{path}.healthCheck.enable", cause=Cause.FORBIDDEN, detail=detail)


def _check_autoscaled(cluster: Obj, cluster_class: Obj | None) -> Iterator[FieldError]:
    meta = cluster["metadata"]
    classes = {pool["class"]: pool for pool in pools_of(cluster_class["spec"])} if cluster_class is not None else {}
    for pool in pools_of(cluster["spec"]["topology"]):
        if "replicas" not in pool:
            continue
        where = f'cannot be set for cluster "{meta["name"]}" in namespace "{meta["namespace"]}" if'
        holders = [
            (pool, "the same MachineDeploymentTopology has autoscaler annotations"),
            (
                classes.get(pool["class"], {}),
                f'the source class "{pool["class"]}" of this MachineDeploymentTopology has autoscaler annotations',
            ),
        ]
        for holder, why in holders:
            if _AUTOSCALED & ((holder.get("metadata") or {}).get("annotations") or {}).keys():
                field = f"{_POOLS}[{pool['name']}].replicas"
                yield FieldError(field=field, cause=Cause.INVALID, value=pool["replicas"], detail=f"{where} {why}")


# ---- changes


def version_step(before: versions.Version, after: versions.Version, *, ceiling: bool) -> str:
    """Why a version may not follow another; '' when it may."""
    if after.numbers < before.numbers:
        return f'version cannot be decreased from "{before.text}" to "{after.text}"'
    if ceiling and (after.major, after.minor) >= (before.major, before.minor + 2):
        return f'version cannot be increased from "{before.text}" to "{after.text}"'
    return ""


def check_compatible(before: Obj, after: Obj) -> Iterator[FieldError]:
    """What keeps Clusters of one class from moving to another: other kinds of templates."""
    old, new = before["spec"], after["spec"]
    yield from _same_kind(old["infrastructure"], new["infrastructure"], "spec.infrastructure")
    yield from _same_kind(old["controlPlane"], new["controlPlane"], "spec.controlPlane")
    machines = [spec["controlPlane"].get("machineInfrastructure") or {} for spec in (old, new)]
    if any(machines):
        yield from _same_kind(machines[0], machines[1], "spec.controlPlane.machineInfrastructure")
    known = {pool["class"]: pool for pool in pools_of(old)}
    for index, pool in enumerate(pools_of(new)):
        if pool["class"] in known:
            path = f"spec.workers.machineDeployments[{index}].infrastructure"
            yield from _same_kind(known[pool["class"]]["infrastructure"], pool["infrastructure"], path)


def _same_kind(old: Obj, new: Obj, path: str) -> Iterator[FieldError]:
    before, after = ((part.get("templateRef") or {}) for part in (old, new))
    why = "to prevent incompatible changes in the Clusters"
    groups = [reference.get("apiVersion", "").rpartition("/")[0] for reference in (before, after)]
    if groups[0] != groups[1]:
        detail = f'group of apiVersion cannot be changed from "{groups[0]}" to "{groups[1]}" {why}'
        yield FieldError(field=f"{path}.templateRef.apiVersion", cause=Cause.FORBIDDEN, detail=detail)
    if before.get("kind") != after.get("kind"):
        detail = f'kind cannot be changed from "{before.get("kind", "")}" to "{after.get("kind", "")}" {why}'
        yield FieldError(field=f"{path}.templateRef.kind", cause=Cause.FORBIDDEN, detail=detail)


def class_missing(key: Iterable[str]) -> FieldError:
    """A Cluster of a class that is not there cannot be changed."""
    return FieldError(field=f"{TOPOLOGY}.class", cause=Cause.INTERNAL, detail=f"ClusterClass {'/'.join(key)} not found")


def class_not_settable() -> FieldError:
    """A Cluster without a topology cannot get one."""
    return FieldError(field=f"{TOPOLOGY}.class", cause=Cause.FORBIDDEN, detail="classRef cannot be set on an existing Cluster")
