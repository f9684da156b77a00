"""Every query of a tick and of a run finds its rows by an index (issue of the state database; DESIGN, Planning is a join)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from tests.engine.harness import Site, cluster

GROWING = {"resource", "version", "body", "document", "plan", "action", "approval", "run", "step", "ledger", "tick", "coverage", "cluster"}
"""Tables that grow with clusters or with time; the others hold a handful of rows."""

WHOLE = (
    # A row for each cluster, read when sources changed: all of them are compared with what is declared.
    "FROM cluster",
    # Documents in force are loaded once, when a process starts.
    "FROM document",
)


@contextmanager
def statements(site: Site) -> Iterator[dict[str, Any]]:
    """Collect the statements that are executed, each once."""
    seen: dict[str, Any] = {}

    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        seen.setdefault(statement, parameters[0] if many else parameters)

    event.listen(site.db.engine, "before_cursor_execute", keep)
    try:
        yield seen
    finally:
        event.remove(site.db.engine, "before_cursor_execute", keep)


def scans(site: Site, seen: dict[str, Any]) -> list[str]:
    """Return the statements that read a growing table from end to end."""
    found = []
    with site.db.engine.connect() as connection:
        for statement, parameters in seen.items():
            if not re.match(r"\s*(SELECT|UPDATE|DELETE)", statement):
                continue
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters):
                match = re.match(r"SCAN (\w+)(?! USING)", row[3])
                if match and match[1] in GROWING and " USING " not in row[3]:
                    found.append(f"{row[3]}: {' '.join(statement.split())[:300]}")
    return found


@pytest.fixture
def fleet(site: Site) -> Site:
    site.repo.push({f"c{n}.yaml": cluster(f"c{n}", net=60 + n, control_planes=1, workers=1) for n in range(4)})
    site.settle()
    return site


def test_no_query_of_an_idle_tick_reads_a_growing_table_from_end_to_end(fleet: Site) -> None:
    with statements(fleet) as seen:
        fleet.tick()
        fleet.apply()
    assert len(seen) > 5
    assert scans(fleet, seen) == []


def test_no_query_of_a_change_reads_a_growing_table_from_end_to_end(fleet: Site) -> None:
    fleet.repo.push({"c1.yaml": cluster("c1", net=61, control_planes=1, workers=2)})
    with statements(fleet) as seen:
        fleet.settle()
    bad = [one for one in scans(fleet, seen) if not any(whole in one for whole in WHOLE)]
    assert bad == []


def test_a_query_without_an_index_would_be_seen(site: Site) -> None:
    assert scans(site, {"SELECT * FROM body WHERE canon = 1": ()})
