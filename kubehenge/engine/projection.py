"""From what a driver read to what is compared: our fields only, with references put back (MODEL 4, 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubehenge.model.canon import MISSING, Body, project


def projected(found: Body, desired: Body | None, applied: Body | None, outputs: Mapping[str, Mapping[str, Any]]) -> Body:
    """
    Return the part of a read body that Kubehenge owns.

    `outputs` answers references, by `<kind>/<name>`; a value equal to what a reference stands for becomes that reference again.
    """

    def lookup(text: str) -> Any:
        target, _, name = text.partition("#")
        value = outputs.get(target, {}).get(name, MISSING)
        return value if value is MISSING else str(value)

    body: Body = project(found, MISSING if desired is None else desired, MISSING if applied is None else applied, lookup)
    return body
