"""
The contract: what any API server that Kubehenge talks to must do. Each test runs once for every server in SERVERS.

A server is a context manager that yields a `Server`; tests make what they need in a namespace of their own, with paused Clusters, so that
they hold beside real controllers too.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.kube.contract.objects import Namespace
from tests.lab.kube.running import Server, running


@contextlib.contextmanager
def simulated(directory: Path) -> Iterator[Server]:
    with running(directory, model=False) as kube:
        yield kube.server


SERVERS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Server]]] = {"simulated": simulated}
_numbers = itertools.count(1)


@pytest.fixture(scope="package", params=list(SERVERS))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.fixture
def namespace(server: Server) -> Iterator[Namespace]:
    made = Namespace(server=server, name=f"contract-{next(_numbers)}")
    made.create()
    yield made
    made.remove()


@pytest.fixture
def kubectl(server: Server) -> Callable[..., object]:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on this machine")
    return server.kubectl
