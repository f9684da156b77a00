"""
The plane's start, from cached programs to webhooks that are heeded, against kube-apiserver and etcd alone until /readyz.

Both sides use the same programs, flags and empty data, and are started alternately; stopping is not timed. Resident memory is read once
everything is ready.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from kubehenge.errors import KubehengeError
from kubehenge.lab.plane.plane import Plane
from kubehenge.lab.plane.processes import Processes
from kubehenge.lab.plane.programs import ProgramSet
from kubehenge.lab.plane.server import STOPPED_LAST, ApiServer, PlaneFiles

TARGET = 6.0
_MIB_PAGES = 256


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_known_args()[0].runs  # the other options are for other measurements
    try:
        programs = ProgramSet.latest()
    except KubehengeError as error:
        print(error, file=sys.stderr)
        return 1
    alone, whole, steps, memory = [], [], {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(runs):
            alone.append(start_server(Path(folder) / f"server{number}", programs))
            seconds, steps, memory = start_plane(Path(folder) / f"plane{number}", programs)
            whole.append(seconds)
    name = "The plane ready, against kube-apiserver alone"
    print(f"{name}: {min(whole) / min(alone):.2f} ({min(whole):.2f} s / {min(alone):.2f} s), target {TARGET:.0f}, minimum of {runs}")
    print("Last start, seconds from its beginning: " + ", ".join(f"{what} {at:.1f}" for what, at in steps.items()))
    print(f"Memory, MiB: {', '.join(f'{who} {size}' for who, size in memory.items())}; together {sum(memory.values())}")
    return 0


def start_server(folder: Path, programs: ProgramSet) -> float:
    files = PlaneFiles(root=folder)
    files.clear()
    processes = Processes(files.logs)
    began = time.perf_counter()
    server = ApiServer(files, programs, processes)
    try:
        server.launch()
        processes.wait("The API server is ready", server.is_ready, within_s=120, who="kube-apiserver")
        return time.perf_counter() - began
    finally:
        processes.stop_all(last=STOPPED_LAST)
        files.release()


def start_plane(folder: Path, programs: ProgramSet) -> tuple[float, dict[str, float], dict[str, int]]:
    plane = Plane(folder, programs)
    began = time.perf_counter()
    plane.start()
    try:
        seconds = time.perf_counter() - began
        pages = {name: int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) for name, pid in plane.processes.pids.items()}
        return seconds, plane.timings, {name: number // _MIB_PAGES for name, number in pages.items()}
    finally:
        plane.stop()


if __name__ == "__main__":
    sys.exit(main())
