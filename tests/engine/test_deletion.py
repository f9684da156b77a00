"""Deletion, absence and identity (ACCEPTANCE 1.7, 1.8; MODEL 19 to 22)."""

from __future__ import annotations

import pytest

from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ClusterState, Lane, ResourceRef
from kubehenge.store.reads.decision import AnswerKind
from tests.engine.harness import Site, cluster


@pytest.fixture
def prod(site: Site) -> Site:
    site.repo.push(
        {"clusters/prod.yaml": cluster(), "clusters/other.yaml": cluster("other", net=30), "clusters/third.yaml": cluster("third", net=31)}
    )
    site.settle()
    return site


def removed(site: Site) -> Site:
    site.repo.push({"clusters/prod.yaml": None})
    site.settle()
    return site


def test_a_removed_file_asks_for_the_name_and_nothing_goes_before(prod: Site) -> None:
    removed(prod)
    plan = prod.waiting()
    assert plan.classes == ["delete"]
    assert prod.clusters()["clusters/prod#1"].state is ClusterState.DECLARED
    assert prod.approve(plan, typed_name="clusters/prdo").kind is AnswerKind.REFUSED
    assert "kubehenge/clusters.prod" in prod.world.names("proxmox.pool")


def test_model_19_a_deletion_leaves_nothing_of_the_cluster_and_all_of_the_others(prod: Site) -> None:
    others = {kind: list(prod.world.names(kind)) for kind in ("proxmox.pool", "proxmox.user", "kube.secret")}
    user = next(item.body["userid"] for item in prod.world.all("proxmox.user").values() if "clusters/prod " in item.body["comment"])
    removed(prod)
    assert prod.approve(prod.waiting(), typed_name="clusters/prod").kind is AnswerKind.ACCEPTED
    prod.settle()
    assert prod.clusters()["clusters/prod#1"].state is ClusterState.GONE
    assert prod.world.names("proxmox.pool") == [n for n in others["proxmox.pool"] if "prod" not in n]
    assert user not in prod.world.names("proxmox.user")
    assert not [n for n in prod.world.names("proxmox.token") if n.startswith(user)]
    assert not [n for n in prod.world.names("kube.secret") if "prod" in n]
    assert len(prod.world.names("proxmox.user")) == 2


def test_model_8_the_secret_and_token_outlive_the_volume_owner(prod: Site) -> None:
    removed(prod)
    prod.approve(prod.waiting(), typed_name="clusters/prod")
    prod.settle()
    order = [ref.partition("/")[0] for verb, ref in prod.world.calls if verb == "delete" and ("prod" in ref or "kh-" in ref)]
    assert order.index("kube.cluster") < order.index("proxmox.volume_owner")
    assert order.index("proxmox.volume_owner") < order.index("kube.resource_set")  # the Secrets go with it
    assert order.index("proxmox.volume_owner") < order.index("kube.secret") < order.index("proxmox.token")
    assert order[-1] in {"proxmox.pool", "proxmox.user"}
    assert order.index("proxmox.acl") < order.index("proxmox.pool")


def test_model_19_adding_the_file_again_cancels_the_deletion(prod: Site) -> None:
    removed(prod)
    plan = prod.waiting()
    prod.repo.push({"clusters/prod.yaml": cluster()})
    prod.settle()
    assert prod.open_plan() is None
    assert prod.approve(plan, typed_name="clusters/prod").kind is AnswerKind.CONFLICT
    assert len(prod.world.names("proxmox.pool")) == 3


def test_model_2_a_name_that_leaves_waits_as_the_next_incarnation(prod: Site) -> None:
    removed(prod)
    prod.approve(prod.waiting(), typed_name="clusters/prod")
    prod.apply()
    assert prod.clusters()["clusters/prod#1"].state in {ClusterState.LEAVING, ClusterState.GONE}
    prod.repo.push({"clusters/prod.yaml": cluster()})
    prod.settle()
    states = {key: row.state for key, row in prod.clusters().items() if "prod" in key}
    assert states == {"clusters/prod#1": ClusterState.GONE, "clusters/prod#2": ClusterState.DECLARED}
    assert len([n for n in prod.world.names("proxmox.pool") if "prod" in n]) == 1


