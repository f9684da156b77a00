"""What goes wrong between Kubehenge and the management cluster: each with its own words, and repeated only where that is harmless."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from kubehenge.drivers.kube import kinds, unserved, webhooks
from kubehenge.drivers.kube.client import KubeClient, TimeLimits
from kubehenge.drivers.kube.errors import KubeRefusedError, TooManyRequestsError, WebhookAwayError
from kubehenge.drivers.kube.warnings import parse_warnings
from kubehenge.drivers.politeness import Limits, Politeness
from kubehenge.errors import TransientError, UncertainError
from kubehenge.lab.faults import FaultAction
from kubehenge.lab.pki import CertificateAuthority
from tests.drivers.certificates import certificate
from tests.drivers.raw_server import RawServer, json_answer
from tests.drivers.servers import KubeSite, unhurried

pytestmark = pytest.mark.lab

PATIENT = TimeLimits(connect_s=2, read_s=5, change_s=5)
SECRET = "s3cr3t-value"
OK = json_answer('{"kind":"Secret","metadata":{"name":"x"}}')
REFUSED = (
    'Internal error occurred: failed calling webhook "default.cluster.cluster.x-k8s.io": failed to call webhook: Post '
    '"https://capi-webhook-service.capi-system.svc:443/mutate-cluster?timeout=10s": dial tcp 10.43.0.9:443: connect: connection refused'
)


def answer_of(code: int, reason: str, message: str, *, headers: str = "") -> bytes:
    body = json.dumps({"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code})
    return json_answer(body, status=f"{code} {reason}", headers=headers)


def client_of(server: RawServer, ca: CertificateAuthority, politeness: Politeness | None = None) -> KubeClient:
    return KubeClient.with_token(
        server.url, token=SecretStr(SECRET), ca_file=str(ca.cert_path), limits=PATIENT, politeness=politeness or unhurried()
    )


@pytest.fixture
def raw(ca: CertificateAuthority) -> Iterator[RawServer]:
    server = RawServer(ca, lambda conn, _head: conn.sendall(OK) is None)
    yield server
    server.close()


def answering(server: RawServer, *answers: bytes) -> None:
    """These answers, one for each request; the last one again and again."""
    left = list(answers)
    server.answer = lambda conn, _head: conn.sendall(left.pop(0) if len(left) > 1 else left[0]) is None


# ---- too many requests


def test_a_call_that_came_too_early_waits_as_long_as_it_was_told_and_is_sent_again(raw: RawServer, ca: CertificateAuthority) -> None:
    slept: list[float] = []
    politeness = Politeness("it", Limits(requests_per_s=1000, burst=1000), sleep=slept.append, clock=lambda: 0.0, chance=lambda: 0.0)
    client = client_of(raw, ca, politeness)
    answering(raw, answer_of(429, "TooManyRequests", "later", headers="Retry-After: 3\r\n"), OK)
    assert client.apply("/x", {"kind": "Secret"}).obj["kind"] == "Secret"
    assert len(raw.requests) == 2
    assert max(slept) == pytest.approx(3)


def test_a_call_does_not_wait_longer_than_its_time_limit(raw: RawServer, ca: CertificateAuthority) -> None:
    client = client_of(raw, ca)
    answering(raw, answer_of(429, "TooManyRequests", "later", headers="Retry-After: 4\r\n"))
    with pytest.raises(TooManyRequestsError):
        client.merge("/x", {"a": 1})
    assert len(raw.requests) == 2
    answering(raw, answer_of(429, "TooManyRequests", "later", headers="Retry-After: 50\r\n"))
    with pytest.raises(TransientError):
        client_of(raw, ca).merge("/x", {"a": 1})
    assert len(raw.requests) == 3


# ---- webhooks that are away


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            REFUSED,
            (
                "Cluster API's webhook default.cluster.cluster.x-k8s.io is away (10.43.0.9:443: connect: connection refused). Nothing was done. "
                "Look at the pods behind service capi-webhook-service in namespace capi-system"
            ),
        ),
        (
            (
                'failed calling webhook "validation.proxmoxcluster.infrastructure.cluster.x-k8s.io": failed to call webhook: Post '
                '"https://capmox-webhook.capmox-system.svc:443/x": no endpoints available for service "capmox-webhook"'
            ),
            "the webhook of Cluster API's Proxmox provider (capmox) validation.proxmoxcluster.infrastructure.cluster.x-k8s.io is away (no endpoints",
        ),
        (
            'failed calling webhook "clusters.kubehenge.dev": failed to call webhook: Post "https://10.0.0.1:9443/x": context deadline exceeded',
            (
                "Kubehenge's own webhook clusters.kubehenge.dev is away (context deadline exceeded). Nothing was done. "
                "Look at the program that serves it (`kubehenge hooks`)"
            ),
        ),
        (
            (
                "conversion webhook for cluster.x-k8s.io/v1beta1, Kind=Cluster failed: Post "
                '"https://capi-webhook-service.capi-system.svc:443/convert?timeout=30s": x509: certificate has expired or is not yet valid'
            ),
            "Cluster API's webhook cluster.x-k8s.io/v1beta1, Kind=Cluster is away (x509: certificate has expired",
        ),
        ('failed calling webhook "policy.example.com": EOF', "the webhook policy.example.com is away (EOF)"),
    ],
)
def test_a_webhook_that_is_away_is_named_with_whose_it_is(said: str, told: str) -> None:
    assert told in webhooks.away(said)
    assert webhooks.away("etcdserver: request timed out") == ""


def test_a_change_that_a_webhook_could_not_judge_did_nothing_and_slows_nothing_else(raw: RawServer, ca: CertificateAuthority) -> None:
    client = client_of(raw, ca)
    answering(raw, answer_of(500, "InternalError", REFUSED))
    for _ in range(5):
        with pytest.raises(WebhookAwayError, match="Cluster API's webhook") as failed:
            client.apply("/x", {"kind": "Cluster"})
        assert not isinstance(failed.value, UncertainError)
    assert len(raw.requests) == 5  # each was sent once
    assert client.politeness.resting_s == 0
    answering(raw, answer_of(503, "ServiceUnavailable", "apiserver is shutting down"))
    for _ in range(3):
        with pytest.raises(TransientError):
            client.apply("/x", {"kind": "Cluster"})
    assert client.politeness.resting_s > 0  # while trouble of its own does


# ---- lists


def test_a_list_whose_place_was_forgotten_between_two_pages_is_read_from_the_start(raw: RawServer, ca: CertificateAuthority) -> None:
    first = json_answer(json.dumps({"metadata": {"continue": "abc"}, "items": [{"metadata": {"name": "old"}}]}))
    whole = json_answer(json.dumps({"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "new"}}]}))
    answering(raw, first, answer_of(410, "Expired", "The provided continue parameter is too old"), whole)
    listed = client_of(raw, ca).list("/x")
    assert [item["metadata"]["name"] for item in listed.items] == ["new"]
    assert listed.version == "7"


# ---- kinds that are not there

BETA = "/apis/cluster.x-k8s.io/v1beta2/clusters"


@pytest.mark.parametrize(
    ("served", "told"),
    [
        (["v1beta1", "v1alpha4"], "serves cluster.x-k8s.io only as v1alpha4, v1beta1, and Kubehenge needs v1beta2 for clusters. Upgrade to Cluster API 1.11"),
        (["v1beta2"], "the CRD clusters.cluster.x-k8s.io is missing. Install Cluster API 1.11 or newer"),
        ([], "does not serve cluster.x-k8s.io: the CRD clusters.cluster.x-k8s.io is missing. Install Cluster API"),
    ],
    ids=["too old", "half installed", "not installed"],
)  # fmt: skip
def test_a_kind_that_is_not_served_is_named_with_what_to_install(
    raw: RawServer, ca: CertificateAuthority, served: list[str], told: str
) -> None:
    group = json.dumps({"kind": "APIGroup", "versions": [{"version": one} for one in served]})
    nothing = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 19\r\n\r\n404 page not found\n"

    def answer(conn: Any, head: bytes) -> bool:
        asks_group = head.split(b" ")[1] == b"/apis/cluster.x-k8s.io"
        conn.sendall(json_answer(group) if asks_group and served else nothing)
        return True

    raw.answer = answer
    with pytest.raises(KubeRefusedError) as failed:
        client_of(raw, ca).get(BETA)
    assert told in str(failed.value)


def test_every_kind_that_we_need_says_what_brings_it() -> None:
    for served in (*kinds.WRITTEN.values(), *kinds.TEMPLATES.values(), kinds.DEPLOYMENTS, kinds.MACHINES, kinds.PROXMOX_MACHINES):
        wanted = unserved.wanted_by(served.one("ns", "x"))
        assert (wanted is None) == (served.group in {"", "apps", "admissionregistration.k8s.io"})
        if wanted:
            assert (wanted.group, wanted.plural) == (served.group, served.plural)
            assert "Cluster API" in unserved.explain(wanted, ())


def test_without_cluster_api_the_rest_is_read_and_each_kind_says_what_to_install(kube: KubeSite) -> None:
    kube.fault(FaultAction.HTML, path="/apis/infrastructure.cluster.x-k8s.io", status=404, times=None)
    kube.fault(FaultAction.HTML, path="/apis/cluster.x-k8s.io", status=404, times=None)
    reading = kube.driver.read_bulk()
    assert {"kube.namespace", "kube.secret", "kube.resource_set"} <= reading.items.keys()
    assert "the CRD clusters.cluster.x-k8s.io is missing. Install Cluster API 1.11 or newer" in reading.failed["kube.cluster"]
    assert "clusterclasses.cluster.x-k8s.io" in reading.failed["kube.class"]


# ---- certificates


@pytest.mark.parametrize(
    ("made", "told", "next_step"),
    [
        ({"days": -1}, "its certificate has expired", "Renew the API server's certificate"),
        ({"starts_in_days": 2}, "its certificate is not valid yet", "Set the clocks of both machines right"),
        ({"hosts": ("elsewhere.example.com",)}, "its certificate is for another name", "tls-server-name"),
    ],
    ids=["expired", "not yet", "wrong host"],
)
def test_each_wrong_certificate_is_told_from_the_others(
    ca: CertificateAuthority, tmp_path: Path, made: dict[str, Any], told: str, next_step: str
) -> None:
    server = RawServer(ca, lambda conn, _head: conn.sendall(OK) is None, tls=certificate(ca, tmp_path, **made))
    client = client_of(server, ca)
    for call in (lambda: client.get("/version"), lambda: client.apply("/x", {})):
        with pytest.raises(TransientError) as failed:
            call()
        assert not isinstance(failed.value, UncertainError)
        assert f"{server.url} did not answer ({told})" in str(failed.value)
        assert next_step in str(failed.value)
        assert "Nothing is sent to it until then" in str(failed.value)
    assert server.requests == []
    server.close()


def test_a_client_certificate_that_is_not_accepted_is_told(ca: CertificateAuthority, tmp_path: Path) -> None:
    tls = certificate(ca, tmp_path)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.maximum_version = ssl.TLSVersion.TLSv1_2  # 1.3 says so only after the request, and may be cut off before it does
    tls.load_verify_locations(ca.cert_path)
    server = RawServer(ca, lambda conn, _head: conn.sendall(OK) is None, tls=tls)
    with pytest.raises(TransientError, match=r"ended the TLS handshake: \w+ alert .* Look at the client certificate in the kubeconfig"):
        client_of(server, ca).get("/version")
    server.close()


# ---- warnings


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ('299 - "one"', ("one",)),
        ('299 - "one", 299 - "two"', ("one", "two")),
        (r'299 - "a \"quoted\" word"', ('a "quoted" word',)),
        ('299 - "same", 299 - "same"', ("same",)),
        ("nonsense", ()),
    ],
)
def test_warnings_are_read_from_their_header(header: str, texts: tuple[str, ...]) -> None:
    assert parse_warnings({"warning": header}) == texts


def test_warnings_of_a_change_are_kept_without_secrets(raw: RawServer, ca: CertificateAuthority) -> None:
    headers = f'Warning: 299 - "first"\r\nWarning: 299 - "holds {SECRET}"\r\n'
    answering(raw, json_answer('{"kind":"Secret"}', headers=headers))
    assert client_of(raw, ca).apply("/x", {"kind": "Secret"}).warnings == ("first", "holds ***")
