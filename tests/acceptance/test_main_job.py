"""A pushed Cluster file becomes running machines, followed over HTTP; and then nothing is done any more (DESIGN, The one flow)."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.files import PROD, cluster
from tests.acceptance.running import Site

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

OTHERS = 19


@pytest.fixture(scope="module")
def counted_git(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a git that writes down how it was called, and is git."""
    folder = tmp_path_factory.mktemp("git")
    program = folder / "git"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {folder}/calls\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def site(sites: Callable[..., Site], counted_git: Path) -> Site:
    site = sites(settings={"PATH": f"{counted_git}:{os.environ['PATH']}"})
    site.start()
    return site


def requests_of(calls: list[dict[str, Any]]) -> Counter[str]:
    return Counter(f"{call['target']} {call['method']} {call['path']}" for call in calls)


def idle_tick(site: Site, counted_git: Path) -> tuple[Counter[str], list[str]]:
    """What one tick with nothing to do asks of the site's systems, and of git towards the repository."""
    log = counted_git / "calls"
    log.unlink(missing_ok=True)
    before, last = site.counts(), site.last_call()
    ended = site.must("tick")
    assert "Nothing changed." in ended.out
    assert site.counts() == before
    return requests_of(site.calls(last)), [call for call in log.read_text().splitlines() if " ls-remote " in call or " fetch " in call]


def idle_passes(site: Site, counted_git: Path) -> set[str]:
    """What the loops ask for, again and again, while nothing changes; each thing at most once in a pass of each loop."""
    log = counted_git / "calls"
    log.unlink(missing_ok=True)
    before, last = site.counts(), site.last_call()
    site.wait(log.exists, "git is not asked")
    site.wait(lambda: requests_of(site.calls(last))["proxmox GET /api2/json/access/permissions"] >= 4, "no passes are done")
    found = requests_of(site.calls(last))
    passes = found["proxmox GET /api2/json/access/permissions"]
    for what, times in found.items():
        loops = 2 if "/cluster/" in what and "proxmox" in what else 1
        assert times <= (passes + 2) * loops, f"{what}: {times} times in {passes} passes"
    assert site.counts() == before
    assert all(" ls-remote " in call for call in log.read_text().splitlines())
    return set(found)


def test_acceptance_1_15_a_pushed_cluster_runs_and_then_a_tick_adds_no_row_and_asks_the_same_with_1_and_with_20_clusters(
    site: Site, counted_git: Path
) -> None:
    browser = site.administrator
    assert browser.get("/api/v1/clusters/clusters/prod").status_code == 404
    sha = site.clone.push({"clusters/prod.yaml": PROD}, "Add prod")
    follow_until_available(site)

    state = site.proxmox()
    machines = [guest for guest in state["guests"] if guest["pool"] == "kubehenge/clusters.prod" and guest["status"] == "running"]
    assert len(machines) == 6
    assert {guest["node"] for guest in machines} <= set(state["nodes"])
    page = browser.open("/clusters/clusters/prod")
    assert page.status == 200
    assert page.find("Available")
    assert sha[:7] in page.words
    assert "v1.36.5+rke2r1" in page.words

    with_one = idle_passes(site, counted_git)
    site.stop()
    first = idle_tick(site, counted_git)
    second = idle_tick(site, counted_git)
    assert first == second
    assert len(first[1]) == 1, first[1]
    assert " ls-remote " in first[1][0]

    site.forget_sessions()
    site.start()
    site.clone.push({f"clusters/more-{n}.yaml": cluster(f"more-{n}", n) for n in range(OTHERS)}, "Add many more")
    site.wait_until_up(*(f"clusters/more-{n}" for n in range(OTHERS)))
    assert idle_passes(site, counted_git) == with_one
    site.stop()
    assert idle_tick(site, counted_git) == first


def follow_until_available(site: Site) -> None:
    """Follow a cluster as a script does, by the JSON API alone."""
    browser = site.administrator
    seen: list[str] = []

    def look() -> bool:
        answer = browser.get("/api/v1/clusters/clusters/prod")
        if answer.status_code == 404:
            return False
        found = answer.json()
        if found["status"] not in seen:
            seen.append(found["status"])
        ready = (found["control_plane"], found["workers"])
        ended = found["plan"]["status"] == "Done" or not found["plan"]["id"]
        return ended and found["status"] == "Available" and all(part["ready"] == part["desired"] == 3 for part in ready)

    site.wait(look, "prod does not become available")
    plans = browser.json("/api/v1/plans?state=all&q=prod")
    assert [(plan["cluster"], plan["status"], plan["classes"]) for plan in plans["items"]] == [("clusters/prod", "Done", ["create"])]
    run = browser.json(f"/api/v1/runs/{plans['items'][0]['run_id']}")
    assert run["outcome"] == "done"
    assert {step["word"] for step in run["steps"]["items"]} == {"Done"}
