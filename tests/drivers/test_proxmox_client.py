"""Endpoints, connections, time limits and secrets of the Proxmox VE client (facts: 1 Transport; MODEL 26, 29)."""

from __future__ import annotations

import itertools
import logging
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from kubehenge.drivers.guard import guarded
from kubehenge.drivers.politeness import Limits, Politeness
from kubehenge.drivers.proxmox import ProxmoxClient
from kubehenge.drivers.proxmox.client import checked_endpoints
from kubehenge.drivers.proxmox.connections import Connections, TimeLimits
from kubehenge.drivers.proxmox.errors import NotSignedInError, Sort
from kubehenge.errors import LeaseLostError, RefusedError, SettingsError, TransientError, UncertainError
from kubehenge.lab.faults import FaultAction
from kubehenge.lab.pki import CertificateAuthority
from tests.drivers.raw_server import RawServer, json_answer
from tests.drivers.servers import TOKEN_ID, ProxmoxSite

pytestmark = pytest.mark.lab

QUICK = TimeLimits(connect_s=2, read_s=0.5, change_s=0.5)
OK = json_answer('{"data":"ok"}')


def client_of(*servers: RawServer, ca: CertificateAuthority, limits: TimeLimits = QUICK, secret: str = "s3cr3t-value") -> ProxmoxClient:
    return ProxmoxClient.with_token(
        [server.url for server in servers],
        ca_file=str(ca.cert_path),
        token_id=TOKEN_ID,
        secret=SecretStr(secret),
        limits=limits,
        politeness=Politeness("Proxmox VE", Limits(requests_per_s=float("inf"), burst=1000)),
    )


@pytest.fixture
def raw(ca: CertificateAuthority) -> Iterator[RawServer]:
    server = RawServer(ca, lambda conn, _head: conn.sendall(OK) is None)
    yield server
    server.close()


# ---- endpoints


def test_it_stays_on_one_endpoint(pve: ProxmoxSite) -> None:
    client = pve.driver.client
    for _ in range(5):
        client.get("/version")
    assert client.endpoint == pve.urls[0]


def test_it_moves_to_the_next_endpoint_when_one_is_away_and_stays_there(pve: ProxmoxSite) -> None:
    client = pve.driver.client
    pve.set_node("pve1", online=False)
    assert client.get("/version")["release"]
    assert client.endpoint == pve.urls[1]
    pve.set_node("pve1", online=True)
    client.get("/version")
    assert client.endpoint == pve.urls[1]


def test_a_change_that_was_certainly_not_sent_goes_to_the_next_endpoint(pve: ProxmoxSite) -> None:
    pve.set_node("pve1", online=False)
    pve.driver.client.post("/pools", poolid="kubehenge/clusters.x")
    assert any(row["poolid"] == "kubehenge/clusters.x" for row in pve.admin.get("/pools"))


def test_a_595_about_another_nodes_resource_does_not_move_it(pve: ProxmoxSite) -> None:
    client = pve.driver.client
    pve.set_node("pve3", online=False)
    with pytest.raises(TransientError, match="the node it is for does not answer"):
        client.get("/nodes/pve3/status")
    assert client.endpoint == pve.urls[0]


def test_a_595_about_the_endpoint_itself_moves_it(pve: ProxmoxSite) -> None:
    client = pve.driver.client
    pve.fault(FaultAction.STATUS, path="/version", status=595, reason="No route to host")
    assert client.get("/version")["release"]
    assert client.endpoint == pve.urls[1]
    pve.fault(FaultAction.STATUS, path="/pools", method="POST", status=595, reason="No route to host")
    client.post("/pools", poolid="kubehenge/clusters.y")
    assert client.endpoint == pve.urls[2]


def test_when_no_endpoint_answers_it_says_so_after_trying_each(pve: ProxmoxSite) -> None:
    pve.fault(FaultAction.REFUSE, times=None)
    before = pve.calls.last_n
    with pytest.raises(TransientError):
        pve.driver.client.get("/version")
    assert len(pve.since(before)) >= 3
    before = pve.calls.last_n
    with pytest.raises(UncertainError):
        pve.driver.client.post("/pools", poolid="kubehenge/clusters.z")
    assert len(pve.since(before)) == 1  # a change is sent once


def test_an_endpoint_that_is_asked_for_is_the_only_one_asked(pve: ProxmoxSite) -> None:
    pve.set_node("pve2", online=False)
    with pytest.raises(TransientError):
        pve.driver.client.get("/version", endpoint=pve.urls[1])
    assert pve.driver.client.endpoint == pve.urls[0]
    with pytest.raises(SettingsError, match="none of the configured endpoints"):
        pve.driver.client.get("/version", endpoint="https://elsewhere:8006")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["https://pve1"], ("https://pve1:8006",)),
        (["https://pve1:8443/", "https://pve1:8443"], ("https://pve1:8443",)),
        (["https://[2001:db8::1]:8006"], ("https://[2001:db8::1]:8006",)),
    ],
)
def test_endpoints_are_hosts_with_a_port(given: list[str], kept: tuple[str, ...]) -> None:
    assert checked_endpoints(given) == kept


