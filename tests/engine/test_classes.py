"""Classes of the site: put in place by plans, one for each cluster, moved by a person's word only (MODEL 31)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kubehenge.engine.class_moves import ClassMoves
from kubehenge.engine.classes import Classes
from kubehenge.model.distribution import CLASS_NAMESPACE
from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ResourceRef
from kubehenge.resources.class_objects import class_ref
from kubehenge.resources.classes import RenderedClass, render
from kubehenge.source.class_files import find_folder, read_parts
from kubehenge.store import journal
from kubehenge.store.reads.decision import AnswerKind
from tests.engine.harness import ROOT, Site, cluster

ALIAS = "kubehenge-rke2"
PARTS = read_parts(find_folder())


def of(edit: Callable[[Any], None] = lambda _: None) -> RenderedClass:
    """The class of RKE2 as a release with other files would have it."""
    parts = copy.deepcopy(PARTS)
    edit(parts)
    return render("rke2", parts, CLASS_NAMESPACE)


def described(parts: Any) -> None:
    storage = next(one for one in parts["shared/variables.yaml"][0] if one["name"] == "storage")
    storage["schema"]["openAPIV3Schema"]["description"] = "Where the disks are."


def more_sockets(parts: Any) -> None:
    machine = next(one for one in parts["shared/templates.yaml"] if one["kind"] == "ProxmoxMachineTemplate")
    machine["spec"]["template"]["spec"]["numSockets"] = 2


FIRST, OTHER_WORDS, OTHER_MACHINES = of(), of(described), of(more_sockets)


def release(site: Site, rendered: RenderedClass) -> None:
    """Stop, and start the release that brings this class."""
    site.restart()
    site.tick_loop.classes = Classes({rendered.alias: rendered})


def moves(site: Site, rendered: RenderedClass) -> ClassMoves:
    return ClassMoves(db=site.db, site_id=site.site_id, clock=site.clock, newest={rendered.alias: rendered.name})


def classed(site: Site, name: str = "prod") -> str:
    """The class that the Cluster in the management cluster names."""
    body = site.world.all("kube.cluster")[f"clusters/{name}"].body
    return str(body["spec"]["topology"]["classRef"]["name"])


@pytest.fixture
def bare(site: Site) -> Site:
    """A site whose management cluster has no class yet."""
    for name in site.world.names("kube.class_alias"):
        site.world.remove(ResourceRef(kind="kube.class_alias", name=name))
    release(site, FIRST)
    return site


@pytest.fixture
def prod(bare: Site) -> Site:
    """A cluster on the first class."""
    bare.repo.push({"prod.yaml": cluster()})
    bare.settle()
    return bare


def test_the_classes_come_by_a_plan_of_their_own_templates_first_and_clusters_wait_for_them(bare: Site) -> None:
    bare.repo.push({"prod.yaml": cluster()})
    bare.tick()
    plan = bare.open_plan("site:classes")
    assert plan is not None
    assert plan.title == "Put the classes of this release in place"
    kinds = [action.kind for action in bare.actions(plan)]
    assert kinds == ["kube.class_template"] * 4 + ["kube.class"]
    bare.settle()
    assert bare.world.names("kube.class") == [f"{CLASS_NAMESPACE}/{FIRST.name}"]
    assert classed(bare) == FIRST.name
    made = [name for _, name in bare.world.calls]
    assert made.index(f"kube.class/{CLASS_NAMESPACE}/{FIRST.name}") < made.index("kube.cluster/clusters/prod")


def test_a_cluster_whose_class_is_not_there_waits_and_says_for_what(bare: Site) -> None:
    bare.repo.push({"prod.yaml": cluster().replace("kubehenge-rke2,", "kubehenge-rke2-0123456789,")})
    with pytest.raises(AssertionError, match="not settled"):
        bare.settle(passes=8)
    assert bare.world.names("kube.cluster") == []
    [run] = [run for run in bare.runs() if run.ended_at is None]
    with bare.db.read() as session:
        waits = {step.waits_on for step in journal.load_run(session, run.id).steps.values()}
    assert f"waits for kube.class/{CLASS_NAMESPACE}/kubehenge-rke2-0123456789" in waits


def test_the_same_release_again_plans_nothing(prod: Site) -> None:
    before = prod.plans()
    release(prod, FIRST)
    prod.settle()
    assert [row.id for row in prod.plans()] == [row.id for row in before]


def test_a_new_class_opens_no_plan_for_a_cluster_and_is_for_clusters_made_afterwards(prod: Site) -> None:
    release(prod, OTHER_MACHINES)
    prod.settle()
    assert len(prod.plans("clusters/prod")) == 1
    assert classed(prod) == FIRST.name
    prod.repo.push({"next.yaml": cluster("next", net=21)})
    prod.settle()
    assert (classed(prod), classed(prod, "next")) == (FIRST.name, OTHER_MACHINES.name)


@pytest.mark.parametrize(("new", "word", "waits"), [(OTHER_WORDS, "change", False), (OTHER_MACHINES, "rollout", True)])
def test_moving_a_cluster_is_its_plan_and_says_what_it_is(prod: Site, new: RenderedClass, word: str, waits: bool) -> None:
    release(prod, new)
    prod.settle()
    answer = moves(prod, new).move_cluster("clusters/prod", ROOT)
    assert answer.kind is AnswerKind.ACCEPTED
    assert FIRST.name in answer.message
    assert new.name in answer.message
    prod.settle()
    plan = prod.plans("clusters/prod")[-1]
    assert plan.classes == [word]
    assert (plan.state is PlanState.OPEN) is waits
    [action] = prod.actions(plan)
    assert [change["path"] for change in action.changes] == ["spec.topology.classRef.name"]
    if waits:
        assert classed(prod) == FIRST.name
        prod.approve(plan)
        prod.settle()
    assert classed(prod) == new.name
    assert moves(prod, new).move_cluster("clusters/prod", ROOT).kind is AnswerKind.ALREADY


def test_an_older_class_is_looked_after_while_a_cluster_runs_it(prod: Site) -> None:
    release(prod, OTHER_MACHINES)
    prod.settle()
    old = class_ref(FIRST.name)
    prod.world.edit(old, spec={"variables": []})
    prod.settle()
    plan = prod.waiting("site:classes")  # putting it back may replace the machines of all clusters that use it
    assert (plan.classes, plan.title) == (["rollout"], f"Put back what differs in {FIRST.name}")
    prod.approve(plan)
    prod.settle()
    assert prod.world.all("kube.class")[old.name].body == FIRST.cluster_class


def test_a_plain_name_stands_for_the_class_that_it_stood_for_until_it_is_moved(prod: Site) -> None:
    alias = class_ref(ALIAS)
    stood = prod.world.all("kube.class_alias")[alias.name].body
    assert stood["spec"] == FIRST.cluster_class["spec"]
    release(prod, OTHER_WORDS)
    prod.settle()
    assert prod.world.all("kube.class_alias")[alias.name].body == stood
    assert moves(prod, OTHER_WORDS).move_alias(ALIAS, ROOT).kind is AnswerKind.ACCEPTED
    prod.settle()
    plan = prod.waiting("site:class-names")
    assert plan.classes == ["rollout"]
    prod.approve(plan)
    prod.settle()
    assert prod.world.all("kube.class_alias")[alias.name].body["spec"] == OTHER_WORDS.cluster_class["spec"]


def test_a_class_of_our_name_that_somebody_else_put_there_is_not_taken_without_a_person(bare: Site) -> None:
    theirs = class_ref(ALIAS)
    bare.world.put(theirs, {**FIRST.cluster_class, "spec": {"variables": []}})
    bare.settle()
    assert bare.world.all("kube.class_alias")[theirs.name].body["spec"] == {"variables": []}
    plan = bare.waiting("site:class-names")
    assert plan.classes == ["rollout"]


def test_what_cannot_be_moved_is_refused_with_the_reason(prod: Site) -> None:
    there = moves(prod, OTHER_WORDS)
    assert there.move_cluster("clusters/none", ROOT).kind is AnswerKind.NOT_FOUND
    assert there.move_alias("kubehenge-talos", ROOT).kind is AnswerKind.NOT_FOUND
    prod.repo.push({"prod.yaml": cluster().replace("kubehenge-rke2,", f"{FIRST.name},")})
    prod.settle()
    answer = there.move_cluster("clusters/prod", ROOT)
    assert answer.kind is AnswerKind.REFUSED
    assert FIRST.name in answer.message


def test_naming_the_content_name_in_the_file_changes_nothing_that_runs(prod: Site) -> None:
    before = len(prod.plans("clusters/prod"))
    prod.repo.push({"prod.yaml": cluster().replace("kubehenge-rke2,", f"{FIRST.name},")})
    prod.settle()
    assert len(prod.plans("clusters/prod")) == before


SITE = """\
apiVersion: kubehenge.dev/v1alpha1
kind: Site
metadata: {{name: default}}
spec:
  identityProviders:
    - {{issuerURL: "https://{host}", clientID: kubernetes}}
