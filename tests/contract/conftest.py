"""
The contract: what any management cluster that Kubehenge talks to does. Each check runs on the plane's and on the simulated one.

What the real one does is right. Checks make what they need in a namespace of their own; Clusters are paused, but for those of the stories.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.differs import DIFFERS
from tests.contract.harness import PLANE, SIMULATED, ManagementCluster, real, simulated
from tests.contract.objects import Namespace, share_class
from tests.contract.story import Story, told
from tests.lab.kube.running import Server

HERE = Path(__file__).parent
SIDES = [
    pytest.param(PLANE, marks=[pytest.mark.plane, pytest.mark.timeout(600)]),
    pytest.param(SIMULATED, marks=[pytest.mark.lab]),
]


def _check_id(item: pytest.Item) -> tuple[str, str]:
    """The side of a check ('' for what needs none) and its name without it."""
    callspec = getattr(item, "callspec", None)
    side = callspec.params.get("management", "") if callspec is not None else ""
    name = (
        re.sub(rf"\[{side}-|-{side}(?=\])", lambda found: found[0][0] if found[0].startswith("[") else "", item.name) if side else item.name
    )
    return side, f"{item.path.stem}::{name.replace(f'[{side}]', '')}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is known to differ must differ: as soon as it does not, its reason has to go."""
    for item in items:
        if HERE not in item.path.parents:
            continue
        side, check = _check_id(item)
        item.user_properties.append(("contract", side))
        if side == SIMULATED and check in DIFFERS:
            item.add_marker(pytest.mark.xfail(reason=DIFFERS[check], strict=True))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many checks each side passes."""
    counts: dict[str, Counter[str]] = {PLANE: Counter(), SIMULATED: Counter()}
    for category, reports in terminalreporter.stats.items():
        for report in reports:
            side = dict(getattr(report, "user_properties", ())).get("contract", "")
            if side and category != "deselected" and (report.when == "call" or category in {"skipped", "error"}):
                counts[side][category] += 1
    if not any(counts.values()):
        return
    terminalreporter.section("contract")
    words = {"passed": "passed", "failed": "FAILED", "error": "BROKEN", "xfailed": "known to differ", "skipped": "not run"}
    for side, found in counts.items():
        told = ", ".join(f"{found[category]} {word}" for category, word in words.items() if found[category])
        terminalreporter.write_line(f"{side:<9} {told or 'no check was chosen'}")


@pytest.fixture(scope="session", params=SIDES)
def management(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagementCluster]:
    """The side under test."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == SIMULATED:
        side = simulated(folder)
    else:
        base = tmp_path_factory.getbasetemp()
        shared = base.parent if base.name.startswith("popen-") else base  # xdist's workers have theirs within the run's
        side = real(shared, folder, request.getfixturevalue("plane_programs"))
    with side as found:
        share_class(found.server)
        yield found


@pytest.fixture(scope="session")
def server(management: ManagementCluster) -> Server:
    """Its API server."""
    return management.server


@pytest.fixture(scope="session")
def story(management: ManagementCluster) -> Iterator[Story]:
    """The life of a cluster on it."""
    with told(management) as whole:
        yield whole


@pytest.fixture
def namespace(server: Server) -> Iterator[Namespace]:
    """A namespace of the check's own."""
    made = Namespace(server=server, name=f"contract-{secrets.token_hex(4)}")
    made.create()
    yield made
    made.remove()


@pytest.fixture
def kubectl(server: Server) -> Callable[..., object]:
    """The installed kubectl, as the administrator."""
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on this machine")
    return server.kubectl
