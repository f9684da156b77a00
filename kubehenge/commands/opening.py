"""Opening what a command needs: the settings, the database for reading, or the decisions of the person at this machine."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kubehenge.errors import SettingsError, UsageError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from kubehenge.engine.decide import Decide
    from kubehenge.settings import Settings
    from kubehenge.store.reads.decision import Person
    from kubehenge.wiring import Core


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A session that only reads, on one view of the site's database."""

    session: Session
    site_id: int
    settings: Settings
    now: datetime


def open_settings() -> Settings:
    """Read the settings, and keep their secrets out of everything that is printed from now on."""
    from kubehenge import log
    from kubehenge.settings import load_settings

    settings = load_settings()
    log.keep_out(settings.secrets)
    # What a command has to say it prints; its log is for who asks for it.
    log.configure(level=settings.log_level if "log_level" in settings.model_fields_set else "warning", form=settings.log_format)
    return settings


@contextmanager
def open_reading() -> Iterator[Reading]:
    """Open the site's database for reading. Errors: UsageError when it holds no such site yet."""
    from kubehenge.clock import SystemClock
    from kubehenge.store.database import open_database
    from kubehenge.store.reads.site import find_site

    settings = open_settings()
    database = open_database(settings.database.get_secret_value())
    try:
        with database.read() as session:
            site = find_site(session, settings.site)
            if site is None:
                raise UsageError(
                    f"The database knows no site {settings.site} yet: `kubehenge serve` makes it, and reads it for the first time."
                )
            yield Reading(session=session, site_id=site.id, settings=settings, now=SystemClock().now())
    finally:
        database.close()


def prepare_state_dir(settings: Settings) -> None:
    """Make the state directory for its owner only where it is missing. Errors: SettingsError when it cannot be written."""
    path = settings.state_dir
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"The state directory {path} cannot be made: {error.strerror}. Set KUBEHENGE_STATE_DIR to one that can."
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise SettingsError(f"The state directory {path} cannot be written by this user. Give it to the user that runs Kubehenge.")


@contextmanager
def open_core() -> Iterator[Core]:
    """Open all that changes something."""
    from kubehenge import wiring

    settings = open_settings()
    prepare_state_dir(settings)
    core = wiring.open_core(settings)
    try:
        yield core
    finally:
        core.db.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciding:
    """What people decide, and the person who does, who is whoever runs this command."""

    core: Core
    decide: Decide
    person: Person


@contextmanager
def open_deciding() -> Iterator[Deciding]:
    """Open the decisions of the person at this machine, who is named `local/<user>` in the ledger."""
    from kubehenge import wiring

    with open_core() as core:
        yield Deciding(core=core, decide=wiring.decisions(core), person=local_person())


def local_person() -> Person:
    """Return whoever runs this command: the user behind sudo where there is one, else the process's own."""
    from kubehenge.store.reads.decision import Person

    own = _user_name(os.getuid())
    behind = os.environ.get("SUDO_UID", "") if os.getuid() == 0 else ""
    name = _user_name(int(behind)) if behind.isdecimal() else own
    return Person(userid=f"local/{name}", name=name, privileges=lambda _path: frozenset())


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def parse_scope(text: str) -> tuple[str, str]:
    """Read `<namespace>/<name>`; a name alone is in the namespace `clusters`."""
    namespace, slash, name = text.rpartition("/")
    if not name or (slash and not namespace) or "/" in namespace:
        raise UsageError(f"{text!r} names no cluster: write NAMESPACE/NAME, such as clusters/prod.")
    return namespace or "clusters", name


def require_cluster(core: Core, scope: str) -> None:
    """Raise UsageError when there is no such cluster now."""
    from kubehenge.store.reads.clusters import find_cluster
    from kubehenge.store.reads.visible import EVERYTHING

    namespace, name = parse_scope(scope)
    with core.db.read() as session:
        if find_cluster(session, core.site_id, EVERYTHING, namespace, name) is None:
            raise UsageError(f"There is no cluster {scope}. `kubehenge get clusters` lists those that there are.")
