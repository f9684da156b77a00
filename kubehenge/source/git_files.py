"""The files of one mirror in the state directory: its place, its lock, what a killed git left behind, and the head that was refused."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kubehenge.source.git_errors import StorageError

FETCHED_REF = "refs/kubehenge/fetched"
REFUSED_FOR_S = 3600.0
_LOCK_PAUSE_S = 0.05
_TRACKED_FILE = "kubehenge-tracked"


@dataclass(frozen=True, slots=True)
class MirrorFiles:
    """`path` is the bare repository; the lock and the record of a refused head lie beside it."""

    path: Path

    @property
    def new_path(self) -> Path:
        """Where a repository is made before it takes its place."""
        return self.path.with_suffix(".new")

    def exist(self) -> bool:
        """Say whether there is a repository."""
        return (self.path / "HEAD").is_file()

    def tracked(self) -> str | None:
        """Return the commit that the mirror was last brought to; None when there is none."""
        return _read_id(self.path / _TRACKED_FILE)

    def fetched(self, path: Path) -> str | None:
        """Return the commit that git fetched, which counts only once `note_tracked` says so."""
        return _read_id(path / FETCHED_REF)

    def note_tracked(self, path: Path, revision: str) -> None:
        """Record the commit that a repository was brought to."""
        new = path / f"{_TRACKED_FILE}.new"
        new.write_text(f"{revision}\n", "ascii")
        new.replace(path / _TRACKED_FILE)

    @contextmanager
    def held(self, timeout_s: float) -> Iterator[int]:
        """
        Hold the mirror and yield the lock's descriptor: a git that inherits it keeps others out although Kubehenge was killed.

        Errors: StorageError when the folder cannot be written, or another process holds it for longer than `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise StorageError(
                f"The state directory {self.path.parent} cannot be written: {exc.strerror}. Make room or mend its rights."
            ) from None
        try:
            while not _lock(fd):
                if time.monotonic() >= deadline:
                    raise StorageError(f"Another process has been working on {self.path} for too long. Look for a git process that hangs.")
                time.sleep(_LOCK_PAUSE_S)
            yield fd
        finally:
            os.close(fd)

    def discard(self, path: Path) -> None:
        """Remove a repository. Errors: StorageError."""
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            raise StorageError(f"{path} cannot be removed. Look at its owner and rights.")

    def put_in_place(self) -> None:
        """Have the repository that was made take its place."""
        self.discard(self.path)
        self.new_path.rename(self.path)

    def remove_leftovers(self, path: Path) -> None:
        """Remove what a git that was killed left behind; the caller holds the lock, so none of it is in use."""
        for entry in _scan(path / "objects" / "pack"):
            if entry.name.startswith("tmp_") or entry.name.endswith(".keep"):
                Path(entry.path).unlink(missing_ok=True)
        for pattern in ("*.lock", "refs/kubehenge/**/*.lock", "fast_import_crash_*"):
            for left in path.glob(pattern):
                left.unlink(missing_ok=True)

    def pack_names(self, path: Path) -> frozenset[str]:
        """Return the names of the files of all packs."""
        return frozenset(entry.name for entry in _scan(path / "objects" / "pack"))

    def remove_packs_since(self, path: Path, names: frozenset[str]) -> None:
        """Remove all packs but those of `names`."""
        for name in self.pack_names(path) - names:
            (path / "objects" / "pack" / name).unlink(missing_ok=True)

    def pack_bytes(self, path: Path) -> int:
        """Return the size of all packs, also of one that is being written."""
        return sum(_size(entry) for entry in _scan(path / "objects" / "pack"))

    def pack_count(self) -> int:
        """Return the number of packs."""
        return sum(entry.name.endswith(".pack") for entry in _scan(self.path / "objects" / "pack"))

    def note_refused(self, head: str, reason: str, message: str) -> None:
        """Record that fetching this head was refused for what it holds, so that it is not brought again at each poll."""
        with contextlib.suppress(OSError):  # without the record it is fetched again, which is no harm
            self._refused_path.write_text(f"{head}\n{reason}\n{message}\n", "utf-8")

    def forget_refused(self) -> None:
        """Take the record back."""
        with contextlib.suppress(OSError):
            self._refused_path.unlink()

    def refused(self, head: str) -> tuple[str, str] | None:
        """Return reason and message when this head was refused within the last hour."""
        try:
            age_s = time.time() - self._refused_path.stat().st_mtime
            refused, reason, message = self._refused_path.read_text("utf-8").splitlines()
        except (OSError, ValueError):
            return None
        return (reason, message) if refused == head and 0 <= age_s < REFUSED_FOR_S else None

    @property
    def _refused_path(self) -> Path:
        return self.path.with_suffix(".refused")


def _read_id(path: Path) -> str | None:
    try:
        return path.read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
