"""A management cluster under the contract, whichever it is: its API server over raw HTTP, and the Proxmox VE below it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubehenge.lab.plane.programs import ProgramSet
from kubehenge.lab.plane.server import read_token
from kubehenge.lab.proxmox.seed import LabProxmox, seed
from tests.fakes.plane import shared_plane
from tests.lab.kube.running import Server
from tests.lab.kube.running import running as running_kube
from tests.lab.proxmox.running import running as running_proxmox

PLANE, SIMULATED = "plane", "simulated"
# Simulated seconds a second: fast enough for the tests, slow enough that what comes one after the other is seen so.
PROXMOX_SPEED, KUBE_SPEED = 600.0, 60.0


@dataclass(frozen=True, kw_only=True)
class ManagementCluster:
    """One side of the contract; `vms` are the VMs of its Proxmox VE, templates too."""

    side: str
    server: Server
    lab: LabProxmox
    vms: Callable[[], list[Any]]


@contextlib.contextmanager
def simulated(folder: Path) -> Iterator[ManagementCluster]:
    """The lab's own."""
    with running_kube(folder, proxmox=True, speed=KUBE_SPEED) as kube:
        assert kube.lab is not None
        proxmox = kube.proxmox

        def vms() -> list[Any]:
            return kube.loop.within(lambda: list(proxmox.server.vms))

        yield ManagementCluster(side=SIMULATED, server=kube.server, lab=kube.lab, vms=vms)


@contextlib.contextmanager
def real(shared: Path, folder: Path, programs: ProgramSet) -> Iterator[ManagementCluster]:
    """The plane of this run."""
    with shared_plane(shared, programs) as plane, running_proxmox(folder / "tls", speed=PROXMOX_SPEED) as proxmox:
        kubeconfig = Path(plane.about["kubeconfig"])
        own = Path(tempfile.mkdtemp(dir=folder)) / "kubeconfig"  # what clients keep beside it stays ours
        own.write_text(kubeconfig.read_text(encoding="utf-8"), encoding="utf-8")
        server = Server(url=plane.about["url"], token=read_token(kubeconfig), ca_file=Path(plane.about["ca_file"]), kubeconfig=own)

        def vms() -> list[Any]:
            return proxmox.within(lambda: list(proxmox.server.vms))

        try:
            yield ManagementCluster(side=PLANE, server=server, lab=proxmox.within(lambda: seed(proxmox.sim, folder)), vms=vms)
        finally:
            server.close()
