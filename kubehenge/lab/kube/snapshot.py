"""The file that keeps the API server's objects: written whole and atomically, one object a line behind a header."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a state file holds: the version counter, what the server must remember, and the objects as JSON."""

    version: int
    memory: dict[str, Any]
    bodies: tuple[bytes, ...]


def save(path: Path, *, version: int, memory: dict[str, Any], bodies: Iterable[bytes]) -> None:
    """
    Write the state file, for its owner only: it holds Secrets.

    Errors: OSError; the file before stays whole.
    """
    part = path.with_name(path.name + ".part")
    header = json.dumps({"format": _FORMAT, "version": version, "memory": memory}).encode()
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.writelines(_lines(header, bodies))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _lines(header: bytes, bodies: Iterable[bytes]) -> Iterator[bytes]:
    yield header + b"\n"
    for body in bodies:
        yield body + b"\n"  # JSON as it is written here holds no line break


def load(path: Path) -> Snapshot | None:
    """
    Read the state file; None when there is none yet.

    Errors: ValueError naming the file when it cannot be read as one of this version's.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    header, _, rest = content.partition(b"\n")
    try:
        head = json.loads(header)
        found = int(head["format"])
        snapshot = Snapshot(version=int(head["version"]), memory=dict(head["memory"]), bodies=tuple(rest.splitlines()))
    except (ValueError, KeyError, TypeError) as exc:
        raise ValueError(f"{path} is no state of the lab's management cluster ({exc}); remove it to start with an empty one") from exc
    if found != _FORMAT:
        raise ValueError(f"{path} has format {found}, this version reads {_FORMAT}; remove it to start with an empty one")
    return snapshot
