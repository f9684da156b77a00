"""Which names are IANA time zones."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import resources

from kubehenge.model.document import ProblemKind
from kubehenge.source.shape import quoted, refuse


@cache
def time_zone_names() -> frozenset[str]:
    """Return every name in the IANA database that Kubehenge brings along; a machine's own may be older, or none."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())


def check_time_zone(name: str) -> str:
    """Return the name, or refuse it with the nearest one."""
    if name not in time_zone_names():
        near = difflib.get_close_matches(name, time_zone_names(), n=1) if "/" in name else []
        hint = f"Did you mean {near[0]}?" if near else "Write one such as Europe/Berlin."
        refuse(ProblemKind.UNKNOWN, f"{quoted(name)} is no IANA time zone. {hint}")
    return name
