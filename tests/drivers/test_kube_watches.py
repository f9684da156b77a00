"""Watches as a real API server may treat them: broken, too old, closed at once; where each goes on, and whom it wakes (MODEL 24)."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from kubehenge.drivers.kube.client import KubeClient, TimeLimits
from kubehenge.drivers.kube.watching import Follower, Source
from kubehenge.lab.pki import CertificateAuthority
from tests.drivers.raw_server import RawServer, begin_stream, json_answer, send_piece
from tests.drivers.servers import unhurried

pytestmark = pytest.mark.lab

WAIT_S = 20
GONE = '{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}'


def thing(name: str, version: int, value: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version), "labels": {"value": value}}}


def event(kind: str, obj: dict[str, Any]) -> str:
    return json.dumps({"type": kind, "object": obj}) + "\n"


class Api:
    """Lists `things` at `version`; each watch is answered by the next of `watches`, and one without any stays open."""

    def __init__(self, ca: CertificateAuthority) -> None:
        self.things, self.version = [thing("a", 5)], 7
        self.watches: list[Callable[[socket.socket], bool]] = []
        self.wakes = threading.Semaphore(0)
        self.server = RawServer(ca, self._answer)
        client = KubeClient.with_token(
            self.server.url,
            token=SecretStr("t"),
            ca_file=str(ca.cert_path),
            limits=TimeLimits(connect_s=2, read_s=5, change_s=5),
            politeness=unhurried(),
        )
        self.follower = Follower(
            client, Source(path="/things", keep=lambda obj: obj["metadata"]["labels"]), watch_s=60, changed=self.wakes.release
        )

    def _answer(self, conn: socket.socket, head: bytes) -> bool:
        if b"watch=1" not in head.partition(b"\r\n")[0]:
            conn.sendall(json_answer(json.dumps({"items": self.things, "metadata": {"resourceVersion": str(self.version)}})))
            return True
        if self.watches:
            return self.watches.pop(0)(conn)
        begin_stream(conn)
        return True

    def asked(self) -> list[str]:
        """`list`, or the version that a watch was to go on from, of each request."""
        versions = (re.search(r"resourceVersion=(\d+)", line) for line in list(self.server.requests))
        return [found[1] if found else "list" for found in versions]

    def await_requests(self, *asked: str) -> None:
        deadline = threading.Event()
        for _ in range(WAIT_S * 50):
            if self.asked()[: len(asked)] == list(asked) and self.follower.snapshot() is not None:
                return
            deadline.wait(0.02)
        raise AssertionError(self.asked())

    def names(self) -> set[str]:
        snapshot = self.follower.snapshot()
        assert snapshot is not None
        return set(snapshot.values)


@pytest.fixture
def api(ca: CertificateAuthority) -> Iterator[Api]:
    api = Api(ca)
    yield api
    api.follower.stop()
    api.server.close()


def streaming(*events: str, ends: bool = False) -> Callable[[socket.socket], bool]:
    """A watch that brings these events; then its connection breaks, or it ends as it should."""

    def answer(conn: socket.socket) -> bool:
        begin_stream(conn)
        for one in events:
            send_piece(conn, one)
        if ends:
            send_piece(conn, "")
        return ends

    return answer


def refusing(code: int, body: str) -> Callable[[socket.socket], bool]:
    return lambda conn: conn.sendall(json_answer(body, status=f"{code} X")) is None


def test_a_connection_that_breaks_goes_on_from_the_last_event_without_a_list(api: Api) -> None:
    api.watches = [streaming(event("ADDED", thing("b", 9))), streaming(event("DELETED", thing("a", 11)))]
    api.follower.start()
    api.await_requests("list", "7", "9", "11")
    assert api.names() == {"b"}


def test_a_bookmark_moves_the_place_to_go_on_from(api: Api) -> None:
    bookmark = {"metadata": {"resourceVersion": "40"}}
    api.watches = [streaming(event("BOOKMARK", bookmark)), streaming(ends=True)]
    api.follower.start()
    api.await_requests("list", "7", "40", "40")


@pytest.mark.parametrize(
    "too_old",
    [refusing(410, GONE), streaming('{"type":"ERROR","object":' + GONE + "}\n")],
    ids=["refused with 410", "ERROR event of 410"],
)
def test_a_place_that_is_too_old_begins_with_a_new_list(api: Api, too_old: Callable[[socket.socket], bool]) -> None:
    def list_changes_first(conn: socket.socket) -> bool:
        api.things, api.version = [thing("c", 20)], 21
        return too_old(conn)

    api.watches = [list_changes_first]
    api.follower.start()
    api.await_requests("list", "7", "list", "21")
    assert api.names() == {"c"}


@pytest.mark.parametrize(
    "away",
    [refusing(503, '{"kind":"Status","message":"apiserver is shutting down"}'), lambda _conn: False, refusing(429, '{"kind":"Status"}')],
    ids=["503", "no answer", "429"],
)
def test_a_watch_that_cannot_be_opened_keeps_its_place(api: Api, away: Callable[[socket.socket], bool]) -> None:
    api.watches = [streaming(event("ADDED", thing("b", 9))), away]
    api.follower.start()
    api.await_requests("list", "7", "9", "9")
    assert api.names() == {"a", "b"}


@pytest.mark.parametrize(
    "nonsense",
    ["not json\n", "[1]\n", event("SONG", {"metadata": {}}), '{"type":"ERROR","object":{"code":500,"message":"etcd is away"}}\n'],
    ids=["no JSON", "no event", "unknown", "ERROR event of another code"],
)
def test_what_makes_no_sense_begins_with_a_new_list(api: Api, nonsense: str) -> None:
    api.watches = [streaming(nonsense)]
    api.follower.start()
    api.await_requests("list", "7", "list", "7")


def test_a_watch_wakes_for_what_changed_and_for_nothing_else(api: Api) -> None:
    same, bookmark = event("MODIFIED", thing("a", 12)), event("BOOKMARK", {"metadata": {"resourceVersion": "13"}})
    api.watches = [streaming(same, bookmark, ends=True), streaming(event("MODIFIED", thing("a", 15, "new")), ends=True)]
    api.follower.start()
    assert api.wakes.acquire(timeout=WAIT_S)  # the first list
    assert api.wakes.acquire(timeout=WAIT_S)
    api.await_requests("list", "7", "13", "15")
    assert not api.wakes.acquire(blocking=False)
