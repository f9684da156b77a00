"""Lists in pages of 100, cut by the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

T = TypeVar("T")
U = TypeVar("U")

PAGE_SIZE = 100

Query: TypeAlias = "Select[*tuple[Any, ...]]"
"""A query whose columns its caller knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """One page of a list: its items, its number from 1, and how many items there are in all."""

    items: tuple[T, ...]
    number: int
    total: int
    size: int = PAGE_SIZE

    @property
    def pages(self) -> int:
        """How many pages there are; an empty list has one."""
        return max(1, -(-self.total // self.size))

    @property
    def first(self) -> int:
        """The number of its first item, 0 for an empty list."""
        return (self.number - 1) * self.size + 1 if self.items else 0

    @property
    def last(self) -> int:
        """The number of its last item, 0 for an empty list."""
        return self.first + len(self.items) - 1 if self.items else 0

    def map(self, make: Callable[[Sequence[T]], Sequence[U]]) -> Page[U]:
        """Return the same page with its items made into others, all at once."""
        return Page(items=tuple(make(self.items)), number=self.number, total=self.total, size=self.size)


def page_of(session: Session, query: Query, number: int, *, size: int = PAGE_SIZE) -> Page[Any]:
    """Run an ordered query for one page; a number beyond the last page gives the last one."""
    total = session.scalar(select(func.count()).select_from(query.order_by(None).subquery())) or 0
    number = min(max(number, 1), max(1, -(-total // size)))
    rows = session.execute(query.limit(size).offset((number - 1) * size)).all() if total else []
    return Page(items=tuple(rows), number=number, total=total, size=size)
