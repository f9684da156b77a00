"""What an approval is bound to, what voids it, and what leaves it alone (ACCEPTANCE 1.4, 1.5; MODEL 12, 14)."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ResourceRef
from kubehenge.store.reads.decision import AnswerKind, Person
from kubehenge.store.rows import ApprovalRow, PlanRow
from tests.engine.harness import Site, cluster
from tests.fakes.world import unreachable

UPGRADE = "v1.37.1+rke2r1"
RULES = """\
apiVersion: kubehenge.dev/v1alpha1
kind: ApprovalRules
metadata: {{name: default}}
spec:
  rules:
    - {{name: careful, classes: [rollout], needs: {{approvers: {approvers}}}}}
"""
SITE = """\
apiVersion: kubehenge.dev/v1alpha1
kind: Site
metadata: {{name: default}}
spec: {{concurrentClusters: {building}}}
"""


def person(name: str) -> Person:
    return Person(userid=f"{name}@corp", name=name, privileges=lambda _path: frozenset({"VM.Audit", "VM.Allocate"}))


MARIA, JONAS = person("maria"), person("jonas")


def ask_for(site: Site, approvers: int) -> None:
    """Have a rollout need so many people from now on."""
    site.repo.push({"rules.yaml": RULES.format(approvers=approvers)})
    site.settle()
    plan = site.open_plan("site:rules")
    if plan is not None:
        site.approve(plan)
        site.settle()


def words(site: Site, plan: PlanRow) -> list[ApprovalRow]:
    with site.db.read() as session:
        return list(session.scalars(select(ApprovalRow).where(ApprovalRow.plan_id == plan.id).order_by(ApprovalRow.id)))


@pytest.fixture
def careful(site: Site) -> Site:
    """A cluster that runs, whose upgrade needs two people."""
    site.repo.push({"prod.yaml": cluster(), "other.yaml": cluster("other", net=30)})
    ask_for(site, 2)
    return site


def upgraded(site: Site) -> PlanRow:
    site.repo.push({"prod.yaml": cluster(version=UPGRADE)})
    site.settle()
    return site.waiting()


def test_acceptance_1_5_an_approval_is_kept_with_row_digest_person_time_and_rules(careful: Site) -> None:
    plan = upgraded(careful)
    now = careful.clock.now()
    assert careful.approve(plan, who=MARIA).kind is AnswerKind.COUNTED
    [word] = words(careful, plan)
    assert (word.plan_id, word.digest, word.who, word.at) == (plan.id, plan.digest, "maria@corp", now)
    assert word.rules_version == plan.rules_version > 0


def test_acceptance_1_4_a_push_a_setting_and_a_reading_outside_leave_a_plan_and_its_approvals(careful: Site) -> None:
    plan = upgraded(careful)
    careful.approve(plan, who=MARIA)
    before = [(word.id, word.digest) for word in words(careful, plan)]
    careful.repo.push({"more.yaml": cluster("more", net=40), "README.md": "words", "site.yaml": SITE.format(building=3)})
    careful.settle()
    assert careful.plans("site:settings")[-1].state is PlanState.DONE
    careful.world.edit(ResourceRef(kind="proxmox.pool", name="kubehenge/clusters.other"), comment="by hand")
    careful.world.edit(ResourceRef(kind="proxmox.node", name="pve2"), memory_mib=99_000)
    careful.world.add_template(9003, "kubehenge", "another")
    careful.settle()
    assert careful.plans("clusters/other")[-1].classes == ["repair"]
    assert (careful.waiting().id, careful.waiting().digest) == (plan.id, plan.digest)
    assert [(word.id, word.digest) for word in words(careful, plan)] == before
    assert careful.approve(plan, who=JONAS).kind is AnswerKind.ACCEPTED, "the first word still counts"


def test_acceptance_1_5_another_disruption_is_another_plan_without_approvals(careful: Site) -> None:
    plan = upgraded(careful)
    careful.approve(plan, who=MARIA)
    gone = next(name for name in careful.world.names("kube.machine") if "prod-md-0" in name)
    vmid = careful.world.all("kube.machine")[gone].body["vmid"]
    careful.world.remove(ResourceRef(kind="kube.machine", name=gone))
    careful.world.remove(ResourceRef(kind="proxmox.vm", name=str(vmid)))
    for _ in range(3):
        careful.tick()
    fresh = careful.waiting()
    assert fresh.disruption != plan.disruption
    assert (fresh.documents, fresh.digest != plan.digest) == (plan.documents, True)
    assert words(careful, fresh) == []
    assert careful.approve(plan, who=JONAS).kind is AnswerKind.CONFLICT


def test_acceptance_1_5_a_laxer_rule_does_not_turn_an_earlier_word_into_a_grant(careful: Site) -> None:
    plan = upgraded(careful)
    assert careful.approve(plan, who=MARIA).kind is AnswerKind.COUNTED
    ask_for(careful, 1)
    assert careful.waiting().id == plan.id
    assert not [run for run in careful.runs() if run.plan_id == plan.id]
    careful.decide.reject(plan.id, plan.digest, JONAS)
    careful.decide.withdraw(plan.id, JONAS)
    careful.settle()
    assert careful.waiting().id == plan.id, "who withdraws a rejection has approved nothing"
    assert careful.approve(plan, who=JONAS).kind is AnswerKind.ACCEPTED


def test_acceptance_1_5_a_stricter_rule_counts_for_what_waits(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    ask_for(site, 1)
    plan = upgraded(site)
    ask_for(site, 2)
    assert site.waiting().id == plan.id
    assert site.approve(plan, who=MARIA).kind is AnswerKind.COUNTED
    assert site.approve(plan, who=JONAS).kind is AnswerKind.ACCEPTED


def test_model_12_a_plan_that_comes_back_is_a_row_of_its_own_with_approvals_of_its_own(careful: Site) -> None:
    first = upgraded(careful)
    careful.approve(first, who=MARIA)
    careful.repo.push({"prod.yaml": cluster()})
    careful.settle()
    assert careful.open_plan() is None
    again = upgraded(careful)
    assert again.id != first.id
    assert (again.scope, again.lane, again.digest) == (first.scope, first.lane, first.digest)
    assert again.opened_tick > first.opened_tick
    assert words(careful, again) == []
    assert careful.approve(first, who=JONAS).kind is AnswerKind.CONFLICT


def test_model_12_the_bill_and_the_commit_stand_beside_the_digest(careful: Site) -> None:
    plan = upgraded(careful)
    free = plan.bill["memory_free_mib"]
    careful.world.edit(ResourceRef(kind="proxmox.node", name="pve1"), memory_mib=66_000)
    careful.repo.push({"prod.yaml": cluster(version=UPGRADE), "notes.md": "another commit"})
    careful.settle()
    assert (careful.waiting().id, careful.waiting().digest) == (plan.id, plan.digest)
    assert careful.waiting().bill["memory_free_mib"] != free, "amounts are refreshed"


def test_model_14_what_is_left_of_a_run_that_failed_keeps_its_approvals_and_its_typed_name(site: Site) -> None:
    site.repo.push({"a.yaml": cluster(), "b.yaml": cluster("b", net=30), "c.yaml": cluster("c", net=31)})
    site.settle()
    site.repo.push({"a.yaml": None})
    site.settle()
    first = site.waiting()
    fault = unreachable("delete", "proxmox.volume_owner", times=1000)
    site.world.faults.append(fault)
    site.approve(first, typed_name="clusters/prod", who=MARIA)
    failed_with(site, first)
    rest = site.plans("clusters/prod")[-1]
    assert {(action.kind, action.verb) for action in site.actions(rest)} < {(action.kind, action.verb) for action in site.actions(first)}
    [word] = words(site, rest)
    assert (word.who, word.typed_name, word.inherited_from) == ("maria@corp", "clusters/prod", words(site, first)[0].id)
    fault.times = 0
    site.clock.forward(3600)
    site.settle(passes=60)
    assert "kubehenge/clusters.prod" not in site.world.names("proxmox.pool")


def test_model_14_after_a_day_what_is_left_needs_approvals_of_its_own(site: Site) -> None:
    site.repo.push({"a.yaml": cluster(), "b.yaml": cluster("b", net=30), "c.yaml": cluster("c", net=31)})
    site.settle()
    site.repo.push({"a.yaml": None})
    site.settle()
    first = site.waiting()
    site.world.faults.append(unreachable("delete", "proxmox.volume_owner", times=1000))
    site.approve(first, typed_name="clusters/prod", who=MARIA)
    ended = failed_with(site, first, tick=False)
    assert ended.closed_tick is not None
    site.clock.forward(24 * 3600 + 1)
    site.tick()
    assert words(site, site.waiting()) == []


def failed_with(site: Site, plan: PlanRow, *, tick: bool = True) -> PlanRow:
    """Carry on until a run has given up."""
    for _ in range(40):
        site.clock.forward(60)
        if not site.apply():
            break
    ended = next(row for row in site.plans(plan.scope) if row.id == plan.id)
    assert ended.state is PlanState.FAILED, ended.state
    if tick:
        site.tick()
    return ended
