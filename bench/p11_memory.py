"""
Memory of the appliance with ten clusters: PSS of all processes of `kubehenge serve`, page and loops, below 200 MiB.

Start: the process is started on a settled site. End: after a minute of its usual work, with the page's process as it ships; the
simulated site is not counted, nor is git while it runs for a moment. The highest of several looks counts.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from arguments import parsed, settled_site

CLUSTERS = 10
LIMIT_MIB = 200
LASTS_S = 60.0


def main() -> None:
    given = parsed(__doc__)
    for clusters in (CLUSTERS, *((given.clusters,) if given.large else ())):
        with tempfile.TemporaryDirectory() as folder, settled_site(Path(folder) / "fleet", clusters) as fleet:
            fleet.close()
            environment = {"PATH": os.environ["PATH"], "HOME": folder, **fleet.environment, "KUBEHENGE_LISTEN_PORT": "0"}
            found, processes = _served(environment)
        print(
            f"Memory with {clusters:,} clusters: PSS {found / 1024:.0f} MiB in {processes} processes, target below {LIMIT_MIB} MiB with ten"
        )


def _served(environment: dict[str, str]) -> tuple[float, int]:
    command = [str(Path(sys.executable).with_name("kubehenge")), "serve"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        highest, processes = 0.0, 0
        until = time.monotonic() + LASTS_S
        try:
            while time.monotonic() < until:
                time.sleep(2)
                if process.poll() is not None:
                    raise RuntimeError((process.stderr.read() if process.stderr else b"").decode())
                looked = [_pss_kib(pid) for pid in _family(process.pid)]
                if sum(looked) > highest:
                    highest, processes = sum(looked), len(looked)
        finally:
            process.send_signal(signal.SIGTERM)
    return highest, processes


def _family(pid: int) -> list[int]:
    """A process and its descendants that run Kubehenge."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children if _is_ours(int(child)) for one in _family(int(child)))]


def _is_ours(pid: int) -> bool:
    try:
        return b"kubehenge" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _pss_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


if __name__ == "__main__":
    sys.exit(main())
