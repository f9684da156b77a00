"""A whole lab for a test: in a thread of the test, or as a process of its own that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from kubehenge.lab.description import Description, read_description
from kubehenge.lab.places import Places, holder_of
from kubehenge.lab.processes import clean_environment
from kubehenge.lab.site import LabSite

T = TypeVar("T")


class LabThread:
    """A lab in a thread; `site` may be looked at and meddled with through `do` and `within`."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.site = LabSite(directory, **options)
        try:
            self.do(self.site.start())
        except BaseException:
            self._end_thread()
            raise

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the lab's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(90)

    def within(self, function: Callable[[], T]) -> T:
        """Call a function in the lab's own loop."""

        async def call() -> T:
            return function()

        return self.do(call())

    @property
    def settings(self) -> dict[str, str]:
        """The variables of a Kubehenge that works with it."""
        return self.site.process_settings()

    def close(self) -> None:
        self.do(self.site.stop())
        self._end_thread()

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@contextlib.contextmanager
def lab_in_thread(directory: Path, **options: Any) -> Iterator[LabThread]:
    lab = LabThread(directory, **options)
    try:
        yield lab
    finally:
        lab.close()


class LabProcess:
    """A lab as `python -m kubehenge.lab` runs it."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.places = Places.of(directory)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that nobody reads would fill, and hold the lab up
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kubehenge.lab", "--dir", str(directory), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            env=clean_environment(),
        )
        until(lambda: self.process.poll() is not None or self._is_up(), within_s=60)
        if self.process.poll() is not None:
            self._said.seek(0)
            said = self._said.read().decode()
            self._said.close()
            raise AssertionError(said)

    def _is_up(self) -> bool:
        return (
            holder_of(self.places.lock) == self.process.pid
            and self.places.description.exists()
            and self.description["pid"] == self.process.pid
        )

    @property
    def description(self) -> Description:
        return read_description(self.places.root)

    def kill(self) -> None:
        """As when the power fails."""
        self.process.kill()
        self._end()

    def stop(self) -> int:
        """As Ctrl-C does."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGINT)
        return self._end()

    def _end(self) -> int:
        code = self.process.wait(60)
        self._said.close()
        return code


@contextlib.contextmanager
def lab_process(directory: Path, *arguments: str) -> Iterator[LabProcess]:
    lab = LabProcess(directory, *arguments)
    try:
        yield lab
    finally:
        if lab.process.poll() is None:
            lab.stop()


def until(look: Callable[[], T | None], *, within_s: float = 30) -> T:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"nothing was found within {within_s:.0f} s")
