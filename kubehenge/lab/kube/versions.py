"""Kubernetes versions as Cluster API compares them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SEMVER = re.compile(r"^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A semantic version; `text` is it without the leading v."""

    major: int
    minor: int
    patch: int
    build: str
    text: str

    @property
    def numbers(self) -> tuple[int, int, int]:
        """What is ordered: build metadata can only be equal or different."""
        return (self.major, self.minor, self.patch)


def parse(text: str) -> Version | None:
    """The version in a text, with or without its v; None for anything else."""
    found = _SEMVER.match(text.removeprefix("v"))
    if found is None:
        return None
    major, minor, patch, _, build = found.groups()
    return Version(major=int(major), minor=int(minor), patch=int(patch), build=build or "", text=text.removeprefix("v"))