@pytest.mark.parametrize("given", [[], ["pve1:8006"], ["http://pve1:8006"], ["https://pve1/api2/json"], ["https://root:hunter2@pve1"]])
def test_an_endpoint_that_is_something_else_is_refused(given: list[str]) -> None:
    with pytest.raises(SettingsError, match="https://") as refused:
        checked_endpoints(given)
    assert "hunter2" not in str(refused.value)


# ---- signing in


def test_a_wrong_token_says_what_may_be_wrong_with_it(pve: ProxmoxSite) -> None:
    client = pve.client(TOKEN_ID, "00000000-0000-0000-0000-000000000000")
    with pytest.raises(NotSignedInError, match="The token is wrong, expired or revoked, its user is disabled"):
        client.get("/version")
    assert client.endpoint == pve.urls[0]


@pytest.mark.parametrize("token_id", ["kubehenge@pve", "kubehenge!x", "kubehenge@pve!x=secret", ""])
def test_a_token_id_of_another_form_is_refused(token_id: str) -> None:
    with pytest.raises(SettingsError, match="user@realm!name"):
        ProxmoxClient.with_token(["https://pve1"], ca_file=None, token_id=token_id, secret=SecretStr("x"))


def test_a_certificate_of_another_ca_is_not_trusted(pve: ProxmoxSite, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = CertificateAuthority(tmp_path_factory.mktemp("other"))
    client = ProxmoxClient.with_token(pve.urls, ca_file=str(other.cert_path), token_id=TOKEN_ID, secret=SecretStr("x"))
    before = pve.calls.last_n
    with pytest.raises(TransientError, match="its certificate is not signed by the configured CA"):
        client.get("/version")
    with pytest.raises(TransientError, match="Nothing was sent"):
        client.post("/pools", poolid="x")
    assert pve.since(before) == ()


# ---- connections


def test_calls_share_a_connection(raw: RawServer, ca: CertificateAuthority) -> None:
    client = client_of(raw, ca=ca)
    for _ in range(5):
        assert client.get("/version") == "ok"
    assert raw.connections == 1


def test_a_connection_that_was_idle_for_four_seconds_is_not_used_again(raw: RawServer, ca: CertificateAuthority) -> None:
    now = itertools.count(step=3.0)
    connections = Connections(raw.url, verify=str(ca.cert_path), headers=dict, limits=QUICK, clock=lambda: next(now))
    for _ in range(4):
        assert connections.call("GET", "/version", {}).good
    first = raw.connections
    now = itertools.count(start=1000, step=4.5)
    for _ in range(4):
        assert connections.call("POST", "/pools", {}).good
    connections.close()
    assert first == 1
    assert raw.connections == 1 + 4


def test_a_read_on_a_connection_that_died_is_sent_again_on_a_fresh_one(raw: RawServer, ca: CertificateAuthority) -> None:
    client = client_of(raw, ca=ca)
    client.get("/version")
    raw.answer = lambda _conn, _head: False  # closes in place of an answer, as when the server was about to
    once = itertools.count()
    raw.answer = lambda conn, _head: next(once) > 0 and conn.sendall(OK) is None
    assert client.get("/version") == "ok"
    assert raw.connections == 2


def test_connections_that_the_server_closed_are_noticed(raw: RawServer, ca: CertificateAuthority) -> None:
    client = client_of(raw, ca=ca)
    for _ in range(3):
        client.get("/version")
        raw.drop_connections()
        time.sleep(0.05)
        assert client.post("/pools") == "ok"


# ---- answers


def _drip(conn: socket.socket, _head: bytes) -> bool:
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    try:
        for _ in range(400):
            conn.sendall(b" ")
            time.sleep(0.02)
    except OSError:
        pass
    return False


def test_an_answer_that_comes_drop_by_drop_ends_with_the_time_limit(raw: RawServer, ca: CertificateAuthority) -> None:
    raw.answer = _drip
    client = client_of(raw, ca=ca, limits=TimeLimits(connect_s=0.3, read_s=0.3, change_s=0.3))
    began = time.monotonic()
    with pytest.raises(UncertainError, match="no answer within the time limit"):
        client.post("/pools")
    assert time.monotonic() - began < 5  # it would go on for eight


def test_silence_ends_with_the_time_limit_and_is_not_tried_twice(raw: RawServer, ca: CertificateAuthority) -> None:
    client = client_of(raw, ca=ca)
    client.get("/version")
    raw.answer = lambda _conn, _head: time.sleep(3) is not None
    with pytest.raises(TransientError, match="no answer within the time limit"):
        client.get("/version")
    assert len(raw.requests) == 2


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<htm>", "5 bytes of text/html"),
        (json_answer('{"data": [1, 2'), "bytes of application/json"),
        (json_answer("[]"), "JSON without data"),
        (b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere/\r\nContent-Length: 0\r\n\r\n", "a redirect"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\noops", "502 4 bytes of text/html"),
    ],
)
def test_an_answer_that_is_not_proxmox_ves_is_noticed(raw: RawServer, ca: CertificateAuthority, answer: bytes, told: str) -> None:
    raw.answer = lambda conn, _head: conn.sendall(answer) is not None
    client = client_of(raw, ca=ca)
    with pytest.raises(TransientError, match="something that is not Proxmox VE's") as read:
        client.get("/version")
    assert told in str(read.value)
    assert not isinstance(read.value, UncertainError)
    with pytest.raises(UncertainError):
        client.post("/pools")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (
            b"HTTP/1.1 401 Permission denied - invalid csrf token\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\nnull",
            NotSignedInError,
        ),
        (b"HTTP/1.1 401 No ticket\r\nContent-Length: 0\r\n\r\n", NotSignedInError),
        (b"HTTP/1.1 403 Permission check failed (/storage/iso, Datastore.Audit)\r\nContent-Length: 0\r\n\r\n", RefusedError),
        (b"HTTP/1.1 595 No route to host\r\nContent-Length: 0\r\n\r\n", TransientError),
        (json_answer('{"data":null,"message":"slow down"}', status="429 Too Many", headers="Retry-After: 7\r\n"), TransientError),
    ],
)
def test_an_answer_without_a_body_is_read_from_its_reason(
    raw: RawServer, ca: CertificateAuthority, answer: bytes, error: type[Exception]
) -> None:
    raw.answer = lambda conn, _head: conn.sendall(answer) is not None
    with pytest.raises(error):
        client_of(raw, ca=ca).get("/version")


