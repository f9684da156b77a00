"""`db`: making and moving the state database. Its address is KUBEHENGE_DATABASE_URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kubehenge.commands.frame import FailedError, Group

if TYPE_CHECKING:
    from kubehenge.store.database import Database


@click.group(cls=Group)
def db() -> None:
    """Make the state database, and move it between versions."""


@db.command(name="upgrade")
@click.argument("version", default="head")
def upgrade(version: str) -> None:
    """Bring the database up to VERSION, the newest by default. Make a backup first."""
    from kubehenge.store import migrate

    with _open() as database:
        before = migrate.current(database) or "empty"
        after = migrate.upgrade(database, version)
        click.echo(_moved(database, before, after))


@db.command(name="downgrade")
@click.argument("version")
@click.option("-y", "--yes", is_flag=True, help="Do not ask first.")
def downgrade(version: str, yes: bool) -> None:
    """Bring the database down to VERSION, or with `base` to nothing. What the older version cannot hold is lost."""
    from kubehenge.store import migrate

    with _open() as database:
        before = migrate.current(database) or "empty"
        if not yes:
            what = "All that it holds is lost" if version == "base" else "What that version cannot hold is lost"
            click.confirm(f"Take {database.where} from {before} down to {version}? {what}.", abort=True)
        after = migrate.downgrade(database, version)
        click.echo(_moved(database, before, after))


@db.command(name="check")
def check() -> None:
    """Say which version the database stands at, and whether its tables are what this Kubehenge uses."""
    from kubehenge.store import migrate, versions

    with _open(make=False) as database:
        differences = migrate.check(database)
        if differences:
            raise FailedError(
                "\n".join(
                    [f"The state database {database.where} differs from what this Kubehenge uses:", *(f"  {one}" for one in differences)]
                )
            )
        click.echo(f"{database.where} stands at version {versions.head()}, the newest, and its tables are as they should be.")


def _moved(database: Database, before: str, after: str) -> str:
    return f"{database.where} stands at version {after}" + (" already." if before == after else f"; it was {before}.")


@contextmanager
def _open(*, make: bool = True) -> Iterator[Database]:
    from kubehenge.commands.opening import open_settings
    from kubehenge.store.database import open_database

    database = open_database(open_settings().database.get_secret_value(), check=not make)
    try:
        yield database
    finally:
        database.close()


COMMANDS = (db,)
