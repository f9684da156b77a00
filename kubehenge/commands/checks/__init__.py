"""What `doctor` looks at, from this machine outward; a later look is left out when what it needs is not there."""

from __future__ import annotations

from collections.abc import Iterator

from kubehenge.commands.checks import machine, site, world
from kubehenge.drivers.findings import Finding
from kubehenge.errors import KubehengeError
from kubehenge.log import keep_out
from kubehenge.settings import Settings, load_settings
from kubehenge.store.database import Database, open_database


def examine(*, ask_others: bool = True) -> tuple[Finding, ...]:
    """Return everything that was looked at; never raises for what it finds."""
    return tuple(_look(ask_others=ask_others))


def _look(*, ask_others: bool) -> Iterator[Finding]:
    yield from machine.programs()
    try:
        settings = load_settings()
    except KubehengeError as error:
        yield Finding(
            what="settings", ok=False, detail=str(error), mend="Correct them; docs/settings.md lists all. Nothing else can be looked at."
        )
        return
    keep_out(settings.secrets)
    yield from machine.settings_given(settings)
    yield from machine.state_directory(settings)
    yield from machine.files(settings)
    database = None
    try:
        database = open_database(settings.database.get_secret_value())
    except KubehengeError as error:
        yield Finding(what="database", ok=False, detail=str(error))
    if database is None:
        return
    try:
        yield from _with_database(settings, database, ask_others=ask_others)
    finally:
        database.close()


def _with_database(settings: Settings, database: Database, *, ask_others: bool) -> Iterator[Finding]:
    try:
        yield from site.database_state(database)
        yield from site.loops(settings, database)
        yield from site.readings(settings, database)
    except KubehengeError as error:
        yield Finding(what="database", ok=False, detail=str(error))
        return
    if ask_others:
        yield from world.systems(settings, database)
