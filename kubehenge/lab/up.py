"""`kubehenge lab up`: starts a lab and Kubehenge beside it, says where they are, and stops both at the end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import requests

from kubehenge.errors import KubehengeError, UsageError
from kubehenge.lab.description import ControlClient, Description, read_description
from kubehenge.lab.follow import Follower
from kubehenge.lab.places import Lock, Places, claim, holder_of, make_directory
from kubehenge.lab.processes import Child, start_child
from kubehenge.lab.register import prepare_database
from kubehenge.settings_files import CONFIG_VARIABLE
from kubehenge.store.database import open_database

START_WITHIN_S = 120.0
_LOOK_EVERY_S = 0.2
_NEWS_EVERY_S = 1.0
_PAGE_STOPS_WITHIN_S = 45.0  # its loops end the pass they are in
_LAB_STOPS_WITHIN_S = 30.0
_SITE = "default"

_KUBEHENGE = "import sys; from kubehenge.cli import main; sys.exit(main())"


class _StoppedError(Exception):
    """Someone asked us to stop while something was being waited for."""


@dataclass(slots=True)
class Up:
    """One run of a lab with Kubehenge. `say` prints a line for people; `ready` is called once with the lab's description."""

    directory: Path
    speed: float | None
    say: Callable[[str], None]
    ready: Callable[[Description], None]
    _stop: threading.Event = field(default_factory=threading.Event)
    _children: list[Child] = field(default_factory=list)

    def run(self) -> bool:
        """Run until Ctrl-C, SIGTERM or SIGHUP (True), or until a process ends that should not (False). Errors: KubehengeError."""
        places = Places.of(self.directory)
        claim(places)
        with _held(places), self._signals():
            try:
                description = self._start(places)
                self.ready(description)
                return self._follow(places, description["page"]["url"])
            except _StoppedError:
                return True
            finally:
                self._stop_children()

    # ---- start

    def _start(self, places: Places) -> Description:
        self.say("Starting the lab: Proxmox VE with three nodes, a management cluster, a Git repository")
        arguments = ["-m", "kubehenge.lab", "--dir", str(places.root)]
        make_directory(places.logs)
        lab = self._child(places, "lab", [*arguments, *(["--speed", str(self.speed)] if self.speed is not None else [])], {})
        self._wait("the lab", lab, lambda: _is_described(places, lab.process.pid))
        description = read_description(self.directory)
        self.say("Preparing the database")
        git = description["git"]
        prepare_database(
            _database_url(places),
            site=_SITE,
            source=git["source"],
            url=git["url"],
            branch=git["branch"],
            credentials={"token_file": git["token_file"], "ca_file": description["ca_file"]},
            now=datetime.now(UTC),
        )
        self.say("Starting Kubehenge: its loops and its page")
        page = self._child(places, "kubehenge", ["-c", _KUBEHENGE, "serve"], {CONFIG_VARIABLE: str(places.settings)})
        self._wait("Kubehenge", page, lambda: _answers(description))
        return description

    def _child(self, places: Places, name: str, arguments: list[str], environment: dict[str, str]) -> Child:
        child = start_child(name, arguments, logs=places.logs, environment=environment)
        self._children.append(child)
        return child

    def _wait(self, what: str, child: Child, is_there: Callable[[], bool]) -> None:
        waited_s = 0.0
        while not is_there():
            code = child.ended()
            if code is not None:
                raise UsageError(f"{what} ended while it started (exit code {code}). The end of {child.log}:\n{child.last_lines()}")
            if waited_s > START_WITHIN_S:
                raise UsageError(f"{what} does not answer after {START_WITHIN_S:.0f} s. The end of {child.log}:\n{child.last_lines()}")
            if self._stop.wait(_LOOK_EVERY_S):
                raise _StoppedError
            waited_s += _LOOK_EVERY_S

    # ---- until the end

    def _follow(self, places: Places, page_url: str) -> bool:
        control = ControlClient(self.directory)
        database = open_database(_database_url(places))
        try:
            follower = Follower(database, _SITE, page_url, lambda: dict(control.call("GET", "/state")["lab"]))
            while not self._stop.wait(_NEWS_EVERY_S):
                for child in self._children:
                    if child.ended() is not None:
                        self.say(f"The process `{child.name}` ended by itself (exit code {child.ended()}). The end of {child.log}:")
                        self.say(child.last_lines())
                        return False
                for line in follower.news():
                    self.say(f"{datetime.now().astimezone():%H:%M:%S}  {line}")
        finally:
            database.close()
        return True

    def _stop_children(self) -> None:
        """Stop Kubehenge before the world that it works on."""
        limits = {"kubehenge": _PAGE_STOPS_WITHIN_S, "lab": _LAB_STOPS_WITHIN_S}
        for child in reversed(self._children):
            if child.ended() is None:
                self.say(f"Stopping {'Kubehenge' if child.name == 'kubehenge' else 'the lab'}")
            child.stop(limits[child.name])

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop in order at the first signal, at once at the second."""

        def note(_number: int, _frame: Any) -> None:
            if self._stop.is_set():
                for child in self._children:
                    child.process.kill()
            self._stop.set()

        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _held(places: Places) -> Iterator[None]:
    lock = Lock(places.up_lock)
    try:
        if not lock.take():
            raise UsageError(f"A lab is up in {places.root} already. Stop it with `kubehenge lab down --dir {places.root}`.")
        yield
    finally:
        lock.release()


def _database_url(places: Places) -> str:
    return f"sqlite:///{places.state}/state.db"


def _is_described(places: Places, pid: int) -> bool:
    try:
        return bool(read_description(places.root)["pid"] == pid) and holder_of(places.lock) == pid
    except KubehengeError:
        return False


def _answers(description: Description) -> bool:
    """Whether the page is up and its loops have done a pass."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            answer = session.get(f"{description['page']['url']}/readyz", verify=description["ca_file"], timeout=5)
        except requests.RequestException:
            return False
    return answer.ok
