"""Signing in to the management cluster: kubeconfigs of every sort, the pod's own account, and what changes while we run."""

from __future__ import annotations

import base64
import json
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from kubehenge.drivers.kube import signing_in
from kubehenge.drivers.kube.client import KubeClient, TimeLimits
from kubehenge.errors import RefusedError, SettingsError
from kubehenge.lab.pki import CertificateAuthority
from tests.drivers.certificates import pair
from tests.drivers.raw_server import RawServer, json_answer
from tests.drivers.servers import unhurried

pytestmark = pytest.mark.lab

LIMITS = TimeLimits(connect_s=2, read_s=5, change_s=5)
UNAUTHORIZED = json_answer(json.dumps({"kind": "Status", "reason": "Unauthorized", "message": "Unauthorized"}), status="401 Unauthorized")


class Door:
    """An API server that lets one token in; `seen` are the tokens that came."""

    def __init__(self, ca: CertificateAuthority) -> None:
        self.ca, self.token, self.seen = ca, "first-t0ken", []
        self.server = RawServer(ca, self._answer)

    def _answer(self, conn: socket.socket, head: bytes) -> bool:
        [line] = [line for line in head.split(b"\r\n") if line.lower().startswith(b"authorization:")] or [b":  "]
        token = line.decode().rpartition(" ")[2]
        self.seen.append(token)
        conn.sendall(json_answer('{"kind":"Thing"}') if token == self.token else UNAUTHORIZED)
        return True

    def kubeconfig(self, path: Path, user: dict[str, Any], **cluster: Any) -> Path:
        cluster = {"server": self.server.url, "certificate-authority": str(self.ca.cert_path), **cluster}
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "it", "cluster": {key: value for key, value in cluster.items() if value is not None}}],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
            "current-context": "it",
        }
        path.write_text(yaml.safe_dump(body))
        return path


@pytest.fixture
def door(ca: CertificateAuthority) -> Iterator[Door]:
    door = Door(ca)
    yield door
    door.server.close()


def signed_in(path: Path) -> KubeClient:
    return KubeClient.from_kubeconfig(path, limits=LIMITS, politeness=unhurried())


