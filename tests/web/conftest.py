"""A page over a fleet: a real database, the real decisions, and Proxmox VE as a fake that holds state."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
from flask import Flask
from jinja2.bccache import Bucket, BytecodeCache
from prometheus_client import CollectorRegistry

from kubehenge.engine.decide import Decide
from kubehenge.engine.stored import rules_in_force
from kubehenge.model.site import SiteSettings
from kubehenge.store.database import Database, open_database
from kubehenge.store.rows import Row
from kubehenge.web.app import create_app
from kubehenge.web.services import Services, WebSettings
from tests.fakes.clock import FakeClock
from tests.web.browsing import Browser
from tests.web.factories import NOW, Fleet, whole_fleet
from tests.web.fakes import FakePeople, usual_people

SETTINGS = WebSettings(version="0.9.3", public_url="https://kubehenge.example.org", loops=())


class Compiled(BytecodeCache):
    """Templates compiled once for all applications that the tests make."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self.kept:
            bucket.bytecode_from_string(self.kept[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.kept[bucket.key] = bucket.bytecode_to_string()


COMPILED = Compiled()


@dataclass(slots=True)
class Site:
    """Everything behind the page, to change and to look at."""

    app: Flask
    database: Database
    people: FakePeople
    clock: FakeClock
    fleet: Fleet
    rung: list[str]

    def browser(self, user: str = "", password: str = "") -> Browser:
        """A browser, signed in when a user is named."""
        browser = Browser(self.app)
        if user:
            assert browser.sign_in(user, password or self.people.passwords[user]).status_code == 303
        return browser

    def change(self, what: Callable[[Fleet], Any]) -> Any:
        """Change rows as the loops would."""
        with self.database.write() as session:
            self.fleet.session = session
            return what(self.fleet)


@pytest.fixture(autouse=True)
def plain_log() -> Iterator[None]:
    """Log lines as plain text; the usual developer's form prints the variables of every frame of a trace."""
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    yield
    structlog.reset_defaults()


def make_site(database: Database, fleet: Fleet, *, settings: WebSettings = SETTINGS, site_id: int = 1) -> Site:
    people, clock, rung = usual_people(), FakeClock(NOW), []
    decide = Decide(database, site_id, clock, ring=rung.append, webhook_secrets={"fleet": ("thorn-hedge-of-the-henge",)})

    def rules() -> Any:
        with database.read() as session:
            return rules_in_force(session, site_id)

    services = Services(
        read=database.read,
        decisions=decide,
        people=people,
        clock=clock.now,
        settings=lambda: SiteSettings(time_zone="Europe/Berlin"),
        rules=rules,
        registry=CollectorRegistry(),
    )
    app = create_app(settings, services)
    app.jinja_env.bytecode_cache = COMPILED
    return Site(app=app, database=database, people=people, clock=clock, fleet=fleet, rung=rung)


def empty_database(path: Path) -> Database:
    database = open_database(f"sqlite:///{path}", check=False)
    with database.connect() as connection:
        Row.metadata.create_all(connection)
    return database


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Fleet]:
    """The fleet in a file, made once and copied for each test."""
    path = tmp_path_factory.mktemp("fleet") / "state.db"
    database = empty_database(path)
    with database.write() as session:
        fleet = whole_fleet(session)
    database.close()
    return path, fleet


@pytest.fixture
def site(filled: tuple[Path, Fleet], tmp_path: Path) -> Iterator[Site]:
    """The page over the whole fleet."""
    path, fleet = filled
    copy = tmp_path / "state.db"
    shutil.copy(path, copy)
    database = open_database(f"sqlite:///{copy}", check=False)
    yield make_site(
        database,
        Fleet(
            session=fleet.session,
            site_id=fleet.site_id,
            source_id=fleet.source_id,
            clusters=dict(fleet.clusters),
            plans=dict(fleet.plans),
            runs=dict(fleet.runs),
            sources=dict(fleet.sources),
        ),
    )
    database.close()


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Site]:
    """The page over a site without any cluster."""
    database = empty_database(tmp_path / "state.db")
    with database.write() as session:
        fleet = Fleet(session)
        fleet.site()
        fleet.covered("proxmox")
    yield make_site(database, fleet)
    database.close()


@pytest.fixture
def maria(site: Site) -> Browser:
    """A browser of someone who may do everything in the pool."""
    return site.browser("maria@corp")
