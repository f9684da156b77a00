"""What holds for every test, and the list of lanes at the end: one that did not run is named, loudly, with the reason."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from kubehenge.lab.plane.programs import ProgramSet, cache_directory
from tests.fakes.plane import wait_for_end
from tests.fakes.postgres import find_binaries
from tests.plane import build as plane_build

PLANE_CACHE = cache_directory()  # before the settings of whoever runs the tests are taken away
KEPT_FOR_GIT = ("GIT_EXEC_PATH",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A part of the tests with needs of its own. `missing` says what is not there, '' when all is."""

    marker: str
    what: str
    missing: Callable[[], str]


def _program(*names: str) -> Callable[[], str]:
    return lambda: "" if any(map(shutil.which, names)) else f"there is no {names[0]} on this machine"


def _postgres() -> str:
    return "" if find_binaries() else "there is no initdb and postgres on this machine"


def _plane() -> str:
    return plane_build.missing(PLANE_CACHE)


LANES = (
    Lane(marker="postgres", what="a real PostgreSQL", missing=_postgres),
    Lane(marker="lab", what="real processes over HTTP against the simulated site", missing=_program("git")),
    Lane(marker="faults", what="kill -9 and broken networks", missing=str),
    Lane(marker="kubectl", what="the installed kubectl", missing=_program("kubectl")),
    Lane(marker="browser", what="Chromium", missing=_program("chromium", "chromium-browser", "google-chrome")),
    Lane(marker="plane", what="the real Kubernetes API server and Cluster API", missing=_plane),
)


@pytest.fixture(autouse=True, scope="session")
def _own_environment() -> Iterator[None]:
    """Tests see none of the settings, and none of the Git set-up, of whoever runs them."""
    patch = pytest.MonkeyPatch()
    for name in list(os.environ):
        if name.startswith("KUBEHENGE_") or (name.startswith("GIT_") and name not in KEPT_FOR_GIT):
            patch.delenv(name)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def plane_programs() -> ProgramSet:
    """The programs of a plane, as `make plane` built them."""
    found = plane_build.find_set(PLANE_CACHE)
    if found is None:
        pytest.skip(_plane())
    return found


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Leave no plane behind: the one that this process started ends once no other needs it."""
    wait_for_end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Note the lanes of a test in its report, which also comes over from the processes of xdist."""
    outcome = yield
    outcome.get_result().lanes = [lane.marker for lane in LANES if item.get_closest_marker(lane.marker)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the lanes, and everything else that was skipped."""
    ran, skipped, elsewhere = _count(terminalreporter)
    terminalreporter.section("lanes")
    not_run = [lane for lane in LANES if not _show(terminalreporter, lane, ran, skipped)]
    for reason, count in sorted(elsewhere.items()):
        terminalreporter.write_line(f"SKIPPED   {count} × {reason}", yellow=True)
    if not_run:
        names = ", ".join(lane.marker for lane in not_run)
        terminalreporter.write_line(f"LANES THAT DID NOT RUN: {names}. What they would have shown is not known.", red=True, bold=True)


def _count(reporter: pytest.TerminalReporter) -> tuple[Counter[str], dict[str, Counter[str]], Counter[str]]:
    ran: Counter[str] = Counter()
    skipped: dict[str, Counter[str]] = {}
    elsewhere: Counter[str] = Counter()
    for category, reports in reporter.stats.items():
        for report in reports:
            lanes = getattr(report, "lanes", None)
            if lanes is None:
                continue
            if category == "skipped":
                reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).removeprefix("Skipped: ")
                for lane in lanes:
                    skipped.setdefault(lane, Counter())[reason] += 1
                if not lanes:
                    elsewhere[reason] += 1
            elif report.when == "call":
                ran.update(lanes)
    return ran, skipped, elsewhere


def _show(reporter: pytest.TerminalReporter, lane: Lane, ran: Counter[str], skipped: dict[str, Counter[str]]) -> bool:
    """Write a lane's lines; whether all of it ran."""
    reasons = skipped.get(lane.marker, Counter())
    missing = lane.missing()
    if ran[lane.marker]:
        reporter.write_line(f"{lane.marker:<9} {ran[lane.marker]} tests ran: {lane.what}", green=True)
    elif missing or reasons:
        reporter.write_line(f"{lane.marker:<9} NOT RUN: {missing or 'all of its tests were skipped'} ({lane.what})", red=True, bold=True)
    else:
        reporter.write_line(f"{lane.marker:<9} no test of it was chosen, or there is none yet: {lane.what}", yellow=True)
    for reason, count in sorted(reasons.items()):
        reporter.write_line(f"          skipped {count} × {reason}", yellow=True)
    return not (missing or (reasons and not ran[lane.marker]))
