"""etcd, kube-apiserver and kube-controller-manager of a plane, on loopback, with an administrator's token."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubehenge.errors import UsageError
from kubehenge.lab.pki import CertificateAuthority, Leaf
from kubehenge.lab.places import Lock, make_directory, write_json, write_private
from kubehenge.lab.plane.binds import free_ports
from kubehenge.lab.plane.client import Api, ask
from kubehenge.lab.plane.processes import Processes
from kubehenge.lab.plane.programs import ProgramSet

DESCRIPTION, LOCK = "plane.json", "plane.lock"
STOPPED_LAST = ("kube-apiserver", "etcd")
ADMIN = "plane-admin"
_READY_WITHIN_S = 120
# Those that Cluster API needs: without the collector, secrets and cloned templates stay behind.
_CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "clusterrole-aggregation-controller",
    "root-ca-certificate-publisher-controller",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneFiles:
    """Where things are in a plane's directory."""

    root: Path
    _locks: list[Lock] = field(default_factory=list)

    def clear(self) -> None:
        """Make the directory anew. Errors: UsageError when something else is in it, or a plane that runs."""
        folders = (self.logs, self.tls, self.etcd, self.kubeconfigs, self.homes)
        known = {DESCRIPTION, LOCK, *(folder.name for folder in folders)}
        others = sorted(entry.name for entry in self.root.iterdir() if entry.name not in known) if self.root.is_dir() else []
        if others:
            raise UsageError(f"{self.root} holds what is not a plane's ({', '.join(others[:3])}). Choose another directory.")
        make_directory(self.root)
        lock = Lock(self.root / LOCK)
        if not lock.take():
            lock.release()
            raise UsageError(f"A plane runs in {self.root} already. Choose another directory.")
        self._locks.append(lock)
        (self.root / DESCRIPTION).unlink(missing_ok=True)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            make_directory(folder)

    def release(self) -> None:
        """Let another plane have the directory, if it was ours."""
        while self._locks:
            (self.root / DESCRIPTION).unlink(missing_ok=True)
            self._locks.pop().release()

    @property
    def logs(self) -> Path:
        """What each process said."""
        return self.root / "logs"

    @property
    def tls(self) -> Path:
        """The certificate authority, and what it signed."""
        return self.root / "tls"

    @property
    def etcd(self) -> Path:
        """The data of etcd."""
        return self.root / "etcd"

    @property
    def kubeconfigs(self) -> Path:
        """A kubeconfig for each who signs in."""
        return self.root / "kubeconfigs"

    @property
    def homes(self) -> Path:
        """A home and a temporary folder for each process."""
        return self.root / "homes"


class ApiServer:
    """
    The Kubernetes part of a plane. `start()` returns once it is ready.

    Errors: PlaneError when it does not become ready.
    """

    api: Api

    def __init__(self, files: PlaneFiles, programs: ProgramSet, processes: Processes) -> None:
        self.files = files
        self._programs = programs
        self._processes = processes
        etcd, peers, server = free_ports(3)
        self._etcd, self._peers = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peers}"
        self._port = server
        self.url = f"https://127.0.0.1:{server}"
        self.authority = CertificateAuthority(files.tls)
        self.leaf: Leaf = self.authority.leaf("plane")
        self._token = secrets.token_urlsafe(24)

    @property
    def ca_bundle(self) -> str:
        """The authority's certificate as objects carry it."""
        return base64.b64encode(self.authority.pem.encode()).decode()

    @property
    def admin_kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.files.kubeconfigs / f"{ADMIN}.json"

    def launch(self) -> None:
        """Start etcd and the API server."""
        self._write_keys()
        self.api = Api(self.url, self.authority.cert_path, self._token)
        self.write_kubeconfig(ADMIN, self._token)
        # Nothing that a plane knows is worth a write to a disk that is waited for.
        self._run("etcd", [f"--data-dir={self.files.etcd}", "--unsafe-no-fsync", "--log-level=warn", *self._etcd_addresses()])
        self._run("kube-apiserver", self._api_server_flags())

    def wait(self) -> None:
        """Wait until the API server is ready, and start the controllers beside it."""
        self._processes.wait("The API server is ready", self.is_ready, within_s=_READY_WITHIN_S, who="kube-apiserver")
        flags = [f"--kubeconfig={self.admin_kubeconfig}", "--leader-elect=false", "--secure-port=0"]
        keys = [f"--service-account-private-key-file={self.files.tls}/accounts.key", f"--root-ca-file={self.authority.cert_path}"]
        self._run("kube-controller-manager", [*flags, *keys, f"--controllers={','.join(_CONTROLLERS)}"])

    def is_ready(self) -> bool:
        """Whether the API server says so."""
        return ask(f"{self.url}/readyz", self.authority.cert_path) == HTTPStatus.OK

    def write_kubeconfig(self, name: str, token: str) -> Path:
        """Write a kubeconfig for whoever holds a token."""
        ca = {"certificate-authority-data": self.ca_bundle}
        path = self.files.kubeconfigs / f"{name}.json"  # JSON is YAML
        write_json(
            path,
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "plane",
                "clusters": [{"name": "plane", "cluster": {"server": self.url, **ca}}],
                "users": [{"name": name, "user": {"token": token}}],
                "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": name}}],
            },
        )
        return path

    def environment(self, name: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return a process's environment: little more than a home and a temporary folder of its own."""
        home = self.files.homes / name
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(home), "TMPDIR": str(home / "tmp"), **(extra or {})}

    # ---- parts

    def _run(self, name: str, flags: list[str]) -> None:
        self._processes.start(name, self._programs.program(name), flags, environment=self.environment(name))

    def _etcd_addresses(self) -> list[str]:
        clients = [f"--listen-client-urls={self._etcd}", f"--advertise-client-urls={self._etcd}"]
        peers = [f"--listen-peer-urls={self._peers}", f"--initial-advertise-peer-urls={self._peers}"]
        return [*clients, *peers, f"--initial-cluster=default={self._peers}"]

    def _api_server_flags(self) -> list[str]:
        tls = self.files.tls
        return [
            f"--etcd-servers={self._etcd}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # a loopback address may be no endpoint
            f"--cert-dir={tls}",
            f"--tls-cert-file={self.leaf.cert}",
            f"--tls-private-key-file={self.leaf.key}",
            f"--token-auth-file={tls}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--service-account-issuer={self.url}",
            f"--service-account-signing-key-file={tls}/accounts.key",
            f"--service-account-key-file={tls}/accounts.key",
        ]

    def _write_keys(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        traditional = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        write_private(self.files.tls / "accounts.key", traditional.decode())
        write_private(self.files.tls / "tokens.csv", f"{self._token},{ADMIN},{ADMIN},system:masters\n")


def read_token(kubeconfig: Path) -> str:
    """Return the token of a kubeconfig that was written here."""
    return str(json.loads(kubeconfig.read_text(encoding="utf-8"))["users"][0]["user"]["token"])
