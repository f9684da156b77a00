"""One call of the API, after sign-in and checks, as its handler gets it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """
    The parameters of a call and who makes it.

    Shape: `params` hold path, query and body parameters as the schema types them (booleans are 0 and 1); `auth` is the auth id,
    empty without sign-in; `local_node` is the node whose API took the request. Calls by hand come without a request.
    """

    params: Mapping[str, Any]
    auth: str
    local_node: str
    request: web.Request | None = None

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    def get(self, name: str, default: Any = None) -> Any:
        """A parameter that may be left out."""
        return self.params.get(name, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a longer list, with the length of the whole."""

    data: Any
    total: int


# HTTP method, path as the schema writes it, and what answers it.
Route = tuple[str, str, Callable[[ApiCall], Awaitable[Any]]]
