"""`kubehenge lab` on the command line: what it says and does to a lab that runs, and to none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubehenge.cli import main
from tests.fakes.lab import LabThread, lab_in_thread

pytestmark = pytest.mark.lab

Lab = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabThread]:
    with lab_in_thread(tmp_path_factory.mktemp("cli") / "lab", speed=60) as lab:
        yield lab


@pytest.fixture
def lab(running: LabThread, capsys: pytest.CaptureFixture[str]) -> Lab:
    """Run `kubehenge lab ARGUMENTS --dir …` and return its exit code, output and errors."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["lab", *arguments, "--dir", str(running.site.places.root)])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_status_names_page_git_nodes_and_speed(lab: Lab, running: LabThread) -> None:
    code, out, _ = lab("status")
    assert code == 0
    for expected in (
        running.site.page_url,
        str(running.site.places.repository),
        "pve1, pve2, pve3; quorum",
        "60 times life",
        "no clusters",
    ):
        assert expected in out


def test_status_as_json_is_for_programs(lab: Lab) -> None:
    found = json.loads(lab("status", "-o", "json")[1])
    assert found["running"] is True
    assert set(found["nodes"]) == {"pve1", "pve2", "pve3"}


def test_a_node_goes_offline_and_comes_back(lab: Lab, running: LabThread) -> None:
    assert lab("node", "pve2", "offline")[:2] == (0, "pve2 is offline.\n")
    assert "pve2 (offline)" in lab("status")[1]
    assert not running.within(lambda: running.site.proxmox.server.is_online("pve2"))
    assert lab("node", "pve2", "online")[:2] == (0, "pve2 is online.\n")
    assert "pve2 (offline)" not in lab("status")[1]


def test_a_node_that_is_not_there_is_refused_in_words(lab: Lab) -> None:
    code, _, err = lab("node", "pve9", "offline")
    assert code == 1
    assert "pve9 is not there" in err


def test_quorum_is_taken_and_given_back(lab: Lab) -> None:
    assert "no quorum" in lab("quorum", "off")[1]
    assert "no quorum" in lab("status")[1]
    assert lab("quorum", "on")[1] == "Proxmox VE has quorum.\n"


def test_speed_reaches_both_simulators_and_is_remembered(lab: Lab, running: LabThread) -> None:
    assert lab("speed", "10")[:2] == (0, "The lab lives 10 times as fast as we do.\n")
    assert running.within(lambda: running.site.proxmox.clock.speed) == 10
    assert json.loads(running.site.places.site.read_text())["speed"] == 10
    assert "takes any time" in lab("speed", "0")[1]
    assert lab("speed", "60")[0] == 0


def test_faults_are_added_listed_and_cleared(lab: Lab, running: LabThread) -> None:
    code, out, _ = lab(
        "faults", "add", "--target", "proxmox", "--action", "slow", "--method", "GET", "--path", "^/x", "--delay", "0.5", "--times", "3"
    )
    assert code == 0
    name = out.split()[1]
    [rule] = json.loads(lab("faults", "list", "-o", "json")[1])
    assert (rule["id"], rule["target"], rule["action"], rule["delay_s"], rule["times"]) == (name, "proxmox", "slow", 0.5, 3)
    assert name in lab("faults", "list")[1]
    assert lab("faults", "clear", name)[0] == 0
    assert lab("faults", "list")[1] == "No fault is on.\n"
    assert lab("faults", "clear", name)[0] == 1
    lab("faults", "add", "--target", "kube", "--action", "status", "--status", "503", "--reason", "too busy")
    lab("faults", "clear")
    assert running.site.faults.list() == ()


def test_a_fault_that_cannot_be_meant_is_refused_with_the_reason(lab: Lab) -> None:
    code, _, err = lab("faults", "add", "--target", "kube", "--action", "slow", "--path", "(")
    assert code == 1
    assert "regular expression" in err


@pytest.mark.parametrize("arguments", [("status",), ("speed", "3"), ("node", "pve1", "offline"), ("faults", "list"), ("down",)])
def test_without_a_lab_it_says_how_to_start_one(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["lab", *arguments, "--dir", str(tmp_path / "none")])
    assert ended.value.code == 1
    assert "no lab" in capsys.readouterr().err.lower()
