"""Every page over a real PostgreSQL, with the same fleet and the same words as over SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubehenge.store import migrate
from kubehenge.store.database import open_database
from tests.fakes.postgres import PostgresServer, find_binaries
from tests.web.browsing import main_text
from tests.web.conftest import Site, make_site
from tests.web.factories import whole_fleet

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def on_postgres() -> Iterator[Site]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL lane NOT RUN: there are no initdb and postgres on this machine, or no psycopg")
    server = PostgresServer(binaries)
    database = open_database(server.draw(), check=False)
    migrate.upgrade(database)
    with database.write() as session:
        fleet = whole_fleet(session)
    yield make_site(database, fleet)
    database.close()
    server.stop()


PATHS = [
    "/clusters",
    "/clusters?q=shop&ns=prod&dist=rke2&minor=1.36&plan=Waiting+for+approval&order=-version",
    "/clusters?word=Needs+a+look",
    "/clusters?plan=Up+to+date",
    "/clusters?plan=Run+failed",
    "/clusters/prod/shop",
    "/clusters/prod/media/machines",
    "/clusters/tools/rancher/conditions",
    "/clusters/prod/shop/plans",
    "/plans",
    "/plans?state=closed&q=staging&class=create",
    "/plans?state=Held+back",
    "/plans?state=Waits+to+try+again",
    "/plans/{prod/shop asked}",
    "/plans/{lab/ml asked}",
    "/plans/{superseded}",
    "/plans/{prod/search asked}/actions/8",
    "/approvals",
    "/runs",
    "/runs/417",
    "/runs/418?word=Done",
    "/runs/418/log",
    "/sources",
    "/sources/1",
    "/freezes",
    "/ledger?q=shop&from=2026-11-30&to=2026-11-30",
    "/find?q=192.0.2.116",
    "/find?q=1127",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_page_says_the_same_over_both_databases(on_postgres: Site, site: Site, path: str) -> None:
    for name, plan in site.fleet.plans.items():
        assert on_postgres.fleet.plans[name] == plan
        path = path.replace(f"{{{name}}}", str(plan))
    with_postgres, with_sqlite = on_postgres.browser("maria@corp").get(path), site.browser("maria@corp").get(path)
    assert with_postgres.status_code == with_sqlite.status_code == 200
    assert main_text(with_postgres) == main_text(with_sqlite)


def test_someone_with_one_cluster_sees_that_one(on_postgres: Site) -> None:
    words = main_text(on_postgres.browser("jonas@corp").get("/clusters"))
    assert "lab/ml" in words
    assert "prod/shop" not in words


def test_the_schema_of_the_migrations_is_the_one_the_pages_use(on_postgres: Site, tmp_path: Path) -> None:
    assert migrate.check(on_postgres.database) == ()
    assert on_postgres.app.test_client().get("/readyz", base_url="https://kubehenge.example.org").json["ready"] is True  # type: ignore[index]
