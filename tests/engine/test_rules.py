"""Approval rules in force: windows, groups of several rules, four-eyes, rules that get stricter meanwhile (MODEL 15; ACCEPTANCE 1.5)."""

from __future__ import annotations

import pytest

from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ResourceRef
from kubehenge.store.reads.decision import AnswerKind, Person
from tests.engine.harness import ROOT, Site, cluster
from tests.fakes.clock import START

RULES = """\
apiVersion: kubehenge.dev/v1alpha1
kind: ApprovalRules
metadata: {{name: default}}
spec:
  fourEyes: {four_eyes}
  rules: {rules}
"""
ADMIN = frozenset({"VM.Audit", "VM.Allocate", "Sys.Modify"})


def rules(*lines: str, four_eyes: bool = False) -> str:
    return RULES.format(four_eyes=str(four_eyes).lower(), rules=f"[{', '.join(lines)}]")


def person(name: str, *groups: str) -> Person:
    return Person(userid=f"{name}@pve", name=name, groups=frozenset(groups), privileges=lambda _path: ADMIN)


@pytest.fixture
def prod(site: Site) -> Site:
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    return site


def put_rules(site: Site, text: str) -> None:
    """Have other rules in force, approved where that is asked for."""
    site.repo.push({"rules.yaml": text})
    site.tick()
    plan = site.open_plan("site:rules")
    if plan is not None and plan.state is PlanState.OPEN:
        site.approve(plan)
    site.apply()
    site.tick()


def upgrade(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster(version="v1.37.1+rke2r1")})
    site.tick()


def test_acceptance_1_5_an_approval_that_has_not_started_is_void_when_the_rules_ask_for_more(prod: Site) -> None:
    upgrade(prod)
    prod.decide.freeze("clusters/prod", ROOT, "not tonight")
    assert prod.approve(prod.waiting()).kind is AnswerKind.ACCEPTED
    put_rules(prod, rules("{name: two, classes: [rollout], needs: {approvers: 2}}"))
    prod.decide.thaw(1, ROOT)
    prod.apply()
    plan = prod.waiting()
    assert plan.state is PlanState.OPEN
    assert prod.approve(plan, who=person("anna")).kind is AnswerKind.ACCEPTED
    prod.settle()
    assert prod.plans("clusters/prod")[-1].state is PlanState.DONE


def test_what_a_rule_approved_and_has_not_started_waits_for_a_person_when_the_rules_ask_for_one(prod: Site) -> None:
    prod.decide.freeze("clusters/new", ROOT, "not tonight")
    prod.repo.push({"new.yaml": cluster("new", net=30)})
    prod.tick()
    plan = prod.open_plan("clusters/new")
    assert plan is not None
    assert plan.state is PlanState.APPROVED
    put_rules(prod, rules("{name: one, classes: [create], needs: {approvers: 1}}"))
    prod.decide.thaw(1, ROOT)
    prod.settle()
    assert prod.waiting("clusters/new").state is PlanState.OPEN


def test_a_plan_starts_in_its_rule_s_window_only(prod: Site) -> None:
    window = "{weekdays: [Tue], start: '02:00', durationMinutes: 60, timeZone: UTC}"
    put_rules(prod, rules(f"{{name: nights, classes: [rollout], needs: {{approvers: 1, windows: [{window}]}}}}"))
    assert START.strftime("%a %H") == "Mon 08"
    upgrade(prod)
    prod.approve(prod.waiting())
    prod.apply()
    assert prod.plans("clusters/prod")[-1].state is PlanState.APPROVED
    prod.clock.forward(18 * 3600)
    prod.apply()
    assert prod.plans("clusters/prod")[-1].state is PlanState.RUNNING


def test_who_approves_is_of_every_group_that_the_rules_of_its_classes_name(prod: Site) -> None:
    put_rules(
        prod,
        rules(
            "{name: a, classes: [rollout], needs: {approvers: 1, role: platform}}",
            "{name: b, classes: [credential], needs: {approvers: 1, role: security}}",
        ),
    )
    upgrade(prod)
    plan = prod.waiting()
    with prod.db.write() as session:
        row = session.merge(plan)
        row.classes = ["credential", "rollout"]
    refused = prod.approve(plan, who=person("anna", "security"))
    assert (refused.kind, refused.message) == (AnswerKind.REFUSED, "Deciding on it needs the group platform.")
    assert prod.approve(plan, who=person("anna", "platform")).kind is AnswerKind.REFUSED
    assert prod.approve(plan, who=person("anna", "platform", "security")).kind is AnswerKind.ACCEPTED


def test_with_four_eyes_the_one_who_pushed_is_never_enough(prod: Site) -> None:
    put_rules(prod, rules(four_eyes=True))
    upgrade(prod)
    plan = prod.waiting()
    assert prod.approve(plan, who=person("tomas")).kind is AnswerKind.COUNTED
    assert prod.approve(plan, who=person("tomas")).kind is AnswerKind.ALREADY
    assert prod.approve(plan, who=person("anna")).kind is AnswerKind.ACCEPTED


