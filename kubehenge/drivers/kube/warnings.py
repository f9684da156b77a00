"""Warnings of the management cluster: what its answers to changes say besides the object (RFC 7234, 5.5; Kubernetes 1.19 on)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_WARNING = re.compile(r'\b\d{3} \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def parse_warnings(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the texts of all Warning headers, each once, in their order."""
    every: Any = getattr(headers, "getlist", None)  # urllib3 keeps repeated headers apart
    lines = every("Warning") if every else [value for name, value in headers.items() if name.lower() == "warning"]
    texts = (" ".join(_ESCAPED.sub(r"\1", text).split()) for line in lines for text in _WARNING.findall(line))
    return tuple(dict.fromkeys(text for text in texts if text))
