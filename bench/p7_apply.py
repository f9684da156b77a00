"""
P7: of 1,000 objects ten have changed; everything is read, the ten are read again and applied, against kubectl applying all of them.

Both act on the same real kube-apiserver, alternately, each round on another ten. Ours: one bulk reading of the driver, the comparison,
and for each changed object the reading before its write and the apply. kubectl: `kubectl apply --server-side` of all files. Its limit of
requests per second cannot be switched off; it may send 300 at once, so it is called for 250 objects at a time and never waits for it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubehenge.drivers.base import ActionContext, Vault
from kubehenge.drivers.kube.driver import KubeDriver
from kubehenge.drivers.politeness import Limits, Politeness
from kubehenge.errors import KubehengeError
from kubehenge.lab.plane.processes import Processes
from kubehenge.lab.plane.programs import ProgramSet
from kubehenge.lab.plane.server import STOPPED_LAST, ApiServer, PlaneFiles
from kubehenge.model.canon import project
from kubehenge.model.resource import ResourceRef

OBJECTS, CHANGED, AT_ONCE = 1_000, 10, 250
TARGET = 0.5
KIND = "kube.namespace"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_known_args()[0].runs  # the other options are for other measurements
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        print("kubectl is not installed.", file=sys.stderr)
        return 1
    try:
        programs = ProgramSet.latest()
    except KubehengeError as error:
        print(error, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = PlaneFiles(root=folder / "server")
        files.clear()
        processes = Processes(files.logs)
        server = ApiServer(files, programs, processes)
        try:
            server.launch()
            processes.wait("The API server is ready", server.is_ready, within_s=120, who="kube-apiserver")
            ours, theirs = measure(server.admin_kubeconfig, kubectl, folder, runs)
        finally:
            processes.stop_all(last=STOPPED_LAST)
            files.release()
    ratio = min(ours) / min(theirs)
    print(
        f"P7, {CHANGED} changed of {OBJECTS:,}: {ratio:.3f} ({min(ours):.2f} s / {min(theirs):.2f} s), target {TARGET}, minimum of {runs}"
    )
    return 0


def measure(kubeconfig: Path, kubectl: str, folder: Path, runs: int) -> tuple[list[float], list[float]]:
    driver = KubeDriver.from_kubeconfig(
        kubeconfig,
        site_key=b"bench",
        proxmox_url="https://pve:8006",
        politeness=Politeness("the API server", Limits(requests_per_s=10_000, burst=10_000)),
    )
    wanted = [namespace(number, "0") for number in range(OBJECTS)]
    by_kubectl(kubectl, kubeconfig, folder, wanted)
    by_driver(driver, wanted)
    ours, theirs = [], []
    for run in range(runs):
        for number in range(run * CHANGED, (run + 1) * CHANGED):
            wanted[number] = namespace(number, "ours")
        began = time.perf_counter()
        assert by_driver(driver, wanted) == CHANGED
        ours.append(time.perf_counter() - began)
        for number in range(run * CHANGED, (run + 1) * CHANGED):
            wanted[number] = namespace(number, "0")
        theirs.append(by_kubectl(kubectl, kubeconfig, folder, wanted))
    driver.stop()
    return ours, theirs


def namespace(number: int, value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"bench-{number}", "labels": {"bench": value}}}


def by_driver(driver: KubeDriver, wanted: Sequence[dict[str, Any]]) -> int:
    """Bring all objects to what is wanted; returns how many had to be written."""
    found = {one.ref.name: one.body for one in driver.read_bulk().items[KIND]}
    context = ActionContext(mark="", vault=Vault())
    written = 0
    for body in wanted:
        ref = ResourceRef(kind=KIND, name=body["metadata"]["name"])
        if project(found.get(ref.name, {}), body, body) != body:
            driver.read(ref, body)
            driver.update(ref, body, context)
            written += 1
    return written


def by_kubectl(kubectl: str, kubeconfig: Path, folder: Path, wanted: Sequence[dict[str, Any]]) -> float:
    """Apply all objects as our own field manager; returns the seconds that it took."""
    parts = []
    for first in range(0, len(wanted), AT_ONCE):
        path = folder / f"{first}.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted[first : first + AT_ONCE]}), encoding="utf-8")
        parts.append(path)
    options = [f"--kubeconfig={kubeconfig}", "--server-side", "--field-manager=kubehenge", "--force-conflicts", "--validate=false"]
    began = time.perf_counter()
    for path in parts:
        subprocess.run([kubectl, "apply", *options, "-f", str(path)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
