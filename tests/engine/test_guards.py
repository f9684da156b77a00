"""What keeps a company's clusters safe when several things happen at once (MODEL 13 to 15, 18 to 22; ACCEPTANCE 1.5, 1.7, 1.8)."""

from __future__ import annotations

import pytest

from kubehenge.engine.record import lasting_rights, vanished_rights
from kubehenge.engine.watch import NodeWatch, judge_nodes
from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ClusterState, Lane, ResourceRef
from kubehenge.store.reads.decision import AnswerKind, Person
from kubehenge.store.rows import StepRow
from tests.engine.harness import Site, cluster
from tests.fakes.clock import START
from tests.fakes.world import refused

RULES = """\
apiVersion: kubehenge.dev/v1alpha1
kind: ApprovalRules
metadata: {{name: default}}
spec:
  rules:
    - {{name: one, classes: [{classes}], needs: {{approvers: {approvers}}}, match: {{labels: {{env: prod}}}}}}
"""


@pytest.fixture
def prod(site: Site) -> Site:
    site.repo.push({"clusters/prod.yaml": cluster(), "b.yaml": cluster("b", net=30), "c.yaml": cluster("c", net=31)})
    site.settle()
    return site


def test_rights_on_vms_that_went_do_not_void_a_reading() -> None:
    before = {"/": ("Sys.Audit",), "/vms/100": ("VM.Audit",), "/pool/kubehenge/a.b": ("VM.Audit",), "/pool/kubehenge": ("Pool.Audit",)}
    assert vanished_rights(before, {"/": ("Sys.Audit",), "/pool/kubehenge": ("Pool.Audit",)}, "kubehenge") == ()
    assert vanished_rights(before, {"/": ("Sys.Audit",)}, "kubehenge") == ("Pool.Audit on /pool/kubehenge",)


def test_what_rights_on_vms_come_and_go_is_not_kept() -> None:
    rights = {"/": ("Sys.Audit", "Pool.Audit"), "/vms/100": ("VM.Audit",), "/pool/kubehenge/a.b": ("VM.Audit",)}
    assert lasting_rights(rights, "kubehenge") == {"/": ["Pool.Audit", "Sys.Audit"]}


def test_a_repair_that_was_refused_once_is_done_when_it_is_possible_again(prod: Site) -> None:
    pool = ResourceRef(kind="proxmox.pool", name="kubehenge/clusters.prod")
    prod.world.faults.append(refused("update", "proxmox.pool"))
    prod.world.edit(pool, comment="by hand")
    prod.settle()
    prod.world.faults.clear()
    prod.clock.forward(3600)
    prod.settle()
    assert prod.world.all(pool.kind)[pool.name].body["comment"] != "by hand"


def test_a_deletion_that_was_cancelled_at_the_last_moment_sends_nothing(prod: Site) -> None:
    prod.repo.push({"clusters/prod.yaml": None})
    prod.settle()
    plan = prod.waiting()
    back = {"done": False}

    def put_back(verb: str, ref: ResourceRef) -> None:
        if verb == "read" and ref.kind == "kube.cluster" and not back["done"]:
            back["done"] = True
            prod.repo.push({"clusters/prod.yaml": cluster()})
            prod.tick_loop.run_pass(families=())

    prod.world.hooks.append(put_back)
    prod.approve(plan, typed_name="clusters/prod")
    calls = len(prod.world.calls)
    prod.apply()
    assert back["done"]
    assert prod.world.calls[calls:] == []
    prod.settle()
    assert prod.clusters()["clusters/prod#1"].state is ClusterState.DECLARED
    assert "clusters/prod" in prod.world.names("kube.cluster")


