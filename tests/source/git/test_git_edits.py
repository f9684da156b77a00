"""Commits that Kubehenge makes: to its own repository and to others', fast-forward only (MODEL 33)."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from git_upstream import git
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubehenge.errors import KubehengeError
from kubehenge.source.git import (
    BranchMoved,
    GitMirror,
    Moved,
    NothingToCommit,
    Pushed,
    PushRefused,
    Signer,
    SourceSpec,
    Tree,
    Unread,
    commit_files,
    init_own_repository,
    parse_source_url,
    push_commit,
    write_commit,
)
from kubehenge.source.git_errors import UnknownRevisionError

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ADA = Signer(name="Ada Lovelace", email="ada@example.org")
KUBEHENGE = Signer(name="Kubehenge", email="kubehenge@example.org")
SIGNED = {"author": ADA, "committer": KUBEHENGE, "message": "Scale prod to 5", "at": AT}


@pytest.fixture
def edited(upstream, mirror_of):
    """A mirror that has read a repository of three files."""
    head = upstream.push({"prod.yaml": "a: 1\n", "deep/er/test.yaml": "b: 1\n", "notes.txt": "n\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    return mirror, head


def test_an_edit_is_one_commit_on_the_branch_by_its_author(upstream, edited):
    mirror, base = edited
    answer = commit_files(mirror, base, {"prod.yaml": b"a: 5\n"}, **SIGNED)
    assert isinstance(answer, Pushed)
    assert upstream.head() == answer.revision
    assert mirror.poll(base) == Moved(old=base, new=answer.revision, descendant=True)
    commit = mirror.commit_info(answer.revision)
    assert (commit.parents, commit.subject) == ((base,), "Scale prod to 5")
    assert (commit.author.name, commit.author.email, commit.author.at) == ("Ada Lovelace", "ada@example.org", AT)
    assert (commit.committer.name, commit.committer.at) == ("Kubehenge", AT)
    assert [change.path for change in mirror.changed(base, answer.revision).files] == ["prod.yaml"]
    assert git(upstream.bare, "show", f"{answer.revision}:prod.yaml") == "a: 5"
    assert git(upstream.bare, "show", f"{answer.revision}:deep/er/test.yaml") == "b: 1"
    git(upstream.bare, "fsck", "--strict")


def test_files_are_added_and_deleted_in_one_commit(upstream, edited):
    mirror, base = edited
    files = {'new/a b "c" é.yaml': b"\0raw\xff", "deep/er/test.yaml": None, "not/there.yaml": None}
    answer = commit_files(mirror, base, files, **SIGNED)
    listed = git(upstream.bare, "ls-tree", "-r", "-z", "--name-only", answer.revision).rstrip("\0").split("\0")
    assert listed == ['new/a b "c" é.yaml', "notes.txt", "prod.yaml"]
    blob = git(upstream.bare, "rev-parse", f"{answer.revision}:{listed[0]}")
    assert blob == hashlib.sha1(b"blob 5\0\0raw\xff").hexdigest()


def test_an_edit_that_changes_nothing_makes_no_commit(upstream, edited):
    mirror, base = edited
    assert commit_files(mirror, base, {"prod.yaml": b"a: 1\n"}, **SIGNED) == NothingToCommit(base=base)
    assert upstream.head() == base


def test_the_same_edit_has_the_same_id(edited):
    mirror, base = edited
    first = write_commit(mirror, base, {"prod.yaml": b"a: 5\n"}, **SIGNED)
    assert write_commit(mirror, base, {"prod.yaml": b"a: 5\n"}, **SIGNED) == first
    assert write_commit(mirror, base, {"prod.yaml": b"a: 6\n"}, **SIGNED) != first


def test_a_commit_is_pushed_once_however_often_it_is_sent(upstream, edited):
    """The answer of the first push may have been lost."""
    mirror, base = edited
    revision = write_commit(mirror, base, {"prod.yaml": b"a: 5\n"}, **SIGNED)
    assert upstream.head() == base
    assert push_commit(mirror, revision) == push_commit(mirror, revision) == Pushed(revision=revision)
    git(upstream.clone, "pull", "--quiet", "origin", "main")
    upstream.push({"other.yaml": "o: 1\n"})
    assert push_commit(mirror, revision) == Pushed(revision=revision)


def test_an_edit_beside_someone_elses_push_is_made_anew_and_loses_neither(upstream, edited):
    mirror, base = edited
    theirs = upstream.push({"theirs.yaml": "t: 1\n"})
    answer = commit_files(mirror, base, {"prod.yaml": b"a: 5\n"}, **SIGNED)
    assert isinstance(answer, BranchMoved)
    assert upstream.head() == theirs
    moved = mirror.poll(base)
    again = commit_files(mirror, moved.new, {"prod.yaml": b"a: 5\n"}, **SIGNED)
    assert isinstance(again, Pushed)
    assert mirror.commit_info(again.revision).parents == (theirs,)
    assert git(upstream.bare, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_rewritten_history_is_never_overwritten(upstream, edited):
    mirror, base = edited
    git(upstream.clone, "commit", "--quiet", "--amend", "-m", "Rewritten")
    theirs = git(upstream.clone, "rev-parse", "HEAD")
    git(upstream.clone, "push", "--quiet", "--force", "origin", "HEAD:refs/heads/main")
    assert isinstance(commit_files(mirror, base, {"prod.yaml": b"a: 5\n"}, **SIGNED), BranchMoved)
    assert upstream.head() == theirs


def refuse_main(upstream, *, all_branches: bool = False) -> None:
    hook = upstream.bare / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    condition = "true" if all_branches else 'test "$1" = refs/heads/main'
    hook.write_text(f"#!/bin/sh\nif {condition}; then echo 'main is protected' >&2; exit 1; fi\n")
    hook.chmod(0o755)


def test_a_protected_branch_gets_a_branch_to_merge_from(upstream, edited):
    mirror, base = edited
    refuse_main(upstream)
    answer = commit_files(mirror, base, {"prod.yaml": b"a: 5\n"}, **SIGNED)
    assert isinstance(answer, PushRefused)
    assert answer.merge_branch == f"kubehenge/edit-{answer.revision[:12]}"
    assert answer.merge_branch in answer.message
    assert "main is protected" in answer.message
    assert upstream.head() == base
    assert git(upstream.bare, "rev-parse", answer.merge_branch) == answer.revision


def test_a_repository_that_takes_no_push_says_so(upstream, edited):
    mirror, base = edited
    refuse_main(upstream, all_branches=True)
    answer = commit_files(mirror, base, {"prod.yaml": b"a: 5\n"}, **SIGNED)
    assert isinstance(answer, PushRefused)
    assert answer.merge_branch is None
    assert "Nothing was pushed" in answer.message


def test_a_branch_that_someone_works_on_directly_is_not_changed_under_them(upstream, mirror_of):
    head = upstream.push({"prod.yaml": "a: 1\n"})
    mirror = mirror_of(str(upstream.clone))
    mirror.poll(None)
    answer = commit_files(mirror, head, {"prod.yaml": b"a: 5\n"}, **SIGNED)
    assert isinstance(answer, PushRefused)
    assert answer.merge_branch is not None


def test_an_edit_of_a_tree_with_a_file_that_was_never_fetched(upstream, mirror_of):
    head = upstream.push({"big.yaml": b"# " + b"x" * 2_000_000, "prod.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    assert [other.why for other in mirror.tree(head).unreadable] == [Unread.TOO_LARGE]
    answer = commit_files(mirror, head, {"prod.yaml": b"a: 5\n"}, **SIGNED)
    assert isinstance(answer, Pushed)
    assert git(upstream.bare, "rev-parse", f"{answer.revision}:big.yaml") == git(upstream.bare, "rev-parse", f"{head}:big.yaml")
    git(upstream.bare, "fsck", "--strict")


def test_an_edit_on_an_unknown_base_is_refused(edited):
    mirror, _ = edited
    with pytest.raises(UnknownRevisionError):
        commit_files(mirror, "f" * 40, {"prod.yaml": b"a: 5\n"}, **SIGNED)


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x.yaml", "a/../../x.yaml", ".git/config", "a//b.yaml", "a/", "-x.yaml", "a\nb.yaml", "a\\b.yaml"]
)
def test_a_path_that_leads_elsewhere_is_refused_before_anything_is_written(upstream, edited, path):
    mirror, base = edited
    with pytest.raises(KubehengeError):
        commit_files(mirror, base, {path: b"x"}, **SIGNED)
    assert upstream.head() == base


def test_names_and_messages_cannot_forge_parts_of_a_commit(upstream, edited):
    mirror, base = edited
    author = Signer(name="Eve\ncommitter Mallory <m@x> 0 +0000\n<>", email="e>\n@x y")
    message = "Subject\n\nM 100644 inline evil.yaml\ndata 1\nx\nfrom refs/heads/main\0"
    answer = commit_files(
        mirror, base, {"prod.yaml": b"data 5\nM 100644 inline evil2.yaml\n"}, author=author, committer=KUBEHENGE, message=message, at=AT
    )
    commit = mirror.commit_info(answer.revision)
    assert commit.committer.name == "Kubehenge"
    assert (commit.author.name, commit.author.email) == ("Eve committer Mallory m@x 0 +0000", "e@xy")
    assert git(upstream.bare, "log", "-1", "--format=%B", answer.revision).startswith("Subject\n\nM 100644 inline evil.yaml")
    assert "evil" not in git(upstream.bare, "ls-tree", "-r", "--name-only", answer.revision)
    git(upstream.bare, "fsck", "--strict")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(
        st.from_regex(r"[a-z\"é $']{1,6}(/[a-z' ]{1,4}){0,2}\.yaml", fullmatch=True).filter(lambda path: not path.startswith("-")),
        st.binary(max_size=60).filter(lambda content: not content.startswith(b"version https://git-lfs")),  # a pointer is no content
        min_size=1,
        max_size=4,
    ),
    name=st.text(max_size=20),
    message=st.text(max_size=60),
)
def test_any_files_names_and_messages_come_back_as_they_were_given(edited, files, name, message):
    mirror, base = edited
    revision = write_commit(mirror, base, files, author=Signer(name=name, email="a@b"), committer=KUBEHENGE, message=message, at=AT)
    assert revision is not None
    tree = mirror.tree(revision)
    assert isinstance(tree, Tree)
    contents = mirror.read_blobs(file.blob for file in tree.files)
    assert {file.path: contents[file.blob] for file in tree.files if file.path in files} == files


def test_an_own_repository_is_ready_to_be_read_cloned_and_pushed_to(tmp_path):
    state = tmp_path / "state"
    path = init_own_repository(state, at=AT)
    mirror = GitMirror(state, SourceSpec(id="own", url=parse_source_url(str(path))))
    first = mirror.poll(None)
    assert isinstance(first, Moved)
    assert mirror.tree(first.new).files == ()
    git(tmp_path, "clone", "--quiet", str(path), "clone")
    clone = tmp_path / "clone"
    (clone / "a.yaml").write_text("a: 1\n")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "-m", "Add a")
    git(clone, "push", "--quiet", "origin", "main")
    second = mirror.poll(first.new)
    assert second == Moved(old=first.new, new=git(clone, "rev-parse", "HEAD"), descendant=True)
    assert isinstance(commit_files(mirror, second.new, {"b.yaml": b"b: 1\n"}, **SIGNED), Pushed)


def test_an_own_repository_refuses_rewritten_history_and_keeps_what_it_has(tmp_path):
    path = init_own_repository(tmp_path / "state", at=AT)
    head = git(path, "rev-parse", "main")
    assert init_own_repository(tmp_path / "state", at=AT) == path
    assert git(path, "rev-parse", "main") == head
    git(tmp_path, "clone", "--quiet", str(path), "clone")
    git(tmp_path / "clone", "commit", "--quiet", "--amend", "-m", "Rewritten")
    with pytest.raises(AssertionError, match="non-fast-forward"):
        git(tmp_path / "clone", "push", "--force", "origin", "main")
    assert git(path, "rev-parse", "main") == head
    assert not (path / "hooks").exists()


def test_an_own_repository_whose_making_was_cut_off_is_made_whole(tmp_path):
    half = tmp_path / "state" / "repository.new"
    half.mkdir(parents=True)
    (half / "HEAD").write_text("ref: refs/heads/main\n")
    path = init_own_repository(tmp_path / "state", at=AT)
    assert len(git(path, "rev-parse", "main")) == 40
