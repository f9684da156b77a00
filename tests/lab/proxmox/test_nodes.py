"""Nodes that go and come back, and a cluster without quorum."""

from __future__ import annotations

import pytest
import requests

pytestmark = pytest.mark.lab

PVE1, PVE2, PVE3 = "pve1", "pve2", "pve3"


def _set(pve, node: str, *, online: bool, crash: bool = False) -> None:
    pve.proxmox.do(pve.sim.set_node(node, online=online, crash=crash))


@pytest.fixture
def running_guest(pve):
    pve.cluster()
    pve.clone(200)
    pve.must("POST", "/nodes/pve2/qemu/200/status/start", pve.capmox)
    return pve.server.vm(200)


def test_every_node_answers_for_every_other(pve):
    for node in (PVE1, PVE2, PVE3):
        assert pve.call("GET", "/nodes/pve2/status", at=node).status == 200
        local = [row["name"] for row in pve.call("GET", "/cluster/status", at=node).data if row.get("local")]
        assert local == [node]


def test_call_for_an_offline_node_has_status_595_and_no_body(pve):
    _set(pve, PVE2, online=False)
    answer = pve.call("GET", "/nodes/pve2/qemu")
    assert (answer.status, answer.reason, answer.body) == (595, "No route to host", None)


def test_offline_nodes_own_api_cannot_be_reached_until_it_is_back_on_its_port(pve):
    before = dict(pve.sim.urls)
    _set(pve, PVE2, online=False)
    with pytest.raises(requests.ConnectionError):
        pve.call("GET", "/version", at=PVE2)
    _set(pve, PVE2, online=True)
    assert pve.sim.urls == before
    assert pve.call("GET", "/version", at=PVE2).status == 200


def test_offline_node_is_said_to_be_so_and_its_guests_are_unknown(pve, running_guest):
    _set(pve, PVE2, online=False)
    assert {row["node"]: row["status"] for row in pve.must("GET", "/nodes", pve.engine)}[PVE2] == "offline"
    (guest,) = [row for row in pve.must("GET", "/cluster/resources", pve.engine, type="vm") if row["vmid"] == 200]
    assert (guest["status"], guest["node"]) == ("unknown", PVE2)
    assert running_guest.status == "running", "a node without a network runs on"


def test_unknown_node_is_no_offline_node(pve):
    answer = pve.call("GET", "/nodes/pve9/status")
    assert answer.status == 500
    assert answer.reason.startswith("hostname lookup 'pve9' failed")


def test_guests_of_a_crashed_node_stop_and_those_on_boot_start_with_it(pve, running_guest):
    pve.clone(201)
    pve.must("POST", "/nodes/pve2/qemu/201/status/start", pve.capmox)
    pve.must("PUT", "/nodes/pve2/qemu/201/config", onboot=1)
    _set(pve, PVE2, online=False, crash=True)
    _set(pve, PVE2, online=True)
    assert (running_guest.status, pve.server.vm(201).status) == ("stopped", "running")


def test_clone_to_a_node_that_is_gone_ends_and_migration_is_aborted(pve, running_guest):
    pve.clone(201, target=PVE1)
    _set(pve, PVE3, online=False)
    task = pve.must("POST", "/nodes/pve1/qemu/201/migrate", target=PVE3)
    assert pve.proxmox.ended(task) == "migration aborted"
    assert (pve.server.vm(201).node, pve.server.vm(201).lock) == (PVE1, None)


def test_without_quorum_reads_and_sign_in_go_on_and_writes_fail(pve, running_guest):
    pve.proxmox.within(lambda: pve.sim.set_quorum(quorate=False))
    assert pve.must("GET", "/cluster/status", pve.engine)[0]["quorate"] == 0
    assert pve.must("GET", "/nodes/pve2/qemu/200/config", pve.capmox)["name"] == "m-200"
    who = pve.lab.administrator
    assert pve.call("POST", "/access/ticket", None, username=who.userid, password=who.password.get_secret_value()).status == 200
    refused = {
        ("POST", "/pools", "poolid=kubehenge/x.y"): "create pool failed: cfs-lock 'file-user_cfg' error: no quorum!",
        (
            "POST",
            "/access/users",
            "userid=x@pve&groups=kubehenge-clusters",
        ): "create user failed: cfs-lock 'file-user_cfg' error: no quorum!",
        ("POST", "/nodes/pve1/qemu", "vmid=300&pool=kubehenge/clusters.prod"): "cluster not ready - no quorum?",
        ("PUT", "/nodes/pve2/qemu/200/config", "description=x"): "unable to open file '/etc/pve/nodes/pve2/qemu-server/200.conf.tmp'",
    }
    for (method, path, query), words in refused.items():
        answer = pve.call(method, path, pve.engine, **dict(part.split("=") for part in query.split("&")))
        assert answer.status == 500
        assert answer.reason.startswith(words)
    pve.proxmox.within(lambda: pve.sim.set_quorum(quorate=True))
    pve.must("POST", "/pools", pve.engine, poolid="kubehenge/x.y")


def test_quorum_goes_with_the_majority_of_nodes(pve):
    _set(pve, PVE2, online=False)
    assert pve.must("GET", "/cluster/status")[0]["quorate"] == 1
    _set(pve, PVE3, online=False)
    assert pve.must("GET", "/cluster/status")[0]["quorate"] == 0


def test_running_guests_take_memory_of_their_node(pve, running_guest):
    before = pve.must("GET", "/nodes/pve3/status", pve.engine)["memory"]["used"]
    with_guest = pve.must("GET", "/nodes/pve2/status", pve.engine)["memory"]["used"]
    assert with_guest > before
