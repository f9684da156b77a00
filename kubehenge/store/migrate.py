"""Moving the state database between versions with Alembic, from code; `kubehenge db` calls this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from kubehenge.errors import UsageError
from kubehenge.store import versions
from kubehenge.store.database import Database
from kubehenge.store.rows import Row
from kubehenge.store.trouble import DatabaseError


def upgrade(database: Database, version: str = "head") -> str:
    """Bring a database up to a version, in one transaction. Returns where it stands then. A newer one is refused."""
    with database.connect() as connection:
        standing = versions.current(connection)
        if standing is not None and standing not in versions.known():
            versions.require_current(connection, database.where)
        target = _known(version)
        if standing is not None and standing > target:
            raise UsageError(
                f"The state database stands at {standing} already, which is newer than {target}. `kubehenge db downgrade` goes back."
            )
        _run(command.upgrade, connection, target)
        return versions.current(connection) or "empty"


def downgrade(database: Database, version: str) -> str:
    """Bring a database down to a version, or with `base` to nothing, in one transaction. Returns where it stands then."""
    with database.connect() as connection:
        standing = versions.current(connection)
        if standing is None:
            raise UsageError("The state database is empty: there is nothing to take down.")
        if standing not in versions.known():
            versions.require_current(connection, database.where)
        target = version if version == "base" else _known(version)
        if target != "base" and target > standing:
            raise UsageError(f"The state database stands at {standing}, which is older than {target}. `kubehenge db upgrade` goes forward.")
        _run(command.downgrade, connection, target)
        return versions.current(connection) or "empty"


def current(database: Database) -> str | None:
    """Return the version that a database stands at, None for an empty one."""
    with database.read() as session:
        return versions.current(session.connection())


def check(database: Database) -> tuple[str, ...]:
    """Return how a migrated database differs from the tables that this Kubehenge uses: empty when it does not."""
    with database.read() as session:
        connection = session.connection()
        versions.require_current(connection, database.where)
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return tuple(_in_words(difference) for difference in compare_metadata(context, Row.metadata))


def _known(version: str) -> str:
    if version == "head":
        return versions.head()
    if version not in versions.known():
        raise UsageError(f"{version} is no version that this Kubehenge knows; those are {', '.join(versions.known())}.")
    return version


def _run(verb: Callable[[Config, str], Any], connection: Connection, version: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(versions.migrations_dir()).replace("%", "%%"))
    config.attributes["connection"] = connection
    verb(config, version)


def _in_words(difference: Any) -> str:
    """Write one difference of Alembic's, a tuple or a list of them, as one line."""
    if isinstance(difference, list):
        return "; ".join(_in_words(item) for item in difference)
    operation, *rest = difference
    return f"{operation} {' '.join(str(part) for part in rest if isinstance(part, str) or hasattr(part, 'name'))}"


__all__ = ["DatabaseError", "check", "current", "downgrade", "upgrade"]
