"""What every measurement of a fleet takes from the command line, and the fleet's site made ready."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from appliance import Appliance
from fleet import files
from simulated_site import SimulatedSite

SETTLED_WITHIN = 6
"""Passes after which a filled site is as it should be."""


def parsed(doc: str | None, *, runs: int = 5) -> argparse.Namespace:
    """Read `--runs`, `--clusters` (the large fleet) and `--large` (10,000 clusters too), and be quiet about what passes."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=runs, help="rounds of which the fastest counts")
    parser.add_argument("--clusters", type=int, default=1_000, help="clusters of the large fleet")
    parser.add_argument("--large", action="store_true", help="print the ratio of 10,000 clusters to 1,000, too; takes long")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    return parser.parse_args()


@contextmanager
def empty_site(folder: Path) -> Iterator[Appliance]:
    """An appliance of which nothing is declared yet; its site holds nodes, storages and templates."""
    folder.mkdir()
    site = SimulatedSite(folder / "site")
    appliance = Appliance(folder / "appliance", site)
    try:
        yield appliance
    finally:
        appliance.close()
        site.close()


@contextmanager
def settled_site(folder: Path, clusters: int) -> Iterator[Appliance]:
    """An appliance whose clusters all run and in which nothing is to do; six VMs and a volume owner each."""
    with empty_site(folder) as appliance:
        appliance.open()
        appliance.repository.push(files(clusters))
        appliance.tick.run_pass()
        appliance.fill_site()
        for _ in range(SETTLED_WITHIN):
            if appliance.tick.run_pass().number is None:
                break
        else:
            raise RuntimeError("the site does not settle")
        if appliance.differing() or appliance.open_plans():
            raise RuntimeError("there is something to do in a site that should be settled")
        yield appliance
