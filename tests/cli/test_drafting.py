"""`plan --from`: what is not pushed yet is planned as the push would be, and nothing of it is kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from kubehenge import wiring
from kubehenge.commands.opening import open_core
from tests.cli.conftest import Ended

Kh = Callable[..., Ended]
EXAMPLE = Path(__file__).parents[1] / "cases" / "01-smallest.yaml"


def git(folder: Path, *arguments: str) -> str:
    who = {
        f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.com"))
    }
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, **who}
    done = subprocess.run(["git", "-C", str(folder), *arguments], env=environment, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


@pytest.fixture
def clone(kh: Kh, tmp_path: Path) -> Path:
    """A clone whose first commit, with one cluster, is pushed and read."""
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "fleet.git")
    git(tmp_path, "clone", "-q", str(tmp_path / "fleet.git"), "clone")
    folder = tmp_path / "clone"
    (folder / "clusters").mkdir()
    shutil.copy(EXAMPLE, folder / "clusters" / "lab.yaml")
    push(folder)
    assert kh("db", "upgrade").code == 0
    assert kh("source", "add", "fleet", str(tmp_path / "fleet.git")).code == 0
    read()
    return folder


def push(folder: Path) -> str:
    git(folder, "checkout", "-q", "-B", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "change")
    git(folder, "push", "-q", "origin", "main")
    return git(folder, "rev-parse", "HEAD")


def read() -> None:
    """Do what the tick does with sources; the world is not asked."""
    with open_core() as core:
        wiring.make_tick(core, {}).run_pass(families=())


def scale(folder: Path) -> None:
    path = folder / "clusters" / "lab.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("replicas: 1", "replicas: 3"), encoding="utf-8")


def add_cluster(folder: Path, name: str = "second") -> None:
    declared = EXAMPLE.read_text(encoding="utf-8").replace("name: lab", f"name: {name}").replace("192.0.2.1", "198.51.100.1")
    (folder / "clusters" / f"{name}.yaml").write_text(declared, encoding="utf-8")


def everything() -> dict[str, int]:
    with open_core() as core, core.db.read() as session:
        tables = ("plan", "action", "document", "cluster", "resource", "version", "ledger", "tick", "approval", "body")
        return {table: session.execute(text(f'SELECT count(*) FROM "{table}"')).scalar_one() for table in tables}


def drafted(kh: Kh, *arguments: str) -> list[dict[str, Any]]:
    ended = kh("plan", *arguments, "-o", "json")
    assert ended.code == (2 if json.loads(ended.out) else 0), ended.err
    found: list[dict[str, Any]] = json.loads(ended.out)
    return found


def test_a_clean_checkout_has_nothing_to_plan(kh: Kh, clone: Path) -> None:
    ended = kh("plan", "--from", str(clone))
    assert (ended.code, ended.out) == (0, "Nothing to do: everything is as it is declared.\n")


def test_a_draft_is_the_plan_that_the_push_opens(kh: Kh, clone: Path) -> None:
    add_cluster(clone)
    scale(clone)
    before = everything()
    plans = drafted(kh, "--from", str(clone))
    assert {plan["scope"] for plan in plans} == {"clusters/lab", "clusters/second"}
    assert all(plan["plan"] == 0 for plan in plans)
    assert everything() == before
    push(clone)
    read()
    pushed = {row["scope"]: row["digest"] for row in json.loads(kh("plan", "-o", "json").out)}
    assert {plan["scope"]: plan["digest"] for plan in plans} == {scope: pushed[scope] for scope in ("clusters/lab", "clusters/second")}


def test_a_revision_is_planned_as_its_checkout_is(kh: Kh, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(clone, "checkout", "-q", "-b", "more")
    add_cluster(clone)
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", "one more")
    from_folder = drafted(kh, "--from", str(clone))
    git(clone, "checkout", "-q", "main")
    monkeypatch.chdir(clone)
    from_revision = drafted(kh, "--from", "more")
    assert [plan["digest"] for plan in from_revision] == [plan["digest"] for plan in from_folder]
    assert drafted(kh, "--from", "HEAD") == []
    assert drafted(kh, "--from", "more", "clusters/lab") == []


def test_a_deleted_file_is_planned_as_a_deletion(kh: Kh, clone: Path) -> None:
    add_cluster(clone)
    push(clone)
    read()
    with open_core() as core, core.db.write() as session:  # as if it had been made
        session.execute(text("UPDATE resource SET applied_hash = desired_hash, observed_hash = desired_hash"))
        session.execute(text("UPDATE plan SET state = 'done', closed_tick = opened_tick, closed_at = opened_at"))
    (clone / "clusters" / "second.yaml").unlink()
    (plan,) = drafted(kh, "--from", str(clone))
    assert (plan["scope"], plan["classes"]) == ("clusters/second", ["delete"])
    assert drafted(kh) == []


def test_what_is_refused_is_named_and_the_rest_is_planned(kh: Kh, clone: Path) -> None:
    add_cluster(clone)
    (clone / "clusters" / "lab.yaml").write_text(
        "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n\tname: lab\n", encoding="utf-8"
    )
    ended = kh("plan", "--from", str(clone), "-o", "json")
    assert [plan["scope"] for plan in json.loads(ended.out)] == ["clusters/second"]
    assert "clusters/lab.yaml is refused" in ended.err


def test_only_the_folder_that_the_source_reads_counts(kh: Kh, clone: Path, tmp_path: Path) -> None:
    with open_core() as core, core.db.write() as session:
        session.execute(text("UPDATE source SET path = 'clusters'"))
    read()
    add_cluster(clone)
    (clone / "elsewhere.yaml").write_text((clone / "clusters" / "second.yaml").read_text().replace("second", "third"), encoding="utf-8")
    whole, part = drafted(kh, "--from", str(clone)), drafted(kh, "--from", str(clone / "clusters"))
    assert [plan["scope"] for plan in whole] == ["clusters/second"]
    assert [plan["digest"] for plan in whole] == [plan["digest"] for plan in part]


def test_among_several_sources_one_is_named(kh: Kh, clone: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "other.git")
    assert kh("source", "add", "other", str(tmp_path / "other.git"), "--unchecked").code == 0
    ended = kh("plan", "--from", str(clone))
    assert (ended.code, "Say with --source" in ended.err) == (1, True)
    assert kh("plan", "--from", str(clone), "--source", "fleet").code == 0


@pytest.mark.parametrize("origin", ["no-such-branch", "--upload-pack=x", "HEAD~99"])
def test_what_is_neither_folder_nor_revision_is_told(kh: Kh, clone: Path, monkeypatch: pytest.MonkeyPatch, origin: str) -> None:
    monkeypatch.chdir(clone)
    ended = kh("plan", "--from", origin)
    assert (ended.code, "is neither a folder nor a revision" in ended.err) == (1, True)


def test_outside_of_a_repository_a_revision_means_nothing(kh: Kh, clone: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path / "state")
    ended = kh("plan", "--from", "main")
    assert (ended.code, "lies in no Git repository" in ended.err) == (1, True)
