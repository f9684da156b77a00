"""Reading an answer's body within a time limit, also when it comes drop by drop."""

from __future__ import annotations

import time
from typing import Any

CHUNK = 1 << 16


def read_body(response: Any, deadline: float) -> bytes:
    """
    Read the rest of a urllib3 response as it comes; a plain read would wait for each full part, however slowly it comes.

    `deadline` is an instant of the monotonic clock.
    Errors: TimeoutError when it has passed; urllib3's own for a connection that fails. The connection is closed then.
    """
    parts: list[bytes] = []
    try:
        while part := response.read1(CHUNK, decode_content=True):
            parts.append(part)
            _require_before(deadline)
    except BaseException:
        response.close()
        raise
    return b"".join(parts)


def _require_before(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError("the answer came too slowly")
