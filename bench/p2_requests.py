"""
P2: the requests of an idle tick and of a pass of the watch loop, at 10 clusters and at 1,000: the same number.

Start: the pass begins. End: it is over. Requests are counted by the simulated site and, for Git, by the calls of git that the pass
makes. Linear by design are only the calls of git, in sources. Nodes and storages come in one answer, so more of them are no more
requests. There is no sweep yet, so none is printed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appliance import Appliance
from arguments import parsed, settled_site

FEW = 10


def main() -> int:
    given = parsed(__doc__)
    counts = {}
    for clusters in (FEW, given.clusters):
        with tempfile.TemporaryDirectory() as folder, settled_site(Path(folder) / "fleet", clusters) as fleet:
            counts[clusters] = {
                "bulk and Git": counted(fleet, fleet.tick.run_pass),
                "fast": counted(fleet, fleet.loops.watch.run_pass),
            }
    for tier, few in counts[FEW].items():
        many = counts[given.clusters][tier]
        same = "constant" if few == many else f"NOT CONSTANT: {many - few} more, {few - many} fewer"
        print(f"P2 requests, {tier}: {few.total()} with {FEW} clusters, {many.total()} with {given.clusters:,}: {same}")
        for what, number in sorted(many.items()):
            print(f"     {number} × {what}")
    print("P2 sweep: there is none yet")
    return 0 if counts[FEW] == counts[given.clusters] else 1


def counted(fleet: Appliance, run_pass: Callable[[], Any]) -> Counter[str]:
    """What a pass asks for; git's programs are counted where they are started."""
    started: Counter[str] = Counter()
    start = subprocess.Popen.__init__

    def note(process: Any, arguments: Any, *more: Any, **named: Any) -> None:
        words = [str(word) for word in arguments]
        commands = [
            word for word in words if word in {"ls-remote", "fetch", "ls-tree", "cat-file", "rev-list", "rev-parse", "diff-tree", "log"}
        ]
        started[f"git {commands[0] if commands else words[-1]}"] += 1
        start(process, arguments, *more, **named)

    before = fleet.site.calls()
    subprocess.Popen.__init__ = note  # type: ignore[method-assign]
    try:
        run_pass()
    finally:
        subprocess.Popen.__init__ = start  # type: ignore[method-assign]
    return fleet.site.calls() - before + started


if __name__ == "__main__":
    sys.exit(main())
