"""Drift, placement and the two lanes (ACCEPTANCE 1.12; MODEL 3, 4, 11, 30)."""

from __future__ import annotations

import pytest

from kubehenge.model.identity import ANNOTATION_ONLINE_NODES
from kubehenge.model.plan import PlanState
from kubehenge.model.resource import Lane, ResourceRef
from tests.engine.harness import Site, cluster

POOL = ResourceRef(kind="proxmox.pool", name="kubehenge/clusters.prod")
UPGRADE = "v1.37.1+rke2r1"


@pytest.fixture
def prod(site: Site) -> Site:
    site.repo.push({"clusters/prod.yaml": cluster()})
    site.settle()
    return site


def test_drift_is_put_back_in_the_upkeep_lane(prod: Site) -> None:
    mark = prod.world.all(POOL.kind)[POOL.name].body["comment"]
    prod.world.edit(POOL, comment="edited by hand")
    prod.settle()
    assert prod.world.all(POOL.kind)[POOL.name].body["comment"] == mark
    repair = prod.plans("clusters/prod")[-1]
    assert (repair.lane, repair.classes, repair.state) == (Lane.UPKEEP, ["repair"], PlanState.DONE)


def test_fields_of_others_and_their_order_are_never_drift(prod: Site) -> None:
    before = prod.counts()
    ref = ResourceRef(kind="kube.cluster", name="clusters/prod")
    body = prod.world.all(ref.kind)[ref.name].body
    variables = [*reversed(body["spec"]["topology"]["variables"]), {"name": "added-by-the-class", "value": 1}]
    prod.world.edit(ref, spec={**body["spec"], "topology": {**body["spec"]["topology"], "variables": variables}, "paused": False})
    prod.settle()
    after = prod.counts()
    assert after["plan"] == before["plan"]
    assert after["version"] == before["version"]


def test_model_11_a_waiting_upgrade_does_not_hold_up_repair(prod: Site) -> None:
    prod.repo.push({"clusters/prod.yaml": cluster(version=UPGRADE)})
    prod.settle()
    waiting = prod.waiting()
    prod.world.edit(POOL, comment="edited by hand")
    prod.settle()
    assert prod.world.all(POOL.kind)[POOL.name].body["comment"] != "edited by hand"
    assert prod.waiting().id == waiting.id


def test_model_30_a_node_that_goes_reaches_the_cluster_and_voids_no_approval(prod: Site) -> None:
    prod.repo.push({"clusters/prod.yaml": cluster(version=UPGRADE)})
    prod.settle()
    waiting = prod.waiting()
    prod.world.edit(ResourceRef(kind="proxmox.node", name="pve3"), online=False)
    prod.settle()
    annotations = prod.world.all("kube.cluster")["clusters/prod"].body["metadata"]["annotations"]
    assert annotations[ANNOTATION_ONLINE_NODES] == "pve1,pve2"
    assert prod.waiting().id == waiting.id
    assert prod.world.all("kube.cluster")["clusters/prod"].body["spec"]["topology"]["version"] == "v1.36.5+rke2r1"
    duty = prod.plans("clusters/prod")[-1]
    assert (duty.lane, duty.classes) == (Lane.UPKEEP, ["duty"])


def test_model_3_change_and_drift_of_one_thing_are_one_asked_action(prod: Site) -> None:
    ref = ResourceRef(kind="kube.cluster", name="clusters/prod")
    body = prod.world.all(ref.kind)[ref.name].body
    prod.world.edit(ref, spec={**body["spec"], "topology": {**body["spec"]["topology"], "controlPlane": {"replicas": 5}}})
    prod.repo.push({"clusters/prod.yaml": cluster(version=UPGRADE)})
    prod.tick()
    actions = prod.actions(prod.waiting())
    assert len(actions) == 1
    assert {change["path"] for change in actions[0].changes} == {"spec.topology.version"}
    assert {change["path"] for change in actions[0].drift} == {"spec.topology.controlPlane.replicas"}


def test_settings_from_git_are_a_plan_of_the_site_and_in_force_only_then(site: Site) -> None:
    rules = """\
apiVersion: kubehenge.dev/v1alpha1
kind: ApprovalRules
metadata: {name: default}
spec:
  rules:
    - {name: all, classes: [create], needs: {approvers: 1}}
"""
    site.repo.push({"approvals.yaml": rules})
    site.settle()
    plan = site.waiting("site:rules")
    assert plan.classes == ["trust"]
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    assert site.world.names("kube.cluster") == ["clusters/prod"]
    site.approve(site.waiting("site:rules"))
    site.settle()
    site.repo.push({"b.yaml": cluster("b", net=30)})
    site.settle()
    assert site.waiting("clusters/b").classes == ["create"]


def test_a_plan_that_cannot_finish_says_which_smallest_change_would_let_it(prod: Site) -> None:
    prod.repo.push({"clusters/prod.yaml": cluster(version="v1.38.0+rke2r1", workers=60)})
    prod.settle()
    plan = prod.waiting()
    found = {one["what"]: one for one in plan.obstacles}
    assert set(found) == {"version", "addresses"}
    remedy = found["addresses"]["remedies"][0]
    assert remedy["changes"][0]["after"] == "10.20.0.11-10.20.0.74"


def test_memory_that_is_short_is_an_obstacle_with_a_remedy(prod: Site) -> None:
    for node in ("pve1", "pve2", "pve3"):
        prod.world.edit(ResourceRef(kind="proxmox.node", name=node), memory_mib=9_000)
    prod.repo.push({"clusters/prod.yaml": cluster(workers=9)})
    prod.settle()
    plan = prod.waiting()
    assert [one["what"] for one in plan.obstacles] == ["memory"]
    for node in ("pve1", "pve2", "pve3"):
        prod.world.edit(ResourceRef(kind="proxmox.node", name=node), memory_mib=90_000)
    prod.settle()
    assert prod.plans("clusters/prod")[-1].state is PlanState.DONE
