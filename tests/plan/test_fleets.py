"""500 random fleets, planned again, elsewhere and from either database: always the same bytes (ACCEPTANCE 1.1; MODEL 12)."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from kubehenge.model.canon import Body, canonical
from kubehenge.model.facts import ClusterFacts, SiteFacts
from kubehenge.model.identity import Incarnation
from kubehenge.model.resource import Lane, ResourceState
from kubehenge.model.site import SiteSettings
from kubehenge.plan.bill import make_bill
from kubehenge.plan.obstacles import Question, look_for_obstacles
from kubehenge.plan.placement import play
from kubehenge.plan.planner import Scope, draft, finish
from kubehenge.resources.expand import ClusterInput, Expansion, expand
from kubehenge.resources.topology import Topology
from kubehenge.store.bodies import get_bodies, hashed, put_bodies
from kubehenge.store.database import Database
from kubehenge.store.plans import _json
from tests.plan.fleets import NODES, VERSIONS, body, machines, site_facts, states

ROOT = Path(__file__).parents[2]
FLEETS = 500
SEEDS = ("4242",)

States = Callable[[list[ResourceState]], list[ResourceState]]


def drawn(chance: Random, name: str) -> dict[str, Any]:
    return body(
        name,
        version=chance.choice(VERSIONS),
        control_planes=chance.choice((1, 3, 5)),
        workers=chance.randint(0, 6),
        memory=chance.choice((2048, 4096, 8192)),
        blocks=chance.randint(8, 40),
    )


def fleet(number: int, through: States) -> list[str]:
    """The canonical plans of one random fleet, made from states that went `through` something, in an order of their own."""
    chance, order = Random(number), Random()
    online = tuple(node for node in NODES if chance.random() > 0.2)
    site = site_facts(online or NODES[:1], memory_mib=chance.choice((16_384, 65_536)))
    settings = SiteSettings(workload_pool=chance.choice(("kubehenge", "henge/kubehenge")), cluster_group=chance.choice(("a", "b")))
    found = []
    for nth in range(chance.randint(1, 2)):
        name = f"c{number}-{nth}"
        who = Incarnation(site="default", namespace="clusters", name=name, number=chance.randint(1, 3))
        before = drawn(chance, name) if chance.random() > 0.3 else None
        after = drawn(chance, name)
        facts = machines(before, scope=f"clusters/{name}") if before else ClusterFacts()
        wanted = _expanded(who, after, settings, site, facts)
        applied = _expanded(who, before, settings, site, facts) if before else None
        made = through([_marked(one, who) for one in states(wanted, applied)])
        order.shuffle(made)
        found += [_planned(who, lane, made, wanted, (before, after), facts, site) for lane in Lane]
    return found


def _expanded(who: Incarnation, declared: dict[str, Any], settings: SiteSettings, site: SiteFacts, facts: ClusterFacts) -> Expansion:
    return expand(ClusterInput(incarnation=who, body=declared, vm_ids=(10_000_000, 10_000_999)), settings, site, facts)


def _marked(state: ResourceState, who: Incarnation) -> ResourceState:
    return replace(state, mark=who.mark if state.mark is not None else None)


def _planned(
    who: Incarnation,
    lane: Lane,
    found: list[ResourceState],
    wanted: Expansion,
    bodies: tuple[Body | None, Body],
    facts: ClusterFacts,
    site: SiteFacts,
) -> str:
    scope = Scope(site="default", name=who.scope, incarnation=who.number, mark=who.mark, documents=("blob",), inputs=wanted.inputs[lane])
    drafted = draft(scope, lane, found)
    if not drafted.actions:
        return f"{who.scope} {lane.value}: nothing to do"
    before, after = (Topology.of(one) if one else None for one in bodies)
    moments = play(before, after, facts, site)
    bill = make_bill(before, after, moments, site)
    question = Question(before=before, after=after, facts=facts, site=site, moments=moments, bill=bill, protected=False)
    obstacles, checks = look_for_obstacles(question)
    plan = finish(scope, lane, drafted, bill=bill, obstacles=obstacles, checks=checks, title="", summary="")
    return f"{plan.digest} {canonical(_json(plan))}"


@cache
def planned() -> tuple[tuple[str, ...], dict[str, Body]]:
    """The plans of all fleets, and the bodies that they were made from."""
    bodies: dict[str, Body] = {}

    def gather(found: list[ResourceState]) -> list[ResourceState]:
        bodies.update(hashed(one for state in found for one in (state.desired, state.applied)))
        return found

    return tuple(text for number in range(FLEETS) for text in fleet(number, gather)), bodies


def fleets() -> tuple[str, ...]:
    return planned()[0]


def digest_of_all() -> str:
    return hashlib.sha256("\n".join(fleets()).encode()).hexdigest()


def test_acceptance_1_1_planning_again_in_another_order_gives_the_same_bytes_and_digest() -> None:
    assert [text for number in range(FLEETS) for text in fleet(number, list)] == list(fleets())
    actions = sum(text.count('"verb"') for text in fleets())
    assert actions > FLEETS * 5, "the fleets have something to do"
    assert len({text.partition(" ")[0] for text in fleets()}) > FLEETS, "and each its own"


def test_acceptance_1_1_no_process_and_no_hash_seed_gives_other_bytes() -> None:
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.plan.test_fleets import digest_of_all; print(digest_of_all())"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        for seed in SEEDS
    ]
    assert [process.communicate(timeout=110)[0].strip() for process in started] == [digest_of_all()] * len(SEEDS)


def test_acceptance_1_1_bodies_that_went_through_either_database_give_the_same_bytes(database: Database) -> None:
    bodies = planned()[1]
    with database.write() as session:
        put_bodies(session, bodies)
    with database.read() as session:
        kept: Mapping[str, Body] = get_bodies(session, bodies)

    def from_database(found: list[ResourceState]) -> list[ResourceState]:
        return [
            replace(
                one,
                desired=kept[one.desired_hash] if one.desired_hash else None,
                applied=kept[one.applied_hash] if one.applied_hash else None,
                observed=kept[one.observed_hash] if one.observed_hash else None,
            )
            for one in found
        ]

    assert [text for number in range(FLEETS) for text in fleet(number, from_database)] == list(fleets())
