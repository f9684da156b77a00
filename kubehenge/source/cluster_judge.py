"""Judges one Cluster: its shape, its variables, its rules, all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubehenge.model.distribution import FACTS
from kubehenge.model.document import ProblemKind, Severity
from kubehenge.source.cluster_declaration import declare_cluster
from kubehenge.source.cluster_draft import ClusterDraft, Part, named_values
from kubehenge.source.cluster_metadata import without_foreign_fields
from kubehenge.source.cluster_rules import find_cluster_problems
from kubehenge.source.cluster_shape import ClusterShape
from kubehenge.source.cluster_variables import ControlPlaneOverrides, Variables, WorkerOverrides
from kubehenge.source.findings import VARIABLES, VERSION, Finding, Judgement
from kubehenge.source.shape import Shape, quoted
from kubehenge.source.words import validate
from kubehenge.source.yaml_values import Marks, Path


def judge_cluster(value: dict[str, Any], find_marks: Callable[[], Marks]) -> Judgement:
    """Return what is wrong with a Cluster, and without errors its body as `kubectl` sends it and what it declares."""
    body, findings = without_foreign_fields(value)
    draft = ClusterDraft(value)
    examples = {} if draft.distribution is None else {VERSION: FACTS[draft.distribution].example_version}
    shape, found = validate(ClusterShape, body, at=(), document=value, find_marks=find_marks, examples=examples)
    findings += found
    variables: Variables | None = None
    topology = Part(value).part("spec").part("topology")
    for path, entries, variables_shape in _variable_lists(topology):
        findings += _named_once(entries, path)
        model, found = validate(variables_shape, named_values(entries), at=path, document=value, find_marks=find_marks)
        findings += found
        variables = model if isinstance(model, Variables) else variables
    findings += find_cluster_problems(draft)
    if shape is None or variables is None or any(finding.severity is Severity.ERROR for finding in findings):
        return Judgement(findings=tuple(findings))
    return Judgement(findings=tuple(findings), body=body, declaration=declare_cluster(shape, variables))


def _variable_lists(topology: Part) -> list[tuple[Path, list[Any], type[Shape]]]:
    """Return every list of variables in a topology, with its path and the shape of its values."""
    lists: list[tuple[Path, list[Any], type[Shape]]] = []
    if isinstance(topology.fields.get("variables"), list):
        lists.append((VARIABLES, topology.items("variables"), Variables))
    control_plane = topology.part("controlPlane").part("variables").items("overrides")
    if control_plane:
        lists.append((("spec", "topology", "controlPlane", "variables", "overrides"), control_plane, ControlPlaneOverrides))
    for index, pool in enumerate(topology.part("workers").items("machineDeployments")):
        overrides = Part(pool).part("variables").items("overrides")
        if overrides:
            lists.append(
                (("spec", "topology", "workers", "machineDeployments", index, "variables", "overrides"), overrides, WorkerOverrides)
            )
    return lists


def _named_once(entries: list[Any], path: Path) -> list[Finding]:
    """Find variables that are set twice: no YAML reader notices, and which one counts nobody can tell."""
    findings: list[Finding] = []
    seen: dict[str, int] = {}
    for index, entry in enumerate(entries):
        name = Part(entry).text("name")
        if name is None:
            continue
        if name in seen:
            message = f"The variable {quoted(name)} is set twice, as entries {seen[name] + 1} and {index + 1} of the list. Keep one."
            findings.append(Finding(path=(*path, name), at=(*path, index, "name"), kind=ProblemKind.DUPLICATE, message=message))
        seen.setdefault(name, index)
    return findings
