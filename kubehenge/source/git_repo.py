"""The mirror of one source: a bare repository in the state directory that follows one branch, without blobs over 1 MiB."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kubehenge.errors import SettingsError, TransientError
from kubehenge.source import git_history, git_tree
from kubehenge.source.git_errors import (
    BadObjectsError,
    BranchGoneError,
    DamagedMirrorError,
    GitError,
    GitReason,
    ShallowRepositoryError,
    TooLargeError,
    UnknownRevisionError,
)
from kubehenge.source.git_files import FETCHED_REF, MirrorFiles
from kubehenge.source.git_history import CommitInfo
from kubehenge.source.git_process import REMOTE, GitLimits, GitRunner
from kubehenge.source.git_tree import Changes, EmptyTree, SubPathVanished, Tree, Unread
from kubehenge.source.git_url import SourceSpec, Transport

_SHA256_CHARS = 64
_PACKS_BEFORE_REPACK = 50

# What git says of a damaged copy has many forms, so a failure without a known cause is tried on a new copy too; and a copy that is too
# large may be so by what nothing leads to any more.
_MENDED_BY_A_NEW_COPY = frozenset({GitError, DamagedMirrorError, TooLargeError})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """The branch is where it was."""

    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """
    The branch has another head, and its objects are in the mirror.

    `descendant` False: history was rewritten, and nothing may be applied until a person accepts the new head (ACCEPTANCE 1.9). `lost` are the commits that
    it leaves behind, newest first; `lost_known` is False when the old head is not in the mirror, so that they cannot be told.
    """

    old: str | None
    new: str
    descendant: bool
    lost: tuple[CommitInfo, ...] = ()
    lost_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The repository answers and has no such branch (any more). What was declared stays as it was."""

    old: str | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The source could not be read; `retry`: it may pass by itself."""

    reason: GitReason
    message: str
    retry: bool


Polled = Unchanged | Moved | Gone | Failed


class GitMirror:
    """Reads one source. Every method that runs git has a time limit; errors are GitError and SettingsError, in words for people."""

    def __init__(self, state_dir: Path, spec: SourceSpec, *, limits: GitLimits | None = None) -> None:
        self.spec = spec
        self.limits = limits or GitLimits()
        self.path = state_dir.absolute() / "git" / f"{spec.id}.git"
        self.files = MirrorFiles(self.path)
        self.git = GitRunner(self.path, spec, self.limits)

    def poll(self, last_head: str | None) -> Polled:
        """
        Look where the branch is and bring what is new; when nothing moved this is one `git ls-remote`.

        `last_head` is the last head that was accepted, so a rewritten branch is answered as such until a person accepts it.
        """
        try:
            head = self.remote_head()
            if head is None:
                return self._gone(last_head)
            if self.tracked() != head:
                refused = self.files.refused(head)
                if refused is not None:
                    return Failed(reason=GitReason(refused[0]), message=refused[1], retry=False)
                head = self._fetch_noting(head)
            return Unchanged(head=head) if head == last_head else self._moved(last_head, head)
        except BranchGoneError:  # between the look and the fetch
            return self._gone(last_head)
        except GitError as exc:
            return Failed(reason=exc.reason, message=str(exc), retry=isinstance(exc, TransientError))
        except SettingsError as exc:
            return Failed(reason=GitReason.CREDENTIALS, message=str(exc), retry=False)

    def remote_head(self) -> str | None:
        """Return the commit that the branch is at, by exactly one `git ls-remote`; None when there is no such branch."""
        self._check_local_source()
        listed = self.git.remote("ls-remote", "--heads", REMOTE, self.spec.ref, timeout_s=self.limits.poll_timeout_s, in_repository=False)
        for line in listed.stdout.decode("utf-8", "replace").splitlines():
            revision, _, ref = line.partition("\t")
            if ref == self.spec.ref:
                return revision
        return None

    def fetch(self, head: str) -> str:
        """
        Bring the branch into the mirror and return the commit fetched, which is newer than `head` when someone pushed in between.

        No tags, submodules, hooks or checkout; no blob over the limit where the server can leave it out. A damaged mirror is made anew.
        """
        self._check_local_source()
        with self.held() as lock_fd:
            if self.files.exist():
                before = self.files.pack_names(self.path)
                try:
                    fetched = self._bring(self.git, lock_fd)
                    self._repack_when_many()
                except GitError as exc:
                    self._undo(before)
                    if type(exc) not in _MENDED_BY_A_NEW_COPY:
                        raise
                else:
                    return fetched
            return self._make_anew(head, lock_fd)

    def tracked(self) -> str | None:
        """Return the commit that the mirror is at, without running anything; None before the first fetch."""
        return self.files.tracked()

    def held(self) -> AbstractContextManager[int]:
        """Hold the mirror against others that write to it."""
        return self.files.held(self.limits.fetch_timeout_s)

    def tree(self, revision: str) -> Tree | EmptyTree | SubPathVanished:
        """List the files under the sub-path, by one `ls-tree`: see `git_tree.read_tree`."""
        with self._healing():
            return git_tree.read_tree(self.git, revision, self.spec.path)

    def changed(self, old: str, new: str) -> Changes:
        """Say which files under the sub-path differ, by one `diff-tree`: see `git_tree.read_changes`."""
        with self._healing():
            return git_tree.read_changes(self.git, old, new, self.spec.path)

    def read_blobs(self, ids: Iterable[str]) -> dict[str, bytes | Unread]:
        """Read files by blob id, by one `cat-file`: see `git_tree.read_blobs`."""
        with self._healing():
            return git_tree.read_blobs(self.git, ids)

    def is_ancestor(self, old: str, new: str) -> bool:
        """Say whether `new` descends from `old`."""
        with self._healing():
            return git_history.is_ancestor(self.git, old, new)

    def has_commit(self, revision: str) -> bool:
        """Say whether a commit is in the mirror."""
        return self.files.exist() and git_history.has_commit(self.git, revision)

    def commit_info(self, revision: str) -> CommitInfo:
        """Return one commit."""
        with self._healing():
            return git_history.commit_info(self.git, revision)

    def commits_between(self, old: str | None, new: str, limit: int = git_history.DEFAULT_COMMITS) -> tuple[CommitInfo, ...]:
        """Return the commits that `new` has and `old` has not, newest first."""
        with self._healing():
            return git_history.commits_between(self.git, old, new, limit)

    def lost_commits(self, old: str, new: str, limit: int = git_history.DEFAULT_COMMITS) -> tuple[CommitInfo, ...]:
        """Return the commits of `old` that `new` leaves behind, newest first."""
        with self._healing():
            return git_history.lost_commits(self.git, old, new, limit)

    def _fetch_noting(self, head: str) -> str:
        """Fetch, and remember a head that is refused for what it holds: it would be as large, or as wrong, at the next poll."""
        try:
            fetched = self.fetch(head)
        except (TooLargeError, BadObjectsError) as exc:
            self.files.note_refused(head, exc.reason, str(exc))
            raise
        self.files.forget_refused()
        return fetched

    def _gone(self, last_head: str | None) -> Gone:
        return Gone(
            old=last_head,
            message=f"{self.spec.url} has no branch {self.spec.branch}. Push it again, or give the source another branch. What was declared stays as it was.",
        )

    def _moved(self, old: str | None, new: str) -> Moved:
        if old is None or git_history.is_ancestor(self.git, old, new):
            return Moved(old=old, new=new, descendant=True)
        if not git_history.has_commit(self.git, old):
            return Moved(old=old, new=new, descendant=False, lost_known=False)
        return Moved(old=old, new=new, descendant=False, lost=self.lost_commits(old, new))

    def _bring(self, git: GitRunner, lock_fd: int) -> str:
        """Fetch the branch into a repository that is there."""
        files, path = self.files, git.git_dir
        files.remove_leftovers(path)

        def fits() -> bool:
            return files.pack_bytes(path) <= self.limits.mirror_max_bytes

        try:
            self._run_fetch(git, lock_fd, fits)
            if not fits():  # a small fetch can end before it is looked at
                raise git.too_large()
        except GitError:
            files.remove_leftovers(path)
            raise
        fetched = files.fetched(path)
        if fetched is None:
            raise DamagedMirrorError(
                f"Kubehenge's own copy of {self.spec.url} has no head after a fetch. It is made anew when the source is next read."
            )
        files.note_tracked(path, fetched)
        return fetched

    def _undo(self, packs: frozenset[str]) -> None:
        """Bring the mirror back to where it was before a fetch that ended too late to be prevented."""
        tracked = self.files.tracked()
        if tracked is None or self.files.fetched(self.path) == tracked:
            return
        self.files.remove_packs_since(self.path, packs)
        with suppress(GitError):  # a copy that is damaged as well is made anew
            self.git.local("update-ref", FETCHED_REF, tracked)

    def _run_fetch(self, git: GitRunner, lock_fd: int, fits: Callable[[], bool]) -> None:
        done = git.remote(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-prune",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "--no-write-fetch-head",
            REMOTE,
            f"+{self.spec.ref}:{FETCHED_REF}",
            timeout_s=self.limits.fetch_timeout_s,
            keep_fds=(lock_fd,),
            watch=fits,
        )
        if b"shallow roots are not allowed" in done.stderr:
            raise ShallowRepositoryError(
                f"{self.spec.url} has only the end of its history (a shallow clone). Complete it there with `git fetch --unshallow`."
            )

    def _make_anew(self, head: str, lock_fd: int) -> str:
        """Make the repository and fetch into it beside its place, so that the one in place is always whole."""
        made = GitRunner(self.files.new_path, self.spec, self.limits)
        self.files.discard(made.git_dir)
        try:
            hash_ = "sha256" if len(head) == _SHA256_CHARS else "sha1"
            made.local("init", "--quiet", "--bare", "--template=", f"--object-format={hash_}")
            fetched = self._bring(made, lock_fd)
            self.files.put_in_place()
        finally:
            shutil.rmtree(made.git_dir, ignore_errors=True)
        return fetched

    @contextmanager
    def _healing(self) -> Iterator[None]:
        """A mirror that shows damage when it is read is dropped, so that the next poll brings a new one."""
        if not self.files.exist():
            raise UnknownRevisionError(
                f"Kubehenge has no copy of {self.spec.url} yet, or dropped a damaged one. It is there after the next reading."
            )
        try:
            yield
        except DamagedMirrorError:
            with self.held():
                self.files.discard(self.path)
            raise

    def _repack_when_many(self) -> None:
        """
        Each fetch leaves a pack; join them now and then.

        Git joins packs that promise more as they are, so commits left behind by rewritten history stay to be shown.
        """
        if self.files.pack_count() > _PACKS_BEFORE_REPACK:
            self.git.local("repack", "-a", "-d", "-q", config=self.git.remote_config(), timeout_s=self.limits.fetch_timeout_s)

    def _check_local_source(self) -> None:
        """A path could name a bundle or a file that points elsewhere, which git would follow."""
        if self.spec.url.transport is Transport.FILE and Path(self.spec.url.path).is_file():
            raise GitError(f"{self.spec.url} is a file. Give the folder of a Git repository.")
