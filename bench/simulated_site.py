"""
The lab's simulated Proxmox VE and management cluster in a process of their own, for measurements: filled through their own state.

Run as a program it is that process: it takes one JSON object a line (`fill`, `calls`) and answers each with one. `SimulatedSite` starts
and speaks to it. What is filled in is what carrying out the clusters' first plans and building their machines leaves; the model of
Cluster API is not run, so nothing moves by itself.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import structlog
from fleet import CONTROL_PLANES, MACHINES

from kubehenge.lab.calls import CallLog
from kubehenge.lab.faults import Faults
from kubehenge.lab.kube import auth, kinds
from kubehenge.lab.kube.sim import KubeSim
from kubehenge.lab.pki import CertificateAuthority
from kubehenge.lab.places import write_private
from kubehenge.lab.proxmox.nodes import GIB, NodeSize
from kubehenge.lab.proxmox.rights import AclRow, SubjectKind, Token, User
from kubehenge.lab.proxmox.seed import seed
from kubehenge.lab.proxmox.sim import ProxmoxSim

NODES = tuple(f"pve{number:02d}" for number in range(1, 17))
SIZE = NodeSize(cores=512, memory=4096 * GIB, disk=1024 * GIB)
"""Sixteen nodes are many for one Proxmox VE cluster; these are large enough for 10,000 clusters of six machines of 4 GiB."""

_KINDS = {
    "kube.secret": kinds.SECRET,
    "kube.resource_set": kinds.CLUSTER_RESOURCE_SET,
    "kube.cluster": kinds.CLUSTER,
}


class SimulatedSite:
    """The process, from the outside; `settings` are the variables of a Kubehenge that works with it."""

    def __init__(self, folder: Path, *, nodes: int = len(NODES)) -> None:
        folder.mkdir(parents=True)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(folder), str(nodes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.settings: dict[str, str] = self._answer()

    def fill(self, made: Path) -> None:
        """Put what a JSON file says that was made into the world; a `version` of its Clusters rises with each filling."""
        self._ask({"do": "fill", "path": str(made)})

    def calls(self) -> Counter[str]:
        """Requests answered so far, by system, method and path."""
        return Counter(self._ask({"do": "calls"}))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _ask(self, question: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the simulated site has ended")
        return json.loads(line)


class _Served:
    """Both simulators, and what fills them."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.calls = CallLog(keep=1)
        self.counts: Counter[str] = Counter()
        self._folder = folder
        ca = CertificateAuthority(folder / "tls")
        faults = Faults()
        self.proxmox = ProxmoxSim(ca=ca, nodes=NODES[:nodes], size=SIZE, speed=0, faults=faults, calls=self.calls)
        (folder / "kube").mkdir()
        self.kube = KubeSim(folder / "kube", ca, faults, self.calls, speed=0, model=False)
        record = self.calls.record

        def counted(*, target: Any, method: str, path: str, **more: Any) -> Any:
            self.counts[f"{target.value} {method} {path.partition('?')[0]}"] += 1
            return record(target=target, method=method, path=path, **more)

        self.calls.record = counted  # type: ignore[method-assign]  # by path, of which the log keeps no number

    async def start(self) -> dict[str, str]:
        await self.proxmox.start()
        credentials = seed(self.proxmox, self._folder)
        await self.kube.start()
        secrets = {
            "engine-token": credentials.engine.value.get_secret_value(),
            "capmox-token": credentials.capmox.value.get_secret_value(),
            "kubeconfig": self.kube.kubeconfig(auth.KUBEHENGE),
        }
        for name, content in secrets.items():
            write_private(self._folder / name, f"{content}\n")
        given = {
            "PROXMOX_ENDPOINTS": ",".join(self.proxmox.urls.values()),
            "PROXMOX_CA_FILE": self.proxmox.ca.cert_path,
            "PROXMOX_TOKEN_ID": credentials.engine.id,
            "PROXMOX_TOKEN_SECRET_FILE": self._folder / "engine-token",
            "CAPMOX_TOKEN_ID": credentials.capmox.id,
            "CAPMOX_TOKEN_SECRET_FILE": self._folder / "capmox-token",
            "KUBECONFIG": self._folder / "kubeconfig",
            # Passes follow one another here without the half minute that lies between them otherwise.
            "PROXMOX_REQUESTS_PER_S": 1000,
            "KUBE_REQUESTS_PER_S": 1000,
        }
        return {f"KUBEHENGE_{name}": str(value) for name, value in given.items()}

    def fill(self, clusters: Iterable[Mapping[str, Any]]) -> None:
        for number, cluster in enumerate(clusters):
            for kind, body in cluster["resources"]:
                self._put(kind, body, number)
            self._machines(cluster["name"], cluster["pool"], cluster["first_vmid"], number)
        self.proxmox.server.rights.changed()

    def _put(self, kind: str, body: dict[str, Any], number: int) -> None:
        server, rights = self.proxmox.server, self.proxmox.server.rights
        match kind:
            case "proxmox.pool":
                server.pools[body["poolid"]] = set()
                server.pool_info[body["poolid"]] = {"comment": body["comment"], "storage": set()}
            case "proxmox.user":
                rights.users[body["userid"]] = User(profile={"comment": body["comment"]})
                for group in body["groups"]:
                    rights.groups[group].members.add(body["userid"])
            case "proxmox.token":
                token = Token(value=str(uuid.uuid4()), privsep=False, comment=body["comment"])
                rights.users[body["userid"]].tokens[body["tokenid"]] = token
            case "proxmox.acl":
                row = AclRow(path=body["path"], kind=SubjectKind.USER, subject=body["ugid"], role=body["roleid"], propagate=True)
                rights._acl.setdefault(row.path, {}).setdefault((row.kind, row.subject), {})[row.role] = row.propagate  # noqa: SLF001
            case "proxmox.volume_owner":
                config = {"memory": 16, "cores": 1, "tags": ";".join(body["tags"])}
                self._guest(body["first_vmid"] + number, body["name"], body["pool"], number, config, running=False)
            case _:
                self._object(_KINDS[kind], body)

    def _machines(self, name: str, pool: str, first_vmid: int, number: int) -> None:
        for place in range(MACHINES):
            control_plane = place < CONTROL_PLANES
            machine = f"{name}-{'control-plane' if control_plane else 'md-0'}-{place}"
            config = {"memory": 4096, "cores": 2, "tags": "kubehenge"}
            self._guest(first_vmid + place, machine, pool, number + place, config, running=True)
            labels = {"cluster.x-k8s.io/cluster-name": name}
            labels |= {"cluster.x-k8s.io/control-plane": ""} if control_plane else {"topology.cluster.x-k8s.io/deployment-name": "md-0"}
            meta = {"name": machine, "namespace": "clusters", "labels": labels}
            spec = {"clusterName": name, "version": "v1.36.5+rke2r1", "infrastructureRef": {"kind": "ProxmoxMachine", "name": machine}}
            address = {"type": "InternalIP", "address": f"10.{number // 256}.{number % 256}.{11 + place}"}
            status = {
                "phase": "Running",
                "nodeRef": {"name": machine},
                "addresses": [address],
                "conditions": [_true(kind) for kind in ("Available", "Ready", "UpToDate", "BootstrapConfigReady", "InfrastructureReady")],
            }
            self._object(kinds.MACHINE, {"metadata": meta, "spec": spec, "status": status})
            self._object(kinds.PROXMOX_MACHINE, {"metadata": meta, "spec": {"virtualMachineID": first_vmid + place, "pool": pool}})

    def _guest(self, vmid: int, name: str, pool: str, number: int, config: dict[str, Any], *, running: bool) -> None:
        server = self.proxmox.server
        nodes = tuple(server.nodes)
        status = "running" if running else "stopped"
        guest = server.add_guest(vmid, nodes[number % len(nodes)], name, status=status, config=config)
        server.pools[pool].add(vmid)
        server.pool_by_vm[vmid] = pool
        guest.pool = pool

    def _object(self, kind: kinds.Kind, body: dict[str, Any]) -> None:
        created = {"uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
        body = {**body, "metadata": {**body["metadata"], **created}}
        if kind is kinds.CLUSTER:
            conditions = [_true(one) for one in ("Available", "InfrastructureReady", "ControlPlaneAvailable", "WorkersAvailable")]
            counts = {"desiredReplicas": 3, "replicas": 3, "readyReplicas": 3, "upToDateReplicas": 3}
            body["status"] = {"phase": "Provisioned", "conditions": conditions, "controlPlane": counts, "workers": counts}
        if kind is kinds.SECRET:
            body["data"] = {}
        self.kube.registry.store.put(kind, body)

    async def stop(self) -> None:
        await self.kube.stop()
        await self.proxmox.stop()


def _true(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": "2026-01-01T00:10:00Z"}


async def _serve(folder: Path, nodes: int) -> None:
    served = _Served(folder, nodes)
    _say(await served.start())
    while line := await asyncio.to_thread(sys.stdin.readline):
        question = json.loads(line)
        if question["do"] == "fill":
            served.fill(await asyncio.to_thread(_read, Path(question["path"])))
            _say({})
        else:
            _say(dict(served.counts))
    await served.stop()


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _say(answer: Any) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
