"""`serve` and `tick` against the lab: real processes, HTTPS and Git; everything asked through the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from kubehenge.lab.description import Description, read_description

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]
WITHIN_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A lab, and the command line that works on it."""

    folder: Path
    description: Description

    @property
    def environment(self) -> dict[str, str]:
        others = {name: value for name, value in os.environ.items() if not name.startswith("KUBEHENGE_")}
        return {**others, "KUBEHENGE_CONFIG": str(self.folder / "kubehenge.env")}

    def kh(self, *arguments: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "kubehenge.cli", *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=180)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "kubehenge.cli", "serve", *arguments]
        with (self.folder.parent / "serve.log").open("ab") as log:
            return subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def get(self, path: str) -> requests.Response:
        return requests.get(f"{self.description['page']['url']}{path}", verify=self.description["ca_file"], timeout=10)


def until(true: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if found := true():
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {WITHIN_S} s: {what}")


def end(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
    process.send_signal(number)
    return process.wait(60)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("lab") / "site"
    command = [sys.executable, "-m", "kubehenge.lab", "--dir", str(folder), "--speed", "0", "--no-story"]
    with (folder.parent / "lab.log").open("wb") as log:
        lab = subprocess.Popen(command, stdout=log, stderr=log)

    def described() -> Any:
        assert lab.poll() is None, (folder.parent / "lab.log").read_text()
        return (folder / "lab.json").exists() and (folder / "kubehenge.env").exists()

    until(described, "the lab describes itself")
    found = Site(folder=folder, description=read_description(folder))
    yield found
    end(lab)


@pytest.fixture(scope="module")
def ready(site: Site) -> Site:
    """A database with the lab's source."""
    site.kh("db", "upgrade")
    git = site.description["git"]
    site.kh("source", "add", git["source"], git["url"], "--token-file", git["token_file"], "--ca-file", site.description["ca_file"])
    return site


@pytest.fixture(scope="module")
def built(ready: Site) -> Site:
    """All clusters of the example are made, by `tick` alone."""
    ready.kh("tick", "--carry-out")
    return ready


def answers(site: Site) -> bool:
    try:
        return site.get("/readyz").status_code == 200
    except requests.ConnectionError:
        return False


def test_a_tick_reads_plans_and_carries_out(built: Site) -> None:
    def all_available() -> bool:
        built.kh("tick")
        rows = json.loads(built.kh("get", "clusters", "-o", "json"))
        return [row["word"] for row in rows] == ["Available"] * 4

    until(all_available, "all four clusters are available")
    runs = json.loads(built.kh("runs", "-o", "json"))
    assert {row["state"] for row in runs} == {"done"}
    assert len([row for row in runs if not row["scope"].startswith("site:")]) == 4  # each cluster is made once
    assert "holds" in built.kh("get", "ledger", "--verify")


def test_another_tick_changes_nothing(built: Site) -> None:
    counts = "SELECT (SELECT count(*) FROM v_version_as_of) AS versions, (SELECT count(*) FROM v_plan) AS plans, (SELECT count(*) FROM v_ledger) AS entries"
    until(lambda: built.kh("sql", counts) == (built.kh("tick"), built.kh("sql", counts))[1], "nothing changes any more")
    assert built.kh("plan") == "Nothing to do: everything is as it is declared.\n"


def test_doctor_asks_every_system_and_says_that_nothing_runs(built: Site) -> None:
    found = {one["what"]: one for one in json.loads(built.kh("doctor", "-o", "json", code=1))}
    assert "kubehenge serve" in found["loops"]["mend"]
    reached = [one["ok"] for what, one in found.items() if what.startswith(("Proxmox VE at ", "management cluster"))]
    assert len(reached) > 3
    assert all(reached)


def test_serve_answers_wakes_refuses_a_second_and_ends_in_order(built: Site) -> None:
    process = built.start()
    try:
        until(lambda: answers(built), "the page answers and the loops run")
        assert built.get("/healthz").text == "ok\n"
        assert built.get("/").history[0].status_code in {302, 303}
        second = built.kh("serve", code=1)
        assert f"process {process.pid}" in second
        found = json.loads(built.kh("tick", "-o", "json"))
        assert found["woken"] is True
        assert f"process {process.pid}" in found["said"]
        assert "loops: run by" in built.kh("doctor", "--local")
    finally:
        assert end(process) == 0
    said = (built.folder.parent / "serve.log").read_text(encoding="utf-8")
    assert "Traceback" not in said
    assert '"event": "page_ready"' in said
    assert not answers(built)


def holder(site: Site) -> int:
    """The process that holds the right to run the loops, as it says itself."""
    return int((site.folder / "state" / "engine.lock").read_text().strip() or 0)


def test_a_killed_server_leaves_a_lock_that_the_next_start_waits_out(built: Site) -> None:
    first = built.start()
    until(lambda: answers(built), "the page answers")
    first.kill()
    first.wait(30)
    again = built.start()
    try:
        # The killed one's worker may answer for a moment yet: only who holds the lock is the new one.
        until(lambda: again.poll() is None and holder(built) == again.pid and answers(built), "the page answers again")
    finally:
        assert end(again) == 0


def test_loops_and_page_run_apart(built: Site) -> None:
    loops = built.start("--no-page")
    page = built.start("--no-loops")
    try:
        until(lambda: answers(built), "the page answers")
        until(lambda: "loops: run by" in built.kh("doctor", "--local"), "the loops run")
    finally:
        codes = [end(page), end(loops, signal.SIGINT)]
    assert codes == [0, 0]


def test_a_port_that_is_taken_is_one_message(built: Site) -> None:
    import socket

    port = int(built.description["page"]["url"].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        said = built.kh("serve", "--no-loops", code=1)
    assert "cannot listen on 127.0.0.1" in said
    assert "Traceback" not in said
