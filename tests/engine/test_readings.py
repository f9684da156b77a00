"""What cannot be read is said once and what was known stays (MODEL 9); what is missed, and what a freeze holds (MODEL 20, 28)."""

from __future__ import annotations

import structlog
from sqlalchemy import select

from kubehenge.model.resource import ClusterState, ResourceRef
from kubehenge.store.reads.decision import AnswerKind, Person
from kubehenge.store.rows import CoverageRow, SiteRow, SourceRow, SourceState
from tests.engine.harness import ROOT, Site, cluster
from tests.fakes.world import unreachable


def source(site: Site) -> SourceRow:
    with site.db.read() as session:
        return session.scalars(select(SourceRow)).one()


def test_a_repository_that_goes_away_and_comes_back_is_told_once_each(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    away = site.repo.bare.with_name("away.git")
    site.repo.bare.rename(away)
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            site.tick()
        away.rename(site.repo.bare)
        for _ in range(3):
            site.tick()
    told = [(line["log_level"], line["state"]) for line in logs if line["event"] == "source_state_changed"]
    assert told == [("warning", "unreachable"), ("info", "read")]
    assert source(site).state is SourceState.READ
    assert site.clusters()["clusters/prod#1"].declared_hash is not None


def test_an_empty_repository_is_still_empty_when_it_comes_back(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    site.repo.push({"prod.yaml": None})
    site.settle()
    assert source(site).state is SourceState.EMPTY
    away = site.repo.bare.with_name("away.git")
    site.repo.bare.rename(away)
    site.tick()
    away.rename(site.repo.bare)
    site.tick()
    assert source(site).state is SourceState.EMPTY


def test_a_system_that_cannot_be_read_is_told_once_and_so_is_that_it_is_read_again(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    site.world.faults.append(unreachable("read_bulk", "proxmox", times=3))
    with structlog.testing.capture_logs() as logs:
        for _ in range(6):
            site.tick()
    told = [(line["event"], line.get("reason", "")) for line in logs if line["event"].startswith("tier_")]
    assert [event for event, _ in told] == ["tier_not_read", "tier_read"]
    with site.db.read() as session:
        assert told[0][1] in set(session.scalars(select(CoverageRow.reason)))


def test_model_20_what_is_missed_once_and_found_again_was_never_missed_twice(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    pool = ResourceRef(kind="proxmox.pool", name="kubehenge/clusters.prod")
    there = site.world.all(pool.kind)[pool.name]
    for restarted in (False, False, True, True):
        site.world.remove(pool)
        site.tick()
        site.world.put(pool, there.body, mark=there.mark, outputs=there.outputs)
        if restarted:
            site.restart()
        site.tick()
    assert len(site.plans("clusters/prod")) == 1


def test_model_20_two_readings_of_one_moment_miss_a_thing_once(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    site.world.remove(ResourceRef(kind="kube.cluster", name="clusters/prod"))
    site.tick()
    for _ in range(3):
        site.clock.forward(1)
        site.tick_loop.run_pass()
    assert site.clusters()["clusters/prod#1"].state is ClusterState.DECLARED
    site.tick()
    assert site.clusters()["clusters/prod#1"].state is ClusterState.LEAVING


def test_model_28_a_freeze_holds_repairs_and_lets_duties_go_on(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    site.decide.freeze("clusters/prod", ROOT, "looking into it")
    ref = ResourceRef(kind="kube.cluster", name="clusters/prod")
    topology = site.world.all(ref.kind)[ref.name].body["spec"]["topology"]
    site.world.edit(ref, spec={"topology": {**topology, "controlPlane": {"replicas": 5}}})
    with site.db.write() as session:
        row = session.get_one(SiteRow, site.site_id)
        row.facts = {**row.facts, "online": ["pve1", "pve2"]}
    site.settle()
    annotations = site.world.all(ref.kind)[ref.name].body["metadata"]["annotations"]
    assert annotations["kubehenge.dev/online-nodes"] == "pve1,pve2"
    assert site.world.all(ref.kind)[ref.name].body["spec"]["topology"]["controlPlane"]["replicas"] == 5


def test_model_20_clusters_that_all_vanish_at_once_never_count_as_deleted_by_themselves(site: Site) -> None:
    """A management cluster that was restored from an old backup agrees with itself as often as it is asked."""
    names = [f"c{number}" for number in range(6)]
    site.repo.push({f"{name}.yaml": cluster(name, net=20 + number) for number, name in enumerate(names)})
    site.settle()
    kept = {kind: dict(site.world.all(kind)) for kind in ("kube.cluster", "kube.cluster_status")}
    with site.db.write() as session:  # every cluster has a duty now, whose precondition is read again and again
        row = session.get_one(SiteRow, site.site_id)
        row.facts = {**row.facts, "online": ["pve1", "pve2"]}
    for kind in kept:
        site.world.all(kind).clear()
    for _ in range(20):
        site.tick()
        site.apply()
    assert {row.state for row in site.clusters().values()} == {ClusterState.DECLARED}
    for kind, objects in kept.items():
        site.world.all(kind).update(objects)
    site.clock.forward(3600)
    site.settle()
    assert {row.state for row in site.clusters().values()} == {ClusterState.DECLARED}
    assert not [plan for name in names for plan in site.plans(f"clusters/{name}") if "Delete" in plan.title]


def test_model_20_a_person_says_that_what_vanished_at_once_is_gone(site: Site) -> None:
    names = [f"c{number}" for number in range(6)]
    site.repo.push({f"{name}.yaml": cluster(name, net=20 + number) for number, name in enumerate(names)})
    site.settle()
    for kind in ("kube.cluster", "kube.cluster_status"):
        site.world.all(kind).clear()
    site.tick()
    missing = [f"clusters/{name}" for name in names]
    someone = Person(userid="eve@pve", name="eve", privileges=lambda _path: frozenset({"VM.Audit", "VM.Allocate"}))
    assert site.decide.confirm_missing("kube.cluster", missing, someone).kind is AnswerKind.REFUSED
    assert site.decide.confirm_missing("kube.cluster", missing[:5], ROOT).kind is AnswerKind.CONFLICT
    assert site.decide.confirm_missing("kube.cluster", missing, ROOT).kind is AnswerKind.ACCEPTED
    for _ in range(3):
        site.tick()
    assert {row.state for row in site.clusters().values()} == {ClusterState.LEAVING}
    assert all("Delete" in site.waiting(scope).title for scope in missing)
