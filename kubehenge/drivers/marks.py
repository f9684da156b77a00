"""Whether an object is ours: what its mark says, and the refusal when it says anything else (MODEL 21)."""

from __future__ import annotations

from kubehenge.errors import RefusedError
from kubehenge.model.identity import parse_mark


def mark_in(text: str | None) -> str | None:
    """Return the mark in a comment or description as its text, None when there is none."""
    found = parse_mark(text)
    return found.mark if found else None


def require_ours(found: str | None, wanted: str, what: str, *, verb: str) -> None:
    """Raise RefusedError unless the mark found is the one wanted; `what` names the object, `verb` what was to be done with it."""
    if found == wanted:
        return
    bears = f'it bears the mark "{found}"' if found else "it bears no mark of Kubehenge"
    raise RefusedError(
        f'{what} is not {verb}: {bears}, and only what is marked "{wanted}" may be. '
        "If it is somebody's own, rename or remove it; if it is a leftover, remove it by hand."
    )
