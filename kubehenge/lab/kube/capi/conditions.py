"""Conditions of Cluster API's objects, in the v1beta2 style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubehenge.lab.kube.kinds import Obj

Condition = dict[str, Any]


def condition(kind: str, status: bool | None, reason: str, message: str = "") -> Condition:
    """A condition as it is now, without its time."""
    return {"type": kind, "status": "Unknown" if status is None else str(status), "reason": reason, "message": message}


def flag(kind: str, value: bool, yes: str, no: str, message: str = "") -> Condition:
    """A condition with a reason for each answer."""
    return condition(kind, value, yes if value else no, message)


def plain(listed: Iterable[Mapping[str, Any]]) -> list[Condition]:
    """Conditions of an object as they are, to be stamped again."""
    return [{name: entry[name] for name in ("type", "status", "reason", "message")} for entry in listed]


def stamped(old: Iterable[Mapping[str, Any]], new: Iterable[Condition], *, now: str, generation: int) -> list[Condition]:
    """The new conditions, by type, with the time at which each last changed its status."""
    before = {entry["type"]: entry for entry in old}
    result = []
    for entry in sorted(new, key=lambda item: item["type"]):
        known = before.get(entry["type"])
        since = known["lastTransitionTime"] if known is not None and known["status"] == entry["status"] else now
        result.append({**entry, "lastTransitionTime": since, "observedGeneration": generation})
    return result


def find(obj: Obj, kind: str) -> Condition | None:
    """A condition of an object by type, or None."""
    return next((entry for entry in (obj.get("status") or {}).get("conditions") or [] if entry["type"] == kind), None)


def is_true(obj: Obj, kind: str) -> bool:
    """Whether an object has this condition and it is True."""
    found = find(obj, kind)
    return found is not None and found["status"] == "True"
