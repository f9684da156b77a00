"""A whole site on the real programs: a plane and a simulated Proxmox VE of its own, Kubehenge as a process, a repository to push to."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubehenge.drivers.kube.probing import account_rules
from kubehenge.lab.plane.client import Api, ApiError, collection
from kubehenge.lab.plane.programs import ProgramSet
from kubehenge.lab.processes import clean_environment
from kubehenge.lab.proxmox.seed import KUBEADM_VERSIONS, seed
from tests.acceptance.running import KUBEHENGE, POLLS, Clone, Process
from tests.fakes.plane import RunningPlane, shared_plane
from tests.lab.proxmox.running import RunningProxmox, running
from tests.lab.site.conftest import git
from tests.plane.objects import CORE, INFRASTRUCTURE, Body

VERSIONS = {name: tuple(f"{version}{suffix}" for version in KUBEADM_VERSIONS) for name, suffix in (("kubeadm", ""), ("k3s", "+k3s1"))}
NAMESPACE = "clusters"
ACCOUNT = ("kubehenge-system", "kubehenge")


@dataclass
class Whole:
    plane: RunningPlane
    proxmox: RunningProxmox
    folder: Path
    environment: Mapping[str, str]
    clone: Clone
    process: Process | None = None

    @property
    def api(self) -> Api:
        return self.plane.api

    def start(self) -> None:
        """Start the loops, one process."""
        self.process = Process(["serve", "--no-page"], self.environment, self.folder / "kubehenge.log")

    def stop(self) -> None:
        if self.process is not None:
            assert self.process.stop() == 0
            self.process = None

    def ask(self, *arguments: str) -> Any:
        """What a command prints as JSON."""
        ended = subprocess.run(
            [*KUBEHENGE, *arguments, "-o", "json"], env=dict(self.environment), capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return json.loads(ended.stdout)

    def do(self, *arguments: str) -> str:
        ended = subprocess.run([*KUBEHENGE, *arguments], env=dict(self.environment), capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def file(self, name: str, distribution: str, **options: Any) -> str:
        """A cluster file. Guests can be played at 127.0.0.1 alone, and all clusters have the same port: there can be one at a time."""
        values = {
            "controlPlaneEndpoint": "127.0.0.1",
            "network": {
                "bridge": "vmbr0",
                "addresses": ["127.0.0.11-127.0.0.60"],
                "prefix": 24,
                "gateway": "127.0.0.254",
                "dnsServers": ["127.0.0.254"],
            },
            "storage": "shared-storage",
            **({"cni": "cilium"} if distribution == "kubeadm" else {}),
            **options.pop("variables", {}),
        }
        pool = {"class": "worker", "name": "md-0", "replicas": options.get("workers", 1)}
        return json.dumps(
            {
                "apiVersion": CORE,
                "kind": "Cluster",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {
                    "topology": {
                        "classRef": {"name": f"kubehenge-{distribution}", "namespace": "kubehenge-system"},
                        "version": options.get("version", VERSIONS[distribution][0]),
                        "controlPlane": {"replicas": options.get("control_planes", 1)},
                        "workers": {"machineDeployments": [pool]},
                        "variables": [{"name": key, "value": value} for key, value in values.items()],
                    }
                },
            },
            indent=2,
        )

    # -- looking

    def until(self, look: Any, what: str, *, within_s: float = 240) -> Any:
        def told() -> str:
            log = (self.folder / "kubehenge.log").read_text(encoding="utf-8", errors="replace")[-3000:]
            return f"{what}\n{self.ask('plans')}\n{log}"

        return self.plane.until(look, within_s=within_s, what=told)

    def find(self, api_version: str, kind: str, name: str) -> Body | None:
        try:
            return self.api.get(f"{collection(api_version, kind, NAMESPACE)}/{name}")
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def machines(self, cluster: str, *, control_plane: bool | None = None) -> dict[str, Body]:
        """A cluster's machines by name, all or those of one part."""
        label = "cluster.x-k8s.io/control-plane"
        found = self.api.get(collection(CORE, "Machine", NAMESPACE), labelSelector=f"cluster.x-k8s.io/cluster-name={cluster}")["items"]
        wanted = [one for one in found if control_plane is None or (label in one["metadata"]["labels"]) is control_plane]
        return {one["metadata"]["name"]: one for one in wanted}

    def versions(self, cluster: str) -> set[str]:
        """The Kubernetes versions that a cluster's machines are made for."""
        return {one["spec"]["version"] for one in self.machines(cluster).values()}

    def vms(self, cluster: str) -> list[Any]:
        """A cluster's VMs in Proxmox VE."""
        found = self.api.get(
            collection(INFRASTRUCTURE, "ProxmoxMachine", NAMESPACE), labelSelector=f"cluster.x-k8s.io/cluster-name={cluster}"
        )
        names = {one["metadata"]["name"] for one in found["items"]}
        return self.proxmox.within(lambda: [vm for vm in self.proxmox.server.vms if vm.name in names])

    def is_available(self, cluster: str, *, machines: int) -> bool:
        body = self.find(CORE, "Cluster", cluster)
        conditions = {one["type"]: one["status"] for one in (body or {}).get("status", {}).get("conditions", [])}
        running_now = [one for one in self.machines(cluster).values() if one.get("status", {}).get("phase") == "Running"]
        quiet = all(conditions.get(kind) == "False" for kind in ("RollingOut", "ScalingUp", "ScalingDown"))
        return conditions.get("Available") == "True" and quiet and len(running_now) == machines == len(self.machines(cluster))

    def waiting_plan(self, cluster: str) -> Body | None:
        found = [one for one in self.ask("plans") if one["scope"] == f"{NAMESPACE}/{cluster}" and one["word"] == "Waiting for approval"]
        return found[0] if found else None

    def plans_end(self, cluster: str) -> bool:
        """Whether the newest plan of a cluster has ended well, and none is open."""
        return next(one["word"] for one in self.ask("plans", "--all") if one["scope"] == f"{NAMESPACE}/{cluster}") == "Done"


