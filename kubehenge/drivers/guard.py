"""
The last check before a changing call goes out (MODEL 26).

Whoever holds a lease runs a verb inside `guarded`; each driver asks `before_change` when nothing but the sending is left to do.
The check belongs to the thread of control that set it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Check = Callable[[float], None]
"""Given the longest that the call may take, in seconds; raises LeaseLostError when the right to act may end before."""

_check: ContextVar[Check | None] = ContextVar("check_before_change", default=None)


@contextmanager
def guarded(check: Check) -> Iterator[None]:
    """Have `check` called before each changing call that is sent inside the block."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def before_change(longest_s: float) -> None:
    """Call the check in force, if there is one; what it raises passes through, and nothing is sent then."""
    check = _check.get()
    if check is not None:
        check(longest_s)
