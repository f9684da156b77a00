"""`kubehenge lab up`, as a new user meets it: clusters come up, a plan waits, a push is seen at once, and it goes on after anything."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from kubehenge.lab.description import read_description
from kubehenge.lab.places import Places, holder_of
from kubehenge.lab.processes import clean_environment
from kubehenge.lab.site import find_example
from kubehenge.lab.story import TO_VERSION
from tests.fakes.lab import until
from tests.lab.site.conftest import git

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

KUBEHENGE = [sys.executable, "-c", "from kubehenge.cli import main; main()"]
CLUSTERS = len(list((find_example() or Path()).glob("clusters/*.yaml")))


class Up:
    def __init__(self, directory: Path) -> None:
        self.places = Places.of(directory)
        self.output = directory.with_name("output.txt")
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [*KUBEHENGE, "lab", "up", "--dir", str(directory)],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=clean_environment(),
                start_new_session=True,
            )

    def said(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self.output.read_text())

    def wait_for(self, pattern: str, *, within_s: float = 240) -> re.Match[str]:
        def look() -> re.Match[str] | None:
            assert self.process.poll() is None, self.output.read_text()
            return self.said(pattern)

        try:
            return until(look, within_s=within_s)
        except AssertionError:
            raise AssertionError(f"{pattern!r} was not said:\n{self.output.read_text()}") from None

    def children(self) -> list[int]:
        found = [holder_of(self.places.lock), holder_of(self.places.state / "engine.lock")]
        return [pid for pid in found if pid is not None]

    def page_answers(self) -> bool:
        description = read_description(self.places.root)
        with requests.Session() as session:
            session.trust_env = False
            try:
                return session.get(f"{description['page']['url']}/healthz", verify=description["ca_file"], timeout=5).ok
            except requests.RequestException:
                return False

    def close(self) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGINT)
        self.process.wait(120)


@pytest.fixture
def ups(tmp_path: Path) -> Iterator[list[Up]]:
    started: list[Up] = []
    yield started
    for up in started:
        up.close()


@pytest.mark.faults
def test_a_new_user_finds_clusters_coming_up_and_a_plan_that_waits_and_goes_on_after_kill_9(tmp_path: Path, ups: list[Up]) -> None:
    up = Up(tmp_path / "lab")
    ups.append(up)
    up.wait_for(r"Page +https://127\.0\.0\.1:\d+")
    description = read_description(up.places.root)
    for person in description["sign_ins"].values():
        assert up.said(re.escape(person["password"]))
    assert up.page_answers()
    waiting = up.wait_for(rf"plan ([0-9a-f]{{12}}) of clusters/staging  waits for approval .*{re.escape(TO_VERSION)}")
    available = set(re.findall(r"cluster (\S+)  is available", up.output.read_text()))
    assert len(available) == CLUSTERS
    waits = set(re.findall(r"plan (\w+) of \S+  waits for approval", up.output.read_text()))
    assert waits == {waiting[1]}

    git(tmp_path, "clone", "-q", str(up.places.repository), "clone")
    build = tmp_path / "clone" / "clusters" / "build.yaml"
    build.write_text(build.read_text().replace("replicas: 2", "replicas: 3"))
    git(tmp_path / "clone", "commit", "-q", "-a", "-m", "One more node for build jobs")
    assert "Kubehenge knows of the push" in git(tmp_path / "clone", "push", "-q").stderr
    up.wait_for(r"cluster clusters/build  is available: 4 of 4 machines run")

    children = up.children()
    assert len(children) == 2
    up.process.kill()
    up.process.wait(10)
    until(lambda: not up.children(), within_s=60)

    again = Up(tmp_path / "lab")
    ups.append(again)
    again.wait_for(re.escape(description["page"]["url"]))
    again.wait_for(rf"plan {waiting[1]} of clusters/staging  waits for approval")
    assert again.wait_for(r"cluster clusters/build  is \w+.*: \d of (\d) machines")[1] == "4"
    os.kill(again.process.pid, signal.SIGINT)
    assert again.process.wait(120) == 0
    assert not again.children()
    assert not again.page_answers()


def test_down_stops_what_up_started(tmp_path: Path, ups: list[Up]) -> None:
    up = Up(tmp_path / "lab")
    ups.append(up)
    up.wait_for("Kubehenge is up")
    done = subprocess.run(
        [*KUBEHENGE, "lab", "down", "--dir", str(tmp_path / "lab")], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert up.process.wait(10) == 0
    assert not up.children()


def test_a_process_that_dies_is_named_with_the_end_of_its_log(tmp_path: Path, ups: list[Up]) -> None:
    up = Up(tmp_path / "lab")
    ups.append(up)
    up.wait_for("Kubehenge is up")
    lab = holder_of(up.places.lock)
    assert lab is not None
    os.kill(lab, signal.SIGKILL)
    assert up.process.wait(120) == 1
    assert up.said(r"The process `lab` ended by itself")
    assert not up.children()
