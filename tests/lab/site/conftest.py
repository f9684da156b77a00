"""A lab that the tests of this folder share, and Git as people use it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.lab import LabThread, lab_in_thread

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "Maria",
    "GIT_AUTHOR_EMAIL": "maria@example.org",
    "GIT_COMMITTER_NAME": "Maria",
    "GIT_COMMITTER_EMAIL": "maria@example.org",
    "LOGNAME": "maria",
    "NO_PROXY": "127.0.0.1",
}


def git(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=folder, env=ENVIRONMENT, check=check, capture_output=True, text=True, timeout=60)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LabThread]:
    with lab_in_thread(tmp_path / "lab", speed=0) as running:
        yield running
