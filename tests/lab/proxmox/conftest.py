"""Simulated clusters for the tests: one that answers at once, one in which time passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubehenge.lab.proxmox.seed import LabProxmox, seed
from tests.lab.proxmox.running import RunningProxmox, running


class SeededProxmox:
    """A running cluster with the lab's world in it, and the headers of its tokens."""

    def __init__(self, proxmox: RunningProxmox, lab: LabProxmox) -> None:
        self.proxmox = proxmox
        self.lab = lab
        self.engine = f"PVEAPIToken={lab.engine.id}={lab.engine.value.get_secret_value()}"
        self.capmox = f"PVEAPIToken={lab.capmox.id}={lab.capmox.value.get_secret_value()}"
        self.call = proxmox.call
        self.sim = proxmox.sim
        self.server = proxmox.server

    def cluster(self, name: str = "clusters.prod") -> str:
        """Make what a cluster has before its machines, as Kubehenge does; returns the header of its token."""
        user = f"kh-{name}@pve"
        self.must("POST", "/pools", self.engine, poolid=f"kubehenge/{name}")
        self.must("POST", "/access/users", self.engine, userid=user, groups="kubehenge-clusters")
        token = self.must("POST", f"/access/users/{user}/token/k1", self.engine, privsep=0)
        self.must("PUT", "/access/acl", self.engine, path=f"/pool/kubehenge/{name}", users=user, roles="KubehengeCluster")
        return f"PVEAPIToken={token['full-tokenid']}={token['value']}"

    def must(self, method: str, path: str, auth: object = "root", /, **params: object) -> object:
        """The data of a call that has to be answered well."""
        answer = self.call(method, path, auth, **params)
        assert answer.status == 200, (method, path, answer)
        return answer.data

    def clone(self, newid: int, pool: str = "kubehenge/clusters.prod", **params: object) -> str:
        """Begin to clone a machine as capmox does; returns the task."""
        more = {"full": 1, "name": f"m-{newid}", "storage": "shared-storage", "target": "pve2", **params}
        return str(self.must("POST", "/nodes/pve1/qemu/9001/clone", self.capmox, newid=newid, pool=pool, **more))


def _seeded(proxmox: RunningProxmox, directory) -> SeededProxmox:
    return SeededProxmox(proxmox, proxmox.within(lambda: seed(proxmox.sim, directory)))


@pytest.fixture
def pve(tmp_path) -> Iterator[SeededProxmox]:
    """The lab's cluster, where nothing takes any time."""
    with running(tmp_path, directory=tmp_path, speed=0) as proxmox:
        yield _seeded(proxmox, tmp_path)


@pytest.fixture
def timed(tmp_path) -> Iterator[SeededProxmox]:
    """The lab's cluster, a simulated minute in a second."""
    with running(tmp_path, directory=tmp_path, speed=60) as proxmox:
        yield _seeded(proxmox, tmp_path)
