"""Which version of the schema a database stands at, told without Alembic so that opening one is quick."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sqlalchemy import Connection, inspect, text

import kubehenge
from kubehenge.errors import InvariantError
from kubehenge.store.trouble import DatabaseError


@cache
def migrations_dir() -> Path:
    """Return the folder of the migrations: inside the installed package, or beside it in a working tree."""
    package = Path(kubehenge.__file__).parent
    for folder in (package / "migrations", package.parent / "migrations"):
        if (folder / "versions").is_dir():
            return folder
    raise InvariantError(f"The migrations are missing from this installation (looked beside {package}): install Kubehenge again.")


def known() -> tuple[str, ...]:
    """Return the versions that this Kubehenge knows, oldest first: `0001_first.py` is version `0001`."""
    return _versions_in(migrations_dir())


@cache
def _versions_in(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name.split("_")[0] for path in (folder / "versions").glob("[0-9]*_*.py")))


def head() -> str:
    """Return the newest version that this Kubehenge knows."""
    return known()[-1]


def current(connection: Connection) -> str | None:
    """Return the version that a database stands at, None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def require_current(connection: Connection, where: str) -> None:
    """Raise DatabaseError, in words, unless the database stands at the head."""
    version = current(connection)
    if version == head():
        return
    if version is None:
        raise DatabaseError(f"The state database {where} is empty. Make its tables with `kubehenge db upgrade`.")
    if version in known():
        raise DatabaseError(
            f"The state database {where} stands at version {version} and this Kubehenge needs {head()}. "
            "Make a backup, then run `kubehenge db upgrade`."
        )
    raise DatabaseError(
        f"The state database {where} stands at version {version}, which a newer Kubehenge made; this one knows versions up to {head()}. "
        "Nothing was changed. Install that newer release, or put back the backup made before it."
    )
