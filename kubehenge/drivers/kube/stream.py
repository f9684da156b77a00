"""An open watch as a stream of events."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import urllib3

from kubehenge.errors import TransientError


class SenselessError(TransientError):
    """A watch brought what is no event; where it was may be the reason, so it begins anew."""


class Stream:
    """An open watch: yields events until its time is over; `close` ends it from another thread."""

    def __init__(self, response: Any, path: str) -> None:
        self._response = response
        self._path = path

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield events; TransientError when the connection fails, SenselessError when what comes is no event."""
        rest = b""
        try:
            while part := self._response.read1(1 << 16, decode_content=True):
                *lines, rest = (rest + part).split(b"\n")
                yield from (_event(line) for line in lines if line.strip())
        except json.JSONDecodeError:
            raise SenselessError(f"The watch of {self._path} brought what is no JSON. It begins anew.") from None
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as exc:  # the latter two of a stream that is closed
            raise TransientError(f"The watch of {self._path} broke off ({type(exc).__name__}). It goes on from where it was.") from None
        finally:
            self._response.close()

    def close(self) -> None:
        """End the stream under whoever reads it."""
        connection = getattr(self._response, "connection", None)
        sock = getattr(connection, "sock", None)
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def _event(line: bytes) -> Mapping[str, Any]:
    event = json.loads(line)
    if not isinstance(event, dict):
        raise SenselessError("A watch brought JSON that is no event. It begins anew.")
    return event
