"""
What a ClusterClass makes of a Cluster: its templates, with its patches and the Cluster's variables on them. Pure.

Source: Cluster API 1.14.2, core/reconcilers/topology/cluster/patches.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from kubehenge.lab.kube import kinds, patch
from kubehenge.lab.kube.capi import go_template
from kubehenge.lab.kube.cluster_rules import class_of, pools_of
from kubehenge.lab.kube.errors import ApiError
from kubehenge.lab.kube.kinds import Kind, Obj

_LEFT_OUT = frozenset({"kubectl.kubernetes.io/last-applied-configuration", "cluster.x-k8s.io/conversion-data"})
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One object to be made: of which kind, cloned from which template, with which spec."""

    kind: Kind
    source: str
    source_kind: str
    spec: Obj


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """A MachineDeployment's templates and its health check; `metadata` are labels and annotations of its own."""

    name: str
    replicas: int
    machine: Part
    bootstrap: Part
    health_check: Obj | None
    metadata: Obj


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a Cluster is made of. `rolls` is what else replaces control-plane machines when it changes."""

    infra: Part
    control_plane: Part
    machine: Part
    rolls: Obj
    health_check: Obj | None
    pools: tuple[PoolPlan, ...]


# What a template reference of the class names, in the class's namespace.
FindTemplate = Callable[[Mapping[str, str], str], Obj | None]


class Composition:
    """The plan of one Cluster out of its class."""

    def __init__(self, cluster: Obj, cluster_class: Obj, find: FindTemplate) -> None:
        self._cluster = cluster
        self._topology: Obj = cluster["spec"]["topology"]
        self._class = cluster_class
        self._find = find
        self._values = {entry["name"]: entry.get("value") for entry in self._topology.get("variables") or []}

    def plan(self) -> Plan:
        """
        Compute everything.

        Errors: ValueError in people's words for a template that is missing, a patch that cannot be computed or applied.
        """
        spec, topology = self._class["spec"], self._topology
        control, given = spec["controlPlane"], topology.get("controlPlane") or {}
        version, replicas = topology["version"], given.get("replicas", 1)
        of_control_plane = self._scope(given, {"controlPlane": {"version": version, "replicas": replicas, "name": ""}})
        control_plane = self._part(control, of_control_plane, "controlPlane")
        return Plan(
            infra=self._part(spec["infrastructure"], self._scope({}, {}), "infrastructureCluster"),
            control_plane=control_plane,
            machine=self._part(control["machineInfrastructure"], of_control_plane, "controlPlane"),
            rolls=control_plane.spec,
            health_check=_health_check(control, given),
            pools=tuple(self._pool(pool) for pool in pools_of(topology)),
        )

    def _pool(self, pool: Obj) -> PoolPlan:
        of_class = next((known for known in pools_of(self._class["spec"]) if known["class"] == pool["class"]), None)
        if of_class is None:
            raise ValueError(f"MachineDeploymentClass {pool['class']} not found in ClusterClass {self._class['metadata']['name']}")
        version, replicas = self._topology["version"], pool.get("replicas", 1)
        builtin = {"version": version, "replicas": replicas, "class": pool["class"], "topologyName": pool["name"], "name": ""}
        scope = self._scope(pool, {"machineDeployment": builtin})
        return PoolPlan(
            name=pool["name"],
            replicas=replicas,
            machine=self._part(of_class["infrastructure"], scope, "machineDeploymentClass", pool["class"]),
            bootstrap=self._part(of_class["bootstrap"], scope, "machineDeploymentClass", pool["class"]),
            health_check=_health_check(of_class, pool),
            metadata=_merged(of_class.get("metadata") or {}, pool.get("metadata") or {}),
        )

    # ---- variables

    def _scope(self, part: Obj, builtin: Obj) -> Obj:
        """The variables as a part of the topology sees them."""
        overrides = {entry["name"]: entry.get("value") for entry in (part.get("variables") or {}).get("overrides") or []}
        return {**self._values, **overrides, "builtin": {"cluster": self._builtin_cluster(), **builtin}}

    def _builtin_cluster(self) -> Obj:
        meta, topology = self._cluster["metadata"], self._topology
        namespace, name = class_of(self._cluster) or ("", "")
        found: Obj = {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "topology": {
                "version": topology["version"],
                "class": name,
                "classNamespace": namespace,
                "classRef": {"name": name, "namespace": namespace},
            },
        }
        labels, annotations = meta.get("labels"), meta.get("annotations")
        if labels or annotations:
            shown = {key: value for key, value in (annotations or {}).items() if key not in _LEFT_OUT}
            found["metadata"] = {**({"labels": labels} if labels else {}), **({"annotations": shown} if shown else {})}
        network = self._cluster["spec"].get("clusterNetwork") or {}
        if network:
            blocks = {name: network[name]["cidrBlocks"] for name in ("pods", "services") if name in network}
            domain = {"serviceDomain": network["serviceDomain"]} if "serviceDomain" in network else {}
            found["network"] = {**blocks, **domain}
        return found

    # ---- templates and patches

    def _part(self, holder: Obj, scope: Obj, role: str, class_name: str = "") -> Part:
        reference = holder["templateRef"]
        template = self._find(reference, self._class["metadata"]["namespace"])
        kind = kinds.find_by_name(reference["apiVersion"].partition("/")[0], reference["kind"].removesuffix("Template"))
        template_kind = kinds.find_by_name(reference["apiVersion"].partition("/")[0], reference["kind"])
        if template is None or template_kind is None:
            raise ValueError(f"failed to get {reference['kind']} {self._class['metadata']['namespace']}/{reference['name']}: not found")
        body = {**copy.deepcopy(template), "apiVersion": reference["apiVersion"], "kind": reference["kind"]}
        for one in self._class["spec"].get("patches") or []:
            for definition in one.get("definitions") or []:
                if _selects(definition["selector"], body, role, class_name) and _is_enabled(one, scope):
                    body = self._patched(body, definition["jsonPatches"], scope, one["name"])
        spec: Obj = body["spec"]["template"].get("spec") or {}
        made = (
            kind if kind is not None and role in {"infrastructureCluster", "controlPlane"} and "Machine" not in kind.kind else template_kind
        )
        return Part(kind=made, source=reference["name"], source_kind=f"{reference['kind']}.{template_kind.group}", spec=spec)

    @staticmethod
    def _patched(body: Obj, operations: list[Obj], scope: Obj, name: str) -> Obj:
        try:
            resolved = [{**operation, **_value(operation, scope)} for operation in operations]
            changed: Obj = patch.json_patch(body, resolved)
        except (ApiError, ValueError) as exc:
            raise ValueError(f'failed to apply patch "{name}" to {body["kind"]}: {exc}') from exc
        return changed


def _merged(first: Obj, second: Obj) -> Obj:
    found = {name: {**(first.get(name) or {}), **(second.get(name) or {})} for name in ("labels", "annotations")}
    return {name: value for name, value in found.items() if value}


def _health_check(of_class: Obj, part: Obj) -> Obj | None:
    """A part's own health check, or its class's; None without one, or when it is switched off."""
    own = part.get("healthCheck") or {}
    if own.get("enabled") is False:
        return None
    given: Obj = {name: value for name, value in own.items() if name != "enabled"}
    return given or of_class.get("healthCheck")


def _selects(selector: Obj, body: Obj, role: str, class_name: str) -> bool:
    if (selector["apiVersion"], selector["kind"]) != (body["apiVersion"], body["kind"]):
        return False
    wanted = selector["matchResources"].get(role)
    if role != "machineDeploymentClass":
        return bool(wanted)
    return any(_matches(name, class_name) for name in (wanted or {}).get("names") or [])


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith("*"):
        return name.endswith(pattern[1:])
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _is_enabled(one: Obj, scope: Obj) -> bool:
    return not one.get("enabledIf") or _rendered(one["enabledIf"], scope) is True


def _rendered(template: str, scope: Obj) -> Any:
    text = go_template.render(template, scope)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise ValueError(f"failed to unmarshal rendered template: {text!r}") from exc


def _value(operation: Obj, scope: Obj) -> Obj:
    if operation["op"] not in {"add", "replace"}:
        return {}
    if "value" in operation:
        return {"value": copy.deepcopy(operation["value"])}
    source = operation.get("valueFrom") or {}
    if template := source.get("template"):
        return {"value": _rendered(template, scope)}
    value: Any = scope
    for step in _steps(source.get("variable", "")):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError) as exc:
            raise ValueError(f'failed to calculate value: variable "{source.get("variable", "")}" does not exist') from exc
    return {"value": copy.deepcopy(value)}


def _steps(path: str) -> Iterator[str | int]:
    for name, index in _STEP.findall(path):
        yield int(index) if index else name