def program(folder: Path, token_file: Path) -> dict[str, Any]:
    """An exec program that hands out what stands in a file."""
    path = folder / "sign-in"
    path.write_text(
        '#!/bin/sh\nprintf \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}\' '
        f'"$(cat {token_file})"\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}}


@pytest.mark.parametrize("form", ["token", "tokenFile", "exec", "inline CA"])
def test_a_kubeconfig_signs_in_by_a_token_in_every_form(door: Door, tmp_path: Path, form: str) -> None:
    (tmp_path / "token").write_text(door.token)
    users = {"tokenFile": {"tokenFile": str(tmp_path / "token")}, "exec": program(tmp_path, tmp_path / "token")}
    inline = base64.b64encode(door.ca.cert_path.read_bytes()).decode()
    more = {"certificate-authority": None, "certificate-authority-data": inline} if form == "inline CA" else {}
    path = door.kubeconfig(tmp_path / "config", users.get(form, {"token": door.token}), **more)
    assert signed_in(path).get("/x")["kind"] == "Thing"


@pytest.mark.parametrize("form", ["token", "tokenFile", "exec"])
def test_a_token_that_was_replaced_is_read_anew_and_the_call_goes_through(door: Door, tmp_path: Path, form: str) -> None:
    def write(token: str) -> Path:
        (tmp_path / "token").write_text(token)
        users = {
            "token": {"token": token},
            "tokenFile": {"tokenFile": str(tmp_path / "token")},
            "exec": program(tmp_path, tmp_path / "token"),
        }
        return door.kubeconfig(tmp_path / "config", users[form])

    client = signed_in(write(door.token))
    client.get("/x")
    door.token = "second-t0ken"
    write(door.token)
    assert client.apply("/x", {"kind": "Thing"}).obj["kind"] == "Thing"
    assert door.seen == ["first-t0ken", "first-t0ken", "second-t0ken"]
    assert SecretStr("second-t0ken") in client.secrets


def test_a_sign_in_that_is_refused_for_good_says_so_once(door: Door, tmp_path: Path) -> None:
    client = signed_in(door.kubeconfig(tmp_path / "config", {"token": "wrong"}))
    for _ in range(2):
        with pytest.raises(RefusedError, match="does not accept Kubehenge's sign-in"):
            client.get("/x")
    assert door.seen == ["wrong", "wrong"]


def pod(door: Door, folder: Path) -> dict[str, str]:
    (folder / "token").write_text(f"{door.token}\n")
    (folder / "ca.crt").write_bytes(door.ca.cert_path.read_bytes())
    host, _, port = door.server.url.removeprefix("https://").rpartition(":")
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


def test_a_pod_signs_in_by_its_account_and_follows_its_token(door: Door, tmp_path: Path) -> None:
    environ = pod(door, tmp_path)
    assert signing_in.runs_in_cluster(environ, tmp_path)
    client = KubeClient.in_cluster(environ, folder=tmp_path, limits=LIMITS, politeness=unhurried())
    assert client.get("/x")["kind"] == "Thing"
    door.token = "second-t0ken"
    (tmp_path / "token").write_text(door.token)
    assert client.get("/x")["kind"] == "Thing"
    assert door.seen == ["first-t0ken", "first-t0ken", "second-t0ken"]


def test_what_is_no_pod_is_told_so(door: Door, tmp_path: Path) -> None:
    environ = pod(door, tmp_path)
    assert not signing_in.runs_in_cluster({}, tmp_path)
    with pytest.raises(SettingsError, match="KUBEHENGE_KUBECONFIG"):
        KubeClient.in_cluster({}, folder=tmp_path)
    (tmp_path / "token").unlink()
    assert not signing_in.runs_in_cluster(environ, tmp_path)
    with pytest.raises(SettingsError, match="Give the pod a ServiceAccount"):
        KubeClient.in_cluster(environ, folder=tmp_path)
    (tmp_path / "token").write_text("x")
    six = KubeClient.in_cluster({**environ, "KUBERNETES_SERVICE_HOST": "fd00::1"}, folder=tmp_path)
    assert six.url.startswith("https://[fd00::1]:")


@pytest.mark.parametrize(
    ("user", "cluster", "told"),
    [
        ({"token": "t"}, {"server": "http://127.0.0.1:8080"}, "sent in the clear"),
        ({"token": "t"}, {"insecure-skip-tls-verify": True}, "turns the check of the API server's certificate off"),
        ({}, {}, "signs in as nobody"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere/at-all"}}, {}, "no exec program that gave one"),
        ({"token": "t"}, {"certificate-authority": "/nowhere/ca.crt"}, "/nowhere/ca.crt"),
    ],
    ids=["http", "unchecked", "nobody", "exec fails", "no CA"],
)
def test_a_kubeconfig_that_is_not_safe_or_not_whole_is_refused(
    door: Door, tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], told: str
) -> None:
    path = door.kubeconfig(tmp_path / "config", user, **cluster)
    with pytest.raises(SettingsError) as refused:
        signed_in(path)
    assert told in str(refused.value)
    assert str(path) in str(refused.value)


def test_the_end_of_a_client_certificate_is_known(door: Door, tmp_path: Path) -> None:
    cert, key = pair(door.ca, tmp_path, days=7)
    by_certificate = signing_in.by_kubeconfig(
        door.kubeconfig(tmp_path / "config", {"client-certificate": str(cert), "client-key": str(key)})
    )()
    by_token = signing_in.by_kubeconfig(door.kubeconfig(tmp_path / "config", {"token": "t"}))()
    assert signing_in.certificate_ends(by_certificate) is not None
    assert signing_in.certificate_ends(by_token) is None
