"""The rules of `Site` and `ApprovalRules` documents that take two fields (MODEL 34, 35)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubehenge.model.document import ProblemKind
from kubehenge.source.cluster_draft import Part
from kubehenge.source.findings import Finding
from kubehenge.source.shape import quoted
from kubehenge.source.site_shape import OwnerVmIdsShape, VmIdBlockShape


def find_site_problems(value: dict[str, Any]) -> Iterator[Finding]:
    """Yield what the rules find wrong with a Site."""
    spec = Part(value).part("spec")
    owners, block = spec.part("ownerVmIds"), spec.part("vmIdBlock")
    first = owners.whole("first") if "first" in owners else OwnerVmIdsShape().first
    last = owners.whole("last") if "last" in owners else OwnerVmIdsShape().last
    lowest = block.whole("first") if "first" in block else VmIdBlockShape().first
    if first is not None and last is not None and last < first:
        message = f"{last} is less than {first}, where the range begins. Write a higher one."
        yield Finding(path=("spec", "ownerVmIds", "last"), kind=ProblemKind.RANGE, message=message)
    elif last is not None and lowest is not None and last >= lowest:
        message = f"Volume owners take VMIDs up to {last}, and those of machines begin at {lowest}. Keep them apart: end below {lowest}."
        yield Finding(path=("spec", "ownerVmIds", "last"), kind=ProblemKind.OVERLAP, message=message)
    yield from _named_once(spec.items("identityProviders"), "issuerURL", ("spec", "identityProviders"))


def find_rules_problems(value: dict[str, Any]) -> Iterator[Finding]:
    """Yield what the rules find wrong with ApprovalRules."""
    yield from _named_once(Part(value).part("spec").items("rules"), "name", ("spec", "rules"))


def _named_once(items: list[Any], field: str, path: tuple[str, ...]) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        name = Part(item).text(field)
        if name is None:
            continue
        if name in seen:
            message = f"{quoted(name)} is in the list already, at [{seen[name]}]. Keep one."
            yield Finding(path=(*path, index, field), kind=ProblemKind.DUPLICATE, message=message)
        seen.setdefault(name, index)
