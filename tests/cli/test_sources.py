"""`source`: adding a repository, and accepting a rewritten history."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from kubehenge.store.database import Database
from kubehenge.store.rows import LedgerRow, SourceRow, SourceState
from tests.cli.conftest import Ended
from tests.cli.test_decisions import ME
from tests.cli.test_drafting import git

Kh = Callable[..., Ended]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "more"
    git(tmp_path, "init", "-q", "-b", "main", "more")
    (folder / "a.yaml").write_text("a: 1\n", encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def source(database: Database, name: str) -> SourceRow | None:
    with database.read() as session:
        return session.scalars(select(SourceRow).where(SourceRow.name == name)).first()


def test_a_source_is_added_after_a_look_and_written_to_the_ledger(kh: Kh, filled: Database, repository: Path) -> None:
    ended = kh("source", "add", "more", str(repository), "--path", "/clusters/")
    head = git(repository, "rev-parse", "HEAD")
    assert ended.code == 0
    assert f"now at {head[:12]}" in ended.out
    row = source(filled, "more")
    assert row
    assert (row.branch, row.path, row.credentials, row.state) == ("main", "clusters", {}, SourceState.NEW)
    with filled.read() as session:
        entry = session.scalars(select(LedgerRow).order_by(LedgerRow.position.desc()).limit(1)).one()
    assert (entry.event, entry.subject, entry.who, entry.facts["url"]) == ("source_added", "more", ME, str(repository))


def test_credentials_are_named_by_their_files_and_never_kept(kh: Kh, filled: Database, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("hunter2hunter2", encoding="utf-8")
    url = "https://git.example.com/fleet.git"
    assert kh("source", "add", "more", url, "--token-file", str(token), "--unchecked").code == 0
    row = source(filled, "more")
    assert row
    assert row.credentials == {"token_file": str(token)}
    assert kh("source", "add", "other", url, "--token-command", "vault read 'a token'", "--unchecked").code == 0
    row = source(filled, "other")
    assert row
    assert row.credentials == {"token_command": ["vault", "read", "a token"]}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["more", "/no/such/repository"], "cannot be read, so it was not added"),
        (["fleet", "/anything"], "There is a source fleet already"),
        (["more", "http://git.example.com/fleet.git"], "https:// or ssh://"),
        (["more", "--", "-ooops"], "begins with a dash"),
        (["Not A Name", "/anything"], "write 1 to 63 of a-z"),
        (["more", "https://user:hunter2hunter2@git.example.com/fleet.git"], ""),
        (["more", "/anything", "--branch", "../x"], ""),
        (["more", "/anything", "--token-file", "/no/such/token"], "does not exist"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_cannot_be_a_source_is_refused_in_words(kh: Kh, filled: Database, arguments: list[str], says: str) -> None:
    ended = kh("source", "add", *arguments)
    assert ended.code == 1
    assert says in ended.err
    assert "hunter2" not in ended.err
    assert "Traceback" not in ended.err
    assert source(filled, "more") is None


def test_a_branch_that_is_not_there_is_told(kh: Kh, filled: Database, repository: Path) -> None:
    ended = kh("source", "add", "more", str(repository), "--branch", "release")
    assert (ended.code, "has no branch release" in ended.err) == (1, True)


@pytest.fixture
def rewritten(filled: Database) -> Database:
    with filled.write() as session:
        row = session.scalars(select(SourceRow).where(SourceRow.name == "fleet")).one()
        row.state, row.reason = SourceState.REWRITTEN, "The branch was rewritten."
        row.seen_sha, row.lost_commits = "d" * 40, ["cccccccccccc three workers"]
    return filled


def test_a_rewritten_history_is_shown_and_accepted(kh: Kh, rewritten: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = json.loads(kh("source", "list", "-o", "json").out)
    assert (row["state"], row["seen"], row["lost_commits"]) == ("rewritten", "d" * 40, ["cccccccccccc three workers"])
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    ended = kh("source", "accept", "fleet")
    assert ended.code == 0
    assert "three workers" in ended.out
    found = source(rewritten, "fleet")
    assert found
    assert found.state is SourceState.NEW


def test_accepting_without_a_look_needs_the_revision_that_is_there(kh: Kh, rewritten: Database) -> None:
    assert "name the revision" in kh("source", "accept", "fleet", "--yes").err
    ended = kh("source", "accept", "fleet", "e" * 40, "--yes")
    assert (ended.code, "moved on" in ended.err) == (1, True)
    assert kh("source", "accept", "fleet", "ddddddd", "--yes").code == 0


def test_a_source_that_is_not_there_cannot_be_accepted(kh: Kh, filled: Database) -> None:
    ended = kh("source", "accept", "nope")
    assert (ended.code, "Those are: fleet" in ended.err) == (1, True)
