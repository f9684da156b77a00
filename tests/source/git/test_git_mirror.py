"""The mirror of a source: what a poll answers, and that it reads no more than it must."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from git_upstream import ENV, Upstream, git, import_history

from kubehenge.source.git import ChangeKind, EmptyTree, Failed, GitLimits, GitReason, Gone, Moved, SubPathVanished, Tree, Unchanged, Unread
from kubehenge.source.git_errors import TooLargeError, UnknownRevisionError
from kubehenge.source.git_files import FETCHED_REF


def paths(tree: Tree) -> list[str]:
    assert isinstance(tree, Tree)
    return [file.path for file in tree.files]


def test_first_poll_brings_the_branch_and_its_files(upstream, mirror_of):
    head = upstream.push({"clusters/a.yaml": "a: 1\n", "clusters/b.yml": "b: 2\n", "README.md": "x"})
    mirror = mirror_of(upstream)
    assert mirror.poll(None) == Moved(old=None, new=head, descendant=True)
    tree = mirror.tree(head)
    assert paths(tree) == ["clusters/a.yaml", "clusters/b.yml"]
    assert [file.size for file in tree.files] == [5, 5]
    contents = mirror.read_blobs(file.blob for file in tree.files)
    assert [contents[file.blob] for file in tree.files] == [b"a: 1\n", b"b: 2\n"]
    assert [(other.path, other.why) for other in tree.ignored] == [("README.md", Unread.NOT_YAML)]


def test_idle_poll_is_one_ls_remote(upstream, mirror_of, git_runs):
    head = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    assert mirror.poll(None).new == head
    git_runs()
    assert mirror.poll(head) == Unchanged(head=head)
    (run,) = git_runs()
    assert run.split()[1:] == ["ls-remote", "--heads", "source", "refs/heads/main"]


def test_idle_poll_over_https_is_two_requests(upstream, mirror_of, git_server, ca):
    head = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(git_server.url(upstream.bare), credentials=ca)
    assert mirror.poll(None).new == head
    git_server.behaviour.requests.clear()
    assert mirror.poll(head) == Unchanged(head=head)
    assert len(git_server.behaviour.requests) == 2  # the server's abilities, and the one ref


def test_only_changed_files_are_read(upstream, mirror_of, git_runs):
    old = upstream.push({"a.yaml": "a: 1\n", "b.yaml": "b: 1\n", "c.yaml": "c: 1\n", "README.md": "x"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    new = upstream.push({"a.yaml": "a: 2\n", "b.yaml": None, "d.yaml": "d: 1\n", "README.md": "y"})
    assert mirror.poll(old) == Moved(old=old, new=new, descendant=True)
    git_runs()
    changes = mirror.changed(old, new)
    assert [(change.path, change.kind) for change in changes.files] == [
        ("a.yaml", ChangeKind.CHANGED),
        ("b.yaml", ChangeKind.REMOVED),
        ("d.yaml", ChangeKind.ADDED),
    ]
    assert changes.unreadable == ()
    blobs = mirror.read_blobs(change.new_blob for change in changes.files if change.new_blob)
    assert sorted(blobs.values()) == [b"a: 2\n", b"d: 1\n"]
    assert [run.split()[1] for run in git_runs()] == ["diff-tree", "cat-file"]


def test_a_moved_file_is_removed_and_added_with_the_same_blob(upstream, mirror_of):
    old = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    new = upstream.push({"a.yaml": None, "clusters/a.yaml": "a: 1\n"})
    mirror.poll(old)
    removed, added = mirror.changed(old, new).files
    assert (removed.kind, added.kind) == (ChangeKind.REMOVED, ChangeKind.ADDED)
    assert removed.old_blob == added.new_blob


def test_only_the_sub_path_is_seen(upstream, mirror_of):
    old = upstream.push({"prod/a.yaml": "a: 1\n", "production/b.yaml": "b: 1\n", "test/c.yaml": "c: 1\n"})
    mirror = mirror_of(upstream, path="prod")
    mirror.poll(None)
    assert paths(mirror.tree(old)) == ["prod/a.yaml"]
    new = upstream.push({"production/b.yaml": "b: 2\n", "test/c.yaml": "c: 2\n"})
    mirror.poll(old)
    assert mirror.changed(old, new).files == ()


def test_a_sub_path_that_looks_like_a_pattern_is_taken_as_it_is(upstream, mirror_of):
    old = upstream.push({"a*/x.yaml": "a: 1\n", "ab/y.yaml": "b: 1\n"})
    mirror = mirror_of(upstream, path="a*")
    mirror.poll(None)
    assert paths(mirror.tree(old)) == ["a*/x.yaml"]
    new = upstream.push({"a*/x.yaml": "a: 2\n", "ab/y.yaml": "b: 2\n"})
    mirror.poll(old)
    assert [change.path for change in mirror.changed(old, new).files] == ["a*/x.yaml"]


@pytest.mark.parametrize("way", ["gone", "file", "link", "submodule"])
def test_a_vanished_sub_path_is_an_answer_of_its_own(upstream, mirror_of, way):
    old = upstream.push({"prod/a.yaml": "a: 1\n", "other.yaml": "o: 1\n"})
    mirror = mirror_of(upstream, path="prod")
    mirror.poll(None)
    other = ("100644", "other.yaml", b"o: 1\n")
    entries = {
        "gone": [other],
        "file": [other, ("100644", "prod", b"x")],
        "link": [other, ("120000", "prod", b"/etc")],
        "submodule": [other, ("160000", "prod", "1" * 40)],
    }
    new = upstream.push_tree(entries[way])
    assert mirror.poll(old) == Moved(old=old, new=new, descendant=True)
    answer = mirror.tree(new)
    assert isinstance(answer, SubPathVanished)
    assert answer.path == "prod"
    assert {"gone": "not in", "file": "is a file", "link": "symbolic link", "submodule": "submodule"}[way] in answer.reason


def test_an_empty_tree_is_an_answer_of_its_own(upstream, mirror_of):
    old = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    new = upstream.push({"a.yaml": None})
    mirror.poll(old)
    assert mirror.tree(new) == EmptyTree(revision=new)


def test_a_tree_without_yaml_is_not_an_empty_tree(upstream, mirror_of):
    head = upstream.push({"README.md": "x"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    assert mirror.tree(head).files == ()
    assert len(mirror.tree(head).ignored) == 1


def test_rewritten_history_is_answered_until_the_new_head_is_accepted(upstream, mirror_of):
    base = upstream.push({"a.yaml": "a: 1\n"})
    lost_1 = upstream.push({"a.yaml": "a: 2\n"}, "Second")
    lost_2 = upstream.push({"a.yaml": "a: 3\n"}, "Third")
    mirror = mirror_of(upstream)
    mirror.poll(None)
    git(upstream.clone, "reset", "--quiet", "--hard", base)
    new = upstream.push({"a.yaml": "a: 4\n"}, "Other", force=True)
    for _ in range(2):
        moved = mirror.poll(lost_2)
        assert (moved.old, moved.new, moved.descendant, moved.lost_known) == (lost_2, new, False, True)
        assert [(commit.sha, commit.subject) for commit in moved.lost] == [(lost_2, "Third"), (lost_1, "Second")]
    assert mirror.poll(new) == Unchanged(head=new)
    assert [commit.sha for commit in mirror.lost_commits(lost_2, new)] == [lost_2, lost_1]


def test_a_branch_set_back_is_rewritten_history(upstream, mirror_of):
    base = upstream.push({"a.yaml": "a: 1\n"})
    lost = upstream.push({"a.yaml": "a: 2\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    git(upstream.clone, "reset", "--quiet", "--hard", base)
    git(upstream.clone, "push", "--quiet", "--force", "origin", "HEAD:refs/heads/main")
    moved = mirror.poll(lost)
    assert (moved.new, moved.descendant, [commit.sha for commit in moved.lost]) == (base, False, [lost])


def test_commits_that_only_a_lost_mirror_knew_are_said_to_be_unknown(upstream, mirror_of):
    base = upstream.push({"a.yaml": "a: 1\n"})
    lost = upstream.push({"a.yaml": "a: 2\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    shutil.rmtree(mirror.path)
    git(upstream.clone, "reset", "--quiet", "--hard", base)
    new = upstream.push({"a.yaml": "a: 3\n"}, force=True)
    assert mirror.poll(lost) == Moved(old=lost, new=new, descendant=False, lost=(), lost_known=False)


def test_a_deleted_branch_is_gone_and_can_come_back(upstream, mirror_of):
    head = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    git(upstream.bare, "update-ref", "-d", "refs/heads/main")
    gone = mirror.poll(head)
    assert isinstance(gone, Gone)
    assert gone.old == head
    assert "no branch main" in gone.message
    assert paths(mirror.tree(head)) == ["a.yaml"]
    git(upstream.bare, "update-ref", "refs/heads/main", head)
    assert mirror.poll(head) == Unchanged(head=head)


def test_an_empty_repository_has_no_branch(upstream, mirror_of):
    assert isinstance(mirror_of(upstream).poll(None), Gone)


def test_a_branch_whose_name_ends_alike_is_not_taken_for_it(upstream, mirror_of):
    upstream.push({"a.yaml": "a: 1\n"})
    git(upstream.bare, "update-ref", "refs/heads/x/refs/heads/prod", "refs/heads/main")
    assert isinstance(mirror_of(upstream, branch="prod").poll(None), Gone)


def test_a_branch_deleted_between_look_and_fetch_is_gone(upstream, mirror_of):
    upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    look = mirror.remote_head

    def look_then_delete():
        found = look()
        git(upstream.bare, "update-ref", "-d", "refs/heads/main")
        return found

    mirror.remote_head = look_then_delete
    assert isinstance(mirror.poll(None), Gone)


def test_a_push_between_look_and_fetch_is_what_the_poll_answers(upstream, mirror_of):
    upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    look, newer = mirror.remote_head, []

    def look_then_push():
        found = look()
        newer.append(upstream.push({"a.yaml": "a: 2\n"}))
        return found

    mirror.remote_head = look_then_push
    assert mirror.poll(None).new == newer[0]


def test_a_lost_mirror_comes_back_with_the_next_poll(upstream, mirror_of):
    head = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    shutil.rmtree(mirror.path)
    assert mirror.poll(head) == Unchanged(head=head)
    assert paths(mirror.tree(head)) == ["a.yaml"]


@pytest.mark.parametrize("damage", ["pack", "packs gone", "HEAD", "config", "ref", "tracked"])
def test_a_damaged_mirror_is_made_anew(upstream, mirror_of, damage):
    old = upstream.push({f"c{n}.yaml": f"c: {n}\n" * 50 for n in range(20)})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    packs = list((mirror.path / "objects" / "pack").iterdir())
    match damage:
        case "pack":
            pack = next(path for path in packs if path.suffix == ".pack")
            pack.chmod(0o600)
            pack.write_bytes(pack.read_bytes()[:-400] + b"\xff" * 400)
        case "packs gone":
            for path in packs:
                path.unlink()
        case "HEAD":
            (mirror.path / "HEAD").unlink()
        case "config":
            (mirror.path / "config").write_text("[core\n\x00")
        case "ref":
            (mirror.path / FETCHED_REF).write_text("")
        case "tracked":
            (mirror.path / "kubehenge-tracked").write_bytes(b"\xff")
    new = upstream.push({"c0.yaml": "c: new\n"})
    assert mirror.poll(old) == Moved(old=old, new=new, descendant=True)
    for _ in range(3):  # damage that only reading finds is mended by the poll after it
        try:
            tree = mirror.tree(new)
            contents = mirror.read_blobs(file.blob for file in tree.files)
            break
        except Exception:
            mirror.poll(new)
    assert contents[tree.files[0].blob] == b"c: new\n"
    assert len(contents) == 20


def test_locks_and_half_packs_of_a_killed_git_are_cleared(upstream, mirror_of):
    old = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    for name in (
        "shallow.lock",
        "packed-refs.lock",
        "config.lock",
        f"{FETCHED_REF}.lock",
        "objects/pack/tmp_pack_x1",
        "objects/pack/pack-x.keep",
    ):
        (mirror.path / name).write_bytes(b"")
    new = upstream.push({"a.yaml": "a: 2\n"})
    assert mirror.poll(old) == Moved(old=old, new=new, descendant=True)
    assert not list(mirror.path.rglob("*.lock"))
    assert not [path for path in (mirror.path / "objects" / "pack").iterdir() if path.name.startswith("tmp_") or path.suffix == ".keep"]


def test_a_killed_reader_leaves_a_mirror_that_the_next_one_uses(upstream, mirror_of, tmp_path):
    head = upstream.push({f"c{n}.yaml": f"c: {n}\n" * 500 for n in range(300)})
    mirror = mirror_of(upstream)
    script = textwrap.dedent(f"""
        from pathlib import Path
        from kubehenge.source.git import *
        mirror = GitMirror(Path({str(tmp_path / "state")!r}), SourceSpec(id="team", url=parse_source_url({str(upstream.bare)!r})))
        print("go", flush=True)
        mirror.poll(None)
        print("done", flush=True)
    """)
    for _ in range(4):
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as proc:
            assert proc.stdout.readline() == b"go\n"
            try:
                proc.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                proc.kill()
    assert mirror.poll(None) == Moved(old=None, new=head, descendant=True)
    assert len(mirror.read_blobs(file.blob for file in mirror.tree(head).files)) == 300


def test_ten_thousand_files_are_listed_and_read_by_one_process_each(tmp_path, mirror_of, git_runs):
    bare = tmp_path / "big.git"
    bare.mkdir()
    git(bare, "init", "--quiet", "--bare", "--initial-branch=main")
    import_history(bare, files=10_000, commits=1, lines=2)
    mirror = mirror_of(str(bare))
    head = mirror.poll(None).new
    git_runs()
    tree = mirror.tree(head)
    assert len(tree.files) == 10_000
    contents = mirror.read_blobs(file.blob for file in tree.files)
    assert sum(isinstance(content, bytes) for content in contents.values()) == 10_000
    assert [run.split()[1] for run in git_runs()] == ["ls-tree", "cat-file"]


def test_a_tree_of_too_many_files_is_refused_in_words(upstream, mirror_of):
    head = upstream.push({f"f{n}.txt": "x" for n in range(12)})
    mirror = mirror_of(upstream, limits=GitLimits(max_files=10))
    mirror.poll(None)
    with pytest.raises(TooLargeError, match=r"12 files.*sub-path"):
        mirror.tree(head)


def test_files_that_add_up_to_too_much_are_refused_in_words(upstream, mirror_of):
    head = upstream.push({f"f{n}.yaml": "x" * 1000 + str(n) for n in range(12)})
    mirror = mirror_of(upstream, limits=GitLimits(read_max_bytes=10_000))
    mirror.poll(None)
    with pytest.raises(TooLargeError, match="sub-path"):
        mirror.read_blobs(file.blob for file in mirror.tree(head).files)


def test_many_fetches_are_joined_into_few_packs_and_nothing_shown_is_lost(upstream, mirror_of, monkeypatch):
    monkeypatch.setattr("kubehenge.source.git_repo._PACKS_BEFORE_REPACK", 4)
    big = b"# " + b"x" * 1_500_000
    first = head = upstream.push({"a.yaml": "a: 0\n", "big.yaml": big})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    rewritten = upstream.push({"a.yaml": "a: lost\n"})
    mirror.poll(head)
    git(upstream.clone, "reset", "--quiet", "--hard", first)
    head = upstream.push({"a.yaml": "a: 1\n"}, force=True)
    assert mirror.poll(rewritten).lost[0].sha == rewritten
    for number in range(2, 12):
        new = upstream.push({"a.yaml": f"a: {number}\n"})
        assert mirror.poll(head) == Moved(old=head, new=new, descendant=True)
        head = new
    assert len(list((mirror.path / "objects" / "pack").glob("*.pack"))) <= 5
    assert [commit.sha for commit in mirror.lost_commits(rewritten, head)] == [rewritten]
    tree = mirror.tree(head)
    assert [(file.path, file.why) for file in tree.unreadable] == [("big.yaml", Unread.TOO_LARGE)]
    assert list(mirror.read_blobs(file.blob for file in tree.files).values()) == [b"a: 11\n"]


def test_sources_are_kept_apart(tmp_path, mirror_of):
    one, two = Upstream(tmp_path / "one"), Upstream(tmp_path / "two")
    head_1, head_2 = one.push({"a.yaml": "a: 1\n"}), two.push({"b.yaml": "b: 1\n"})
    first, second = mirror_of(one, source="one"), mirror_of(two, source="two")
    assert (first.poll(None).new, second.poll(None).new) == (head_1, head_2)
    with pytest.raises(UnknownRevisionError):
        first.tree(head_2)


def test_a_revision_that_was_never_fetched_is_named_as_such(upstream, mirror_of):
    head = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    with pytest.raises(UnknownRevisionError):
        mirror.tree(head)
    mirror.poll(None)
    for call in (mirror.tree, mirror.commit_info, lambda sha: mirror.changed(head, sha), lambda sha: mirror.is_ancestor(head, sha)):
        with pytest.raises(UnknownRevisionError, match="copy"):
            call("f" * 40)
    assert mirror.is_ancestor("f" * 40, head) is False


def test_a_repository_of_sha256_objects_is_read(tmp_path, mirror_of):
    upstream = Upstream(tmp_path / "sha256", object_format="sha256")
    old = upstream.push({"a.yaml": "a: 1\n"})
    assert len(old) == 64
    mirror = mirror_of(upstream)
    assert mirror.poll(None).new == old
    new = upstream.push({"a.yaml": "a: 2\n"})
    assert mirror.poll(old) == Moved(old=old, new=new, descendant=True)
    (change,) = mirror.changed(old, new).files
    assert mirror.read_blobs([change.new_blob]) == {change.new_blob: b"a: 2\n"}


def test_a_merge_and_all_it_brings_is_a_descendant(upstream, mirror_of):
    base = upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    git(upstream.clone, "checkout", "--quiet", "-b", "side")
    side = upstream.commit({"b.yaml": "b: 1\n"}, "Side")
    git(upstream.clone, "checkout", "--quiet", "main")
    main = upstream.commit({"c.yaml": "c: 1\n"}, "Main")
    git(upstream.clone, "merge", "--quiet", "-m", "Merge", "side")
    head = upstream.push()
    assert mirror.poll(base).descendant
    commits = mirror.commits_between(base, head)
    assert {commit.sha for commit in commits} >= {side, main}
    assert len(mirror.commits_between(base, head, 2)) == 2


def test_a_moved_tag_and_other_branches_are_not_fetched(upstream, mirror_of):
    head = upstream.push({"a.yaml": "a: 1\n"})
    git(upstream.bare, "tag", "-a", "-m", "x", "v1", head, env={"GIT_COMMITTER_DATE": "1700000000 +0000"})
    git(upstream.bare, "update-ref", "refs/heads/other", head)
    mirror = mirror_of(upstream)
    mirror.poll(None)
    refs = git(mirror.path, "for-each-ref", "--format=%(refname)").split()
    assert refs == [FETCHED_REF]


def test_a_shallow_repository_is_refused_in_words(upstream, mirror_of, tmp_path):
    for number in range(3):
        upstream.push({"a.yaml": f"a: {number}\n"})
    shallow = tmp_path / "shallow.git"
    git(tmp_path, "clone", "--quiet", "--bare", "--depth=1", f"file://{upstream.bare}", str(shallow))
    answer = mirror_of(str(shallow)).poll(None)
    assert isinstance(answer, Failed)
    assert answer.reason is GitReason.SHALLOW
    assert "unshallow" in answer.message


def test_the_state_directory_is_readable_by_its_owner_alone(upstream, mirror_of):
    upstream.push({"a.yaml": "a: 1\n"})
    mirror = mirror_of(upstream)
    mirror.poll(None)
    assert mirror.path.parent.stat().st_mode & 0o077 == 0


def test_the_machines_own_git_settings_do_not_matter(upstream, mirror_of, tmp_path, monkeypatch):
    """Variables and files that change what git does: the mirror answers as without them."""
    head = upstream.push({"a.yaml": "a: 1\n"})
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text('[url "/nowhere/"]\n\tinsteadOf = /\n[core]\n\tsshCommand = false\n[fetch]\n\tprune = true\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    for name, value in {
        "GIT_DIR": "/nowhere",
        "GIT_INDEX_FILE": "/nowhere",
        "GIT_OBJECT_DIRECTORY": "/nowhere",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/nowhere",
        "GIT_WORK_TREE": "/nowhere",
        "GIT_NAMESPACE": "x",
        "GIT_TRACE": str(tmp_path / "trace"),
        "GIT_CONFIG_PARAMETERS": "'core.bare=false'",
        "GIT_EXTERNAL_DIFF": "false",
        "GIT_SSH_COMMAND": "false",
    }.items():
        monkeypatch.setenv(name, value)
    mirror = mirror_of(upstream)
    assert mirror.poll(None) == Moved(old=None, new=head, descendant=True)
    assert paths(mirror.tree(head)) == ["a.yaml"]
    assert not (tmp_path / "trace").exists()
    assert ENV["HOME"] == "/nonexistent"
