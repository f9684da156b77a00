"""Where the plane's programs and manifests are: in a set that `make plane` built, in a cache of the user's."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubehenge.errors import UsageError

CACHE_VARIABLE = "KUBEHENGE_PLANE_CACHE"
LATEST = "latest"


def cache_directory() -> Path:
    """Return the folder of the cache: what KUBEHENGE_PLANE_CACHE names, else one in the user's caches."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kubehenge" / "plane"


@dataclass(frozen=True, slots=True)
class ProgramSet:
    """Everything that a plane is started from; `root` holds `bin`, `manifests` and `set.json`."""

    root: Path

    @classmethod
    def latest(cls) -> ProgramSet:
        """Return the set that was built last. Errors: UsageError when there is none."""
        found = cls(cache_directory() / LATEST)
        if not found.is_complete():
            raise UsageError("The plane's programs are not built. Run `make plane` in a working tree; it needs Go.")
        return cls(found.root.resolve())

    def is_complete(self) -> bool:
        """Whether it is there: a set is put in its place only once it is whole."""
        return (self.root / "set.json").is_file() and all(path.exists() for path in (self.root / "bin").iterdir())

    def program(self, name: str) -> Path:
        """Return the path of a program."""
        return self.root / "bin" / name

    def manifest(self, name: str) -> list[dict[str, Any]]:
        """Return the objects of a provider's release."""
        objects: list[dict[str, Any]] = json.loads((self.root / "manifests" / f"{name}.json").read_text(encoding="utf-8"))
        return objects

    @property
    def about(self) -> dict[str, Any]:
        """What it was built from."""
        value: dict[str, Any] = json.loads((self.root / "set.json").read_text(encoding="utf-8"))
        return value
