"""What a commit says of itself: foreign text, shown and never believed (MODEL 16)."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime

import pytest
from git_upstream import ENV, git

from kubehenge.source.git import Signature


def push_raw(upstream, raw: bytes) -> str:
    """Push a commit object byte for byte; `%s` stands for an empty tree."""
    tree = git(upstream.bare, "mktree", stdin=b"").encode()
    revision = git(upstream.bare, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw.replace(b"%s", tree))
    git(upstream.bare, "update-ref", "refs/heads/main", revision)
    return revision


def read(upstream, mirror_of, raw: bytes):
    revision = push_raw(upstream, raw)
    mirror = mirror_of(upstream)
    moved = mirror.poll(None)
    assert moved.new == revision, moved
    return mirror.commit_info(revision)


def test_a_commit_is_read_with_all_that_a_page_shows(upstream, mirror_of):
    base = upstream.push({"a.yaml": "a: 1\n"}, "First")
    env = {
        "GIT_AUTHOR_NAME": "Zoë Ångström",
        "GIT_AUTHOR_EMAIL": "zoe@example.org",
        "GIT_AUTHOR_DATE": "2026-03-04T05:06:07+02:00",
        "GIT_COMMITTER_DATE": "2026-03-05T00:00:00Z",
    }
    git(upstream.clone, "commit", "--quiet", "--allow-empty", "-m", "Second: ümlaut\n\nBody", env=env)
    head = upstream.push()
    mirror = mirror_of(upstream)
    mirror.poll(None)
    first, *_ = mirror.commits_between(base, head, 10)[-1:]
    assert (first.author.name, first.author.email) == ("Zoë Ångström", "zoe@example.org")
    assert first.author.at == datetime(2026, 3, 4, 3, 6, 7, tzinfo=UTC)
    assert (first.committer.name, first.committer.at) == ("Ada", datetime(2026, 3, 5, tzinfo=UTC))
    assert (first.subject, first.parents, first.signature) == ("Second: ümlaut", (base,), Signature.NONE)
    assert mirror.commit_info(base).parents == ()
    assert [commit.subject for commit in mirror.commits_between(None, base)] == ["First"]


def test_a_signature_is_seen_and_not_judged(upstream, mirror_of, tmp_path):
    """A real signature, by an SSH key that nobody here knows."""
    if subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=False, env=ENV).returncode != 0:
        pytest.skip("NOT TESTED: signed commits, since ssh-keygen is not installed here")
    upstream.push({"a.yaml": "a: 1\n"})
    for name, value in (("gpg.format", "ssh"), ("user.signingKey", str(tmp_path / "key.pub"))):
        git(upstream.clone, "config", name, value)
    signed = upstream.commit({"a.yaml": "a: 2\n"}, "Signed", options=["--gpg-sign"])
    upstream.push()
    mirror = mirror_of(upstream)
    mirror.poll(None)
    commit = mirror.commit_info(signed)
    assert (commit.subject, commit.signature) == ("Signed", Signature.PRESENT)


def test_a_signature_in_the_message_is_none(upstream, mirror_of):
    raw = b"tree %s\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\ngpgsig -----BEGIN\n\ngpgsig x\n"
    assert read(upstream, mirror_of, raw).signature is Signature.NONE


def test_control_characters_and_length_do_not_reach_a_page(upstream, mirror_of):
    name = b"Eve \x1b[31m\xe2\x80\xae" + b"x" * 500
    raw = b"tree %s\nauthor " + name + b" <e@x> 1 +0000\ncommitter A <a@b> 1 +0000\n\n\n\nSub\x1b]0;ject\x07\x85" + b"y" * 5000 + b"\n"
    commit = read(upstream, mirror_of, raw)
    for text in (commit.author.name, commit.subject):
        assert text.isprintable()
        assert len(text) <= 200
    assert commit.subject.startswith("Sub ]0;ject")


@pytest.mark.parametrize(
    ("encoding", "raw", "shown"),
    [
        (b"ISO-8859-1", b"Caf\xe9", "Café"),
        (b"windows-1252", b"\x80uro", "€uro"),
        (b"utf-8", b"bad \xff end", "bad � end"),
        (b"rot13", b"plain", "plain"),
        (b"no-such", b"plain", "plain"),
        (b"hex", b"plain", "plain"),
        (b"unicode_escape", rb"\x41", r"\x41"),
    ],
)
def test_the_character_set_of_a_commit_is_honoured_where_it_is_one(upstream, mirror_of, encoding, raw, shown):
    commit = b"tree %s\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\nencoding " + encoding + b"\n\n" + raw + b"\n"
    assert read(upstream, mirror_of, commit).subject == shown


@pytest.mark.parametrize("seconds", [b"0", b"253402300799"])
def test_times_at_the_ends_are_read(upstream, mirror_of, seconds):
    commit = read(upstream, mirror_of, b"tree %s\nauthor A <a@b> " + seconds + b" +0000\ncommitter A <a@b> 1 +0000\n\nx\n")
    assert commit.author.at == datetime.fromtimestamp(int(seconds), UTC)


def test_an_impossible_time_is_none(upstream, mirror_of):
    commit = read(upstream, mirror_of, b"tree %s\nauthor A <a@b> 99999999999999 +0000\ncommitter A <a@b> 1 +0000\n\n\n")
    assert commit.author.at is None
    assert (commit.subject, commit.committer.at) == ("", datetime.fromtimestamp(1, UTC))
