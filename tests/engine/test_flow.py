"""From a pushed file to a plan carried out, and back (DESIGN, The one flow)."""

from __future__ import annotations

from kubehenge.model.plan import PlanState
from tests.engine.harness import Site, cluster


def test_a_pushed_cluster_is_created_by_rule(site: Site) -> None:
    site.repo.push({"clusters/prod.yaml": cluster()})
    site.settle()
    assert site.world.names("proxmox.pool") == ["kubehenge/clusters.prod"]
    assert len(site.world.names("proxmox.user")) == 1
    assert len(site.world.names("proxmox.token")) == 1
    assert site.world.names("kube.cluster") == ["clusters/prod"]
    assert [plan.state for plan in site.plans("clusters/prod")] == [PlanState.DONE]


def test_a_second_tick_adds_no_row(site: Site) -> None:
    site.repo.push({"clusters/prod.yaml": cluster()})
    site.settle()
    before = site.counts()
    for _ in range(3):
        assert site.tick().number is None
    assert site.counts() == before


def test_the_first_tick_of_a_new_process_adds_no_row_either(site: Site) -> None:
    site.repo.push({"clusters/prod.yaml": cluster()})
    site.settle()
    before = site.counts()
    site.restart()
    assert site.tick().number is None
    assert site.counts() == before
