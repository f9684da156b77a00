"""Which document holds a cluster, and what of one commit is held back (MODEL 2, 19; ACCEPTANCE 1.7)."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ClusterState, ResourceRef
from kubehenge.store.reads.decision import AnswerKind
from kubehenge.store.rows import DocumentRow, SourceRow
from kubehenge.store.rows import Verdict as RowVerdict
from tests.engine.harness import Site, cluster

UPGRADE = "v1.37.1+rke2r1"


@pytest.fixture
def three(site: Site) -> Site:
    """Three clusters that run, of three machines each."""
    site.repo.push({f"clusters/{name}.yaml": small(name, net) for name, net in (("prod", 20), ("b", 30), ("c", 31))})
    site.settle()
    return site


def small(name: str, net: int, *, workers: int = 2, version: str = "v1.36.5+rke2r1", annotations: str = "{}") -> str:
    return cluster(name, net=net, control_planes=1, workers=workers, version=version, annotations=annotations)


def verdicts(site: Site) -> dict[str, RowVerdict]:
    with site.db.read() as session:
        return {row.path: row.verdict for row in session.scalars(select(DocumentRow).where(DocumentRow.to_tick.is_(None)))}


def test_model_2_a_second_document_of_a_name_is_refused_until_its_holder_is_gone_and_then_holds_it(site: Site) -> None:
    site.repo.push({"first.yaml": small("prod", 20)})
    site.settle()
    site.repo.push({"a-second.yaml": small("prod", 20)})
    site.settle()
    assert verdicts(site) == {"first.yaml": RowVerdict.ACCEPTED, "a-second.yaml": RowVerdict.REFUSED}
    before = len(site.plans())
    site.repo.push({"first.yaml": None})
    site.settle()
    assert verdicts(site) == {"a-second.yaml": RowVerdict.ACCEPTED}, "it is judged again although its blob did not change"
    row = site.clusters()["clusters/prod#1"]
    assert (row.holder_path, row.state, len(site.plans())) == ("a-second.yaml", ClusterState.DECLARED, before)


def test_model_2_a_rename_is_a_deletion_and_a_creation(three: Site) -> None:
    three.repo.push({"clusters/prod.yaml": small("renamed", 40)})
    three.settle()
    assert three.waiting().classes == ["delete"]
    assert three.plans("clusters/renamed")[-1].classes == ["create"]
    assert {"clusters/prod", "clusters/renamed"} <= set(three.world.names("kube.cluster"))


def test_acceptance_1_7_what_all_plans_of_a_commit_remove_together_counts(three: Site) -> None:
    """Nine machines: one may go by one person's word, two of one commit ask for the name, in whichever plans they are."""
    three.repo.push({"clusters/b.yaml": small("b", 30, workers=1)})
    three.settle()
    assert three.waiting("clusters/b").held == ""
    assert three.approve(three.waiting("clusters/b")).kind is AnswerKind.ACCEPTED
    three.settle()
    three.repo.push({"clusters/prod.yaml": small("prod", 20, workers=1), "clusters/c.yaml": small("c", 31, workers=1)})
    three.settle()
    for name in ("prod", "c"):
        plan = three.waiting(f"clusters/{name}")
        assert "removes 2 of the site's 8 machines; more than 1" in plan.held
        assert three.approve(plan).kind is AnswerKind.REFUSED
        assert three.approve(plan, typed_name=f"clusters/{name}").kind is AnswerKind.ACCEPTED


def test_acceptance_1_7_a_rollout_replaces_and_does_not_count(three: Site) -> None:
    three.repo.push({f"clusters/{name}.yaml": small(name, net, version=UPGRADE) for name, net in (("prod", 20), ("b", 30), ("c", 31))})
    three.settle()
    for name in ("prod", "b", "c"):
        plan = three.waiting(f"clusters/{name}")
        assert (plan.classes, plan.held) == (["rollout"], "")
        assert three.approve(plan).kind is AnswerKind.ACCEPTED


