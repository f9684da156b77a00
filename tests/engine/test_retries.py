"""Failures and their retries, lanes, and what rules ask by default (ACCEPTANCE 1.11; MODEL 11, 15)."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from kubehenge.model.plan import PlanState, StepState
from kubehenge.model.resource import Lane, ResourceRef
from kubehenge.store.rows import ActionRow, LedgerRow, RunRow, StepRow
from tests.engine.harness import Site, cluster
from tests.fakes.world import refused

UPGRADE = "v1.37.1+rke2r1"
POOL = ResourceRef(kind="proxmox.pool", name="kubehenge/clusters.prod")
CLUSTER = ResourceRef(kind="kube.cluster", name="clusters/prod")


@pytest.fixture
def prod(site: Site) -> Site:
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    return site


def test_acceptance_1_11_a_retry_plans_afresh_from_the_newest_revision(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.world.faults.append(refused("create", "proxmox.acl"))
    site.settle()
    first = next(plan for plan in site.plans("clusters/prod") if plan.state is PlanState.FAILED)
    with site.db.read() as session:
        rows = session.execute(
            select(ActionRow.kind, StepRow.state)
            .join(StepRow, StepRow.action_id == ActionRow.id)
            .join(RunRow, RunRow.id == StepRow.run_id)
            .where(RunRow.plan_id == first.id)
        ).all()
    states = {row.kind: row.state for row in rows}
    assert (states["proxmox.acl"], states["proxmox.token"], states["kube.cluster"]) == (
        StepState.FAILED,
        StepState.BLOCKED,
        StepState.BLOCKED,
    )
    assert {states[kind] for kind in ("proxmox.pool", "proxmox.user", "proxmox.volume_owner")} == {StepState.DONE}
    made = [call for call in site.world.calls if call[0] == "create"]
    newest = site.repo.push({"prod.yaml": cluster(workers=4)})
    site.world.faults.clear()
    site.tick()
    again = site.plans("clusters/prod")[-1]
    assert (again.id != first.id, again.revision) == (True, newest)
    site.approve(again)
    site.settle()
    assert {action.kind for action in site.actions(again)}.isdisjoint({"proxmox.pool", "proxmox.user", "proxmox.volume_owner"})
    assert all([call for call in site.world.calls if call[0] == "create"].count(call) == 1 for call in made), "nothing is replayed"
    assert len(site.world.names("kube.machine")) == 7


def test_model_11_each_lane_has_one_open_plan_and_a_field_that_waits_to_be_changed_is_not_repaired(prod: Site) -> None:
    prod.repo.push({"prod.yaml": cluster(version=UPGRADE)})
    prod.settle()
    waiting = prod.waiting()
    body = prod.world.all(CLUSTER.kind)[CLUSTER.name].body
    topology = {**body["spec"]["topology"], "version": "v1.36.6+rke2r1"}
    prod.world.edit(CLUSTER, spec={**body["spec"], "topology": topology})
    prod.world.edit(POOL, comment="by hand")
    prod.tick()
    fresh, upkeep = prod.waiting(), prod.open_plan(lane=Lane.UPKEEP)
    assert upkeep is not None
    assert [action.name for action in prod.actions(upkeep)] == [POOL.name]
    assert fresh.id != waiting.id
    [action] = prod.actions(fresh)
    assert {change["path"] for change in action.drift} == {"spec.topology.version"}
    prod.apply()
    assert prod.world.all(CLUSTER.kind)[CLUSTER.name].body["spec"]["topology"]["version"] == "v1.36.6+rke2r1"
    assert len([plan for plan in prod.plans("clusters/prod") if plan.closed_tick is None and plan.lane is Lane.ASKED]) == 1


def test_model_11_upkeep_that_found_nothing_to_change_leaves_nothing_in_the_ledger(prod: Site) -> None:
    def entries() -> int:
        with prod.db.read() as session:
            return len([one for one in session.scalars(select(LedgerRow.event)) if one.startswith("run_done")])

    before = entries()
    prod.settle()
    assert entries() == before
    prod.world.edit(POOL, comment="by hand")
    prod.settle()
    assert entries() == before + 1


@pytest.mark.parametrize(
    ("change", "classes", "waits"),
    [
        ({"workers": 4}, ["change"], False),
        ({"version": UPGRADE}, ["rollout"], True),
        ({"workers": 1}, ["shrink"], True),
    ],
)
def test_model_15_what_rules_ask_by_default(prod: Site, change: dict[str, object], classes: list[str], waits: bool) -> None:
    prod.repo.push({"prod.yaml": cluster(**change)})  # type: ignore[arg-type]
    prod.tick()
    plan = prod.plans("clusters/prod")[-1]
    assert plan.classes == classes
    assert plan.state is (PlanState.OPEN if waits else PlanState.APPROVED)
