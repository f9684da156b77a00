"""Who may act, and until when: leases, late calls, and what a slow call may not hold up (MODEL 23, 26, 27)."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from functools import partial
from threading import Event

import pytest

from kubehenge.drivers.guard import before_change, guarded
from kubehenge.engine.apply import BUILDS_FOR, Limits
from kubehenge.engine.holding import CallLimits, Holding, holding_of
from kubehenge.engine.sources import Sources
from kubehenge.engine.tick import Tick
from kubehenge.errors import LeaseLostError
from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ClusterState, ResourceRef
from tests.engine.harness import ROOT, Site, cluster

CALLS = CallLimits(call_s=30, longest_s=65)


def holding(site: Site, holder: str, loop: str = "apply", *, alone: bool = False) -> Holding:
    return holding_of(site.db, site.clock, "default", loop, holder, calls=CALLS, alone=alone)


def waited_s(site: Site, successor: Holding) -> float:
    """Seconds until a successor gets the lease."""
    began = site.clock.boot()
    while successor.take() is None:
        site.clock.forward(1)
    return site.clock.boot() - began


def test_model_26_a_successor_waits_until_no_call_of_a_paused_holder_can_arrive(site: Site) -> None:
    first = holding(site, "first")
    assert first.take() is not None
    assert waited_s(site, holding(site, "second")) == first.lasts.total_seconds() + CALLS.longest_s


def test_model_27_where_the_lock_says_that_the_holder_is_dead_only_its_last_call_is_waited_for(site: Site) -> None:
    assert holding(site, "first").take() is not None
    assert waited_s(site, holding(site, "second", alone=True)) == CALLS.call_s


@pytest.mark.parametrize("loop", ["watch", "tick"])
def test_what_only_reads_is_taken_over_at_once_from_the_dead(site: Site, loop: str) -> None:
    assert holding(site, "first", loop).take() is not None
    assert waited_s(site, holding(site, "second", loop, alone=True)) == 0


def test_a_lease_that_was_given_back_is_free_at_once(site: Site) -> None:
    first = holding(site, "first")
    first.take()
    first.give_back()
    assert waited_s(site, holding(site, "second")) == 0


def test_model_26_a_call_is_sent_only_under_a_lease_that_outlives_it(site: Site) -> None:
    first = holding(site, "first")
    lease = first.take()
    assert lease is not None
    site.clock.forward(first.lasts.total_seconds() - 1)
    first.require(lease, CALLS.longest_s)  # renewed just now
    with pytest.raises(LeaseLostError):
        first.require(lease, first.lasts.total_seconds())


def test_model_26_one_that_slept_through_its_lease_sends_nothing_however_the_clock_was_set(site: Site) -> None:
    first, second = holding(site, "first"), holding(site, "second")
    lease = first.take()
    assert lease is not None
    site.clock.forward(first.lasts.total_seconds() + CALLS.longest_s)
    assert second.take() is not None
    site.clock.step(-3600)
    with pytest.raises(LeaseLostError):
        first.require(lease, CALLS.call_s)
    assert first.take() is None


def test_model_26_what_was_begun_under_a_lease_is_not_sent_under_the_next_one(site: Site) -> None:
    first, second = holding(site, "first"), holding(site, "second")
    lease = first.take()
    assert lease is not None
    site.clock.forward(first.lasts.total_seconds() + CALLS.longest_s)
    assert second.take() is not None  # and settles what the first one left
    second.give_back()
    with pytest.raises(LeaseLostError):
        first.require(lease, CALLS.longest_s)
    later = first.take()
    assert later is not None
    first.require(later, CALLS.longest_s)


def test_a_process_of_the_same_name_and_number_is_another_holder() -> None:
    """As in containers, whose process has the number 1 each time."""
    program = (
        "import os, socket\nos.getpid = lambda: 1\nfrom kubehenge.engine.holding import process_name\nprint(process_name(), process_name())"
    )
    names = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
    assert [len(set(one)) for one in names] == [1, 1]
    assert names[0] != names[1]


def test_model_26_a_run_whose_lease_went_to_another_changes_nothing(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.tick()
    first, second = holding(site, "first"), holding(site, "second")
    lease = first.take()
    assert lease is not None

    def pause(verb: str, _ref: ResourceRef) -> None:
        """As SIGSTOP between the journal's intent and the call."""
        if verb == "create":
            site.clock.forward(first.lasts.total_seconds() + CALLS.longest_s)
            second.take()
            before_change(CALLS.longest_s)

    site.world.hooks.append(pause)
    with guarded(partial(first.require, lease)):
        site.apply_loop.run_pass(lease)
    assert site.world.names("proxmox.pool") == []
    site.world.hooks.clear()
    taken = second.take()
    assert taken is not None
    for _ in range(20):
        site.clock.forward(5)
        with guarded(partial(second.require, taken)):
            site.apply_loop.run_pass(taken)
        site.world.build()
    assert site.world.names("proxmox.pool") == ["kubehenge/clusters.prod"]


