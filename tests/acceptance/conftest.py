"""One site for the tests of a module; each test has clusters of its own in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.acceptance.running import Site, free_memory_of

_NETWORKS = count(1)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Site]]:
    """Makes sites that end with the module."""
    made: list[tuple[Site, Path]] = []

    def make(**options: object) -> Site:
        folder = tmp_path_factory.mktemp("site")
        site = Site(folder / "of", **options)  # type: ignore[arg-type]
        made.append((site, folder))
        return site

    yield make
    for site, folder in made:
        site.close()
        free_memory_of(folder)


@pytest.fixture
def net() -> int:
    """A network that no other cluster has."""
    return next(_NETWORKS)
