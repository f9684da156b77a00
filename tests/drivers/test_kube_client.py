"""Transport, refusals, time limits and secrets of the management cluster's client."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from kubehenge.drivers.guard import guarded
from kubehenge.drivers.kube import signing_in
from kubehenge.drivers.kube.client import KubeClient, TimeLimits
from kubehenge.drivers.kube.driver import KubeDriver
from kubehenge.drivers.kube.errors import (
    ChangedMeanwhileError,
    ExpiredError,
    FieldConflictError,
    KubeRefusedError,
    TooManyRequestsError,
    WebhookAwayError,
    is_missing,
    is_unserved,
    judge,
    parse_refusal,
)
from kubehenge.errors import LeaseLostError, RefusedError, SettingsError, TransientError, UncertainError
from kubehenge.lab.pki import CertificateAuthority
from tests.drivers.certificates import pair
from tests.drivers.raw_server import RawServer, json_answer
from tests.drivers.servers import SITE_KEY, KubeSite, unhurried

pytestmark = pytest.mark.lab

QUICK = TimeLimits(connect_s=2, read_s=0.5, change_s=0.5)
OK = json_answer('{"kind":"Secret","metadata":{"name":"x"}}')
SECRET = "s3cr3t-value"


def client_of(server: RawServer, ca: CertificateAuthority) -> KubeClient:
    return KubeClient.with_token(server.url, token=SecretStr(SECRET), ca_file=str(ca.cert_path), limits=QUICK, politeness=unhurried())


@pytest.fixture
def raw(ca: CertificateAuthority) -> Iterator[RawServer]:
    server = RawServer(ca, lambda conn, _head: conn.sendall(OK) is None)
    yield server
    server.close()


def status(code: int, reason: str, message: str, causes: list[dict[str, str]] | None = None) -> bytes:
    details = {"details": {"causes": causes}} if causes else {}
    return json.dumps({"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code, **details}).encode()


CONFLICT = [
    {"reason": "FieldManagerConflict", "message": 'conflict with "kubectl-edit" using cluster.x-k8s.io/v1beta2', "field": ".spec.paused"},
    {"reason": "FieldManagerConflict", "message": 'conflict with "tool"', "field": ".metadata.labels.a"},
]
INVALID = [
    {"reason": "FieldValueInvalid", "message": 'Invalid value: "x": must be a number', "field": "spec.topology.variables[cores].value"},
    {"reason": "FieldValueRequired", "message": 'Required value: required variable "storage" must be set', "field": ""},
]


@pytest.mark.parametrize(
    ("code", "content", "change", "error", "told"),
    [
        (401, status(401, "Unauthorized", "Unauthorized"), False, KubeRefusedError, "kubeconfig or token is wrong or expired"),
        (403, status(403, "Forbidden", 'secrets is forbidden: User "x" cannot list'), False, KubeRefusedError, 'User "x" cannot list'),
        (403, status(403, "Forbidden", "clusters is forbidden"), True, KubeRefusedError, "`kubehenge doctor` names the rights"),
        (403, status(403, "Forbidden", 'admission webhook "x" denied the request: no'), True, KubeRefusedError, 'refused by the management cluster: admission webhook "x"'),
        (404, status(404, "NotFound", 'secrets "x" not found'), False, KubeRefusedError, 'secrets "x" not found'),
        (404, b"404 page not found\n", False, KubeRefusedError, "Is Cluster API with all its providers installed?"),
        (409, status(409, "Conflict", "Apply failed with 2 conflicts", CONFLICT), True, FieldConflictError, '"kubectl-edit" owns .spec.paused'),
        (409, status(409, "AlreadyExists", 'x "y" already exists'), True, KubeRefusedError, "already exists"),
        (409, status(409, "Conflict", "Precondition failed: UID in precondition: a, UID in object meta: b"), True, KubeRefusedError, "another object by now"),
        (409, status(409, "Conflict", "the object has been modified; please apply"), True, ChangedMeanwhileError, "at the same moment"),
        (410, status(410, "Expired", "too old resource version"), False, ExpiredError, "begins anew"),
        (422, status(422, "Invalid", "Cluster is invalid", INVALID), True, KubeRefusedError, "spec.topology.variables[cores].value: Invalid value"),
        (422, status(422, "Invalid", "Cluster is invalid", INVALID), True, KubeRefusedError, 'required variable "storage" must be set'),
        (422, status(422, "Invalid", "name too long"), True, KubeRefusedError, "name too long"),
        (429, status(429, "TooManyRequests", "later"), True, TooManyRequestsError, "more slowly"),
        (500, status(500, "", "failed to create typed patch object (a/b): .x: field not declared in schema"), True, KubeRefusedError, "field not declared"),
        (500, status(500, "InternalError", 'failed calling webhook "x": context deadline exceeded'), True, WebhookAwayError, "the webhook x is away"),
        (500, status(500, "InternalError", "etcdserver: request timed out"), True, UncertainError, "is looked at"),
        (500, status(500, "InternalError", "etcdserver: request timed out"), False, TransientError, "could not do it now"),
        (503, status(503, "ServiceUnavailable", "apiserver is shutting down"), True, TransientError, "could not do it now"),
        (504, status(504, "Timeout", "request did not complete"), True, UncertainError, "is looked at"),
        (502, b"<html>", True, UncertainError, "6 bytes"),
        (502, b"<html>", False, TransientError, "6 bytes"),
        (302, b"", False, TransientError, "redirect"),
        (415, status(415, "UnsupportedMediaType", "unknown format"), True, KubeRefusedError, "unknown format"),
        (405, b"[1]", True, KubeRefusedError, "of 3 bytes"),
    ],
)  # fmt: skip
def test_a_refusal_is_taken_for_what_it_is(code: int, content: bytes, change: bool, error: type[Exception], told: str) -> None:
    found = judge(parse_refusal(code, content), what="PATCH /x", change=change)
    assert type(found) is error, found
    assert told in str(found)
    assert str(found).startswith("PATCH /x")


def test_a_missing_object_and_a_missing_kind_are_told_apart() -> None:
    missing = judge(parse_refusal(404, status(404, "NotFound", "x")), what="GET /x", change=False)
    unserved = judge(parse_refusal(404, b"404 page not found"), what="GET /x", change=False)
    assert isinstance(missing, RefusedError)
    assert isinstance(unserved, RefusedError)
    assert (is_missing(missing), is_unserved(missing)) == (True, False)
    assert (is_missing(unserved), is_unserved(unserved)) == (False, True)
    assert not is_missing(RefusedError("NotFound"))


def test_a_conflict_may_be_told_about_some_of_its_fields() -> None:
    found = judge(parse_refusal(409, status(409, "Conflict", "x", CONFLICT)), what="PATCH /x", change=True)
    assert isinstance(found, FieldConflictError)
    assert found.conflicts == (("kubectl-edit", ".spec.paused"), ("tool", ".metadata.labels.a"))
    assert "kubectl-edit" not in str(found.only({".metadata.labels.a"}))


# ---- transport


def test_a_read_on_a_connection_that_died_is_sent_again(raw: RawServer, ca: CertificateAuthority) -> None:
    client = client_of(raw, ca)
    client.get("/version")
    answers = iter([False, True])
    raw.answer = lambda conn, _head: next(answers) and conn.sendall(OK) is None
    assert client.get("/version")["kind"] == "Secret"
    assert len(raw.requests) == 3


def test_a_change_is_sent_once(raw: RawServer, ca: CertificateAuthority) -> None:
    raw.answer = lambda _conn, _head: False
    client = client_of(raw, ca)
    for call in (lambda: client.apply("/x", {}), lambda: client.merge("/x", {"a": 1}), lambda: client.delete("/x", uid="u")):
        before = len(raw.requests)
        with pytest.raises(UncertainError, match="its answer is lost"):
            call()
        assert len(raw.requests) == before + 1


def test_nobody_at_the_address_is_not_uncertain(ca: CertificateAuthority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = KubeClient.with_token(f"https://127.0.0.1:{port}", token=SecretStr(SECRET), ca_file=str(ca.cert_path), limits=QUICK)
    with pytest.raises(TransientError, match="Connection refused") as failed:
        client.apply("/x", {})
    assert not isinstance(failed.value, UncertainError)


def test_a_certificate_of_another_ca_is_not_trusted(raw: RawServer, tmp_path: Path) -> None:
    client = client_of(raw, CertificateAuthority(tmp_path))
    with pytest.raises(TransientError, match="not signed by the kubeconfig's CA") as failed:
        client.apply("/x", {})
    assert not isinstance(failed.value, UncertainError)
    assert raw.requests == []


def _drip(conn: socket.socket, _head: bytes) -> bool:
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    try:
        for _ in range(400):
            conn.sendall(b" ")
            time.sleep(0.02)
    except OSError:
        pass
    return False


@pytest.mark.parametrize("slow", [_drip, lambda _conn, _head: time.sleep(3) is not None])
def test_slowness_ends_with_the_time_limit_and_is_not_tried_twice(raw: RawServer, ca: CertificateAuthority, slow: Any) -> None:
    raw.answer = slow
    client = client_of(raw, ca)
    began = time.monotonic()
    with pytest.raises(TransientError, match="no answer within the time limit"):
        client.get("/version")
    assert time.monotonic() - began < 5
    assert len(raw.requests) == 1
    with pytest.raises(UncertainError, match="no answer within the time limit"):
        client.apply("/x", {})


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<htm>",
        json_answer("[1]"),
        json_answer('{"kind": "Sec'),
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
    ],
)
def test_an_answer_that_is_not_the_api_servers_is_noticed(raw: RawServer, ca: CertificateAuthority, answer: bytes) -> None:
    raw.answer = lambda conn, _head: conn.sendall(answer) is not None
    client = client_of(raw, ca)
    with pytest.raises(TransientError):
        client.get("/version")
    with pytest.raises(UncertainError):
        client.apply("/x", {})


def test_an_overburdened_server_gets_its_pause(raw: RawServer, ca: CertificateAuthority) -> None:
    answer = json_answer(status(429, "TooManyRequests", "later").decode(), status="429 Too Many Requests", headers="Retry-After: 50\r\n")
    raw.answer = lambda conn, _head: conn.sendall(answer) is None
    client = client_of(raw, ca)
    with pytest.raises(TransientError):
        client.get("/version")
    assert client.politeness.resting_s > 40


def test_no_apply_is_ever_forced(raw: RawServer, ca: CertificateAuthority) -> None:
    client = client_of(raw, ca)
    client.apply("/x", {"kind": "Secret"})
    client.merge("/x", {"kind": "Secret"})
    assert raw.requests == ["PATCH /x?fieldManager=kubehenge"] * 2


def test_a_change_is_not_sent_once_the_lease_does_not_last(kube: KubeSite) -> None:
    asked: list[float] = []

    def check(longest_s: float) -> None:
        asked.append(longest_s)
        raise LeaseLostError("the lease ends before")

    client = kube.driver.client
    before = kube.calls.last_n
    with guarded(check):
        for call in (lambda: client.apply("/x", {}), lambda: client.merge("/x", {"a": 1}), lambda: client.delete("/x", uid="u")):
            with pytest.raises(LeaseLostError):
                call()
        client.get("/version")
    assert asked == [client.limits.longest_change_s] * 3
    assert [call for call in kube.since(before) if call.write] == []


# ---- signing in, and secrets


def test_a_kubeconfig_signs_in(kube: KubeSite, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(kube.sim.kubeconfig("kubehenge"))
    driver = KubeDriver.from_kubeconfig(path, site_key=SITE_KEY, proxmox_url="https://pve1:8006/", timeout_s=5)
    assert driver.read_bulk().failed == {}
    assert driver.endpoints == (kube.sim.url,)
    driver.stop()


@pytest.mark.parametrize("content", ["", "a: [", "kind: Config", "[]", "clusters: 7"])
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    with pytest.raises(SettingsError, match="no kubeconfig that can be used"):
        KubeClient.from_kubeconfig(path)
    with pytest.raises(SettingsError):
        KubeClient.from_kubeconfig(tmp_path / "missing")


def test_a_wrong_token_says_so(kube: KubeSite) -> None:
    client = KubeClient.with_token(kube.sim.url, token=SecretStr("wrong"), ca_file=str(kube.ca.cert_path), limits=QUICK)
    with pytest.raises(RefusedError, match="does not accept Kubehenge's sign-in"):
        client.get(CLUSTERS)
    client.close()


CLUSTERS = "/apis/cluster.x-k8s.io/v1beta2/clusters"


def test_an_answer_that_holds_a_secret_shows_it_nowhere(raw: RawServer, ca: CertificateAuthority, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = client_of(raw, ca)
    causes = [{"reason": SECRET, "message": f'conflict with "{SECRET}"', "field": SECRET}]
    conflict = [{"reason": "FieldManagerConflict", "message": f'conflict with "{SECRET}"', "field": f".{SECRET}"}]
    for code, given in ((401, causes), (403, causes), (404, causes), (409, conflict), (422, causes), (500, causes), (503, causes)):
        body = status(code, SECRET, f"bad {SECRET}", given).decode()
        raw.answer = lambda conn, _head, body=body, code=code: conn.sendall(json_answer(body, status=f"{code} {SECRET}")) is not None
        with pytest.raises((RefusedError, TransientError)) as failed:
            client.apply("/x", {})
        error: BaseException | None = failed.value
        while error is not None:
            assert SECRET not in f"{error!s} {error!r} {vars(error)}"
            error = error.__cause__ or error.__context__
    assert SECRET not in f"{client!r}"
    assert SECRET not in caplog.text


# ---- doctor


def test_doctor_finds_a_management_cluster_in_order(kube: KubeSite) -> None:
    findings = kube.driver.probe()
    assert all(finding.ok for finding in findings), findings
    assert "Kubernetes v1." in findings[0].detail


def test_doctor_says_what_is_wrong_and_how_to_mend_it(raw: RawServer, ca: CertificateAuthority) -> None:
    group = {"resources": [{"name": "clusters"}, {"name": "proxmoxmachines"}, {"name": "clusterresourcesets"}]}

    def answer(conn: socket.socket, head: bytes) -> bool:
        path = head.split(b" ")[1]
        if path == b"/version":
            body = {"gitVersion": "v1.36.3"}
        elif b"selfsubjectaccessreviews" in path:
            body = {"status": {"allowed": b'"verb": "patch"' not in head}}
        else:
            body = group
        conn.sendall(json_answer(json.dumps(body)))
        return False

    raw.answer = answer
    findings = KubeDriver(client_of(raw, ca), _access(), site_key=SITE_KEY).probe()
    wrong = {finding.what: finding for finding in findings if not finding.ok}
    assert wrong["API cluster.x-k8s.io/v1beta2"].detail == "missing: clusterclasses, machines"
    assert (
        wrong["API infrastructure.cluster.x-k8s.io/v1alpha2"].detail
        == "missing: proxmoxclusters, proxmoxclustertemplates, proxmoxmachinetemplates"
    )
    assert all(finding.mend for finding in wrong.values())


@pytest.mark.parametrize(("days", "ok"), [(90, True), (7, False), (-1, False)])
def test_doctor_says_when_the_client_certificate_ends(
    raw: RawServer, ca: CertificateAuthority, tmp_path: Path, days: int, ok: bool
) -> None:
    cert, key = pair(ca, tmp_path, days=days)
    sign_in = signing_in.by_token(raw.url, token=SecretStr(SECRET), ca_file=str(ca.cert_path))

    def with_certificate() -> Any:
        configuration = sign_in()
        configuration.cert_file, configuration.key_file = str(cert), str(key)
        return configuration

    finding = KubeDriver(KubeClient(with_certificate, limits=QUICK, politeness=unhurried()), _access(), site_key=SITE_KEY).probe()[0]
    assert (finding.what, finding.ok) == ("client certificate of the kubeconfig", ok)
    assert "good until 2" in finding.detail
    assert bool(finding.mend) is not ok


@pytest.mark.parametrize(("version", "ok"), [("v1.29.9", False), ("v1.30.0", True), ("v1.36.3+rke2r1", True)])
def test_doctor_knows_which_kubernetes_is_too_old(raw: RawServer, ca: CertificateAuthority, version: str, ok: bool) -> None:
    raw.answer = lambda conn, _head: conn.sendall(json_answer(json.dumps({"gitVersion": version}))) is not None
    findings = KubeDriver(client_of(raw, ca), _access(), site_key=SITE_KEY).probe()
    assert findings[0].ok is ok
    assert ok or "Upgrade the management cluster" in findings[0].mend


def test_doctor_never_raises(raw: RawServer, ca: CertificateAuthority) -> None:
    for answer in (b"", b"nonsense\r\n\r\n", json_answer("{}", status="500 Oops"), json_answer("[]")):
        raw.answer = lambda conn, _head, answer=answer: conn.sendall(answer) is not None
        [finding] = KubeDriver(client_of(raw, ca), _access(), site_key=SITE_KEY).probe()
        assert not finding.ok
        assert finding.mend


def _access() -> Any:
    from kubehenge.drivers.kube.secrets import ProxmoxAccess

    return ProxmoxAccess(url="https://pve1:8006")