def test_a_call_that_takes_long_holds_up_no_other_run(site: Site) -> None:
    site.limits = Limits(workers=4)
    site.restart()
    site.repo.push({"prod.yaml": cluster(), "slow.yaml": cluster("slow", net=30)})
    site.tick()
    reached, go_on = Event(), Event()

    def dribble(verb: str, ref: ResourceRef) -> None:
        if verb == "create" and ref == ResourceRef(kind="proxmox.pool", name="kubehenge/clusters.slow"):
            reached.set()
            go_on.wait(60)

    site.world.hooks.append(dribble)
    lease = site.lease()
    assert site.apply_loop.run_pass(lease, wait_s=0)
    assert reached.wait(60)
    for _ in range(20):
        site.clock.forward(5)
        site.tick_loop.run_pass()
        site.apply_loop.run_pass(lease, wait_s=1)
        site.world.build()
    assert [plan.state for plan in site.plans("clusters/prod")] == [PlanState.DONE]
    assert [plan.state for plan in site.plans("clusters/slow")] == [PlanState.RUNNING]
    go_on.set()
    site.settle()
    assert [plan.state for plan in site.plans("clusters/slow")] == [PlanState.DONE]


def test_a_cluster_that_never_becomes_available_does_not_hold_its_place_for_ever(site: Site) -> None:
    site.limits = Limits(workers=1, building=1)
    site.restart()
    site.repo.push({"a.yaml": cluster("a", net=30), "b.yaml": cluster("b", net=31)})
    for _ in range(10):
        site.tick()
        site.apply()
    assert [plan.state for plan in site.plans("clusters/b")] == [PlanState.APPROVED]
    site.clock.forward((BUILDS_FOR + timedelta(minutes=1)).total_seconds())
    site.apply()
    assert [plan.state for plan in site.plans("clusters/a")] == [PlanState.RUNNING]
    assert [plan.state for plan in site.plans("clusters/b")] == [PlanState.RUNNING]


def test_frozen_builds_do_not_hold_their_places_for_ever(site: Site) -> None:
    site.limits = Limits(workers=1, building=1)
    site.restart()
    site.repo.push({"a.yaml": cluster("a", net=30), "b.yaml": cluster("b", net=31)})
    site.tick()
    site.world.hooks.append(lambda verb, _ref: site.decide.freeze("clusters/a", ROOT, "wait") if verb == "create" else None)
    site.apply()
    site.world.hooks.clear()
    assert [plan.state for plan in site.plans("clusters/b")] == [PlanState.APPROVED]
    site.clock.forward((BUILDS_FOR + timedelta(minutes=1)).total_seconds())
    site.apply()
    assert [plan.state for plan in site.plans("clusters/b")] == [PlanState.RUNNING]


def test_a_stop_starts_no_further_step(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.tick()
    closing: list[str] = []

    def stop(verb: str, ref: ResourceRef) -> None:
        if verb == "create" and not closing:
            closing.append(str(ref))
            site.apply_loop._closing.set()

    site.world.hooks.append(stop)
    site.apply()
    assert [ref for verb, ref in site.world.calls if verb == "create"] == closing


def test_a_tick_writes_nothing_under_a_lease_that_went_to_another(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    first, second = holding(site, "first", "tick"), holding(site, "second", "tick")
    lease = first.take()
    site.clock.forward(first.lasts.total_seconds())
    assert second.take() is not None
    with pytest.raises(LeaseLostError):
        site.tick_loop.run_pass(lease)
    assert site.plans() == []


def test_what_another_replica_ticked_meanwhile_is_read_anew(site: Site) -> None:
    """The first one's memory is of before: what it believes to be unchanged may have changed and changed back."""
    other = Tick(site.db, site.site_id, site.tick_loop.families, Sources(site.folder / "state-b"), site.clock, site.tick_loop.capmox)
    first, second = holding(site, "first", "tick"), holding(site, "second", "tick")

    def tick(who: Holding, loop: Tick) -> None:
        site.clock.forward(30)
        lease = who.take()
        assert lease is not None
        loop.run_pass(lease)
        who.give_back()

    (site.folder / "state-b").mkdir()
    site.repo.push({"prod.yaml": cluster(), "x.yaml": cluster("x", net=50)})
    tick(first, site.tick_loop)
    site.repo.push({"x.yaml": None})
    tick(second, other)
    site.repo.push({"x.yaml": cluster("x", net=50)}, "back")
    tick(first, site.tick_loop)
    tick(second, other)
    assert {
        key: row.declared_hash is not None for key, row in site.clusters().items() if "/x#" in key and row.state is not ClusterState.GONE
    } == {"clusters/x#1": True} or site.clusters()["clusters/x#2"].declared_hash
