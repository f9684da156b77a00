"""The documents of sources as rows, for `get documents`."""

from __future__ import annotations

from typing import Any

from kubehenge.commands.opening import Reading
from kubehenge.errors import UsageError
from kubehenge.store.reads.sources import document_page, sources
from kubehenge.store.reads.visible import EVERYTHING
from kubehenge.store.rows import Verdict


def document_rows(reading: Reading, source_name: str | None, *, refused_only: bool) -> list[dict[str, Any]]:
    """Return the documents that stand, the refused ones of each source first. Errors: UsageError for a source that is not there."""
    known = sources(reading.session, reading.site_id, EVERYTHING)
    chosen = [one for one in known if source_name in {None, one.name}]
    if source_name is not None and not chosen:
        raise UsageError(f"There is no source {source_name}. Those are: {', '.join(one.name for one in known) or 'none'}.")
    found: list[dict[str, Any]] = []
    for source in chosen:
        number = 1
        while True:
            page = document_page(reading.session, source.id, EVERYTHING, number)
            found += [
                {
                    "source": source.name,
                    "path": one.path,
                    "document": one.position,
                    "line": one.line,
                    "kind": one.kind,
                    "scope": one.scope,
                    "verdict": one.verdict,
                    "revision": one.revision,
                    "earlier_in_force": one.in_force,
                    "problems": one.problems,
                }
                for one in page.items
                if not refused_only or one.verdict is Verdict.REFUSED
            ]
            if number >= page.pages:
                break
            number += 1
    return found
