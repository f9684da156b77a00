"""Small things about addresses: the page that one asks for, and the filter that a link must keep."""

from __future__ import annotations

from urllib.parse import urlencode

from flask import request


def page_number() -> int:
    """Return the page that is asked for, 1 when none is or when it is no number."""
    text = request.args.get("page", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 1


def query_of(*names: str) -> dict[str, str]:
    """Return the parts of the address that a link to another page of the same list keeps."""
    return {name: request.args[name] for name in names if request.args.get(name)}


def with_query(query: dict[str, str], **changes: str | int | None) -> str:
    """Return a query with some parts changed, None taking one out; '?' alone for none, so that a link never keeps an old one."""
    parts = {**query, **{name: str(value) for name, value in changes.items() if value is not None}}
    kept = {name: value for name, value in parts.items() if not (name in changes and changes[name] is None)}
    return f"?{urlencode(kept)}"
