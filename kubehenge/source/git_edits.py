"""Commits that Kubehenge makes itself, without a checkout, and the repository that it keeps where none is configured (MODEL 33)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kubehenge.source.git_errors import GitError, StorageError, UnknownRevisionError, shown_text
from kubehenge.source.git_process import REMOTE, GitLimits, GitRunner
from kubehenge.source.git_repo import GitMirror
from kubehenge.source.git_url import check_branch, check_revision, parse_sub_path

EDIT_REF = "refs/kubehenge/edit"
OWN_REPOSITORY = "repository.git"
_MERGE_BRANCH = "kubehenge/edit-"
_README = b"""# Clusters

Kubehenge reads this repository. Put one YAML file for each cluster into it, and push: the page shows the plan.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """A name and an address as they stand in a commit."""

    name: str
    email: str

    def line(self, at: datetime) -> bytes:
        """Return them in git's form; what could end the line or the address early is left out."""
        name, email = (
            " ".join("".join(char if char.isprintable() else " " for char in text if char not in "<>").split())
            for text in (self.name, self.email)
        )
        return f"{name or 'unknown'} <{email.replace(' ', '')}> {int(at.timestamp())} +0000".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """The commit is the head of the branch, or an ancestor of it."""

    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToCommit:
    """The files are in the base as they are given."""

    base: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchMoved:
    """Someone pushed first: make the edit anew on the new head. Nothing was pushed."""

    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRefused:
    """
    The repository does not take a push to the branch from these credentials (a protected branch, a hook, read-only rights).

    `merge_branch` holds the commit, for a person to merge; None when that was refused too.
    """

    revision: str
    message: str
    merge_branch: str | None


Push = Pushed | BranchMoved | PushRefused


def commit_files(
    mirror: GitMirror,
    base: str,
    files: Mapping[str, bytes | None],
    *,
    author: Signer,
    committer: Signer,
    message: str,
    at: datetime,
) -> Push | NothingToCommit:
    """
    Commit files (path to content; None deletes) on `base` and push that to the branch, fast-forward only.

    Errors: GitError. After a GitTimeoutError or BrokeOffError it is not known whether the push arrived; pushing the same commit again is harmless.
    """
    revision = write_commit(mirror, base, files, author=author, committer=committer, message=message, at=at)
    return NothingToCommit(base=base) if revision is None else push_commit(mirror, revision)


def write_commit(
    mirror: GitMirror,
    base: str,
    files: Mapping[str, bytes | None],
    *,
    author: Signer,
    committer: Signer,
    message: str,
    at: datetime,
) -> str | None:
    """
    Write a commit into the mirror alone and return its id, so that it can be recorded before it is pushed; None when it would change nothing.

    The same arguments give the same id. Errors: UnknownRevisionError for a base that is not in the mirror.
    """
    if not mirror.has_commit(base):
        raise UnknownRevisionError(
            f"Commit {base[:12]} is not in Kubehenge's copy of {mirror.spec.url}, so nothing can be built on it. Read the source again."
        )
    with mirror.held():
        return _write(mirror.git, base, files, author=author, committer=committer, message=message, at=at, ref=EDIT_REF)


def push_commit(mirror: GitMirror, revision: str) -> Push:
    """
    Push a commit that `write_commit` made to the branch; a commit that is there already counts as pushed.

    It never forces. Where the branch does not take it, it is pushed to a branch of its own for a merge.
    """
    refused = _push(mirror, revision, mirror.spec.ref)
    if refused is None:
        return Pushed(revision=revision)
    if refused.moved:
        return _after_move(mirror, revision)
    branch = f"{_MERGE_BRANCH}{revision[:12]}"
    offered = _push(mirror, revision, f"refs/heads/{branch}") is None
    where = (
        f"The commit is on the branch {branch}: merge it there."
        if offered
        else "Nothing was pushed: give the source credentials that may push."
    )
    return PushRefused(
        revision=revision,
        message=f"{mirror.spec.url} does not take a push to {mirror.spec.branch} ({refused.said}). {where}",
        merge_branch=branch if offered else None,
    )


