"""Where things are in a lab's directory, and writing small files into it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubehenge.errors import UsageError

DEFAULT_DIRECTORY = Path("lab-site")
SOURCE = "lab"
"""The name of the lab's repository among the sources."""
REPOSITORY = "clusters.git"


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of one lab; `root` is absolute. All of it is for its owner only."""

    root: Path

    @classmethod
    def of(cls, directory: Path) -> Places:
        """Return the places of a directory as people give it."""
        return cls(directory.expanduser().absolute())

    @property
    def description(self) -> Path:
        """What scripts and tests need to know of a lab that runs."""
        return self.root / "lab.json"

    @property
    def site(self) -> Path:
        """What the lab itself remembers; it is there once the lab was set up completely."""
        return self.root / "site.json"

    @property
    def settings(self) -> Path:
        """Kubehenge's process settings for this lab, as KUBEHENGE_CONFIG takes them."""
        return self.root / "kubehenge.env"

    @property
    def lock(self) -> Path:
        """Held by the lab's process."""
        return self.root / "lab.lock"

    @property
    def up_lock(self) -> Path:
        """Held by `kubehenge lab up`."""
        return self.root / "up.lock"

    @property
    def tls(self) -> Path:
        """The lab's certificate authority and certificates."""
        return self.root / "tls"

    @property
    def proxmox(self) -> Path:
        """The state of the simulated Proxmox VE."""
        return self.root / "proxmox"

    @property
    def kube(self) -> Path:
        """The state of the simulated management cluster."""
        return self.root / "kube"

    @property
    def secrets(self) -> Path:
        """One secret in each file, and kubeconfigs."""
        return self.root / "secrets"

    @property
    def git(self) -> Path:
        """The repository, and the lab's own mirror of it."""
        return self.root / "git"

    @property
    def repository(self) -> Path:
        """The bare repository that people clone and push to."""
        return self.git / REPOSITORY

    @property
    def state(self) -> Path:
        """Kubehenge's own state directory."""
        return self.root / "state"

    @property
    def logs(self) -> Path:
        """What the processes said."""
        return self.root / "logs"


_OURS = frozenset(
    {"lab.json", "site.json", "lab.lock", "up.lock", "kubehenge.env", "tls", "proxmox", "kube", "secrets", "git", "state", "logs"}
)


def claim(places: Places) -> None:
    """Make a lab's directory, or take one that is empty or a lab's. Errors: UsageError, in words."""
    if places.root.is_dir():
        others = sorted(entry.name for entry in places.root.iterdir() if entry.name.removesuffix(".part") not in _OURS)
        if others:
            raise UsageError(f"{places.root} holds what is not a lab's ({', '.join(others[:3])}). Choose another directory with --dir.")
    make_directory(places.root)


def make_directory(path: Path) -> None:
    """Make a directory for its owner only, with its parents. Errors: UsageError, in words."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"The lab's directory {path} cannot be made: {error.strerror}. Choose another with --dir.") from None


def write_private(path: Path, text: str) -> None:
    """Write a whole file at once, readable by its owner only."""
    part = path.with_name(f"{path.name}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object as JSON, readable by its owner only."""
    write_private(path, json.dumps(value, indent=2) + "\n")


class Lock:
    """A lock file with the number of the process that holds it; the system lets go of it when that process ends, however it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("a+", encoding="utf-8")
        self._path.chmod(0o600)

    def take(self) -> bool:
        """Take it; False when another process holds it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._file.seek(0)
        self._file.truncate()
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()
        return True

    def release(self) -> None:
        """Let go of it."""
        self._file.close()


def holder_of(path: Path) -> int | None:
    """Return the process that holds a lock file now, None when none does."""
    if not path.exists():
        return None
    with path.open("r+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            written = file.read().strip()
            return int(written) if written.isdecimal() else None
    return None