def test_acceptance_1_7_a_protected_cluster_cannot_be_deleted(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster(annotations='{kubehenge.dev/protect: "true"}'), "b.yaml": cluster("b", net=31)})
    site.settle()
    site.repo.push({"prod.yaml": None})
    site.settle()
    plan = site.waiting()
    assert [one["what"] for one in plan.obstacles] == ["protection"]
    assert site.approve(plan, typed_name="clusters/prod").kind is AnswerKind.REFUSED


def test_acceptance_1_7_a_commit_that_empties_the_tree_holds_every_deletion(prod: Site) -> None:
    prod.repo.push({"clusters/prod.yaml": None, "clusters/other.yaml": None, "clusters/third.yaml": None})
    prod.settle()
    plans = [prod.waiting(f"clusters/{name}") for name in ("prod", "other", "third")]
    assert all(plan.held for plan in plans)
    assert len(prod.world.names("kube.cluster")) == 3


def test_acceptance_1_7_a_commit_that_shrinks_much_asks_for_the_name(prod: Site) -> None:
    prod.repo.push({"clusters/prod.yaml": cluster(workers=0)})
    prod.settle()
    plan = prod.waiting()
    assert plan.classes == ["shrink"]
    assert "more than 1" in plan.held
    assert prod.approve(plan).kind is AnswerKind.REFUSED
    assert prod.approve(plan, typed_name="clusters/prod").kind is AnswerKind.ACCEPTED


def test_acceptance_1_8_a_broken_file_keeps_its_last_good_declaration(prod: Site) -> None:
    for broken in ("\tx", "a: {{ name }}", cluster(control_planes=2), "\x00\x01", cluster().replace("spec:", "kind: Cluster\nspec:")):
        prod.repo.push({"clusters/prod.yaml": broken, "clusters/other.yaml": cluster("other", net=30, workers=3)})
        prod.settle()
        assert prod.open_plan() is None, broken
        assert prod.clusters()["clusters/prod#1"].declared_hash is not None
    assert len([m for m in prod.world.names("kube.machine") if "other" in m]) == 6


def test_model_2_moving_a_file_plans_nothing(prod: Site) -> None:
    before = len(prod.plans())
    prod.repo.push({"clusters/prod.yaml": None, "moved/here.yaml": cluster()})
    prod.settle()
    assert len(prod.plans()) == before
    assert prod.clusters()["clusters/prod#1"].holder_path == "moved/here.yaml"


def test_model_20_a_single_missing_thing_is_made_again_only_after_two_readings(prod: Site) -> None:
    prod.world.remove(ResourceRef(kind="kube.resource_set", name="clusters/prod-proxmox"))
    prod.tick()
    assert prod.open_plan(lane=Lane.UPKEEP) is None
    prod.tick()
    plan = prod.open_plan(lane=Lane.UPKEEP)
    assert plan is not None
    assert plan.classes == ["repair"]
    prod.settle()
    assert "clusters/prod-proxmox" in prod.world.names("kube.resource_set")


def test_model_20_much_that_vanishes_at_once_is_kept_aside(site: Site) -> None:
    site.repo.push({f"c{n}.yaml": cluster(f"c{n}", net=50 + n, control_planes=1, workers=0) for n in range(6)})
    site.settle()
    plans = len(site.plans())
    site.world.hidden = {item.ref for item in site.world.all("proxmox.pool").values()}
    for _ in range(2):
        site.tick()
    assert len(site.plans()) == plans
    site.world.hidden = set()
    site.settle()
    assert len(site.plans()) == plans


