"""The plane of the run, and a simulated Proxmox VE for capmox; without the plane's programs all tests here are skipped."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubehenge.lab.plane.programs import ProgramSet
from kubehenge.lab.proxmox.seed import seed
from tests.fakes.plane import RunningPlane, shared_plane
from tests.lab.proxmox.running import running
from tests.plane.site import PlaneSite, SeededProxmox

FAST = 600.0
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder are of the lane, and may take their time: real controllers wait by themselves."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.plane)
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory, plane_programs: ProgramSet) -> Iterator[RunningPlane]:
    """The plane of this run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base  # xdist's workers have theirs within the run's
    with shared_plane(shared, plane_programs) as shared_one:
        yield shared_one


@pytest.fixture(scope="session")
def proxmox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededProxmox]:
    """A Proxmox VE of this process, with the lab's templates and tokens; simulated time passes fast."""
    folder = tmp_path_factory.mktemp("proxmox")
    with running(folder / "tls", speed=FAST) as started:
        yield SeededProxmox(running=started, credentials=started.within(lambda: seed(started.sim, folder)))


@pytest.fixture
def site(plane: RunningPlane, proxmox: SeededProxmox) -> Iterator[PlaneSite]:
    """A namespace with capmox's credentials; all of it is gone afterwards."""
    with PlaneSite.made(plane, proxmox, f"t-{secrets.token_hex(4)}") as made:
        yield made
