"""`python -m kubehenge.lab`: one lab as a process, without Kubehenge itself; `lab.json` in its directory says how to reach it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from kubehenge import log
from kubehenge.errors import KubehengeError
from kubehenge.lab.places import DEFAULT_DIRECTORY
from kubehenge.lab.serve import serve
from kubehenge.lab.site import find_example


def main(arguments: list[str] | None = None) -> int:
    """Run a lab until it is told to stop; 1 with the reason on the error stream when it cannot start."""
    parser = argparse.ArgumentParser(prog="python -m kubehenge.lab", description=__doc__)
    parser.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY, help="the lab's directory (default: %(default)s)")
    parser.add_argument(
        "--speed", type=float, default=None, help="simulated seconds per second, 0 is instant (default: as it was, 60 when new)"
    )
    parser.add_argument("--gitops", type=Path, default=find_example(), help="folder that fills a new repository (default: the example)")
    parser.add_argument("--no-story", action="store_true", help="do not push an upgrade once the clusters of a new lab run")
    given = parser.parse_args(arguments)
    log.configure()
    try:
        asyncio.run(serve(given.dir, speed=given.speed, gitops=given.gitops, story=not given.no_story))
    except KubehengeError as error:
        sys.stderr.write(f"kubehenge lab: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
