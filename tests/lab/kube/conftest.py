"""Labs for the tests of the model: one that most share, and new ones for those that stop and start it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.kube.fleet import Cluster
from tests.lab.kube.running import RunningKube, running


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningKube]:
    with running(tmp_path_factory.mktemp("lab"), proxmox=True, speed=0) as kube:
        yield kube


@pytest.fixture
def cluster(lab: RunningKube, request: pytest.FixtureRequest) -> Cluster:
    """A cluster with a name of its own."""
    made = Cluster(kube=lab, name="")
    made.name = f"c{made.number}"
    return made
