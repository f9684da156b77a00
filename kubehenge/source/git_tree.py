"""What lies in a revision: which files are declarations, which cannot be read and why, and what changed between two revisions."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import IO

from kubehenge.source.git_errors import DamagedMirrorError, GitTimeoutError, TooLargeError
from kubehenge.source.git_process import NEUTRAL_FOLDER, GitRunner, git_environment
from kubehenge.source.git_url import check_revision
from kubehenge.source.process import end_group, start

_SYMLINK = "120000"
_SUBMODULE = "160000"
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_YAML = (".yaml", ".yml")
_MIB = 1024 * 1024


class Unread(StrEnum):
    """Why the content of a path is not read."""

    SYMLINK = "SymbolicLink"
    SUBMODULE = "Submodule"
    TOO_LARGE = "TooLarge"
    LFS_POINTER = "LfsPointer"
    ODD_NAME = "OddName"
    NOT_A_BLOB = "NotABlob"
    HIDDEN = "Hidden"
    NOT_YAML = "NotYaml"

    @property
    def reason(self) -> str:
        """Why, and what to do, for people."""
        return _WORDS[self]


_WORDS: Mapping[Unread, str] = {
    Unread.SYMLINK: "It is a symbolic link, and Kubehenge reads regular files only. Put the file itself here.",
    Unread.SUBMODULE: "It is a submodule, and Kubehenge does not follow those. Give the other repository a source of its own.",
    Unread.TOO_LARGE: "It is larger than a declaration may be (1 MiB). Split it into several files.",
    Unread.LFS_POINTER: "It is kept in Git LFS, so only a pointer is in the repository. Keep declarations in Git itself.",
    Unread.ODD_NAME: "Its name holds characters that cannot be shown. Rename it.",
    Unread.NOT_A_BLOB: "Git does not hold it as a file.",
    Unread.HIDDEN: "Its name or folder begins with a dot.",
    Unread.NOT_YAML: "Its name does not end in .yaml or .yml.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """A file that may hold declarations: path in the repository, blob id, git's mode, bytes (None: larger than is fetched)."""

    path: str
    blob: str
    mode: str
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRead:
    """A path that is there but not read. `path` is fit to be shown; a name that cannot be shown has its odd bytes escaped."""

    path: str
    why: Unread

    @property
    def reason(self) -> str:
        """Why, and what to do, for people."""
        return self.why.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """
    All files of a revision under the sub-path, ordered by path.

    `unreadable` have a YAML file's name: they are present, so what was read there before is not gone. `ignored` were never declarations.
    """

    revision: str
    files: tuple[TreeFile, ...]
    unreadable: tuple[NotRead, ...]
    ignored: tuple[NotRead, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyTree:
    """The revision holds no file at all: never to be read as "everything was deleted" without a person (ACCEPTANCE 1.7)."""

    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubPathVanished:
    """The sub-path is no folder of this revision (any more): never to be read as "everything was deleted" without a person."""

    revision: str
    path: str
    reason: str


class ChangeKind(StrEnum):
    """What happened to a file between two revisions."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file of declarations that differs; a side that is not there, or was not readable, has no blob."""

    path: str
    kind: ChangeKind
    old_blob: str | None
    new_blob: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What differs under the sub-path; `unreadable` are there in the newer revision and cannot be read."""

    files: tuple[FileChange, ...]
    unreadable: tuple[NotRead, ...]


def read_tree(git: GitRunner, revision: str, sub_path: str) -> Tree | EmptyTree | SubPathVanished:
    """
    List a revision by one `ls-tree`, without reading any file.

    Errors: UnknownRevisionError; TooLargeError above `max_files` files. Source: git-ls-tree(1), `-l` says BAD for a blob that was left out of the fetch.
    """
    args = ["ls-tree", "-r", "-z", "-l", "--full-tree", check_revision(revision)]
    listed = git.local(*args, *(["--", sub_path] if sub_path else [])).stdout
    rows = listed.split(b"\0")[:-1]
    if len(rows) > git.limits.max_files:
        raise TooLargeError(
            f"Revision {revision[:12]} holds {len(rows)} files; Kubehenge reads at most {git.limits.max_files}. Give the source a sub-path, or keep declarations in a repository of their own."
        )
    if not rows:
        return SubPathVanished(revision=revision, path=sub_path, reason=_vanished(sub_path)) if sub_path else EmptyTree(revision=revision)
    files: list[TreeFile] = []
    unreadable: list[NotRead] = []
    ignored: list[NotRead] = []
    for row in rows:
        head, _, raw_path = row.partition(b"\t")
        mode, _, blob, size = head.decode("ascii").split()
        path = _shown(raw_path)
        if path == sub_path:
            return SubPathVanished(revision=revision, path=sub_path, reason=_vanished(sub_path, mode))
        bytes_ = int(size) if size.isdigit() else None
        why = _judge(raw_path, mode, sub_path)
        if why is None and (bytes_ is None or bytes_ > git.limits.blob_max_bytes):
            why = Unread.TOO_LARGE
        if why is None:
            files.append(TreeFile(path=path, blob=blob, mode=mode, size=bytes_))
        else:
            (unreadable if _is_yaml(raw_path) and why is not Unread.HIDDEN else ignored).append(NotRead(path=path, why=why))
    return Tree(revision=revision, files=tuple(files), unreadable=tuple(unreadable), ignored=tuple(ignored))


def read_changes(git: GitRunner, old: str, new: str, sub_path: str) -> Changes:
    """
    Compare two revisions by one `diff-tree`, without reading any file; a moved file is one removed and one added.

    A file that is too large shows as changed here, and as TOO_LARGE when it is read. Errors: UnknownRevisionError.
    """
    args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", "--no-ext-diff", check_revision(old), check_revision(new)]
    fields = git.local(*args, "--", *([sub_path] if sub_path else [])).stdout.split(b"\0")[:-1]
    files: list[FileChange] = []
    unreadable: list[NotRead] = []
    for head, raw_path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, new_mode, old_blob, new_blob, _ = head.decode("ascii").lstrip(":").split()
        if not _is_yaml(raw_path) or _is_hidden(raw_path, sub_path):
            continue
        was, now = old_mode != "000000", new_mode != "000000"
        unread = _judge(raw_path, new_mode, sub_path) if now else None
        if unread is not None:
            unreadable.append(NotRead(path=_shown(raw_path), why=unread))
            continue
        old_read = was and _judge(raw_path, old_mode, sub_path) is None
        kind = ChangeKind.REMOVED if not now else ChangeKind.CHANGED if was else ChangeKind.ADDED
        files.append(
            FileChange(path=_shown(raw_path), kind=kind, old_blob=old_blob if old_read else None, new_blob=new_blob if now else None)
        )
    return Changes(files=tuple(files), unreadable=tuple(unreadable))


def read_blobs(git: GitRunner, ids: Iterable[str]) -> dict[str, bytes | Unread]:
    """
    Return the content of blobs, or why it is not read, by one `cat-file` process; no filter or attribute is applied.

    Sizes are asked for first, so a large blob is never read. Errors: TooLargeError when all together are over `read_max_bytes`.
    """
    wanted = [check_revision(blob) for blob in dict.fromkeys(ids)]
    if not wanted:
        return {}
    argv = git.argv("cat-file", "--batch-command", "--buffer")
    proc = start(argv, env=git_environment((), transport=None), cwd=NEUTRAL_FOLDER, stderr=subprocess.DEVNULL)
    expired = threading.Event()
    watchdog = threading.Timer(git.limits.local_timeout_s, _expire, (proc, expired))
    watchdog.start()
    try:
        with proc:
            assert proc.stdin is not None and proc.stdout is not None  # noqa: S101, PT018  (both are pipes)
            return _ask(proc.stdin, proc.stdout, wanted, git)
    except DamagedMirrorError:
        if expired.is_set():
            raise GitTimeoutError(
                f"Reading {len(wanted)} files took longer than {git.limits.local_timeout_s:g} s. Look at the load and disk of this machine."
            ) from None
        raise
    finally:
        watchdog.cancel()


def _expire(proc: subprocess.Popen[bytes], expired: threading.Event) -> None:
    expired.set()
    end_group(proc)


def _ask(stdin: IO[bytes], stdout: IO[bytes], wanted: list[str], git: GitRunner) -> dict[str, bytes | Unread]:
    """Ask for all sizes, then for the contents that are small enough; git answers nothing before "flush", so neither side can block the other."""
    answer: dict[str, bytes | Unread] = {}
    sizes: dict[str, int] = {}
    _send(stdin, "info", wanted)
    for blob in wanted:
        kind, size = _header(stdout, git)
        if kind == "missing" or size > git.limits.blob_max_bytes:
            answer[blob] = Unread.TOO_LARGE  # what a fetch leaves out is what is over the limit
        elif kind != "blob":
            answer[blob] = Unread.NOT_A_BLOB
        else:
            sizes[blob] = size
    total = sum(sizes.values())
    if total > git.limits.read_max_bytes:
        raise TooLargeError(
            f"The files to read add up to {total // _MIB} MiB; Kubehenge reads at most {git.limits.read_max_bytes // _MIB} MiB at once. Give the source a sub-path."
        )
    _send(stdin, "contents", sizes)
    for blob in sizes:
        _, size = _header(stdout, git)
        content = stdout.read(size + 1)[:size]
        if len(content) != size:
            raise _broken(git)
        answer[blob] = Unread.LFS_POINTER if content.startswith(_LFS_POINTER) else content
    return answer


def _send(stdin: IO[bytes], command: str, blobs: Iterable[str]) -> None:
    try:
        stdin.write("".join(f"{command} {blob}\n" for blob in blobs).encode("ascii") + b"flush\n")
        stdin.flush()
    except BrokenPipeError:
        pass  # the missing answer says it


def _header(stdout: IO[bytes], git: GitRunner) -> tuple[str, int]:
    """Read `<id> <type> <size>` or `<id> missing`."""
    words = stdout.readline(200).decode("ascii", "replace").split()
    if len(words) == 2 and words[1] == "missing":
        return "missing", 0
    if len(words) != 3:
        raise _broken(git)
    return words[1], int(words[2])


def _broken(git: GitRunner) -> DamagedMirrorError:
    shown = git.spec.url if git.spec else git.git_dir
    return DamagedMirrorError(
        f"Kubehenge's own copy of {shown} could not be read to the end. It is made anew when the source is next read."
    )


def _judge(raw_path: bytes, mode: str, sub_path: str) -> Unread | None:
    if mode == _SUBMODULE:
        return Unread.SUBMODULE
    if _is_hidden(raw_path, sub_path):
        return Unread.HIDDEN
    if mode == _SYMLINK:
        return Unread.SYMLINK
    if not _is_yaml(raw_path):
        return Unread.NOT_YAML
    return None if _is_showable(raw_path) else Unread.ODD_NAME


def _is_yaml(raw_path: bytes) -> bool:
    return raw_path.endswith(tuple(end.encode() for end in _YAML))


def _is_hidden(raw_path: bytes, sub_path: str) -> bool:
    """Folders such as .github hold YAML that is no declaration; a sub-path that was chosen is read whatever its name."""
    below = raw_path[len(sub_path.encode()) :].lstrip(b"/")
    return any(part.startswith(b".") for part in below.split(b"/"))


def _is_showable(raw_path: bytes) -> bool:
    try:
        return raw_path.decode("utf-8").isprintable()
    except UnicodeDecodeError:
        return False


def _shown(raw_path: bytes) -> str:
    text = raw_path.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _vanished(sub_path: str, mode: str | None = None) -> str:
    what = {None: "is not in this revision", _SYMLINK: "is a symbolic link in this revision", _SUBMODULE: "is a submodule in this revision"}
    return f"The folder {sub_path} {what.get(mode, 'is a file in this revision')}. Put it back, or give the source another sub-path."
