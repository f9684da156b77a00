"""The plane's processes: started with a log each, watched, and stopped by their own ids."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from kubehenge.errors import KubehengeError
from kubehenge.lab.plane.binds import LAUNCHER, BindKeeper
from kubehenge.lab.processes import Child

_LOOK_EVERY_S = 0.05
_STOPS_WITHIN_S = 5.0


class PlaneError(KubehengeError):
    """The plane cannot start, or one of its processes has ended; the text has the end of that one's log."""


class Processes:
    """
    The processes of one plane, which end with this one, however it ends.

    Shape: `logs` is a folder; `keeper` decides where managers listen, None where the system has no means for it.
    """

    def __init__(self, logs: Path) -> None:
        self.keeper: BindKeeper | None = None
        self._logs = logs
        self._running: dict[str, Child] = {}

    @property
    def pids(self) -> dict[str, int]:
        """The ids of those that were started and not stopped."""
        return {name: child.process.pid for name, child in self._running.items()}

    def start(
        self,
        name: str,
        program: Path,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        argv0: str = "",
        moved: Mapping[int, int] | None = None,
    ) -> None:
        """Start a program; with `moved`, all that it listens on is on loopback, and these ports are others. Call from a lasting thread."""
        log = self._logs / f"{name}.log"
        with log.open("ab") as file, _channel(self.keeper if moved is not None else None) as channel:
            theirs = channel[1].fileno() if channel else -1
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), str(theirs), argv0 or name, str(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=self._logs,
                start_new_session=True,
                pass_fds=[theirs] if channel else [],
            )
            self._running[name] = Child(name=name, log=log, process=process)
            if channel and self.keeper:
                channel[1].close()
                self.keeper.keep(channel[0], process.pid, moved or {})

    def ended(self) -> list[str]:
        """Say which have ended that should not, each with the end of its log."""
        return [_words(child, code) for child in self._running.values() if (code := child.ended()) is not None]

    def wait(self, what: str, look: Callable[[], bool], *, within_s: float, who: str = "") -> None:
        """Look until it is so. Errors: PlaneError, when a process ends meanwhile, or it takes too long: then with the end of `who`'s log."""
        deadline = time.monotonic() + within_s
        while not look():
            ended = self.ended()
            if ended:
                raise PlaneError("\n".join(ended))
            if time.monotonic() > deadline:
                child = self._running.get(who)
                log = f" The end of {child.log}:\n{child.last_lines()}" if child else ""
                raise PlaneError(f"{what}: not so after {within_s:.0f} s.{log}")
            time.sleep(_LOOK_EVERY_S)

    def stop(self, *names: str) -> None:
        """Stop these, side by side."""
        children = [self._running.pop(name) for name in names if name in self._running]
        for child in children:
            if child.ended() is None:
                child.process.terminate()
        deadline = time.monotonic() + _STOPS_WITHIN_S
        for child in children:
            child.stop(max(deadline - time.monotonic(), 0.01))

    def stop_all(self, *, last: Sequence[str]) -> None:
        """Stop all, `last` at the end, one after the other: the others want something of them while they end."""
        self.stop(*(name for name in self._running if name not in last))
        for name in last:
            self.stop(name)


def _words(child: Child, code: int) -> str:
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return f"{child.name} ended {how}. The end of {child.log}:\n{child.last_lines()}"


def _channel(keeper: BindKeeper | None) -> AbstractContextManager[tuple[socket.socket, socket.socket] | None]:
    return keeper.channel() if keeper else nullcontext()
