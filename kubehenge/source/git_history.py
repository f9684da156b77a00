"""Commits: who wrote them as they say, and how two heads of a branch are related (ACCEPTANCE 1.9)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from kubehenge.source.git_errors import UnknownRevisionError
from kubehenge.source.git_process import GitRunner
from kubehenge.source.git_url import check_revision

MAX_SUBJECT_CHARS = 200
MAX_NAME_CHARS = 200
DEFAULT_COMMITS = 100
_SIGNATURE_HEADERS = (b"gpgsig ", b"gpgsig-sha256 ")
_IDENT = re.compile(r"(?P<name>.*?)\s*<(?P<email>[^>]*)>\s*(?P<seconds>-?\d{1,15})?(?:\s+[+-]\d+)?")
_CHARACTER_SET = re.compile(r"(?i)(?:utf-?8|(?:iso-?8859|windows|cp|koi8|euc|gb|big5|latin|shift)[a-z0-9_-]{0,12})")


class Signature(StrEnum):
    """Whether a commit bears a signature; nothing here says that it is good (MODEL 16: an unverified one proves nothing)."""

    NONE = "none"
    PRESENT = "present"


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who a commit says it is from, and when (UTC; None where the commit holds no possible time). It proves nothing."""

    name: str
    email: str
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """One commit; all its texts are printable, on one line and bounded."""

    sha: str
    parents: tuple[str, ...]
    author: Person
    committer: Person
    subject: str
    signature: Signature


def commit_info(git: GitRunner, revision: str) -> CommitInfo:
    """Return one commit. Errors: UnknownRevisionError."""
    return _commits(git, "--max-count=1", check_revision(revision))[0]


def commits_between(git: GitRunner, old: str | None, new: str, limit: int = DEFAULT_COMMITS) -> tuple[CommitInfo, ...]:
    """
    Return the commits that lead to `new` and not to `old` (None: all that lead to `new`), newest first, at most `limit`.

    Errors: UnknownRevisionError.
    """
    wanted = [check_revision(new)] if old is None else [check_revision(new), f"^{check_revision(old)}"]
    return _commits(git, f"--max-count={limit}", *wanted)


def lost_commits(git: GitRunner, old: str, new: str, limit: int = DEFAULT_COMMITS) -> tuple[CommitInfo, ...]:
    """Return the commits of `old` that a move to `new` leaves behind; empty when `new` descends from `old`."""
    return commits_between(git, new, old, limit)


def is_ancestor(git: GitRunner, old: str, new: str) -> bool:
    """
    Say whether `new` descends from `old` (or is it).

    An `old` that is not in the repository is no ancestor: a fetch brings all that a head descends from.
    """
    done = git.local("merge-base", "--is-ancestor", check_revision(old), check_revision(new), accept=(0, 1, 128))
    if done.returncode == 128:
        if not has_commit(git, new):
            raise UnknownRevisionError(f"Commit {new[:12]} is not in Kubehenge's copy of {git.spec.url if git.spec else git.git_dir}.")
        return False
    return done.returncode == 0


def has_commit(git: GitRunner, revision: str) -> bool:
    """Say whether a commit is in the repository."""
    return git.local("cat-file", "-e", f"{check_revision(revision)}^{{commit}}", accept=(0, 1, 128)).returncode == 0


def _commits(git: GitRunner, *args: str) -> tuple[CommitInfo, ...]:
    """Read commits in their raw form, which has no format of a user's configuration and runs no check of signatures."""
    listed = git.local("rev-list", "--header", *args, "--").stdout
    return tuple(_parse(raw) for raw in listed.split(b"\0") if raw.strip())


def _parse(raw: bytes) -> CommitInfo:
    """Parse `rev-list --header`: the id, the headers (a continued one goes on after a space), and the message indented by four spaces."""
    head, _, message = raw.partition(b"\n\n")
    sha, *lines = head.split(b"\n")
    encoding = _first(lines, b"encoding ").decode("ascii", "replace") or "utf-8"
    return CommitInfo(
        sha=sha.decode("ascii"),
        parents=tuple(line[7:].decode("ascii") for line in lines if line.startswith(b"parent ")),
        author=_person(_text(_first(lines, b"author "), encoding)),
        committer=_person(_text(_first(lines, b"committer "), encoding)),
        subject=_subject(_text(message, encoding)),
        signature=Signature.PRESENT if any(line.startswith(_SIGNATURE_HEADERS) for line in lines) else Signature.NONE,
    )


def _first(lines: list[bytes], start: bytes) -> bytes:
    return next((line[len(start) :] for line in lines if line.startswith(start)), b"")


def _text(raw: bytes, encoding: str) -> str:
    """Decode by the commit's own header where it names a character set; Python knows other codecs too, which are not for foreign text."""
    try:
        return raw.decode(encoding if _CHARACTER_SET.fullmatch(encoding) else "utf-8", "replace")
    except (LookupError, ValueError):
        return raw.decode("utf-8", "replace")


def _person(line: str) -> Person:
    found = _IDENT.match(line)
    if found is None:
        return Person(name=_plain(line, MAX_NAME_CHARS), email="", at=None)
    return Person(name=_plain(found["name"], MAX_NAME_CHARS), email=_plain(found["email"], MAX_NAME_CHARS), at=_instant(found["seconds"]))


def _instant(seconds: str | None) -> datetime | None:
    try:
        return datetime.fromtimestamp(int(seconds or ""), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _subject(message: str) -> str:
    return _plain(next((line for line in message.splitlines() if line.strip()), ""), MAX_SUBJECT_CHARS)


def _plain(text: str, max_chars: int) -> str:
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return plain if len(plain) <= max_chars else f"{plain[: max_chars - 1]}…"