def test_a_server_that_asks_for_a_pause_gets_it(raw: RawServer, ca: CertificateAuthority) -> None:
    answer = json_answer('{"data":null,"message":"slow down"}', status="429 Too Many", headers="Retry-After: 50\r\n")
    raw.answer = lambda conn, _head: conn.sendall(answer) is not None
    client = client_of(raw, ca=ca)
    with pytest.raises(TransientError, match="more slowly"):
        client.get("/version")
    assert client.politeness.resting_s > 40


def test_ordinary_refusals_do_not_count_as_trouble(pve: ProxmoxSite) -> None:
    for _ in range(10):
        with pytest.raises(RefusedError):
            pve.driver.client.post("/pools", poolid="kubehenge")
    assert pve.driver.client.politeness.resting_s == 0


def test_parameters_are_sent_as_the_api_wants_them(raw: RawServer, ca: CertificateAuthority) -> None:
    client = client_of(raw, ca=ca)
    client.get("/access/users", full=True, nothing=None)
    client.delete("/nodes/pve1/qemu/100", destroy_unreferenced_disks=True)
    client.get("/access/permissions", path="/pool/a/b")
    assert raw.requests == [
        "GET /api2/json/access/users?full=1",
        "DELETE /api2/json/nodes/pve1/qemu/100?destroy-unreferenced-disks=1",
        "GET /api2/json/access/permissions?path=%2Fpool%2Fa%2Fb",
    ]


def test_settings_of_the_environment_change_nothing(pve: ProxmoxSite, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login x password y\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(netrc))
    assert pve.restart().client.get("/version")["release"]


# ---- the last check, and secrets


def test_a_change_is_not_sent_once_the_lease_does_not_last(pve: ProxmoxSite) -> None:
    asked: list[float] = []

    def check(longest_s: float) -> None:
        asked.append(longest_s)
        raise LeaseLostError("the lease ends before")

    client = pve.driver.client
    before = pve.calls.last_n
    with guarded(check), pytest.raises(LeaseLostError):
        client.post("/pools", poolid="kubehenge/late")
    assert asked == [client.limits.longest_change_s]
    assert pve.since(before) == ()
    with guarded(check):
        client.get("/version")  # reads need no lease
    client.post("/pools", poolid="kubehenge/now")


def test_an_answer_that_holds_the_secret_shows_it_nowhere(
    raw: RawServer, ca: CertificateAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "s3cr3t-value"
    body = f'{{"data":null,"message":"bad token {secret}","errors":{{"{secret}":"{secret}"}}}}'
    for status in ("400 Bad {s}", "500 Oops {s}", "401 No {s}", "595 {s}", "403 Permission check failed ({s})"):
        raw.answer = lambda conn, _head, status=status: conn.sendall(json_answer(body, status=status.format(s=secret))) is not None
        client = client_of(raw, ca=ca, secret=secret)
        with pytest.raises((RefusedError, TransientError)) as failed:
            client.post("/pools", poolid="x")
        error: BaseException | None = failed.value
        while error is not None:
            assert secret not in f"{error!s} {error!r} {vars(error)}"
            error = error.__cause__ or error.__context__
        assert secret not in repr(client)
    assert secret not in caplog.text


def test_a_method_that_proxmox_ve_does_not_have_is_our_own_mistake(raw: RawServer, ca: CertificateAuthority) -> None:
    connections = Connections(raw.url, verify=str(ca.cert_path), headers=dict, limits=QUICK)
    with pytest.raises(ValueError, match="PATCH"):
        connections.call("PATCH", "/x", {})
    assert Sort.ANSWERED == "answered"