@contextmanager
def whole_site(folder: Path, programs: ProgramSet, *, speed: float) -> Iterator[Whole]:
    """Everything of a site; Kubehenge itself is set up and not started."""
    for name in ("plane", "tls", "proxmox", "state", "secrets"):
        (folder / name).mkdir(mode=0o700)
    with shared_plane(folder / "plane", programs) as plane, running(folder / "tls", speed=speed) as proxmox:
        given = proxmox.within(lambda: seed(proxmox.sim, folder / "proxmox"))
        bare = folder / "clusters.git"
        git(folder, "init", "-q", "--bare", "-b", "main", str(bare))
        settings = {
            "STATE_DIR": folder / "state",
            "PROXMOX_ENDPOINTS": ",".join(given.urls.values()),
            "PROXMOX_CA_FILE": given.ca_file,
            "PROXMOX_TOKEN_ID": given.engine.id,
            "PROXMOX_TOKEN_SECRET_FILE": _secret(folder, "engine", given.engine.value.get_secret_value()),
            "CAPMOX_TOKEN_ID": given.capmox.id,
            "CAPMOX_TOKEN_SECRET_FILE": _secret(folder, "capmox", given.capmox.value.get_secret_value()),
            "KUBECONFIG": _secret(folder, "kubeconfig", json.dumps(_kubeconfig(plane))),
        }
        environment = {**clean_environment(), **{f"KUBEHENGE_{name}": str(value) for name, value in settings.items()}, **POLLS}
        site = Whole(plane=plane, proxmox=proxmox, folder=folder, environment=environment, clone=Clone(bare, folder / "clone"))
        site.clone.push({"README.md": "Clusters.\n"})
        site.do("db", "upgrade")
        site.do("source", "add", "fleet", str(bare), "--unchecked")
        try:
            yield site
        finally:
            if site.process is not None and site.process.ended() is None:
                site.process.kill()


def _secret(folder: Path, name: str, value: str) -> Path:
    path = folder / "secrets" / name
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(value)
    return path


def _kubeconfig(plane: RunningPlane) -> Body:
    """A kubeconfig of Kubehenge's own account, which has the rights that `doctor` asks for and no other."""
    namespace, name = ACCOUNT
    rbac = "rbac.authorization.k8s.io/v1"
    role = {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": name}, "rules": account_rules()}
    binding = {
        "apiVersion": rbac,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
    for body in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, account, role, binding):
        plane.api.apply(body)
    token = plane.api.token(namespace, name, seconds=36_000)
    cluster = {"server": plane.about["url"], "certificate-authority": plane.about["ca_file"]}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "site",
        "clusters": [{"name": "site", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": "site", "context": {"cluster": "site", "user": name}}],
    }