"""


def test_default_identity_providers_and_ranges_are_copied_once(bare: Site) -> None:
    bare.repo.push({"site.yaml": SITE.format(host="first.example.com")})
    bare.settle()
    bare.repo.push({"prod.yaml": cluster()})
    bare.settle()
    body = bare.world.all("kube.cluster")["clusters/prod"].body
    oidc = next(one["value"] for one in body["spec"]["topology"]["variables"] if one["name"] == "oidc")
    assert [one["issuerURL"] for one in oidc] == ["https://first.example.com"]
    assert body["spec"]["clusterNetwork"] == {"pods": {"cidrBlocks": ["10.42.0.0/16"]}, "services": {"cidrBlocks": ["10.43.0.0/16"]}}
    bare.repo.push({"site.yaml": SITE.format(host="second.example.com")})
    bare.settle()
    assert bare.open_plan("clusters/prod") is None
    bare.repo.push({"next.yaml": cluster("next", net=21)})
    bare.settle()
    body = bare.world.all("kube.cluster")["clusters/next"].body
    oidc = next(one["value"] for one in body["spec"]["topology"]["variables"] if one["name"] == "oidc")
    assert [one["issuerURL"] for one in oidc] == ["https://second.example.com"]


def test_ranges_that_the_file_names_are_kept(bare: Site) -> None:
    text = cluster().replace("spec:\n  topology:", "spec:\n  clusterNetwork: {pods: {cidrBlocks: [10.99.0.0/16]}}\n  topology:")
    bare.repo.push({"prod.yaml": text})
    bare.settle()
    network = bare.world.all("kube.cluster")["clusters/prod"].body["spec"]["clusterNetwork"]
    assert network == {"pods": {"cidrBlocks": ["10.99.0.0/16"]}, "services": {"cidrBlocks": ["10.43.0.0/16"]}}


def test_a_class_of_the_same_content_under_another_release_is_the_same(prod: Site) -> None:
    release(prod, replace(FIRST))
    prod.settle()
    assert len(prod.plans("site:classes")) == 1
