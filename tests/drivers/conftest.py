"""The simulated servers for the drivers' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubehenge.lab.pki import CertificateAuthority
from tests.drivers.servers import KubeSite, Loop, ProxmoxSite


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture(scope="session")
def ca(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def pve(loop: Loop, ca: CertificateAuthority) -> Iterator[ProxmoxSite]:
    """A simulated Proxmox VE of three nodes in which every task ends at once."""
    site = ProxmoxSite(loop, ca)
    yield site
    site.close()


@pytest.fixture
def slow_pve(loop: Loop, ca: CertificateAuthority) -> Iterator[ProxmoxSite]:
    """The same, with tasks that take a while."""
    site = ProxmoxSite(loop, ca, speed=20)
    yield site
    site.close()


@pytest.fixture
def kube(loop: Loop, ca: CertificateAuthority, tmp_path: Path) -> Iterator[KubeSite]:
    """A simulated management cluster in which nothing happens by itself."""
    site = KubeSite(loop, ca, tmp_path)
    yield site
    site.close()