def test_the_workload_pool_stays_while_clusters_are_in_it(prod: Site) -> None:
    site = "apiVersion: kubehenge.dev/v1alpha1\nkind: Site\nmetadata: {name: default}\nspec: {workloadPool: other}\n"
    prod.repo.push({"site.yaml": site})
    prod.settle()
    plan = prod.open_plan("site:settings")
    assert plan is not None
    assert plan.obstacles[0]["there_is"] == "1 pool of clusters in kubehenge, such as kubehenge/clusters.prod"
    assert prod.approve(plan).kind is AnswerKind.REFUSED


def test_acceptance_1_5_an_approval_counts_only_while_its_person_is_one_that_the_rules_ask_for(prod: Site) -> None:
    put_rules(prod, rules("{name: one, classes: [rollout], needs: {approvers: 1}}"))
    upgrade(prod)
    prod.decide.freeze("clusters/prod", ROOT, "not tonight")
    assert prod.approve(prod.waiting(), who=person("anna")).kind is AnswerKind.ACCEPTED
    put_rules(prod, rules("{name: one, classes: [rollout], needs: {approvers: 1, role: platform, privilege: Sys.Modify}}"))
    prod.decide.thaw(1, ROOT)
    prod.apply()
    assert prod.plans("clusters/prod")[-1].state is PlanState.OPEN
    assert prod.approve(prod.waiting(), who=person("anna", "platform")).kind is AnswerKind.ACCEPTED


def test_acceptance_1_5_rules_that_came_into_force_a_moment_ago_count_at_the_start(prod: Site) -> None:
    window = "{weekdays: [Tue], start: '02:00', durationMinutes: 60, timeZone: UTC}"
    put_rules(prod, rules(f"{{name: nights, classes: [rollout], needs: {{approvers: 1, windows: [{window}]}}}}"))
    upgrade(prod)
    prod.approve(prod.waiting(), who=person("anna"))
    prod.repo.push({"rules.yaml": rules("{name: nights, classes: [rollout], needs: {approvers: 2}}")})
    prod.tick()
    plan = prod.open_plan("site:rules")
    assert plan is not None
    if plan.state is PlanState.OPEN:
        prod.approve(plan)
    prod.apply()  # puts the rules in force
    prod.apply()  # and no tick in between
    assert prod.plans("clusters/prod")[-1].state is not PlanState.RUNNING


def test_acceptance_1_7_what_is_held_after_its_approval_waits_for_the_name(site: Site) -> None:
    site.repo.push({f"c{number}.yaml": cluster(f"c{number}", net=20 + number, workers=4) for number in range(4)})
    site.settle()
    site.repo.push({"c1.yaml": cluster("c1", net=21, workers=5)})
    site.tick()
    site.apply()  # its lane is busy from here on
    site.decide.freeze("clusters/c0", ROOT, "not tonight")
    site.repo.push({"c0.yaml": cluster("c0", net=20, workers=3), "c1.yaml": cluster("c1", net=21, workers=1)})
    site.tick()
    assert site.approve(site.waiting("clusters/c0"), who=person("anna")).kind is AnswerKind.ACCEPTED
    site.settle()  # now the other plan of this commit opens, and with it the commit takes too much
    site.decide.thaw(1, ROOT)
    site.settle()
    plan = site.waiting("clusters/c0")
    assert plan.held
    assert site.approve(plan, who=person("anna")).kind is AnswerKind.REFUSED


def test_the_workload_pool_may_move_once_no_cluster_s_pool_is_left(site: Site) -> None:
    pool = ResourceRef(kind="proxmox.pool", name="kubehenge/clusters.old")
    site.world.put(pool, {"comment": ""})
    site.repo.push(
        {"site.yaml": "apiVersion: kubehenge.dev/v1alpha1\nkind: Site\nmetadata: {name: default}\nspec: {workloadPool: other}\n"}
    )
    site.settle()
    plan = site.open_plan("site:settings")
    assert plan is not None
    assert plan.obstacles
    site.world.remove(pool)
    site.settle()
    assert site.open_plan("site:settings") is None


def test_a_rejection_blocks_under_whichever_rules_it_was_said(prod: Site) -> None:
    upgrade(prod)
    prod.decide.reject(prod.waiting().id, prod.waiting().digest, person("eve"))
    put_rules(prod, rules("{name: one, classes: [rollout], needs: {approvers: 1, role: platform, privilege: Sys.Modify}}"))
    answer = prod.approve(prod.waiting(), who=person("anna", "platform"))
    assert (answer.kind, "rejection still blocks" in answer.message) == (AnswerKind.COUNTED, True), answer
    prod.settle()
    assert prod.waiting().state is PlanState.OPEN
