"""A lab's life: it goes on where it was, also after kill -9, keeps its ports, and keeps its secrets to itself."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests

from kubehenge.errors import UsageError
from kubehenge.lab.description import Description
from kubehenge.lab.places import Lock, Places, holder_of
from kubehenge.settings import load_settings
from tests.fakes.lab import LabProcess, lab_in_thread, lab_process, until

pytestmark = pytest.mark.lab


def proxmox(description: Description, method: str, path: str, **params: Any) -> Any:
    """Call Proxmox VE's API as Kubehenge does."""
    engine = description["proxmox"]["engine"]
    token = f"PVEAPIToken={engine['token_id']}={Path(engine['token_file']).read_text().strip()}"
    url = f"{next(iter(description['proxmox']['endpoints'].values()))}/api2/json{path}"
    with requests.Session() as session:
        session.trust_env = False
        headers = {"Authorization": token}
        where = "data" if method == "POST" else "params"
        answer = session.request(method, url, headers=headers, verify=description["ca_file"], timeout=30, **{where: params})
        answer.raise_for_status()
        return answer.json()["data"]


def kube(description: Description, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Call the management cluster as the administrator does."""
    config = Path(description["kube"]["admin_kubeconfig"]).read_text()
    token = config.split("token: ")[1].split()[0]
    with requests.Session() as session:
        session.trust_env = False
        headers = {"Authorization": f"Bearer {token}"}
        answer = session.request(
            method, description["kube"]["url"] + path, json=body, headers=headers, verify=description["ca_file"], timeout=30
        )
        answer.raise_for_status()
        return answer.json()


def pools(description: Description) -> set[str]:
    return {pool["poolid"] for pool in proxmox(description, "GET", "/pools")}


def addresses(description: Description) -> dict[str, Any]:
    kept = {name: description[name] for name in ("page", "git", "sign_ins", "control", "proxmox", "kube")}
    return json.loads(json.dumps(kept))


@pytest.mark.faults
def test_a_lab_goes_on_where_it_was_after_kill_9(tmp_path: Path) -> None:
    directory = tmp_path / "lab"
    lab = LabProcess(directory, "--no-story")
    before = lab.description
    proxmox(before, "POST", "/pools", poolid="kubehenge/clusters.prod", comment="mine")
    kube(before, "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    saved = (directory / "proxmox" / "proxmox.json", directory / "kube" / "kube.jsonl")
    try:
        until(lambda: all(path.exists() for path in saved) and "clusters.prod" in saved[0].read_text() and '"team"' in saved[1].read_text())
    finally:
        lab.kill()
    with lab_process(directory, "--no-story") as again:
        after = again.description
        assert addresses(after) == addresses(before)
        assert after["pid"] != before["pid"]
        assert "kubehenge/clusters.prod" in pools(after)
        assert kube(after, "GET", "/api/v1/namespaces/team")["metadata"]["name"] == "team"


def test_a_lab_saves_what_happened_just_before_it_was_stopped(tmp_path: Path) -> None:
    with lab_process(tmp_path / "lab") as lab:
        proxmox(lab.description, "POST", "/pools", poolid="kubehenge/clusters.late")
        assert lab.stop() == 0
    with lab_process(tmp_path / "lab") as again:
        assert "kubehenge/clusters.late" in pools(again.description)


@pytest.mark.faults
@pytest.mark.parametrize("lost", ["site.json", "site.json proxmox/proxmox-credentials.json git", "site.json proxmox/proxmox.json"])
def test_a_first_start_that_was_broken_off_is_made_anew(tmp_path: Path, lost: str) -> None:
    directory = tmp_path / "lab"
    with lab_process(directory):
        pass
    for name in lost.split():
        path = directory / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with lab_process(directory) as again:
        assert "kubehenge" in pools(again.description)


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        with lab_process(tmp_path / "lab"):
            for path in (tmp_path / "lab").rglob("*"):
                if path.is_file() and path.parent.name in {"secrets", "tls", "proxmox", "kube", "lab", "clusters.git"}:
                    holds_no_secret = path.parent.name == "clusters.git" and path.name in {"HEAD", "config", "packed-refs", "description"}
                    assert holds_no_secret or stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
            assert stat.S_IMODE((tmp_path / "lab").stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_process_settings_are_settings_of_kubehenge_and_hold_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab_in_thread(tmp_path / "lab", speed=0) as lab:
        given = lab.settings
        secret = lab.site.credentials.engine.value.get_secret_value()
        monkeypatch.setenv("KUBEHENGE_CONFIG", str(lab.site.places.settings))
        settings = load_settings()
    assert secret not in str(given)
    assert {name for name in given if not name.startswith("KUBEHENGE_")} == set()
    assert settings.proxmox_token_secret is not None
    assert settings.proxmox_token_secret.get_secret_value() == secret
    assert settings.page_url == lab.site.page_url
    assert len(settings.proxmox_endpoints) == 3


def test_a_path_with_a_space_is_kept_whole_in_the_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab_in_thread(tmp_path / "my lab", speed=0) as lab:
        monkeypatch.setenv("KUBEHENGE_CONFIG", str(lab.site.places.settings))
        assert load_settings().state_dir == tmp_path / "my lab" / "state"


def test_a_second_lab_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    with lab_process(tmp_path / "lab"), pytest.raises(AssertionError, match=r"runs in .* already"):
        LabProcess(tmp_path / "lab")


def test_a_directory_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"thesis\.txt"), lab_in_thread(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_port_that_is_taken_is_said_in_words(tmp_path: Path) -> None:
    with lab_in_thread(tmp_path / "lab", speed=0) as lab:
        port = int(lab.site.git_url.split(":")[2].split("/")[0])
    with socket.create_server(("127.0.0.1", port)), pytest.raises(UsageError, match="keeps its ports"), lab_in_thread(tmp_path / "lab"):
        pass
    with lab_in_thread(tmp_path / "lab"):
        pass


def taken(path: Path) -> bool:
    lock = Lock(path)
    try:
        return lock.take()
    finally:
        lock.release()


def test_a_lock_is_let_go_when_its_process_dies(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    program = f"import sys\nfrom pathlib import Path\nfrom kubehenge.lab.places import Lock\nlock = Lock(Path({str(path)!r}))\nlock.take()\nprint('held', flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert holder_of(path) == other.pid
        assert not taken(path)
        other.kill()
    assert holder_of(path) is None
    assert taken(path)


def test_what_the_lab_remembers_is_refused_in_words_when_it_cannot_be_read(tmp_path: Path) -> None:
    places = Places.of(tmp_path / "lab")
    with lab_in_thread(places.root, speed=0):
        pass
    places.site.write_text("{")
    with pytest.raises(UsageError, match="begin a new lab"), lab_in_thread(places.root):
        pass