def init_own_repository(state_dir: Path, *, at: datetime, branch: str = "main", limits: GitLimits | None = None) -> Path:
    """
    Return the path of Kubehenge's own bare repository, made with a first commit when it is not there.

    People clone it and push to it; it refuses rewritten history and forgets nothing. Its hooks are not used: a push is seen by polling it.
    """
    check_branch(branch)
    path = state_dir.absolute() / OWN_REPOSITORY
    if (path / "HEAD").is_file():
        return path
    made = path.with_suffix(".new")
    shutil.rmtree(made, ignore_errors=True)
    try:
        made.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as exc:
        raise StorageError(f"The state directory {state_dir} cannot be written: {exc.strerror}. Make room or mend its rights.") from None
    git = GitRunner(made, None, limits or GitLimits())
    git.local("init", "--quiet", "--bare", "--template=", f"--initial-branch={branch}")
    for key, value in _OWN_CONFIG:
        git.local("config", key, value)
    kubehenge = Signer(name="Kubehenge", email="kubehenge@localhost")
    _write(
        git,
        None,
        {"README.md": _README},
        author=kubehenge,
        committer=kubehenge,
        message="Begin the repository of clusters",
        at=at,
        ref=f"refs/heads/{branch}",
    )
    made.rename(path)
    return path


_OWN_CONFIG = (
    ("receive.denyNonFastForwards", "true"),
    ("receive.fsckObjects", "true"),
    ("uploadpack.allowFilter", "true"),
    ("core.logAllRefUpdates", "always"),
    ("gc.reflogExpire", "never"),
    ("gc.reflogExpireUnreachable", "never"),
)


_MOVED_SIGNS = ("(fetch first)", "(non-fast-forward)", "(failed to update ref)", "(cannot lock ref")


@dataclass(frozen=True, slots=True)
class _Refusal:
    moved: bool
    said: str


def _write(
    git: GitRunner,
    base: str | None,
    files: Mapping[str, bytes | None],
    *,
    author: Signer,
    committer: Signer,
    message: str,
    at: datetime,
    ref: str,
) -> str | None:
    """Write blobs, trees and commit by one `fast-import`, which needs neither an index nor the blobs of the base."""
    stamp = at.astimezone(UTC)
    text = message.replace("\0", "").strip().encode("utf-8", "replace") + b"\n"
    stream = [b"feature done\ncommit ", ref.encode(), b"\nmark :1\nauthor ", author.line(stamp), b"\ncommitter ", committer.line(stamp)]
    stream += [b"\ndata %d\n" % len(text), text]
    if base is not None:
        stream += [b"from ", check_revision(base).encode(), b"\n"]
    for path, content in sorted(files.items()):
        name = _quoted_path(path)
        if content is None:
            stream += [b"D ", name, b"\n"]
        else:
            stream += [b"M 100644 inline ", name, b"\ndata %d\n" % len(content), content, b"\n"]
    stream += [b"\nget-mark :1\ndone\n"]
    done = git.local("fast-import", "--quiet", "--force", "--date-format=raw", stdin=b"".join(stream))
    revision = check_revision(done.stdout.decode("ascii").strip())
    if base is None:
        return revision
    trees = git.local("rev-parse", f"{revision}^{{tree}}", f"{base}^{{tree}}").stdout.split()
    return None if trees[0] == trees[1] else revision


def _quoted_path(path: str) -> bytes:
    """Return a path in fast-import's quoted form. Errors: SourceUrlError for what is not a plain path inside the repository."""
    if not path or path.endswith("/") or parse_sub_path(path) != path:
        raise GitError(f"{path!r} is not a path of a file inside the repository.")
    return b'"' + path.encode().replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _push(mirror: GitMirror, revision: str, ref: str) -> _Refusal | None:
    """Push one commit to one ref; None: it is there. Source: git-push(1), the lines of --porcelain, and exit status 1 for a refused ref."""
    done = mirror.git.remote(
        "push",
        "--porcelain",
        "--no-verify",
        "--no-recurse-submodules",
        REMOTE,
        f"{check_revision(revision)}:{ref}",
        timeout_s=mirror.limits.push_timeout_s,
        accept=(0, 1),
    )
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith("!"):
            said = shown_text(line.rpartition("\t")[2])
            return _Refusal(
                moved=any(sign in said for sign in _MOVED_SIGNS),
                said=shown_text(f"{said} {_remote_words(done.stderr)}"),
            )
    if done.returncode != 0:
        raise mirror.git.failure(done)
    return None


def _remote_words(stderr: bytes) -> str:
    """Return what a hook of the server says to the one who pushes."""
    lines = (line.removeprefix("remote:").strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.startswith("remote:"))
    return " ".join(line for line in lines if line)


def _after_move(mirror: GitMirror, revision: str) -> Pushed | BranchMoved:
    """A commit whose push arrived although the answer was lost, and that others have built on since, is pushed."""
    head = mirror.remote_head()
    if head is not None and mirror.is_ancestor(revision, mirror.fetch(head)):
        return Pushed(revision=revision)
    return BranchMoved(revision=revision)
