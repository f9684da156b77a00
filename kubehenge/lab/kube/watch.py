"""Watches: a stream of changes from a resourceVersion on, as one JSON object a line."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterator

from aiohttp import web

from kubehenge.lab.kube.errors import ApiError, expired
from kubehenge.lab.kube.kinds import Kind
from kubehenge.lab.kube.listing import Query
from kubehenge.lab.kube.storage import Change, ChangeType, Record, Store
from kubehenge.lab.kube.table import Shape, one

_MOST_WAITING = 50_000  # a reader this far behind is sent away and lists again
DEFAULT_TIMEOUT_S = 1800.0


class _Feed:
    """The changes of one kind that a reader has not been sent yet."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self._kind = kind
        self._waiting: deque[Change] = deque()
        self._some = asyncio.Event()
        self.close = store.listen(self._note)
        self.overrun = False
        self.ended = False

    def _note(self, change: Change) -> None:
        if change.record.kind is not self._kind:
            return
        self.overrun = self.overrun or len(self._waiting) >= _MOST_WAITING
        if not self.overrun:
            self._waiting.append(change)
        self._some.set()

    def end(self) -> None:
        """Wake the reader for the last time."""
        self.ended = True
        self._some.set()

    async def take(self, timeout_s: float) -> list[Change]:
        """What came since the last call, after waiting for something; empty when the time is over."""
        try:
            await asyncio.wait_for(self._some.wait(), timeout_s)
        except TimeoutError:
            return []
        self._some.clear()
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


def _events(change: Change, query: Query) -> Iterator[tuple[ChangeType, Record]]:
    """What a reader with this query is told: an object that moves out of its selection is deleted for it, one that moves in is added."""
    before = change.before is not None and query.takes(change.before)
    after = change.type is not ChangeType.DELETED and query.takes(change.record)
    if after:
        yield (ChangeType.MODIFIED if before else ChangeType.ADDED), change.record
    elif before:
        yield ChangeType.DELETED, change.record


def _line(event: str, body: bytes) -> bytes:
    return b'{"type":"' + event.encode() + b'","object":' + body + b"}\n"


class Watches:
    """The watches that are open; `end` ends them all, so that the server can stop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: set[_Feed] = set()

    def end(self) -> None:
        """End every open watch."""
        for feed in tuple(self._open):
            feed.end()

    async def serve(
        self, request: web.Request, kind: Kind, query: Query, *, version: str, timeout_s: float, shape: Shape
    ) -> web.StreamResponse:
        """
        Answer a watch request until its time is over, its client goes, or the server stops.

        Shape: without a version (or from "0") it begins with every object as ADDED; a version too old is an ERROR event, 410.
        """
        if version and not version.isdigit():
            raise ApiError(500, "", f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax')
        feed = _Feed(self._store, kind)  # before the beginning is read, and nothing waits in between: no change is missed or doubled
        self._open.add(feed)
        try:
            first = self._beginning(kind, query, version, shape)
        except ApiError as exc:
            first, feed.ended = _error(exc), True
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            await self._send(response, feed, query, first, timeout_s, shape)
        except ConnectionError:
            pass  # the client has gone
        finally:
            feed.close()
            self._open.discard(feed)
        return response

    async def _send(self, response: web.StreamResponse, feed: _Feed, query: Query, first: bytes, timeout_s: float, shape: Shape) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        if first:
            await response.write(first)
        while not feed.ended and (left := end - loop.time()) > 0:
            changes = await feed.take(left)
            lines = b"".join(_line(event.value, one(record, shape)) for change in changes for event, record in _events(change, query))
            if feed.overrun:
                lines += _error(expired("too many changes waited for this watch"))
                feed.ended = True
            if lines:
                await response.write(lines)

    def _beginning(self, kind: Kind, query: Query, version: str, shape: Shape) -> bytes:
        if version in {"", "0"}:
            found = (record for record in self._store.scan(kind, query.namespace) if query.takes(record))
            return b"".join(_line("ADDED", one(record, shape)) for record in found)
        past = self._store.since(kind, int(version))
        if past is None:
            raise expired(f"too old resource version: {version} ({self._store.version})")
        return b"".join(_line(event.value, one(record, shape)) for change in past for event, record in _events(change, query))


def _error(exc: ApiError) -> bytes:
    return _line("ERROR", json.dumps(exc.body, separators=(",", ":")).encode())
