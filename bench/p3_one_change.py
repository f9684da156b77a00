"""
P3: one cluster changed of 1,000, against a plan of one change in 1,000 resources, and against the same with 10 clusters.

Start: the branch names the new commit, and the tick loop is woken, as by a webhook. End: the pass is over and the plan's row committed
(SQLite, FULL). Such a pass looks at the sources and does not read the world again.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from appliance import Appliance
from arguments import parsed, settled_site
from fleet import WORKERS, declaration, path_of
from peers import NAMED, Tofu, find_tofu
from side_by_side import compare, measure

FEW = 10


class Change:
    """Pushes changes of one cluster after the other, and plans each."""

    def __init__(self, fleet: Appliance, clusters: int) -> None:
        self._fleet, self._clusters, self._numbers = fleet, clusters, count()

    def push(self) -> None:
        """One worker more in the next cluster's file; once all have it, two more, and so on."""
        again, number = divmod(next(self._numbers), self._clusters)
        self._fleet.repository.push({path_of(number): declaration(number, workers=WORKERS + 1 + again)})

    def plan(self) -> None:
        """The pass of the tick that a webhook wakes."""
        before = self._fleet.open_plans()
        if self._fleet.tick.run_pass(families=()).number is None:
            raise RuntimeError(f"nothing was planned; {before} plans are open")


def main() -> None:
    given = parsed(__doc__, runs=15)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sizes = (FEW, given.clusters, *((10 * given.clusters,) if given.large else ()))
        changes = {size: Change(stack.enter_context(settled_site(Path(folder) / str(size), size)), size) for size in sizes}
        many, few = changes[given.clusters], changes[FEW]

        def push_both() -> None:
            many.push()
            few.push()

        name = f"P3 one change in {given.clusters:,}"
        compare(f"{name}, against one in {FEW}", many.plan, few.plan, given.runs, before=push_both, target=1.5)
        tofu = find_tofu()
        if tofu is None:
            measure(name, many.plan, given.runs, before=many.push)
            print(NAMED)
        else:
            peer = Tofu(tofu, Path(folder) / "tofu", given.clusters, changed=True)
            compare(f"{name}, against {peer.name} plan", many.plan, peer.plan, min(given.runs, 5), before=many.push, target=1 / 10)
        if given.large:
            much = changes[10 * given.clusters]
            large = measure("P3 one change in 10,000", much.plan, given.runs, before=much.push)
            small = measure(name, many.plan, given.runs, before=many.push)
            print(f"P3 ratio of 10,000 clusters to 1,000: CPU {large.cpu_s / small.cpu_s:.1f}, target 12")


if __name__ == "__main__":
    sys.exit(main())