def test_acceptance_1_7_less_than_half_of_the_clusters_left_holds_every_deleting_plan_of_the_commit(three: Site) -> None:
    three.repo.push({"clusters/prod.yaml": None, "clusters/b.yaml": None})
    three.settle()
    for name in ("prod", "b"):
        assert "leaves 1 of 3 clusters declared" in three.waiting(f"clusters/{name}").held
    assert len(three.world.names("kube.cluster")) == 3


def test_acceptance_1_7_a_vanished_sub_path_deletes_nothing_by_itself(site: Site) -> None:
    with site.db.write() as session:
        session.execute(update(SourceRow).values(path="clusters"))
    site.repo.push({"clusters/prod.yaml": small("prod", 20), "README.md": "words"})
    site.settle()
    site.repo.push({"clusters/prod.yaml": None})
    site.settle()
    plan = site.waiting()
    assert "folder is not in the repository any more" in plan.held
    assert site.approve(plan).kind is AnswerKind.REFUSED
    assert "clusters/prod" in site.world.names("kube.cluster")
    with site.db.read() as session:
        source = session.scalars(select(SourceRow)).one()
    assert (source.state.value, "clusters" in source.reason) == ("empty", True)
    site.repo.push({"clusters/prod.yaml": small("prod", 20)})
    site.settle()
    assert site.open_plan() is None


def test_acceptance_1_7_protect_permits_everything_but_deletion_and_taking_it_away_is_trust(site: Site) -> None:
    protected = '{kubehenge.dev/protect: "true"}'
    site.repo.push({"prod.yaml": small("prod", 20, annotations=protected)})
    site.settle()
    site.repo.push({"prod.yaml": small("prod", 20, annotations=protected, version=UPGRADE)})
    site.settle()
    assert site.approve(site.waiting()).kind is AnswerKind.ACCEPTED
    site.settle()
    site.repo.push({"prod.yaml": small("prod", 20, annotations=protected, version=UPGRADE, workers=1)})
    site.settle()
    assert site.approve(site.waiting(), typed_name="clusters/prod").kind is AnswerKind.ACCEPTED
    site.settle()
    assert len(site.world.names("kube.machine")) == 2
    site.repo.push({"prod.yaml": small("prod", 20, version=UPGRADE, workers=1)})
    site.settle()
    assert site.waiting().classes == ["trust"]


def test_acceptance_1_7_a_vm_that_no_plan_made_stays_whatever_goes_around_it(three: Site) -> None:
    foreign = ResourceRef(kind="proxmox.vm", name="4711")
    body = next(iter(three.world.all("proxmox.vm").values())).body
    three.world.put(foreign, {**body, "name": "precious", "pool": "kubehenge/clusters.prod", "template": False})
    three.settle()
    three.repo.push({"clusters/prod.yaml": None})
    three.settle()
    assert foreign.name not in {action.name for action in three.actions(three.waiting())}
    three.approve(three.waiting(), typed_name="clusters/prod")
    three.settle()
    assert foreign.name in three.world.all("proxmox.vm")


def test_model_19_a_broken_file_that_then_goes_takes_the_whole_inventory_with_it(three: Site) -> None:
    pool = "kubehenge/clusters.prod"
    three.repo.push({"clusters/prod.yaml": "\t not a document any more"})
    three.settle()
    assert three.open_plan() is None
    three.repo.push({"clusters/prod.yaml": None})
    three.settle()
    plan = three.waiting()
    kinds = [action.kind for action in three.actions(plan)]
    assert {"kube.cluster", "proxmox.pool", "proxmox.user", "proxmox.token", "proxmox.acl", "proxmox.volume_owner"} <= set(kinds)
    three.approve(plan, typed_name="clusters/prod")
    three.apply()
    assert three.clusters()["clusters/prod#1"].state in {ClusterState.LEAVING, ClusterState.GONE}
    three.settle()
    assert pool not in three.world.names("proxmox.pool")
    assert three.plans("clusters/prod")[-1].state is PlanState.DONE
