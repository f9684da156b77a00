"""`python -m kubehenge.lab.plane`: one plane as a process; `plane.json` in its directory says how to reach it."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import signal
import sys
import threading
from pathlib import Path

import requests

from kubehenge.errors import KubehengeError
from kubehenge.lab.plane.client import ApiError
from kubehenge.lab.plane.managers import MANAGERS
from kubehenge.lab.plane.plane import Plane
from kubehenge.lab.plane.programs import ProgramSet

_LOOK_EVERY_S = 0.5


class _Users:
    """Whoever holds a lock on a file, shared with others, uses the plane; the system lets go of it for one that was killed."""

    def __init__(self, path: Path | None) -> None:
        self._file = path.open("a", encoding="utf-8") if path else None

    def are_gone(self) -> bool:
        if self._file is None:
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def main(arguments: list[str] | None = None) -> int:
    """Run a plane until it is told to stop; 1 with the reason on the error stream when it cannot start, or one of its processes ends."""
    parser = argparse.ArgumentParser(prog="python -m kubehenge.lab.plane", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="the plane's directory; what is in it is removed")
    parser.add_argument("--programs", type=Path, help="a set that `make plane` built (default: the last one)")
    parser.add_argument("--while-used", type=Path, metavar="FILE", help="end once nobody holds a shared lock on this file")
    parser.add_argument(
        "--on-fixed-port",
        choices=[manager.name for manager in MANAGERS if manager.fixed_port],
        default="",
        help="leave managers to listen where they want, and only this one its webhooks (default: move them, where the system allows it)",
    )
    given = parser.parse_args(arguments)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: _stop(stopped))
    try:
        programs = ProgramSet(given.programs) if given.programs else ProgramSet.latest()
        plane = Plane(given.dir, programs, on_fixed_port=given.on_fixed_port)
        try:
            plane.start()
            return _watch(plane, _Users(given.while_used), stopped)
        finally:
            plane.stop()
    except _StoppedError:
        return 0
    except KubehengeError as error:
        sys.stderr.write(f"plane: {error}\n")
        return 1


class _StoppedError(BaseException):
    """We were told to stop while it was starting."""


def _stop(stopped: threading.Event) -> None:
    if stopped.is_set():
        return  # it is stopping already
    stopped.set()
    raise _StoppedError


def _watch(plane: Plane, users: _Users, stopped: threading.Event) -> int:
    described = plane.processes.pids
    while not stopped.wait(_LOOK_EVERY_S):
        ended = plane.processes.ended()
        if ended:
            sys.stderr.write("plane: " + "\n".join(ended) + "\n")
            return 1
        if users.are_gone():
            break
        with contextlib.suppress(requests.RequestException, ApiError):  # it looks again
            plane.deployments.look()
        if plane.processes.pids != described:
            plane.write_description()
            described = plane.processes.pids
    return 0


if __name__ == "__main__":
    sys.exit(main())
