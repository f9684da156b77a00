"""Label and field selectors of lists and watches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kubehenge.lab.kube.errors import bad_request
from kubehenge.lab.kube.kinds import Kind

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]

_SET_TERM = re.compile(r"^(?P<key>\S+)\s+(?P<op>in|notin)\s+\((?P<values>[^)]*)\)$")
_EQUAL_TERM = re.compile(r"^(?P<key>[^\s!=]+)\s*(?P<op>==|=|!=)\s*(?P<value>\S*)$")
_KEY = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$")


def _terms(text: str) -> list[str]:
    return [term.strip() for term in re.split(r",(?![^(]*\))", text) if term.strip()]


def parse_labels(text: str) -> LabelTest | None:
    """
    The test that a label selector makes; None for an empty one, which takes everything.

    Errors: ApiError 400 for a term that cannot be read.
    """
    tests = [_label_term(term) for term in _terms(text)]
    if not tests:
        return None
    return lambda labels: all(test(labels) for test in tests)


def _label_term(term: str) -> LabelTest:
    if found := _SET_TERM.match(term):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL_TERM.match(term):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if term.startswith("!") and _KEY.match(term[1:].strip()):
        key = term[1:].strip()
        return lambda labels: key not in labels
    if _KEY.match(term):
        return lambda labels: term in labels
    raise bad_request(f"unable to parse requirement: found '{term}', expected: ',' or 'end of string'")


def matches(selector: Mapping[str, Any], labels: Labels) -> bool:
    """Whether an object's selector (matchLabels, matchExpressions) takes these labels; an empty one takes none."""
    wanted, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or []
    if not wanted and not expressions:
        return False
    return all(labels.get(key) == value for key, value in wanted.items()) and all(_expression(term, labels) for term in expressions)


def _expression(term: Mapping[str, Any], labels: Labels) -> bool:
    key, values = term["key"], term.get("values") or []
    match term["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False


def parse_fields(kind: Kind, text: str) -> dict[str, tuple[str, bool]]:
    """
    A field selector as field path to (value, whether it must be equal).

    Errors: ApiError 400 for a field that this kind cannot be selected by.
    """
    wanted: dict[str, tuple[str, bool]] = {}
    for term in _terms(text):
        found = _EQUAL_TERM.match(term)
        if found is None:
            raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
        name = found["key"]
        if name not in {"metadata.name", "metadata.namespace"} | kind.selectable:
            raise bad_request(f"field label not supported: {name}")
        wanted[name] = (found["value"], found["op"] != "!=")
    return wanted


def field_matches(wanted: Mapping[str, tuple[str, bool]], body: Mapping[str, Any]) -> bool:
    """Whether an object has the fields that a field selector names."""
    for path, (value, equal) in wanted.items():
        node: Any = body
        for part in path.split("."):
            node = node.get(part, "") if isinstance(node, Mapping) else ""
        if (str(node) == value) is not equal:
            return False
    return True
