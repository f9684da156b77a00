"""
Following one kind of object: one list, then a watch, in a thread of its own (MODEL 24, tier watch).

While the watch is open, reading costs no request. A watch whose time is over or whose connection broke goes on from where it was;
from a new list only when that place is too old, or when what came made no sense. Until it is open again, the follower says that it
knows nothing, and readings use lists.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

import structlog

from kubehenge.drivers.kube.client import JSON, KubeClient
from kubehenge.drivers.kube.errors import ExpiredError, as_mapping
from kubehenge.drivers.kube.reduce import Object, key_of
from kubehenge.drivers.kube.stream import SenselessError, Stream
from kubehenge.errors import KubehengeError, TransientError

log = structlog.get_logger()

WATCH_S = 120.0
"""How long one watch lasts; a network that died without a word is noticed then at the latest."""

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0

FIRST_LIST_S = 30.0
"""How long a reading waits at most for the first list, rather than listing everything itself at the same time."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Generic[Value]):
    """One kind to list and watch, and what is kept of each object; None keeps nothing."""

    path: str
    keep: Callable[[Object], Value | None]
    accept: str = JSON
    watch_accept: str = JSON
    labels: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(Generic[Value]):
    """What was kept, by key; equal `changes` of one follower mean equal contents."""

    values: Mapping[str, Value]
    changes: int


def version_of(obj: Object) -> int:
    """Return an object's resourceVersion as a number, by which two states of one object compare (Kubernetes 1.35 on; numbers before)."""
    text = obj["metadata"].get("resourceVersion", "")
    return int(text) if text.isdecimal() else 0


class Follower(Generic[Value]):
    """Follows one source from `start` to `stop`."""

    def __init__(
        self, client: KubeClient, source: Source[Value], *, watch_s: float = WATCH_S, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._client = client
        self._source = source
        self._watch_s = watch_s
        self._changed = changed
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[int, Value | None]] = {}
        self._changes = 0
        self._known = False
        self._version = ""
        self._stream: Stream | None = None
        self._reported = ""
        """Why it broke off last, as it was logged."""
        self._stopping = threading.Event()
        self._tried = threading.Event()
        """The first list is in, or has failed."""
        self._thread = threading.Thread(target=self._run, name=f"watch {source.path}", daemon=True)

    def start(self) -> None:
        """Begin; the first list comes in the background."""
        self._thread.start()

    def stop(self) -> None:
        """End, also in the middle of a watch."""
        self._stopping.set()
        self._tried.set()
        with self._lock:
            self._known = False
            stream = self._stream
        if stream is not None:
            stream.close()
        self._thread.join(timeout=10)

    def await_first(self) -> None:
        """Wait until the first list is in, or has failed."""
        self._tried.wait(FIRST_LIST_S)

    def snapshot(self) -> Snapshot[Value] | None:
        """Return what is there now, None while that is not known."""
        with self._lock:
            if not self._known:
                return None
            values = {key: value for key, (_, value) in self._kept.items() if value is not None}
            return Snapshot(values=values, changes=self._changes)

    @property
    def changes(self) -> int | None:
        """The number that a snapshot taken now would have, None while nothing is known."""
        with self._lock:
            return self._changes if self._known else None

    def learn(self, obj: Object) -> None:
        """Take in an object that a call of ours has just returned, before the watch brings it."""
        with self._lock:
            if self._known:
                self._keep(obj)

    def forget(self, key: str) -> None:
        """Take out an object that is certainly gone."""
        with self._lock:
            if self._kept.pop(key, None) is not None:
                self._changes += 1

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stopping.is_set():
            opened = time.monotonic()
            try:
                if not self._version:
                    self._list()
                self._watch()
                wait_s = 0.0
                self._stopping.wait(FIRST_WAIT_S - (time.monotonic() - opened))  # something may close each at once
            except Exception as exc:  # noqa: BLE001 - a thread that died would go on showing what was once there
                if self._stopping.is_set():
                    return
                # A place is lost when the server says so, or when it may be what makes no sense.
                self._lose(keep_place=isinstance(exc, TransientError) and not isinstance(exc, (ExpiredError, SenselessError)))
                self._report(exc, wait_s)
                self._stopping.wait(wait_s)
                wait_s = min(LONGEST_WAIT_S, max(FIRST_WAIT_S, wait_s * 2))

    def _report(self, exc: Exception, wait_s: float) -> None:
        """Log why it broke off, once as long as it stays the same."""
        reason = str(exc)
        if reason != self._reported:
            expected = isinstance(exc, KubehengeError)
            log.warning("watch_broke_off", path=self._source.path, reason=reason, wait_s=wait_s, exc_info=not expected)
            self._reported = reason

    def _lose(self, *, keep_place: bool) -> None:
        with self._lock:
            self._known = False
            if not keep_place:
                self._version = ""
        self._tried.set()

    def _list(self) -> None:
        listed = self._client.list(self._source.path, accept=self._source.accept, labels=self._source.labels)
        kept = {key_of(obj): (version_of(obj), self._source.keep(obj)) for obj in listed.items}
        with self._lock:
            self._kept = kept
            self._changes += 1
            self._version = listed.version
        self._changed()

    def _watch(self) -> None:
        stream = self._client.watch(
            self._source.path,
            version=self._version,
            accept=self._source.watch_accept,
            labels=self._source.labels,
            for_s=self._watch_s,
        )
        with self._lock:
            self._stream = stream
            self._known = not self._stopping.is_set()
        self._reported = ""
        self._tried.set()
        if self._stopping.is_set():
            stream.close()
        for event in stream:
            self._take(event)

    def _take(self, event: Mapping[str, Any]) -> None:
        obj, kind = event.get("object"), event.get("type")
        if kind == "ERROR":
            self._end(as_mapping(obj))
        if kind not in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"} or not isinstance(obj, dict):
            raise SenselessError(f"The watch of {self._source.path} brought something unknown. It begins anew.")
        with self._lock:
            before = self._changes
            if kind == "DELETED":
                if self._kept.pop(key_of(obj), (0, None))[1] is not None:
                    self._changes += 1
            elif kind != "BOOKMARK":
                self._keep(obj)
            self._version = obj["metadata"].get("resourceVersion", self._version)
            changed = self._changes != before
        if changed:
            self._changed()

    def _end(self, status: Mapping[str, Any]) -> NoReturn:
        """Raise what an ERROR event means."""
        if status.get("code") == 410:
            raise ExpiredError(f"The watch of {self._source.path} is too far behind. It begins anew.")
        said = str(status.get("message") or "no reason given")
        raise SenselessError(f"The watch of {self._source.path} was ended by the API server ({said}). It begins anew.")

    def _keep(self, obj: Object) -> None:
        """Keep an object unless a later state of it is kept already; the lock is held."""
        key, version = key_of(obj), version_of(obj)
        known = self._kept.get(key)
        if known is not None and version <= known[0]:
            return
        value = self._source.keep(obj)
        self._kept[key] = (version, value)
        if value != (known[1] if known else None):
            self._changes += 1
