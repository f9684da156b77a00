"""A plane leaves nothing behind, however it ends. These are planes of their own, ended while they start: the managers do not run."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kubehenge.lab.plane.programs import ProgramSet
from kubehenge.lab.processes import clean_environment
from tests.fakes.lab import until


def start(directory: Path, programs: ProgramSet, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "kubehenge.lab.plane", "--dir", str(directory), "--programs", str(programs.root), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=clean_environment(),
    )


def running(directory: Path) -> set[int]:
    """The processes of a plane, which all work in its folder of logs."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            works_in = (entry / "cwd").readlink()
        except OSError:
            continue
        if works_in.is_relative_to(directory):
            found.add(int(entry.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_runs_on_when_a_plane_is_ended(plane_programs: ProgramSet, tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "plane"
    process = start(directory, plane_programs)
    # With the controllers the API server is ready, and has by then what it would put in order at its end.
    until((directory / "logs" / "kube-controller-manager.log").exists, within_s=120)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (-9 if number == signal.SIGKILL else 0), errors
    until(lambda: not running(directory))
    assert not (directory / "plane.json").exists()


def test_a_plane_whose_process_dies_early_says_which_and_shows_its_log(plane_programs: ProgramSet, tmp_path: Path) -> None:
    bad = tmp_path / "set"
    bad.mkdir()
    (bad / "bin").mkdir()
    for program in (plane_programs.root / "bin").iterdir():
        (bad / "bin" / program.name).symlink_to(program.resolve())
    (bad / "bin" / "etcd").unlink()
    (bad / "bin" / "etcd").write_text("#!/bin/sh\necho the disk is gone; exit 7\n", encoding="utf-8")
    (bad / "bin" / "etcd").chmod(0o755)
    for name in ("manifests", "set.json"):
        (bad / name).symlink_to(plane_programs.root / name)
    process = start(tmp_path / "plane", ProgramSet(bad))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "etcd ended with exit code 7" in errors.decode()
    assert "the disk is gone" in errors.decode()
    until(lambda: not running(tmp_path / "plane"))
