"""What waits for whom, and what an approval is bound to (ACCEPTANCE 1.2 to 1.5; MODEL 12, 14, 15)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ResourceRef
from kubehenge.store.reads.decision import AnswerKind, Person
from tests.engine.harness import ROOT, Site, cluster

UPGRADE = "v1.37.1+rke2r1"


@pytest.fixture
def prod(site: Site) -> Site:
    site.repo.push({"clusters/prod.yaml": cluster()})
    site.settle()
    return site


def upgraded(site: Site) -> Site:
    site.repo.push({"clusters/prod.yaml": cluster(version=UPGRADE)})
    site.settle()
    return site


def test_a_rollout_waits_for_a_person_and_runs_once_approved(prod: Site) -> None:
    upgraded(prod)
    plan = prod.waiting()
    assert plan.classes == ["rollout"]
    assert plan.bill["control_planes_replaced"] == 3
    assert plan.bill["workers_replaced"] == 2
    answer = prod.approve(plan)
    assert answer.kind is AnswerKind.ACCEPTED
    prod.settle()
    assert prod.plans("clusters/prod")[-1].state is PlanState.DONE
    assert {machine.body["version"] for machine in prod.world.all("kube.machine").values()} == {UPGRADE}


def test_scaling_up_runs_by_rule_and_scaling_down_waits(prod: Site) -> None:
    prod.repo.push({"clusters/prod.yaml": cluster(workers=4)})
    prod.settle()
    assert prod.plans("clusters/prod")[-1].classes == ["change"]
    assert len(prod.world.names("kube.machine")) == 7
    prod.repo.push({"clusters/prod.yaml": cluster(workers=1)})
    prod.settle()
    assert prod.waiting().classes == ["shrink"]
    assert len(prod.world.names("kube.machine")) == 7


def test_acceptance_1_4_a_newer_commit_supersedes_and_a_late_approval_is_a_conflict(prod: Site) -> None:
    upgraded(prod)
    old = prod.waiting()
    prod.repo.push({"clusters/prod.yaml": cluster(version=UPGRADE, workers=3)})
    prod.settle()
    new = prod.waiting()
    assert new.id != old.id
    answer = prod.approve(old)
    assert answer.kind is AnswerKind.CONFLICT
    assert answer.replacement_id == new.id
    assert prod.waiting().state is PlanState.OPEN


def test_acceptance_1_4_a_push_elsewhere_leaves_a_waiting_plan_and_its_approvals(prod: Site) -> None:
    upgraded(prod)
    plan = prod.waiting()
    prod.repo.push({"clusters/other.yaml": cluster("other", net=30), "README.md": "words"})
    prod.settle()
    assert prod.waiting().id == plan.id
    assert prod.waiting().digest == plan.digest


def test_acceptance_1_5_an_approval_is_void_once_an_action_differs(prod: Site) -> None:
    two = Person(userid="maria@corp", name="Maria", privileges=lambda _path: frozenset({"VM.Audit", "VM.Allocate"}))
    upgraded(prod)
    plan = prod.waiting()
    assert prod.approve(plan, who=two).kind is AnswerKind.ACCEPTED
    prod.repo.push({"clusters/prod.yaml": cluster(version=UPGRADE, workers=9)})
    prod.tick()
    assert prod.waiting().digest != plan.digest


def test_acceptance_1_3_twenty_approvals_start_one_run(prod: Site) -> None:
    upgraded(prod)
    plan = prod.waiting()
    people = [Person(userid=f"p{n}@pve", name=f"p{n}", privileges=lambda _: frozenset({"VM.Audit", "VM.Allocate"})) for n in range(20)]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda person: prod.approve(plan, who=person), people))
    assert [answer.kind for answer in answers].count(AnswerKind.ACCEPTED) == 1
    assert [answer.kind for answer in answers].count(AnswerKind.ALREADY) == 19
    prod.settle()
    assert len([run for run in prod.runs() if run.plan_id == plan.id]) == 1
    again = prod.approve(plan)
    assert again.kind is AnswerKind.ALREADY
    assert again.run_id is not None


def test_a_person_without_the_privilege_is_refused_and_one_who_may_not_see_finds_nothing(prod: Site) -> None:
    upgraded(prod)
    plan = prod.waiting()
    viewer = Person(userid="v@pve", name="v", privileges=lambda _path: frozenset({"VM.Audit"}))
    stranger = Person(userid="s@pve", name="s", privileges=lambda _path: frozenset())
    refused = prod.approve(plan, who=viewer)
    assert refused.kind is AnswerKind.REFUSED
    assert "VM.Allocate on /pool/kubehenge/clusters.prod" in refused.message
    assert prod.approve(plan, who=stranger).kind is AnswerKind.NOT_FOUND


def test_a_rejection_blocks_until_it_is_withdrawn(prod: Site) -> None:
    upgraded(prod)
    plan = prod.waiting()
    maria = Person(userid="maria@corp", name="Maria", privileges=lambda _path: frozenset({"VM.Audit", "VM.Allocate"}))
    prod.decide.reject(plan.id, plan.digest, maria, "not on a Friday")
    assert prod.approve(plan).kind is AnswerKind.COUNTED
    assert prod.waiting().state is PlanState.OPEN
    prod.decide.withdraw(plan.id, maria)
    prod.settle()
    assert prod.open_plan() is None or prod.open_plan().state is not PlanState.OPEN or prod.approve(plan).kind is not AnswerKind.COUNTED


def test_a_freeze_holds_what_is_approved_until_it_is_thawed(prod: Site) -> None:
    prod.decide.freeze("clusters/prod", ROOT, "holidays")
    prod.repo.push({"clusters/prod.yaml": cluster(workers=4)})
    prod.tick()
    prod.apply()
    plan = prod.open_plan()
    assert plan is not None
    assert plan.state is PlanState.APPROVED
    assert len(prod.world.names("kube.machine")) == 5
    prod.decide.thaw(1, ROOT)
    prod.settle()
    assert len(prod.world.names("kube.machine")) == 7


def test_acceptance_1_2_a_world_that_moved_makes_the_plan_stale_and_nothing_more_is_written(prod: Site) -> None:
    upgraded(prod)
    plan = prod.waiting()
    prod.world.edit(ResourceRef(kind="kube.cluster", name="clusters/prod"), **_with_replicas(prod, 5))
    calls = len(prod.world.calls)
    prod.approve(plan)
    prod.apply()
    assert prod.plans("clusters/prod")[-1].state is PlanState.STALE
    assert prod.world.calls[calls:] == []
    prod.tick()
    fresh = prod.waiting()
    assert fresh.id != plan.id
    assert any(change["path"].endswith("replicas") for action in prod.actions(fresh) for change in action.drift)


def _with_replicas(site: Site, replicas: int) -> dict[str, object]:
    body = site.world.all("kube.cluster")["clusters/prod"].body
    topology = {**body["spec"]["topology"], "controlPlane": {"replicas": replicas}}
    return {"spec": {**body["spec"], "topology": topology}}
