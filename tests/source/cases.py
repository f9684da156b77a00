"""The cases in `tests/cases`: inputs that people got wrong or tools read wrongly, with what Kubehenge answers (see its README)."""

from __future__ import annotations

import csv
from pathlib import Path

CASES = Path(__file__).parent.parent / "cases"


def content(name: str) -> bytes:
    """Return the bytes of a case by the beginning of its name, such as `04`."""
    (path,) = CASES.glob(f"{name}-*.yaml")
    return path.read_bytes()


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of one of the tables."""
    with (CASES / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
