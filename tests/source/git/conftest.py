"""Real repositories and servers for the tests of Git."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from git_server import GitServer
from git_upstream import Upstream

from kubehenge.source.git import Credentials, GitLimits, GitMirror, SourceSpec, parse_source_url


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "host")


MirrorOf = Callable[..., GitMirror]


@pytest.fixture
def mirror_of(tmp_path: Path) -> MirrorOf:
    def make(
        where: Upstream | str,
        *,
        path: str = "",
        branch: str = "main",
        credentials: Credentials | None = None,
        limits: GitLimits | None = None,
        source: str = "team",
    ) -> GitMirror:
        url = str(where.bare) if isinstance(where, Upstream) else where
        spec = SourceSpec(id=source, url=parse_source_url(url), branch=branch, path=path, credentials=credentials or Credentials())
        return GitMirror(tmp_path / "state", spec, limits=limits)

    return make


@pytest.fixture
def git_server(upstream: Upstream, tmp_path: Path) -> Iterator[GitServer]:
    server = GitServer(upstream.bare.parent.parent, tmp_path / "tls")
    yield server
    server.stop()


@pytest.fixture
def git_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Put a wrapper before git on the PATH that notes each command line we start; git's own children go by its exec path and are not noted."""
    real = next(Path(folder) / "git" for folder in os.environ["PATH"].split(":") if (Path(folder) / "git").exists())
    log = tmp_path / "git-runs.log"
    log.touch()
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$*" >> {log}\nPATH="${{PATH#*:}}" exec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")

    def read_and_clear() -> list[str]:
        lines = log.read_text().splitlines()
        log.write_text("")
        return lines

    return read_and_clear


@pytest.fixture
def ca(git_server: GitServer) -> Credentials:
    return Credentials(ca_file=git_server.ca_file)
