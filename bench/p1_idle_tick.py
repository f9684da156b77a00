"""
P1: a tick with nothing to do of 1,000 clusters and 6,000 VMs, against a nothing-to-do plan of 3,000 resources.

Start: the tick loop's pass is due, with world and sources. End: the pass is over, its coverage committed (SQLite, FULL). No watch has
brought anything since the last. Ours is the process that serves, with its watches of the management cluster open; the simulated site
is another process, whose CPU is not counted and whose answers the pass does wait for. The slowest read is the slowest of the pass's own
requests or git calls, from its sending to its answer as Python values.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appliance import Appliance
from arguments import parsed, settled_site
from peers import NAMED, Tofu, find_tofu
from side_by_side import compare, measure, shown

from kubehenge.drivers.proxmox.client import ProxmoxClient
from kubehenge.engine.sources import Sources

RESOURCES = 3_000


def main() -> None:
    given = parsed(__doc__)
    with tempfile.TemporaryDirectory() as folder, settled_site(Path(folder) / "fleet", given.clusters) as fleet:
        tofu = find_tofu()
        if tofu is None:
            measure("P1 idle tick", fleet.tick.run_pass, given.runs)
            print(NAMED)
        else:
            peer = Tofu(tofu, Path(folder) / "tofu", RESOURCES)
            compare(f"P1 idle tick, against {peer.name} plan of {RESOURCES:,}", fleet.tick.run_pass, peer.plan, given.runs, target=1 / 15)
        wall_against_reads(fleet, max(given.runs, 9))
        if given.large:
            small = measure(f"P1 idle tick, {given.clusters:,} clusters", fleet.tick.run_pass, given.runs)
            with settled_site(Path(folder) / "large", 10 * given.clusters) as large:
                much = measure(f"P1 idle tick, {10 * given.clusters:,} clusters", large.tick.run_pass, given.runs)
            print(f"P1 ratio of 10,000 clusters to 1,000: CPU {much.cpu_s / small.cpu_s:.1f}, target 12")


def wall_against_reads(fleet: Appliance, runs: int) -> None:
    """Print the pass's wall time over the slowest of its reads, of the run in which that is least."""
    took: list[float] = []
    for reader, name in ((ProxmoxClient, "get"), (Sources, "poll")):
        setattr(reader, name, _timed(getattr(reader, name), took))
    found = []
    for _ in range(runs):
        took.clear()
        begun = time.perf_counter()
        fleet.tick.run_pass()
        found.append((time.perf_counter() - begun, max(took)))
    wall, slowest = min(found, key=lambda one: one[0] / one[1])
    print(f"P1 wall over its slowest read: {wall / slowest:.2f} ({shown(wall)} / {shown(slowest)}), target 1.30, minimum of {runs}")


def _timed(call: Callable[..., Any], took: list[float]) -> Callable[..., Any]:
    def timed(*arguments: Any, **more: Any) -> Any:
        begun = time.perf_counter()
        try:
            return call(*arguments, **more)
        finally:
            took.append(time.perf_counter() - begun)

    return timed


if __name__ == "__main__":
    sys.exit(main())
