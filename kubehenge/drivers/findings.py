"""What a look at one system's health finds; `kubehenge doctor` prints it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at: what it was, whether it is well, what was seen, and how to mend it where it is not."""

    what: str
    ok: bool
    detail: str
    mend: str = ""
