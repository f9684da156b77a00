"""What a rule finds wrong, and how its field is written and looked up in the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubehenge.model.document import Declaration, Problem, ProblemKind, Severity
from kubehenge.source.shape import printable
from kubehenge.source.yaml_values import Mark, Marks, Path

VERSION: Path = ("spec", "topology", "version")
VARIABLES: Path = ("spec", "topology", "variables")
_NAMED_LISTS = ("variables", "overrides")
"""Lists of `name` and `value` whose entries are addressed by name: `("spec", "topology", "variables", "storage")`."""
_PLAIN_STEP = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One thing that a rule found.

    `path` leads to the field; a variable's value is addressed by the variable's name. `on_key` points at the key instead of the value,
    and `at` at another place than the field's.
    """

    path: Path
    kind: ProblemKind
    message: str
    at: Path | None = None
    severity: Severity = Severity.ERROR
    on_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What judging one document's value came to: the findings, and where no error is among them the body and what it declares."""

    findings: tuple[Finding, ...]
    body: Mapping[str, Any] | None = None
    declaration: Declaration | None = None


def variable(name: str, *rest: str | int) -> Path:
    """Return the path of a variable's value, or of a part of it."""
    return (*VARIABLES, name, *rest)


def notation(path: Path) -> str:
    """Write a path as people read it: `variables.oidc[1].issuerURL`, `spec.topology.controlPlane.replicas`."""
    if path[: len(VARIABLES)] == VARIABLES and len(path) > len(VARIABLES) and isinstance(path[len(VARIABLES)], str):
        path = path[2:]
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_STEP.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{printable(step)}"]'
    return text


def named_path(path: Path, value: Any) -> Path:
    """Turn a path by positions into one that addresses the values of variables by name."""
    named: Path = ()
    steps = iter(enumerate(path))
    for index, step in steps:
        before = path[index - 1] if index else None
        name = entry.get("name") if isinstance(value, list) and isinstance(entry := _step(value, step), dict) else None
        if before in _NAMED_LISTS and isinstance(name, str) and path[index + 1 : index + 2] == ("value",):
            named, value = (*named, name), _step(_step(value, step), "value")
            next(steps)
        else:
            named, value = (*named, step), _step(value, step)
    return named


def find_mark(path: Path, value: Any, marks: Marks) -> tuple[Mark, bool]:
    """Return where a field stands and True, or the nearest thing around it and False when it is not there."""
    found = marks[()]
    raw: Path = ()
    for index, step in enumerate(path):
        if isinstance(value, list) and isinstance(step, str) and path[index - 1] in _NAMED_LISTS:
            position = next(
                (position for position, entry in enumerate(value) if isinstance(entry, dict) and entry.get("name") == step), None
            )
            if position is None:
                return found, False
            raw = (*raw, position, "value")
            value = value[position].get("value")
        else:
            raw = (*raw, step)
            value = _step(value, step)
        if raw not in marks:
            return found, False
        found = marks[raw]
    return found, True


def _step(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def as_problems(findings: Iterable[Finding], *, path: str, document: int, value: Any, marks: Marks) -> tuple[Problem, ...]:
    """Give findings their places, in the order of the file."""
    problems = []
    for finding in findings:
        mark, there = find_mark(finding.at or finding.path, value, marks)
        line, column = (mark.key_line, mark.key_column) if finding.on_key or not there else (mark.line, mark.column)
        problem = Problem(
            path=path,
            document=document,
            line=line,
            column=column,
            field=notation(finding.path),
            kind=finding.kind,
            message=finding.message,
            severity=finding.severity,
        )
        problems.append(problem)
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.column, problem.field, problem.message)))
