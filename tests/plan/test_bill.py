"""The bill: addresses, memory, placement, quorum (DESIGN, Plans; MODEL 18)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from kubehenge.model.facts import ClusterFacts
from kubehenge.model.plan import QuorumVerdict
from kubehenge.plan.bill import make_bill
from kubehenge.plan.obstacles import Question, look_for_obstacles
from kubehenge.plan.placement import pick_node, play
from kubehenge.resources.topology import Topology
from tests.plan.fleets import NODES, VERSIONS, bodies, body, machines, site_facts


def billed(before: dict | None, after: dict | None, facts: ClusterFacts | None = None, site: object = None) -> object:
    old, new = (Topology.of(one) if one else None for one in (before, after))
    site = site or site_facts()
    facts = facts or (machines(before) if before else ClusterFacts())
    return make_bill(old, new, play(old, new, facts, site), site)


def asked(before: dict | None, after: dict | None, facts: ClusterFacts | None = None, site: object = None, **more: object) -> list[str]:
    old, new = (Topology.of(one) if one else None for one in (before, after))
    site = site or site_facts()
    facts = facts or (machines(before) if before else ClusterFacts())
    moments = play(old, new, facts, site)
    bill = make_bill(old, new, moments, site)
    obstacles, _ = look_for_obstacles(Question(before=old, after=new, facts=facts, site=site, moments=moments, bill=bill, **more))
    return [one.what for one in obstacles]


def test_a_creation_needs_an_address_and_memory_for_each_machine() -> None:
    bill = billed(None, body("prod", control_planes=3, workers=2))
    assert (bill.addresses_needed, bill.machines_added, bill.memory_peak_mib) == (5, 5, 3 * 4096 + 2 * 4096)
    assert bill.quorum is QuorumVerdict.SINGLE or bill.quorum is QuorumVerdict.NOT_TOUCHED or bill.quorum is QuorumVerdict.KEPT


def test_a_rollout_replaces_every_node_and_needs_one_address_more() -> None:
    bill = billed(body("prod"), body("prod", version=VERSIONS[2]))
    assert (bill.control_planes_replaced, bill.workers_replaced, bill.addresses_needed) == (3, 2, 1)
    assert bill.memory_peak_mib - bill.memory_now_mib == 4096


def test_scaling_the_workers_touches_no_quorum() -> None:
    bill = billed(body("prod"), body("prod", workers=4))
    assert bill.quorum is QuorumVerdict.NOT_TOUCHED
    assert (bill.machines_added, bill.control_planes_replaced, bill.workers_replaced) == (2, 0, 0)


def test_three_members_on_four_nodes_keep_their_quorum_through_a_rollout() -> None:
    bill = billed(body("prod"), body("prod", version=VERSIONS[2]))
    assert bill.quorum is QuorumVerdict.KEPT
    assert [step.needs for step in bill.quorum_steps] == [2, 3, 2, 3, 2, 3, 2]


def test_three_members_on_three_nodes_are_at_risk_while_a_fourth_joins() -> None:
    bill = billed(body("prod"), body("prod", version=VERSIONS[2]), site=site_facts(NODES[:3]))
    assert bill.quorum is QuorumVerdict.AT_RISK


@settings(max_examples=200, deadline=None)
@given(before=bodies(), after=bodies())
def test_the_bill_ends_with_the_machines_that_are_asked_for(before: dict, after: dict) -> None:
    bill = billed(before, after)
    old, new = Topology.of(before), Topology.of(after)
    assert sum(node.vms_after for node in bill.nodes) == new.machines
    assert sum(node.vms_now for node in bill.nodes) == old.machines
    assert bill.machines_added - bill.machines_removed == new.machines - old.machines
    assert bill.memory_peak_mib >= max(bill.memory_now_mib, bill.memory_after_mib)
    assert bill.addresses_needed >= 0


@pytest.mark.parametrize(
    ("free", "taken", "memory", "expected"),
    [
        ({"a": 10, "b": 10}, [], 5, "a"),
        ({"a": 10, "b": 10}, ["a"], 5, "b"),
        ({"a": 10, "b": 4}, ["a"], 5, "a"),
        ({"a": 4, "b": 4}, [], 5, None),
        ({}, [], 5, None),
    ],
)
def test_a_vm_goes_where_fewest_of_its_kind_run_and_memory_is(free: dict, taken: list, memory: int, expected: str | None) -> None:
    assert pick_node(free, taken, memory_mib=memory) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (body("prod"), body("prod", version=VERSIONS[1]), []),
        (body("prod"), body("prod", version="v1.38.0+rke2r1"), ["version"]),
        (body("prod", version=VERSIONS[1]), body("prod"), ["version"]),
        (body("prod", blocks=5), body("prod", blocks=5, version=VERSIONS[1]), ["addresses"]),
        (None, body("prod", blocks=4), ["addresses"]),
        (None, body("prod", blocks=5), []),
        (None, body("prod", memory=70_000), ["memory"]),
    ],
)
def test_what_cannot_finish_is_named(before: dict | None, after: dict, expected: list[str]) -> None:
    assert asked(before, after) == expected


def test_a_lost_quorum_holds_a_rollout() -> None:
    assert asked(body("prod"), body("prod", version=VERSIONS[1]), machines(body("prod"), ready=False)) == ["quorum"]


def test_a_protected_cluster_is_not_deleted() -> None:
    assert asked(body("prod"), None, protected=True) == ["protection"]


def test_a_missing_template_names_the_versions_that_have_one() -> None:
    kubeadm = body("prod", version="v1.37.1")
    kubeadm["spec"]["topology"]["classRef"]["name"] = "kubehenge-kubeadm"
    assert asked(None, kubeadm) == ["template"]


def test_a_machine_whose_vm_was_not_read_yet_counts_where_it_was_made() -> None:
    before, after = body("prod", control_planes=3, version=VERSIONS[0]), body("prod", control_planes=3, version=VERSIONS[1])
    there = machines(before)
    nodes = {vm.vmid: vm.node for vm in there.vms}
    unread = replace(there, vms=(), machines=tuple(replace(one, vm_node=nodes[one.vmid or 0]) for one in there.machines))
    assert billed(before, after, unread).quorum_steps == billed(before, after, there).quorum_steps != ()


def test_a_member_on_an_unknown_node_may_be_on_the_worst_one() -> None:
    before, after = body("prod", control_planes=3, version=VERSIONS[0]), body("prod", control_planes=3, version=VERSIONS[1])
    there = machines(before)
    [first, *_] = billed(before, after, replace(there, vms=there.vms[1:])).quorum_steps
    assert not first.kept
