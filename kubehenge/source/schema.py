"""
The JSON Schema (2020-12) of every kind that is read, for editors (ACCEPTANCE 2.5).

It is made from the shapes and the table of distributions that judge documents. What only rules settle (overlaps, capacity, names used
twice) is left to `kubehenge validate`; fields that an API server fills in are marked as unknown, though they are only left out.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from kubehenge.errors import UsageError
from kubehenge.model.distribution import CLASS_PREFIX, FACTS, Distribution, DistributionFacts
from kubehenge.source.classify import OurKind
from kubehenge.source.cluster_shape import ClusterShape
from kubehenge.source.cluster_variables import ControlPlaneOverrides, Variables, WorkerOverrides
from kubehenge.source.shape import Shape, json_schema
from kubehenge.source.site_shape import RulesShape, SiteShape

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]


def schema_of(kind: str) -> Schema:
    """
    Return the JSON Schema of one kind: Cluster, Site or ApprovalRules.

    Errors: UsageError for any other kind.
    """
    match kind:
        case OurKind.CLUSTER:
            schema = _cluster_schema()
        case OurKind.SITE:
            schema = deepcopy(json_schema(SiteShape))
        case OurKind.APPROVAL_RULES:
            schema = deepcopy(json_schema(RulesShape))
        case _:
            raise UsageError(f"{kind} is no kind of Kubehenge's. Name one of {', '.join(OurKind)}.")
    return {"$schema": DIALECT, "title": str(kind), **schema}


def schema_of_all() -> Schema:
    """Return one JSON Schema for files of any kind: each of ours is held against its own, and others are let pass."""
    rules: list[Schema] = []
    definitions: Schema = {}
    for kind in OurKind:
        schema = schema_of(kind)
        definitions |= schema.pop("$defs", {})
        api_version, kind_name = schema["properties"]["apiVersion"]["const"], schema["properties"]["kind"]["const"]
        ours: Schema = {
            "properties": {"apiVersion": {"const": api_version}, "kind": {"const": kind_name}},
            "required": ["apiVersion", "kind"],
        }
        if kind is OurKind.CLUSTER:
            ours = {"allOf": [ours, _at_class_name({"pattern": f"^{CLASS_PREFIX}"})]}
        rules.append({"if": ours, "then": {key: value for key, value in schema.items() if key != "$schema"}})
    return {"$schema": DIALECT, "title": "Kubehenge", "allOf": rules, "$defs": definitions}


def _cluster_schema() -> Schema:
    schema = deepcopy(json_schema(ClusterShape))
    definitions = schema["$defs"]
    for shape in (Variables, ControlPlaneOverrides, WorkerOverrides):
        definitions |= deepcopy(json_schema(shape).get("$defs", {}))
    definitions["Topology"]["properties"]["variables"] |= _variable_list(Variables)
    del definitions["Variable"], definitions["Overrides"]
    definitions["ControlPlane"]["properties"]["variables"] = _overrides(ControlPlaneOverrides)
    definitions["MachineDeployment"]["properties"]["variables"] = _overrides(WorkerOverrides)
    schema["allOf"] = [_distribution_rules(distribution, facts) for distribution, facts in FACTS.items()]
    return schema


def _variable_list(shape: type[Shape]) -> Schema:
    """Return the schema of a list of `name` and `value` out of that of the values by name."""
    values = deepcopy(json_schema(shape))
    entries = [
        {
            "type": "object",
            "description": value.get("description", ""),
            "properties": {"name": {"const": name}, "value": value},
            "required": ["name", "value"],
            "additionalProperties": False,
        }
        for name, value in values["properties"].items()
    ]
    required = [_holds_variable(name) for name in values.get("required", [])]
    return {"type": "array", "items": {"oneOf": entries}, **({"allOf": required} if required else {})}


def _overrides(shape: type[Shape]) -> Schema:
    return {
        "type": "object",
        "description": "Variables that differ here.",
        "properties": {"overrides": _variable_list(shape)},
        "additionalProperties": False,
    }


def _holds_variable(name: str) -> Schema:
    return {"contains": {"properties": {"name": {"const": name}}, "required": ["name"]}}


def _distribution_rules(distribution: Distribution, facts: DistributionFacts) -> Schema:
    """Return what the class's name decides: the version's form, the pod network, the least memory of control planes."""
    number = r"(0|[1-9][0-9]*)"
    suffix = facts.version_suffix.replace("+", r"\+") + number if facts.version_suffix else ""
    topology: Schema = {
        "properties": {
            "version": {"pattern": f"^v{number}\\.{number}\\.{number}{suffix}$", "examples": [facts.example_version]},
            "variables": {
                "items": {
                    "allOf": [
                        _when_named("cni", {"enum": [str(cni) for cni in facts.cnis]}),
                        _when_named("controlPlaneMachine", {"properties": {"memoryMiB": {"minimum": facts.control_plane_memory_mib}}}),
                    ]
                },
                **({"allOf": [_holds_variable("cni")]} if facts.default_cni is None else {}),
            },
        }
    }
    return {"if": _at_class_name({"pattern": f"^{CLASS_PREFIX}{distribution}(-|$)"}), "then": _at_topology(topology)}


def _when_named(name: str, value: Schema) -> Schema:
    return {"if": {"properties": {"name": {"const": name}}, "required": ["name"]}, "then": {"properties": {"value": value}}}


def _at_topology(schema: Schema) -> Schema:
    return {"properties": {"spec": {"properties": {"topology": schema}}}}


def _at_class_name(schema: Schema) -> Schema:
    """Return a schema that holds only where the class's name is there and holds to `schema`."""
    for step in ("name", "classRef", "topology", "spec"):
        schema = {"type": "object", "properties": {step: schema}, "required": [step]}
    return schema
