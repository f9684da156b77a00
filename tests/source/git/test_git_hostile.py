"""A repository is hostile input: nothing in it runs, leads out, is followed, or is read past its limit (ACCEPTANCE 4.5)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from git_upstream import Upstream, git

from kubehenge.source.git import (
    MINIMUM_GIT,
    Failed,
    GitError,
    GitLimits,
    GitMirror,
    GitReason,
    Moved,
    Tree,
    Unchanged,
    Unread,
    installed_git,
)
from kubehenge.source.git_files import FETCHED_REF

CANARY = "canary-of-the-machine"


def head_of(mirror: GitMirror) -> tuple[str, Tree]:
    moved = mirror.poll(None)
    assert isinstance(moved, Moved), moved
    tree = mirror.tree(moved.new)
    assert isinstance(tree, Tree)
    return moved.new, tree


def read_all(mirror: GitMirror, tree: Tree) -> dict[str, bytes | Unread]:
    blobs = mirror.read_blobs(file.blob for file in tree.files)
    return {file.path: blobs[file.blob] for file in tree.files}


def reasons(tree: Tree) -> dict[str, Unread]:
    return {other.path: other.why for other in (*tree.unreadable, *tree.ignored)}


def test_symbolic_links_are_not_followed(upstream, mirror_of, tmp_path):
    secret = tmp_path / "secret.yaml"
    secret.write_text(CANARY)
    upstream.push_tree(
        [
            ("100644", "a.yaml", b"a: 1\n"),
            ("120000", "out.yaml", str(secret).encode()),
            ("120000", "up.yml", b"../../../../etc/passwd"),
            ("120000", "folder", b"/etc"),
        ]
    )
    mirror = mirror_of(upstream)
    _, tree = head_of(mirror)
    assert read_all(mirror, tree) == {"a.yaml": b"a: 1\n"}
    assert [(other.path, other.why) for other in tree.unreadable] == [("out.yaml", Unread.SYMLINK), ("up.yml", Unread.SYMLINK)]
    assert [(other.path, other.why) for other in tree.ignored] == [("folder", Unread.SYMLINK)]
    assert "symbolic link" in tree.unreadable[0].reason


def test_a_file_that_becomes_a_link_is_unreadable_and_not_removed(upstream, mirror_of):
    old = upstream.push({"a.yaml": "a: 1\n", "b.yaml": "b: 1\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    new = upstream.push_tree([("120000", "a.yaml", b"/etc/passwd"), ("160000", "b.yaml", "1" * 40)])
    mirror.poll(old)
    changes = mirror.changed(old, new)
    assert changes.files == ()
    assert [(other.path, other.why) for other in changes.unreadable] == [("a.yaml", Unread.SYMLINK), ("b.yaml", Unread.SUBMODULE)]
    back = upstream.push_tree([("100644", "a.yaml", b"a: 2\n")])
    mirror.poll(new)
    changed, removed = mirror.changed(new, back).files
    assert (changed.path, changed.kind, changed.old_blob, changed.new_blob is None) == ("a.yaml", "changed", None, False)
    assert (removed.path, removed.kind, removed.new_blob) == ("b.yaml", "removed", None)


def test_submodules_are_not_fetched(upstream, mirror_of, tmp_path, git_runs):
    other = Upstream(tmp_path / "other")
    target = other.push({"b.yaml": "b: 1\n"})
    gitmodules = f'[submodule "sub"]\n\tpath = sub\n\turl = {other.bare}\n\tfetchRecurseSubmodules = true\n'.encode()
    upstream.push_tree([("100644", ".gitmodules", gitmodules), ("160000", "sub", target), ("100644", "a.yaml", b"a: 1\n")])
    mirror = mirror_of(upstream)
    git_runs()
    _, tree = head_of(mirror)
    assert [file.path for file in tree.files] == ["a.yaml"]
    assert reasons(tree) == {".gitmodules": Unread.HIDDEN, "sub": Unread.SUBMODULE}
    assert not any(str(other.bare) in run for run in git_runs())
    assert not list(mirror.path.rglob("modules"))


def test_a_submodule_address_that_is_an_option_is_refused_by_gits_own_check(upstream, mirror_of):
    old = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    gitmodules = b'[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch\n'
    upstream.push_tree([("100644", ".gitmodules", gitmodules), ("160000", "x", "1" * 40)])
    answer = mirror.poll(old)
    assert isinstance(answer, Failed)
    assert answer.reason is GitReason.BAD_OBJECTS
    assert mirror.tracked() == old


def test_a_path_twice_in_one_tree_is_refused(upstream, mirror_of):
    blob = git(upstream.bare, "hash-object", "-w", "--stdin", stdin=b"a: 1\n")
    entry = b"100644 a.yaml\0" + bytes.fromhex(blob)
    tree = git(upstream.bare, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=entry + entry)
    commit = git(upstream.bare, "commit-tree", tree, "-m", "x")
    git(upstream.bare, "update-ref", "refs/heads/main", commit)
    answer = mirror_of(upstream).poll(None)
    assert isinstance(answer, Failed)
    assert answer.reason is GitReason.BAD_OBJECTS


def test_filters_attributes_and_encodings_are_not_applied(upstream, mirror_of, tmp_path, monkeypatch):
    """Nor the filters that the machine's own settings define."""
    ran = tmp_path / "ran"
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f'[filter "evil"]\n\tsmudge = touch {ran}; cat\n\tclean = touch {ran}; cat\n\trequired = true\n')
    (home / ".gitattributes").write_text("* filter=evil\n")
    monkeypatch.setenv("HOME", str(home))
    raw = b"a: 1\r\nb: $Id$\r\n"
    attributes = b"*.yaml filter=evil ident text eol=lf working-tree-encoding=UTF-16 export-subst\n* diff=evil\n"
    upstream.push_tree([("100644", ".gitattributes", attributes), ("100644", "a.yaml", raw)])
    mirror = mirror_of(upstream)
    _, tree = head_of(mirror)
    assert read_all(mirror, tree) == {"a.yaml": raw}
    assert not ran.exists()


