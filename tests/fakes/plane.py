"""
The plane of a run of the tests: started by the first process that needs it, shared with the others, gone when nobody needs it any more.

With pytest-xdist each worker would else have its own, of more than a GiB. A worker that is killed leaves nothing behind: the plane ends
once nobody holds its file of users.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from kubehenge.lab.plane.client import Api
from kubehenge.lab.plane.programs import ProgramSet
from kubehenge.lab.plane.server import DESCRIPTION, read_token
from kubehenge.lab.processes import clean_environment

T = TypeVar("T")

_STARTS_WITHIN_S = 300
_ENDS_WITHIN_S = 600  # as long as another worker still uses it
_started: list[subprocess.Popen[bytes]] = []


class RunningPlane:
    """A plane that runs; `about` is its description, `api` its API server for the administrator."""

    def __init__(self, directory: Path, errors: Path) -> None:
        self._directory = directory
        self._errors = errors
        self.about = self.describe()
        self.api = self.as_("plane-admin")

    def describe(self) -> dict[str, Any]:
        """Its description as it is now: a manager that was stopped and started has another process."""
        value: dict[str, Any] = json.loads((self._directory / DESCRIPTION).read_text(encoding="utf-8"))
        return value

    def as_(self, who: str) -> Api:
        """The API server for one of those who sign in: a manager's name, guestsim, or plane-admin."""
        return Api(self.about["url"], Path(self.about["ca_file"]), read_token(Path(self.about["kubeconfigs"]) / f"{who}.json"))

    def log(self, name: str) -> str:
        return (self._directory / "logs" / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def check(self) -> None:
        """Fail when it has ended, with what it said."""
        if not (self._directory / DESCRIPTION).exists():
            raise AssertionError(f"The plane has ended:\n{self._errors.read_text(encoding='utf-8')}")

    def until(self, look: Callable[[], T | None], *, within_s: float = 60, what: str | Callable[[], str] = "nothing was found") -> T:
        """What `look` finds, as soon as it finds something."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            found = look()
            if found:
                return found
            self.check()
            time.sleep(0.2)
        raise AssertionError(f"after {within_s:.0f} s: {what() if callable(what) else what}")


@contextmanager
def shared_plane(shared: Path, programs: ProgramSet) -> Iterator[RunningPlane]:
    """Use the plane of a folder that all processes of a run know."""
    directory, errors = shared / "plane", shared / "plane.err"
    with (shared / "plane.start").open("a") as start, (shared / "plane.users").open("a") as users:
        fcntl.flock(start, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)  # waits for one that is ending
        if not (directory / DESCRIPTION).exists():
            _start(directory, errors, Path(users.name), programs)
        fcntl.flock(start, fcntl.LOCK_UN)
        plane = RunningPlane(directory, errors)
        yield plane
        plane.api.close()


def _start(directory: Path, errors: Path, users: Path, programs: ProgramSet) -> None:
    arguments = ["--dir", str(directory), "--programs", str(programs.root), "--while-used", str(users)]
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "kubehenge.lab.plane", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=clean_environment(),
            start_new_session=True,
        )
    _started.append(process)
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while not (directory / DESCRIPTION).exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.terminate()
            process.wait(60)
            raise AssertionError(f"The plane does not start:\n{errors.read_text(encoding='utf-8')}")
        time.sleep(0.05)


def wait_for_end() -> None:
    """Wait until the plane that this process started has ended, as it does by itself once nobody uses it. Fails when it had to be killed."""
    while _started:
        process = _started.pop()
        try:
            process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()  # its own processes are killed by the system then
            process.wait()
            raise AssertionError("The plane did not end although nobody used it any more.") from None


def processes_of(plane: RunningPlane) -> dict[str, int]:
    """The ids of a plane's processes that run."""
    pids = {**plane.describe()["processes"], "plane": plane.about["pid"]}
    return {name: pid for name, pid in pids.items() if Path(f"/proc/{pid}").exists()}


def memory_mib(pid: int) -> int:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // (1024 * 1024)
