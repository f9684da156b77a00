"""The reads behind the pages: a constant number of statements, on indexes, however large the fleet is (STYLE, Store; P12)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from kubehenge.model.resource import ClusterState
from kubehenge.store.reads.clusters import ClusterFilter, cluster_page, find_cluster, word_counts
from kubehenge.store.reads.plans import PlanFilter, plan_counts, plan_page
from kubehenge.store.reads.visible import EVERYTHING, Visible
from kubehenge.store.reads.words import PlanWord, Tone, condition_tone
from tests.web.browsing import Browser
from tests.web.conftest import Site
from tests.web.factories import Fleet, at, corner, large_plan

PAGES = [
    "/clusters",
    "/plans",
    "/plans?state=closed",
    "/approvals",
    "/runs",
    "/ledger",
    "/sources",
    "/clusters/prod/shop",
    "/clusters/prod/media/machines",
]


@contextmanager
def statements(site: Site) -> Iterator[list[tuple[str, Any]]]:
    """The statements that are run meanwhile, with their parameters."""
    found: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: Any) -> None:
        if statement.startswith("SELECT"):
            found.append((statement, parameters))

    event.listen(site.database.engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(site.database.engine, "before_cursor_execute", note)


def grow(fleet: Fleet, count: int) -> None:
    for number in range(count):
        scope = f"many/c{number:04}"
        fleet.cluster(scope)
        fleet.machine(scope, f"c{number:04}-cp-0", control_plane=True, vmid=20_000 + number, node="pve1")
        if number % 3 == 0:
            fleet.plan(scope, f"Create {scope}", corner(scope), digest=f"{number:012x}", opened=at("10:00"))


@pytest.mark.parametrize("path", PAGES)
def test_a_page_asks_as_often_for_many_clusters_as_for_few(site: Site, maria: Browser, path: str) -> None:
    maria.get(path)
    with statements(site) as few:
        assert maria.get(path).status_code == 200
    site.change(lambda fleet: grow(fleet, 150))
    maria.get(path)
    with statements(site) as many:
        assert maria.get(path).status_code == 200
    assert len(many) <= len(few) + 2, [one[0][:120] for one in many]
    assert len(many) < 60


LARGE = ("action", "step", "approval", "resource", "body", "version", "document")


def test_no_page_reads_a_large_table_from_end_to_end(site: Site, maria: Browser) -> None:
    site.change(lambda fleet: grow(fleet, 150))
    paths = [
        *PAGES,
        f"/plans/{site.fleet.plans['prod/shop asked']}",
        "/runs/417",
        "/runs/417/log",
        "/freezes",
        "/fragments/tasks",
        "/api/v1/plans",
    ]
    with statements(site) as found:
        for path in paths:
            assert maria.get(path).status_code == 200
    with site.database.engine.connect() as connection:
        for statement, parameters in {one[0]: one for one in found}.values():
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            for row in plan:
                words = str(row[-1]).split()
                assert not (words[0] == "SCAN" and words[1] in LARGE and "INDEX" not in words), (statement[:300], row[-1])


def test_a_plan_of_a_thousand_actions_stays_readable(site: Site, maria: Browser) -> None:
    """ACCEPTANCE P12: at most 200 kB, paged in SQL, usable without script."""
    plan = site.change(lambda fleet: large_plan(fleet, "prod/media"))
    with statements(site) as found:
        page = maria.get(f"/plans/{plan}")
    assert len(page.data) <= 200_000, len(page.data)
    assert "1–100 of 1,000" in page.text
    assert 'href="?page=10"' in page.text
    assert page.text.count('<span class="n">') == 100
    assert f'href="/plans/{plan}/actions/' in page.text, "what does not fit has a page of its own"
    assert not [one for one in found if "FROM action" in one[0] and "LIMIT" not in one[0] and "count(" not in one[0]]
    last = maria.get(f"/plans/{plan}?page=10")
    assert "901–1,000 of 1,000" in last.text
    assert len(last.data) <= 200_000


def test_the_pages_of_a_large_plan_hold_every_action_once(site: Site, maria: Browser) -> None:
    plan = site.change(lambda fleet: large_plan(fleet, "prod/media", 230))
    names = []
    for number in (1, 2, 3):
        page = maria.get(f"/plans/{plan}?page={number}").text
        names += [part.partition("@")[0] for part in page.partition('id="order"')[2].split("KubehengeCluster")[0:-1] if "kh-" in part]
    found = {part.rpartition("kh-")[2][:12] for part in names}
    assert found == {f"{number:012x}" for number in range(1, 231)}


def test_counts_agree_with_what_a_filter_shows(site: Site) -> None:
    with site.database.read() as session:
        counts = word_counts(session, site.fleet.site_id, EVERYTHING, ClusterFilter())
        for word, count in counts.items():
            assert cluster_page(session, site.fleet.site_id, EVERYTHING, ClusterFilter(word=word.value)).total == count
        plans = plan_counts(session, site.fleet.site_id, EVERYTHING, PlanFilter())
        for state, count in plans.items():
            assert plan_page(session, site.fleet.site_id, EVERYTHING, PlanFilter(state=state)).total == count, state
        assert plans["open"] == sum(count for state, count in plans.items() if state in {word.value for word in PlanWord})


def test_the_list_and_one_cluster_say_the_same_word(site: Site) -> None:
    with site.database.read() as session:
        for line in cluster_page(session, site.fleet.site_id, EVERYTHING, ClusterFilter()).items:
            one = find_cluster(session, site.fleet.site_id, EVERYTHING, line.namespace, line.name)
            assert one is not None
            assert bool(one.look) == (line.word.value == "Needs a look"), line.scope
            assert one.line.word == line.word or (one.look and one.line.word.value == "Available")


ALL = ["clusters/wiki", "edge/kiosk", "lab/ml", "lab/scratch", "prod/billing", "prod/media", "prod/search", "prod/shop"]


@pytest.mark.parametrize("everything", [True, False])
@pytest.mark.parametrize("exceptions", [frozenset(), frozenset({"prod/shop"}), frozenset(ALL[:4]), frozenset({"no/such"})])
def test_lists_in_sql_show_exactly_what_is_visible(site: Site, everything: bool, exceptions: frozenset[str]) -> None:
    visible = Visible(all_clusters=everything, exceptions=exceptions)
    with site.database.read() as session:
        shown = {line.scope for line in cluster_page(session, site.fleet.site_id, visible, ClusterFilter()).items}
        plans = {line.scope for line in plan_page(session, site.fleet.site_id, visible, PlanFilter(state="all")).items}
    assert shown == {scope for scope in site.fleet.clusters if visible.sees(scope)}
    assert all(visible.sees(scope) for scope in plans)


def test_thousands_of_pools_of_their_own_are_no_problem(site: Site) -> None:
    visible = Visible(all_clusters=False, exceptions=frozenset(f"many/c{number}" for number in range(9000)) | {"prod/shop"})
    with site.database.read() as session:
        assert [line.scope for line in cluster_page(session, site.fleet.site_id, visible, ClusterFilter()).items] == ["prod/shop"]


@settings(max_examples=60)
@given(kind=st.text(max_size=20), status=st.text(max_size=10))
def test_a_condition_that_is_not_known_is_judged_like_any_other(kind: str, status: str) -> None:
    assert condition_tone(kind, "True") in {Tone.GOOD, Tone.INFO, Tone.WARN}
    assert condition_tone(kind, "Unknown") is Tone.WARN
    assert isinstance(condition_tone(kind, status), Tone)


@pytest.mark.parametrize(
    ("kind", "status", "tone"),
    [
        ("Available", "True", Tone.GOOD),
        ("Available", "False", Tone.WARN),
        ("RollingOut", "True", Tone.INFO),
        ("RollingOut", "False", Tone.OFF),
        ("Paused", "True", Tone.WARN),
        ("Remediating", "True", Tone.WARN),
        ("ScalingUp", "Unknown", Tone.WARN),
    ],
)
def test_conditions_are_judged_by_their_polarity(kind: str, status: str, tone: Tone) -> None:
    assert condition_tone(kind, status) is tone


def test_a_foreign_cluster_without_machines_is_being_made(site: Site) -> None:
    site.change(lambda fleet: fleet.cluster("try/it", state=ClusterState.FOREIGN, status={"available": False, "phase": "Provisioning"}))
    with site.database.read() as session:
        found = find_cluster(session, site.fleet.site_id, EVERYTHING, "try", "it")
    assert found is not None
    assert found.line.word.value == "Provisioning"
    assert found.look == ()
