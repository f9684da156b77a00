"""A revision of the Git repository around a folder of whoever runs a command; it is read, and never written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kubehenge.errors import UsageError
from kubehenge.source import git_history, git_tree
from kubehenge.source.git import CommitInfo, Tree, Unread
from kubehenge.source.git_process import GitRunner, git_environment
from kubehenge.source.process import run_bounded

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRevision:
    """One commit of a repository on this machine."""

    git: GitRunner
    revision: str

    def tree(self, sub_path: str) -> Tree | None:
        """Return the files below a path, None when there are none."""
        tree = git_tree.read_tree(self.git, self.revision, sub_path)
        return tree if isinstance(tree, Tree) else None

    def contents(self, tree: Tree) -> Iterator[tuple[str, str, bytes | Unread]]:
        """Yield path, blob id and content of each file of a tree."""
        blobs = git_tree.read_blobs(self.git, (one.blob for one in tree.files))
        for one in tree.files:
            yield one.path, one.blob, blobs[one.blob]

    def commit(self) -> CommitInfo:
        """Return who wrote it, and when."""
        return git_history.commit_info(self.git, self.revision)


def find_revision(folder: Path, text: str) -> LocalRevision:
    """Return the commit that a revision names, in the repository around a folder. Errors: UsageError."""
    found = _git(folder, "rev-parse", "--absolute-git-dir")
    if found is None:
        raise UsageError(f"{text} is no folder, and {folder} lies in no Git repository that it could be a revision of.")
    revision = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
    if revision is None:
        raise UsageError(f"{text} is neither a folder nor a revision of the Git repository around {folder}.")
    return LocalRevision(git=GitRunner(Path(found)), revision=revision)


def _git(folder: Path, *arguments: str) -> str | None:
    environment = git_environment((), transport=None)
    done = run_bounded(["git", "-C", str(folder), *arguments], env=environment, timeout_s=TIMEOUT_S, max_stdout_bytes=65_536)
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None
