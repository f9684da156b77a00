"""Repositories and state directories that are not as they should be: told in words, nothing is lost, the rest goes on (ACCEPTANCE 1.7, 1.8)."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.corner import corner
from tests.acceptance.files import cluster
from tests.acceptance.running import Site
from tests.source.git.git_upstream import git

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(600)]

STEADY = "clusters/steady"


@pytest.fixture(scope="module")
def site(sites: Callable[..., Site]) -> Site:
    site = sites()
    site.start()
    site.clone.push({"steady.yaml": cluster("steady", 700)})
    site.wait_until_up(STEADY)
    return site


def lines(site: Site) -> list[dict[str, Any]]:
    return [json.loads(line) for line in site.log.read_text().splitlines() if line.startswith("{")]


def refused(site: Site) -> dict[str, str]:
    """What the command line says of documents that are refused."""
    found = json.loads(site.must("get", "documents", "--refused", "-o", "json").out)
    return {one["path"]: one["problems"][0]["message"] for one in found}


def test_binary_garbage_and_a_file_of_50_mb_are_told_and_the_cluster_beside_them_is_scaled(site: Site) -> None:
    files = {"garbage.yaml": bytes(range(256)) * 64, "large.yaml": b"# large\n" * (50 << 17)}
    site.clone.push({**files, "steady.yaml": cluster("steady", 700, workers=1)})
    site.wait_until_up(STEADY, machines=2)
    [source] = json.loads(site.must("get", "sources", "-o", "json").out)
    unread = {one["path"]: one["reason"] for one in source["not_read"]}
    assert "larger than a declaration may be (1 MiB)" in unread["large.yaml"]
    said = {**refused(site), "large.yaml": unread["large.yaml"]}
    assert set(said) == set(files)
    assert site.administrator.open("/sources").find("not read")
    page = site.administrator.open(next(a.get("href", "") for a in site.administrator.page.root.iter("a") if "#ig" in a.get("href", "")))
    logged = {line["path"]: line["reason"] for line in lines(site) if line["event"] in {"document_refused", "file_not_read"}}
    for path, message in said.items():
        assert path in page.words
        assert logged[path] == message
        assert message[:40].replace("`", "") in page.words.replace("`", "")
    site.clone.push(dict.fromkeys(files))
    site.wait(lambda: not refused(site), "what is gone is still refused")


def test_ten_thousand_files_are_read_and_the_cluster_among_them_is_scaled(site: Site) -> None:
    many = {
        f"many/{number % 100:02}/note-{number}.yaml": f"kind: ConfigMap\napiVersion: v1\nmetadata: {{name: n{number}}}\n"
        for number in range(10_000)
    }
    machines = site.clusters()[STEADY]["machines"]
    site.clone.push({**many, "steady.yaml": cluster("steady", 700, workers=machines)})
    site.wait_until_up(STEADY, machines=machines + 1)
    assert site.administrator.open("/sources").find(r"10,\d{3} documents"), site.administrator.page.words[:500]
    shutil.rmtree(site.clone.folder / "many")
    site.wait_for_read(site.clone.push({}))


@pytest.mark.parametrize("how", ["an empty tree", "a vanished sub-path"])
def test_what_vanishes_whole_is_told_and_deletes_nothing(site: Site, tmp_path: Path, net: int, how: str) -> None:
    """A second source, whose clusters go all at once."""
    name, scope, source = f"b{net}", f"clusters/b{net}", f"s{net}"
    bare, clone = tmp_path / "team.git", tmp_path / "clone"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(bare))
    git(tmp_path, "clone", "-q", str(bare), str(clone))
    (clone / "clusters").mkdir()
    (clone / "clusters" / f"{name}.yaml").write_text(cluster(name, net))
    (clone / "README.md").write_text("words\n")
    push(clone)
    site.must("source", "add", source, str(bare), *(["--path", "clusters"] if how == "a vanished sub-path" else []))
    site.wait_until_up(scope)
    before = corner(site, name)
    git(clone, "rm", "-rq", "clusters" if how == "a vanished sub-path" else ".")
    push(clone)
    plan = site.wait_for_plan(scope)
    words = "folder is not in the repository any more"
    assert words in plan["held"]
    told = next(one for one in json.loads(site.must("get", "sources", "-o", "json").out) if one["source"] == source)
    assert told["state"] == "empty"
    reason = site.rows("SELECT reason FROM source WHERE name = ?", source)[0]["reason"]
    assert reason in [line.get("reason") for line in lines(site) if line["event"] == "source_state_changed"]
    page = site.administrator.open("/sources")
    assert page.find("this is not a deletion")
    assert site.administrator.open(f"/plans/{plan['id']}").find(words)
    assert words in site.must("show", str(plan["id"])).out
    assert site.kh("approve", str(plan["id"]), "--yes").code == 1
    assert corner(site, name) == before
    git(clone, "revert", "--no-edit", "HEAD")
    push(clone, commit=False)
    site.wait(lambda: site.open_plan(scope) is None, "the deletion is still planned")


def push(clone: Path, *, commit: bool = True) -> None:
    if commit:
        git(clone, "add", "--all")
        git(clone, "commit", "-q", "-m", "Change")
    git(clone, "push", "-q", "origin", "HEAD:main")


# -- the state directory; Kubehenge is stopped and started on the same site


def test_a_database_of_a_newer_version_is_refused_in_words_and_left_as_it_is(site: Site) -> None:
    site.stop()
    with closing(sqlite3.connect(site.state / "state.db")) as db, db:
        (version,) = db.execute("SELECT version_num FROM alembic_version").fetchone()
        db.execute("UPDATE alembic_version SET version_num = '9999'")
    counts = site.counts()
    words = "which a newer Kubehenge made"
    for arguments in (["serve"], ["tick"], ["plan"], ["get", "clusters"], ["doctor", "--local"]):
        ended = site.kh(*arguments)
        assert (ended.code, words in ended.said, "Traceback" in ended.said) == (1, True, False), (arguments, ended)
    assert site.counts() == counts
    with closing(sqlite3.connect(site.state / "state.db")) as db, db:
        db.execute("UPDATE alembic_version SET version_num = ?", (version,))
    start_again(site)


def start_again(site: Site) -> None:
    """It goes on where it was: what is pushed is read."""
    site.forget_sessions()
    site.start()
    site.wait_for_read(site.clone.push({}))
    assert site.administrator.open(f"/clusters/{STEADY}").find("Available")


@contextmanager
def mounted(*arguments: str, over: Path) -> Iterator[None]:
    """Something mounted over a directory, where this user may mount."""
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount")
    if subprocess.run(["mount", *arguments, str(over)], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(over)], check=True)


def test_a_read_only_state_directory_is_refused_in_words_and_nothing_is_lost(site: Site) -> None:
    site.stop()
    counts = site.counts()
    with mounted("--bind", str(site.state), over=site.state):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(site.state)], check=True)
        for arguments in (["serve"], ["tick"], ["freeze", STEADY, "-m", "x"]):
            ended = site.kh(*arguments)
            assert (ended.code, "Traceback" in ended.said) == (1, False), (arguments, ended)
            assert f"The state directory {site.state} cannot be written" in ended.said
        looked = site.kh("doctor", "--local")
        assert (looked.code, "cannot be written by this user" in looked.out) == (1, True), looked
    assert site.counts() == counts
    start_again(site)


def test_a_disk_that_fills_up_under_it_is_told_and_it_goes_on_once_there_is_space(site: Site, tmp_path: Path) -> None:
    """The state is copied to a small disk, which is then filled."""
    site.stop()
    kept = tmp_path / "kept"
    shutil.copytree(site.state, kept, symlinks=True)
    size = sum(path.stat().st_size for path in kept.rglob("*") if path.is_file()) // 1024 + 4096
    with mounted("-t", "tmpfs", "-o", f"size={size}k,mode=700", "none", over=site.state):
        shutil.copytree(kept, site.state, dirs_exist_ok=True, symlinks=True)
        site.forget_sessions()
        site.start()
        browser = site.administrator
        filler = site.state / "filler"
        with filler.open("wb", buffering=0) as file:
            while fill(file):
                pass
        machines = site.clusters()[STEADY]["machines"]
        site.clone.push({"steady.yaml": cluster("steady", 700, workers=machines)})
        site.wait(lambda: any(is_full(line) for line in lines(site)), "the log does not say that the disk is full")
        asked = site.kh("freeze", STEADY, "-m", "no space")
        assert (asked.code, "Traceback" in asked.said, is_full({"said": asked.said})) == (1, False, True), asked
        browser.open("/freezes")
        answer = browser.submit("/freezes", scope=STEADY, reason="no space")
        assert (answer.status, "disk has no space left" in answer.words) == (503, True), answer.words
        assert browser.open(f"/clusters/{STEADY}").find("Available"), "readers are served"
        filler.unlink()
        site.wait_until_up(STEADY, machines=machines + 1)
        site.stop()
        shutil.copytree(site.state, kept, dirs_exist_ok=True, symlinks=True)
    shutil.rmtree(site.state)
    shutil.copytree(kept, site.state, symlinks=True)
    start_again(site)


def fill(file: Any) -> int:
    try:
        return int(file.write(b"x" * 4096))
    except OSError:
        return 0


def is_full(line: dict[str, Any]) -> bool:
    return "no space left" in json.dumps(line).lower()