def test_putting_back_what_would_take_machines_away_waits_for_a_person(prod: Site) -> None:
    ref = ResourceRef(kind="kube.cluster", name="clusters/prod")
    body = prod.world.all(ref.kind)[ref.name].body
    workers = {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": 6}]}
    prod.world.edit(ref, spec={**body["spec"], "topology": {**body["spec"]["topology"], "workers": workers}})
    prod.settle()
    plan = prod.waiting()
    assert (plan.lane, plan.classes) == (Lane.ASKED, ["shrink"])
    assert plan.bill["machines_removed"] == 4
    assert len([name for name in prod.world.names("kube.machine") if "prod-md-0" in name]) == 6


def test_a_rule_by_label_holds_for_the_deletion_of_a_cluster_too(site: Site) -> None:
    labelled = cluster().replace("  annotations:", "  labels: {env: prod}\n  annotations:")
    site.repo.push({"rules.yaml": RULES.format(classes="delete", approvers=2), "prod.yaml": labelled, "b.yaml": cluster("b", net=30)})
    site.settle()
    site.approve(site.waiting("site:rules"))
    site.settle()
    site.repo.push({"prod.yaml": None})
    site.settle()
    assert site.approve(site.waiting(), typed_name="clusters/prod").kind is AnswerKind.COUNTED


def test_acceptance_1_5_a_laxer_rule_grants_nothing_to_what_waited_before_it(site: Site) -> None:
    labelled = cluster().replace("  annotations:", "  labels: {env: prod}\n  annotations:")
    site.repo.push({"rules.yaml": RULES.format(classes="create", approvers=1)})
    site.settle()
    site.approve(site.waiting("site:rules"))
    site.settle()
    site.repo.push({"prod.yaml": labelled})
    site.settle()
    waiting = site.waiting()
    site.repo.push({"rules.yaml": RULES.format(classes="create", approvers=0)})
    site.settle()
    site.approve(site.waiting("site:rules"))
    site.settle()
    assert site.waiting().id == waiting.id
    assert site.world.names("kube.cluster") == []


@pytest.mark.parametrize("broken", [cluster("Prod_1"), cluster().replace("kind: Cluster", "kind: Clutser"), "- [\n"])
def test_acceptance_1_8_whatever_stands_in_the_holders_place_is_no_deletion(prod: Site, broken: str) -> None:
    prod.repo.push({"clusters/prod.yaml": broken})
    prod.settle()
    assert prod.open_plan() is None
    assert prod.clusters()["clusters/prod#1"].declared_hash is not None


def test_a_file_that_is_moved_and_broken_at_once_is_no_deletion(prod: Site) -> None:
    prod.repo.push({"clusters/prod.yaml": None, "elsewhere/prod.yaml": "\tno yaml"})
    prod.settle()
    assert prod.open_plan() is None


def test_a_cluster_that_went_before_anything_was_made_is_gone(prod: Site) -> None:
    prod.world.faults.append(refused("create", "proxmox.pool"))
    prod.repo.push({"early.yaml": cluster("early", net=40)})
    prod.tick()
    prod.repo.push({"early.yaml": None})
    prod.settle()
    assert prod.clusters()["clusters/early#1"].state is ClusterState.GONE


def test_an_approved_plan_that_has_not_started_can_be_rejected(prod: Site) -> None:
    maria = Person(userid="maria@corp", name="Maria", privileges=lambda _path: frozenset({"VM.Audit", "VM.Allocate"}))
    prod.repo.push({"clusters/prod.yaml": cluster(version="v1.37.1+rke2r1")})
    prod.settle()
    plan = prod.waiting()
    prod.approve(plan)
    assert prod.decide.reject(plan.id, plan.digest, maria, "wait").kind is AnswerKind.ACCEPTED
    prod.apply()
    assert prod.waiting().state is PlanState.OPEN
    assert prod.decide.withdraw(plan.id, maria).kind is AnswerKind.ACCEPTED
    prod.settle()
    assert prod.plans("clusters/prod")[-1].state is PlanState.DONE


def test_a_call_whose_answers_are_lost_again_and_again_ends(prod: Site) -> None:
    from kubehenge.errors import UncertainError
    from tests.fakes.world import Fault

    lost = Fault(lambda verb, ref: verb == "update" and ref.kind == "kube.cluster", UncertainError("The answer is lost."), times=1000)
    prod.world.faults.append(lost)
    prod.repo.push({"clusters/prod.yaml": cluster(workers=3)})
    for _ in range(30):
        prod.tick()
        prod.clock.forward(60)
        prod.apply()
        if prod.plans("clusters/prod")[-1].state is PlanState.FAILED:
            break
    with prod.db.read() as session:
        assert session.query(StepRow).filter(StepRow.attempts >= 5).count()
    assert PlanState.FAILED in {plan.state for plan in prod.plans("clusters/prod")}


def test_model_30_a_node_goes_after_two_readings_and_is_back_after_a_minute() -> None:
    from datetime import timedelta

    nodes = judge_nodes({}, {"a": True, "b": True}, START)
    nodes = judge_nodes(nodes, {"a": True, "b": False}, START)
    assert nodes["b"].online
    nodes = judge_nodes(nodes, {"a": True, "b": False}, START)
    assert not nodes["b"].online
    nodes = judge_nodes(nodes, {"a": True, "b": True}, START)
    assert not nodes["b"].online
    nodes = judge_nodes(nodes, {"a": True, "b": True}, START + timedelta(seconds=61))
    assert nodes["b"] == NodeWatch(online=True, back_since=START)