def test_model_20_what_three_readings_from_two_nodes_agree_on_is_a_fact(site: Site) -> None:
    site.repo.push({f"c{n}.yaml": cluster(f"c{n}", net=50 + n, control_planes=1, workers=0) for n in range(6)})
    site.settle()
    site.clock.forward(3600)
    for name in site.world.names("proxmox.pool"):
        site.world.remove(ResourceRef(kind="proxmox.pool", name=name))
    site.tick()
    assert not [plan for plan in site.plans() if plan.lane is Lane.UPKEEP]
    for _ in range(10):
        site.tick()
    assert {name for name in site.world.asked if name} - {""}
    assert len([plan for plan in site.plans() if plan.lane is Lane.UPKEEP]) == 6


def test_model_20_a_reading_with_fewer_rights_is_void(prod: Site) -> None:
    prod.world.rights = {"/": ("Sys.Audit",), "/pool/kubehenge": ("Pool.Allocate",)}
    prod.world.hidden = {ResourceRef(kind="proxmox.pool", name="kubehenge/clusters.prod")}
    before = len(prod.plans())
    for _ in range(4):
        prod.tick()
    assert len(prod.plans()) == before


def test_model_22_a_cluster_deleted_outside_is_leaving_and_nothing_is_made_again(prod: Site) -> None:
    ref = ResourceRef(kind="kube.cluster", name="clusters/prod")
    prod.world.remove(ref)
    prod.world._gone("clusters/prod")
    prod.settle()
    assert prod.clusters()["clusters/prod#1"].state is ClusterState.LEAVING
    assert "clusters/prod" not in prod.world.names("kube.cluster")
    assert prod.waiting().classes == ["delete"]


def test_model_21_a_foreign_pool_of_the_same_name_is_never_touched(site: Site) -> None:
    site.world.put(
        ResourceRef(kind="proxmox.pool", name="kubehenge/clusters.prod"), {"poolid": "kubehenge/clusters.prod", "comment": "mine"}
    )
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    plan = site.waiting()
    assert [one["what"] for one in plan.obstacles] == ["identity"]
    assert site.approve(plan).kind is AnswerKind.REFUSED
    assert site.world.all("proxmox.pool")["kubehenge/clusters.prod"].body["comment"] == "mine"


def test_a_cluster_of_the_same_name_made_by_someone_else_is_never_touched_and_the_plan_says_what_to_do(site: Site) -> None:
    ref = ResourceRef(kind="kube.cluster", name="clusters/prod")

    def made_meanwhile(verb: str, what: ResourceRef) -> None:
        """Just before ours would be: all that goes before it is there by then."""
        if (verb, what.kind) == ("read", "kube.cluster") and ref.name not in site.world.names("kube.cluster"):
            site.world.put(ref, {"kind": "Cluster", "metadata": {"name": "prod"}, "spec": {"paused": True}})

    site.world.hooks.append(made_meanwhile)
    site.repo.push({"prod.yaml": cluster()})
    site.settle(build=False)
    plan = site.waiting()
    assert (plan.title, plan.summary) == ("Make what is missing of clusters/prod", "Kubehenge itself changes nothing. Nothing is deleted.")
    [obstacle] = plan.obstacles
    assert obstacle["there_is"] == "one of that name that bears no mark of Kubehenge"
    assert obstacle["remedies"][0]["text"].startswith("Give the cluster another name in its file, or remove the other one")
    assert site.approve(plan).kind is AnswerKind.REFUSED
    assert site.world.all("kube.cluster")[ref.name].body["spec"] == {"paused": True}


def test_acceptance_1_9_a_rewritten_branch_changes_nothing_until_it_is_accepted(prod: Site) -> None:
    prod.repo.push({"clusters/prod.yaml": cluster(workers=3)})
    prod.settle()
    head = prod.repo.rewrite()
    prod.repo.push({"clusters/prod.yaml": cluster(workers=5)})
    machines = len(prod.world.names("kube.machine"))
    prod.settle()
    assert len(prod.world.names("kube.machine")) == machines
    assert head


def test_plans_are_closed_for_good(prod: Site) -> None:
    assert {plan.state for plan in prod.plans()} == {PlanState.DONE}