def test_a_file_in_lfs_is_named_as_such(upstream, mirror_of):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 12345\n"
    upstream.push_tree([("100644", ".gitattributes", b"*.yaml filter=lfs diff=lfs merge=lfs -text\n"), ("100644", "a.yaml", pointer)])
    mirror = mirror_of(upstream)
    _, tree = head_of(mirror)
    assert read_all(mirror, tree) == {"a.yaml": Unread.LFS_POINTER}
    assert "Git LFS" in Unread.LFS_POINTER.reason


def test_hooks_of_either_side_do_not_run_when_reading(upstream, mirror_of, tmp_path):
    ran = tmp_path / "ran"
    mirror = mirror_of(upstream)
    old = upstream.push({"a.yaml": "a: 1\n", "hooks/post-checkout": f"#!/bin/sh\ntouch {ran}\n"})
    mirror.poll(None)
    for hooks in (upstream.bare / "hooks", mirror.path / "hooks"):
        hooks.mkdir(exist_ok=True)
        for name in (
            "post-checkout",
            "post-merge",
            "reference-transaction",
            "pre-auto-gc",
            "post-rewrite",
            "fsmonitor-watchman",
            "pre-receive",
            "update",
        ):
            (hooks / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
            (hooks / name).chmod(0o755)
    git(upstream.bare, "config", "uploadpack.packObjectsHook", f"touch {ran}; false")
    git(upstream.bare, "config", "core.fsmonitor", f"touch {ran}")
    new = upstream.commit({"a.yaml": "a: 2\n"})
    git(
        upstream.clone,
        "-c",
        "core.hooksPath=/dev/null",
        "push",
        "--quiet",
        "--receive-pack=git -c core.hooksPath=/dev/null receive-pack",
        "origin",
        "HEAD:refs/heads/main",
    )
    assert not ran.exists()
    assert mirror.poll(old) == Moved(old=old, new=new, descendant=True)
    mirror.changed(old, new)
    assert not ran.exists()


def test_names_that_differ_by_case_alone_are_different_files(upstream, mirror_of):
    entries = [
        ("100644", name, f"n: {name}\n".encode()) for name in ("A.yaml", "Clusters/a.yaml", "a.yaml", "clusters/a.yaml", "clusters/A.yaml")
    ]
    upstream.push_tree(entries)
    mirror = mirror_of(upstream)
    _, tree = head_of(mirror)
    assert read_all(mirror, tree) == {name: content for _, name, content in entries}


def test_names_that_cannot_be_shown_are_unreadable_and_shown_escaped(upstream, mirror_of):
    names = ["good.yaml", "new\nline.yaml", "esc\x1b[31m.yaml", "rtl\u202e.yaml", "\udcff\udcfe.yaml", "é ü.yaml"]
    upstream.push_tree([("100644", name, b"a: 1\n") for name in names])
    mirror = mirror_of(upstream)
    _, tree = head_of(mirror)
    assert sorted(read_all(mirror, tree)) == ["good.yaml", "é ü.yaml"]
    assert len(tree.unreadable) == 4
    assert all(other.why is Unread.ODD_NAME and other.path.isprintable() for other in tree.unreadable)
    assert len({other.path for other in tree.unreadable}) == 4


def test_hidden_folders_are_left_alone_unless_they_are_the_sub_path(upstream, mirror_of):
    upstream.push({".github/workflows/x.yml": "on: push\n", "a.yaml": "a: 1\n", "sub/.hidden.yaml": "h: 1\n"})
    mirror = mirror_of(upstream)
    _, tree = head_of(mirror)
    assert [file.path for file in tree.files] == ["a.yaml"]
    assert set(reasons(tree).values()) == {Unread.HIDDEN}
    chosen = mirror_of(upstream, path=".github", source="hidden")
    _, tree = head_of(chosen)
    assert [file.path for file in tree.files] == [".github/workflows/x.yml"]


def test_binary_garbage_comes_back_byte_for_byte(upstream, mirror_of):
    garbage = {f"g{number}.yaml": bytes((number * 31 + byte * 7) % 256 for byte in range(3000)) for number in range(5)} | {
        "nul.yaml": b"\0" * 100,
        "empty.yaml": b"",
    }
    upstream.push_tree([("100644", name, content) for name, content in garbage.items()])
    mirror = mirror_of(upstream)
    _, tree = head_of(mirror)
    assert read_all(mirror, tree) == garbage


def test_git_mode_bits_of_a_file_do_not_matter(upstream, mirror_of):
    upstream.push_tree([("100755", "a.yaml", b"a: 1\n")])
    mirror = mirror_of(upstream)
    _, tree = head_of(mirror)
    assert read_all(mirror, tree) == {"a.yaml": b"a: 1\n"}


def push_large(upstream: Upstream, size_mb: int = 50) -> None:
    block = os.urandom(1_000_000)
    content = b"".join(bytes([number]) + block for number in range(size_mb))
    upstream.push_tree([("100644", "a.yaml", b"a: 1\n"), ("100644", "huge.yaml", content), ("100644", "huge.bin", block * 2)])


def mirror_bytes(mirror: GitMirror) -> int:
    return sum(path.stat().st_size for path in mirror.path.rglob("*") if path.is_file())


@pytest.mark.parametrize("over", ["local path", "https"])
def test_a_large_file_is_not_downloaded(upstream, mirror_of, git_server, ca, over):
    push_large(upstream)
    if over == "https":  # a server has to allow it; for a path on this machine the serving git is ours
        git(upstream.bare, "config", "uploadpack.allowFilter", "true")
    mirror = mirror_of(upstream) if over == "local path" else mirror_of(git_server.url(upstream.bare), credentials=ca)
    head, tree = head_of(mirror)
    assert mirror_bytes(mirror) < 1_000_000
    assert [file.path for file in tree.files] == ["a.yaml"]
    assert [(other.path, other.why) for other in tree.unreadable] == [("huge.yaml", Unread.TOO_LARGE)]
    huge = git(upstream.bare, "rev-parse", f"{head}:huge.yaml")
    assert mirror.read_blobs([huge, tree.files[0].blob]) == {huge: Unread.TOO_LARGE, tree.files[0].blob: b"a: 1\n"}
    assert mirror_bytes(mirror) < 1_000_000  # nothing was brought afterwards
    new = upstream.push_tree([("100644", "a.yaml", b"a: 2\n"), ("100644", "huge.yaml", b"small: now\n"), ("100644", "huge.bin", b"x")])
    assert mirror.poll(head) == Moved(old=head, new=new, descendant=True)
    assert [change.path for change in mirror.changed(head, new).files] == ["a.yaml", "huge.yaml"]
    assert mirror_bytes(mirror) < 1_000_000


def test_a_large_file_from_a_server_without_filters_is_not_read(upstream, mirror_of, git_server, ca):
    push_large(upstream)
    mirror = mirror_of(git_server.url(upstream.bare), credentials=ca)
    head, tree = head_of(mirror)
    assert mirror_bytes(mirror) > 40_000_000
    assert [(other.path, other.why) for other in tree.unreadable] == [("huge.yaml", Unread.TOO_LARGE)]
    huge = git(upstream.bare, "rev-parse", f"{head}:huge.yaml")
    assert mirror.read_blobs([huge, tree.files[0].blob]) == {huge: Unread.TOO_LARGE, tree.files[0].blob: b"a: 1\n"}


def test_a_fetch_over_the_size_limit_is_ended_and_leaves_what_was_there(upstream, mirror_of, git_server, ca):
    old = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(git_server.url(upstream.bare), credentials=ca, limits=GitLimits(mirror_max_bytes=5_000_000))
    mirror.poll(None)
    push_large(upstream, 8)
    answer = mirror.poll(old)
    assert isinstance(answer, Failed)
    assert (answer.reason, answer.retry) == (GitReason.TOO_LARGE, False)
    assert sum(path.stat().st_size for path in mirror.path.parent.rglob("*") if path.is_file()) < 1_000_000
    assert mirror.tracked() == old
    assert [file.path for file in mirror.tree(old).files] == ["a.yaml"]
    assert git(mirror.path, "rev-parse", FETCHED_REF) == old


def test_a_head_that_was_refused_is_not_brought_again_until_it_moves(upstream, mirror_of, git_runs):
    old = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream, limits=GitLimits(mirror_max_bytes=500_000))
    mirror.poll(None)
    upstream.push({f"{number}.yaml": os.urandom(400_000).hex() for number in range(2)})
    first = mirror.poll(old)
    git_runs()
    assert mirror.poll(old) == first
    assert [run.split()[1] for run in git_runs()] == ["ls-remote"]
    record = mirror.files.path.with_suffix(".refused")
    os.utime(record, (1, 1))  # long ago: the server may have been mended
    assert mirror.poll(old) == first
    assert "fetch" in {run.split()[1] for run in git_runs()}
    git(upstream.clone, "reset", "--quiet", "--hard", old)
    new = upstream.push({"b.yaml": "b: 1\n"}, force=True)
    assert mirror.poll(old) == Moved(old=old, new=new, descendant=True)
    assert not record.exists()


