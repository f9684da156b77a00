"""
P4: judging and planning 1,000 clusters for the first time, against `kubectl kustomize` over the same files. P5: 3,000 against 300.

Start: the commit's objects are in the mirror (P10 measures how they come there), the site is known, nothing is judged. End: every
cluster's plan is committed with its actions (SQLite, FULL), and those that rules approve are approved. kustomize reads the same files
from disk and writes what it builds to nowhere; it judges, plans and records nothing.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from appliance import Appliance
from arguments import empty_site, parsed
from fleet import files
from peers import Kustomize
from side_by_side import compare, measure

from kubehenge.source.git import GitMirror, SourceSpec, parse_source_url

READY = "ready"


class FirstPlan:
    """A site of which the files are fetched; each round begins with the state directory as it was then."""

    def __init__(self, fleet: Appliance, clusters: int) -> None:
        self._fleet, self._clusters = fleet, clusters
        fleet.open()
        fleet.tick.run_pass()
        pushed = fleet.repository.push(files(clusters))
        row = fleet.source()
        GitMirror(fleet.state, SourceSpec(id=row.name, url=parse_source_url(row.url))).fetch(pushed)
        fleet.keep(READY)

    def begin(self) -> None:
        """Put the state directory back and start on it; the pass that knows the site is over."""
        self._fleet.restore(READY)
        self._fleet.open()

    def plan(self) -> None:
        """The pass that the first push wakes."""
        self._fleet.tick.run_pass(families=())

    def check(self) -> None:
        opened = self._fleet.open_plans()
        if opened != self._clusters:
            raise RuntimeError(f"{opened} plans are open, not {self._clusters}")


def main() -> None:
    given = parsed(__doc__)
    with tempfile.TemporaryDirectory() as folder, empty_site(Path(folder) / "fleet") as fleet:
        first = FirstPlan(fleet, given.clusters)
        name = f"P4 judging and planning {given.clusters:,} clusters"
        if shutil.which("kubectl") is None:
            measure(name, first.plan, given.runs, before=first.begin)
            print("kubectl is not installed, so there is no peer in this run.")
        else:
            peer = Kustomize(Path(folder) / "files", files(given.clusters))
            compare(f"{name}, against kubectl kustomize", first.plan, peer.build, given.runs, before=first.begin, target=0.5)
        first.check()
    few, many = (cpu_of(size, given.runs) for size in (300, 3_000))
    print(f"P5 plan(3,000)/plan(300): CPU {many / few:.1f}, target 12.0")
    if given.large:
        few, many = (cpu_of(size, given.runs) for size in (1_000, 10_000))
        print(f"P4 ratio of 10,000 clusters to 1,000: CPU {many / few:.1f}, target 12")


def cpu_of(clusters: int, runs: int) -> float:
    """CPU seconds of a first plan, on a site of its own."""
    with tempfile.TemporaryDirectory() as folder, empty_site(Path(folder) / "fleet") as fleet:
        first = FirstPlan(fleet, clusters)
        found = measure(f"   judging and planning {clusters:,} clusters", first.plan, runs, before=first.begin)
        first.check()
        return found.cpu_s


if __name__ == "__main__":
    sys.exit(main())