def test_a_mirror_that_rewritten_history_made_too_large_is_made_anew(upstream, mirror_of):
    base = head = upstream.push({"a.yaml": "a: 0\n"})
    mirror = mirror_of(upstream, limits=GitLimits(mirror_max_bytes=2_000_000))
    mirror.poll(None)
    for _ in range(5):
        git(upstream.clone, "reset", "--quiet", "--hard", base)
        new = upstream.push({f"{number}.yaml": os.urandom(400_000) for number in range(2)}, force=True)
        moved = mirror.poll(head)
        assert isinstance(moved, Moved)
        assert moved.new == new
        assert mirror_bytes(mirror) < 2_500_000
        head = new


def test_a_blob_that_promises_another_repository_is_not_fetched(upstream, mirror_of, tmp_path):
    """A repository that is itself a partial clone names its own promisor; neither side goes there."""
    push_large(upstream, 2)
    git(upstream.bare, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial.git"
    git(tmp_path, "clone", "--quiet", "--bare", "--filter=blob:limit=1m", f"file://{upstream.bare}", str(partial))
    git(partial, "config", "remote.origin.url", f"ext::touch {tmp_path / 'ran'}")
    answer = mirror_of(str(partial)).poll(None)
    assert isinstance(answer, (Moved, Failed))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("what", ["bundle", "gitfile", "plain file", "missing", "not a repository"])
def test_a_local_path_that_is_no_repository_is_refused_in_words(upstream, mirror_of, tmp_path, what):
    upstream.push({"a.yaml": "a: 1\n"})
    place = tmp_path / "place"
    match what:
        case "bundle":
            git(upstream.bare, "bundle", "create", "--quiet", str(place), "main")
        case "gitfile":
            place.write_text(f"gitdir: {upstream.bare}\n")
        case "plain file":
            place.write_text("x")
        case "not a repository":
            place.mkdir()
    answer = mirror_of(str(place)).poll(None)
    assert isinstance(answer, Failed)
    assert str(place) in answer.message


def test_a_repository_of_another_user_is_refused_in_words(upstream, mirror_of):
    if os.getuid() != 0:
        pytest.skip("only root can give a folder to another user")
    upstream.push({"a.yaml": "a: 1\n"})
    for path in (upstream.bare, *upstream.bare.rglob("*")):
        os.chown(path, 12345, 12345)
    answer = mirror_of(upstream).poll(None)
    assert isinstance(answer, Failed)
    assert answer.reason is GitReason.OWNERSHIP
    assert "another user" in answer.message


def test_a_state_directory_that_cannot_be_written_is_named(upstream, mirror_of, tmp_path):
    upstream.push({"a.yaml": "a: 1\n"})
    (tmp_path / "state").write_text("a file where the folder should be")
    answer = mirror_of(upstream).poll(None)
    assert isinstance(answer, Failed)
    assert answer.reason is GitReason.STORAGE
    assert str(tmp_path / "state") in answer.message


def test_a_full_disk_is_named_and_passes(upstream, mirror_of, tmp_path):
    if os.getuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root can mount a small disk")
    state = tmp_path / "state"
    state.mkdir()
    if os.system(f"mount -t tmpfs -o size=200k tmpfs {state} 2>/dev/null") != 0:
        pytest.skip("no small disk can be mounted here")
    try:
        push_large(upstream, 1)
        old = upstream.push_tree([("100644", f"r{number}.yaml", os.urandom(30_000)) for number in range(20)])
        answer = mirror_of(upstream).poll(None)
        assert isinstance(answer, Failed)
        assert (answer.reason, answer.retry) == (GitReason.STORAGE, True)
        assert os.system(f"mount -o remount,size=50m {state}") == 0
        assert mirror_of(upstream).poll(None).new == old
        assert mirror_of(upstream).poll(old) == Unchanged(head=old)
    finally:
        os.system(f"umount {state}")


def test_git_is_named_when_it_is_not_installed(upstream, mirror_of, monkeypatch, tmp_path):
    upstream.push({"a.yaml": "a: 1\n"})
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = mirror_of(upstream).poll(None)
    assert isinstance(answer, Failed)
    assert "not installed" in answer.message
    with pytest.raises(GitError, match="not installed"):
        installed_git()


def test_the_installed_git_is_new_enough_for_what_is_asked_of_it():
    assert installed_git() >= MINIMUM_GIT


def test_the_paths_of_a_tree_never_become_files(upstream, mirror_of):
    """Without a checkout a name that leads out has nowhere to lead to."""
    upstream.push({"a.yaml": "a: 1\n", "deep/er/b.yaml": "b: 1\n"})
    mirror = mirror_of(upstream)
    head_of(mirror)
    assert not list(Path(mirror.path.parent).rglob("*.yaml"))
