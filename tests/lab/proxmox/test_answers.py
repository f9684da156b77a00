"""What a client of Proxmox VE has to cope with: tasks, tags, nested pools, rights by pool, and how refusals look."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.lab.proxmox.running import until

pytestmark = pytest.mark.lab

# ---- A1: a task's end decides


def test_running_task_has_no_exit_status_and_a_finished_one_has(timed):
    timed.cluster()
    upid = timed.clone(200)
    assert "exitstatus" not in timed.must("GET", f"/nodes/pve1/tasks/{upid}/status", timed.capmox)
    assert timed.proxmox.ended(upid, timed.capmox) == "OK"
    assert timed.server.vm(200).node == "pve2"


def test_task_with_warnings_has_done_its_work(pve):
    pve.cluster()
    _end_next(pve, "qmclone", "WARNINGS: 1")
    assert pve.proxmox.ended(pve.clone(200), pve.capmox) == "WARNINGS: 1"
    assert pve.server.vm(200).pool == "kubehenge/clusters.prod"


def test_failed_task_says_why_and_leaves_nothing(pve):
    pve.cluster()
    _end_next(pve, "qmclone", "clone failed: no space left on device")
    assert pve.proxmox.ended(pve.clone(200), pve.capmox) == "clone failed: no space left on device"
    assert pve.server.vm(200) is None
    assert pve.must("GET", "/cluster/nextid", vmid=200) == "200"
    assert not [name for name in pve.server.storages["shared-storage"]["volumes"] if name.startswith("200/")]


def test_stopped_clone_leaves_nothing(timed):
    timed.cluster()
    upid = timed.clone(200)
    timed.must("DELETE", f"/nodes/pve1/tasks/{upid}", timed.capmox)
    assert timed.proxmox.ended(upid, timed.capmox) == "clone failed: interrupted by signal"
    assert timed.server.vm(200) is None


def test_guest_that_is_being_cloned_is_in_no_pool_yet(timed):
    timed.sim.set_speed(1)
    timed.cluster()
    timed.clone(200)
    assert timed.call("GET", "/nodes/pve1/qemu/200/config", timed.capmox).reason == "Permission check failed (/vms/200, VM.Audit)"
    assert timed.must("GET", "/nodes/pve1/qemu/200/config")["lock"] == "clone"
    assert timed.must("GET", "/pools", timed.engine, poolid="kubehenge/clusters.prod")[0]["members"] == []
    again = timed.call("POST", "/nodes/pve1/qemu/9001/clone", timed.capmox, newid=200, pool="kubehenge/clusters.prod", full=1)
    assert again.reason == "unable to create VM 200: config file already exists"


def test_of_many_creations_of_one_id_at_the_same_time_one_wins(timed):
    timed.cluster()

    def create(node: str) -> str:
        return timed.call("POST", f"/nodes/{node}/qemu", timed.engine, vmid=9000001, pool="kubehenge/clusters.prod").reason

    with ThreadPoolExecutor(max_workers=3) as threads:
        reasons = sorted(threads.map(create, ("pve1", "pve2", "pve3")))
    winner = timed.server.vm(9000001).node
    assert reasons == ["OK", *[f"unable to create VM 9000001 - VM 9000001 already exists on node '{winner}'"] * 2]


def test_second_start_of_a_guest_fails_in_its_task(pve):
    pve.cluster()
    pve.clone(200)
    path = "/nodes/pve2/qemu/200/status/start"
    assert [pve.proxmox.ended(pve.must("POST", path, pve.capmox)) for _ in range(2)] == ["OK", "VM 200 already running"]


def test_stale_digest_is_refused_and_nothing_changed(pve):
    pve.cluster()
    pve.clone(200)
    path = "/nodes/pve2/qemu/200/config"
    digest = pve.must("GET", path, pve.capmox)["digest"]
    pve.must("PUT", path, pve.capmox, cores=4, digest=digest)
    answer = pve.call("PUT", path, pve.capmox, cores=8, digest=digest)
    assert answer.reason == "checksum mismatch (file change by other user?)"
    assert pve.must("GET", path, pve.capmox)["cores"] == 4


# ---- A2: tags come back in another form


@pytest.mark.parametrize("written", ["Volumes;kubehenge", "kubehenge,volumes", "KUBEHENGE VOLUMES kubehenge"])
def test_tags_come_back_sorted_in_lower_case(pve, written):
    pve.cluster()
    pve.must("POST", "/nodes/pve1/qemu", pve.engine, vmid=9000001, pool="kubehenge/clusters.prod")
    pve.must("PUT", "/nodes/pve1/qemu/9000001/config", pve.engine, tags=written)
    assert pve.must("GET", "/nodes/pve1/qemu/9000001/config", pve.engine)["tags"] == "kubehenge;volumes"
    (listed,) = [row for row in pve.must("GET", "/cluster/resources", pve.engine, type="vm") if row["vmid"] == 9000001]
    assert listed["tags"] == "kubehenge;volumes"


# ---- A3: a pool in a pool


def test_nested_pool_is_reached_by_parameter_only(pve):
    pve.cluster()
    for path in ("/pools/kubehenge/clusters.prod", "/pools/kubehenge%2Fclusters.prod"):
        answer = pve.call("GET", path, pve.engine)
        assert (answer.status, answer.reason) == (501, "Method 'GET /pools/kubehenge/clusters.prod' not implemented")
    assert pve.must("GET", "/pools", pve.engine, poolid="kubehenge/clusters.prod")[0]["poolid"] == "kubehenge/clusters.prod"


def test_pool_with_a_member_is_kept_and_the_member_named(pve):
    pve.cluster()
    pve.clone(200)
    answer = pve.call("DELETE", "/pools", pve.engine, poolid="kubehenge/clusters.prod")
    assert answer.reason == "delete pool failed: pool 'kubehenge/clusters.prod' is not empty (contains VM 200)"
    assert "kubehenge/clusters.prod" in pve.server.pools


def test_rights_of_a_deleted_pool_come_back_with_a_pool_of_its_name(pve):
    token = pve.cluster()
    pve.must("DELETE", "/pools", pve.engine, poolid="kubehenge/clusters.prod")
    pve.must("POST", "/pools", pve.engine, poolid="kubehenge/clusters.prod")
    pve.clone(200)
    assert pve.call("GET", "/nodes/pve2/qemu/200/config", token).status == 200


def test_comment_is_cleared_by_an_empty_one(pve):
    pve.cluster()
    pve.must("PUT", "/pools", pve.engine, poolid="kubehenge/clusters.prod", comment="x")
    pve.must("PUT", "/pools", pve.engine, poolid="kubehenge/clusters.prod", comment="")
    assert pve.must("GET", "/pools", pve.engine, poolid="kubehenge/clusters.prod")[0]["comment"] == ""


# ---- A4: rights by pool


def test_clone_without_a_pool_is_refused_without_words(pve):
    answer = pve.call("POST", "/nodes/pve1/qemu/9001/clone", pve.capmox, newid=200, full=1)
    assert (answer.status, answer.reason) == (403, "Permission check failed")


def test_clone_then_needs_the_right_on_the_bridge(pve):
    pve.cluster()
    pve.proxmox.within(lambda: pve.server.rights.delete_path("/sdn/zones/localnetwork/vmbr0"))
    answer = pve.call("POST", "/nodes/pve1/qemu/9001/clone", pve.capmox, newid=200, full=1, pool="kubehenge/clusters.prod")
    assert (answer.status, answer.reason) == (403, "Permission check failed (/sdn/zones/localnetwork/vmbr0, SDN.Use)")


# ---- refusals


def test_refusal_names_its_reason_twice_and_ends_the_connection(pve):
    answer = pve.call("POST", "/pools", pve.engine, poolid="elsewhere")
    assert (answer.status, answer.reason) == (403, "Permission check failed (/pool/elsewhere, Pool.Allocate)")
    assert answer.body == {"data": None, "message": "Permission check failed (/pool/elsewhere, Pool.Allocate)\n"}


def test_unknown_parameter_is_refused(pve):
    answer = pve.call("POST", "/pools", pve.engine, poolid="kubehenge/a.b", colour="red")
    assert answer.status == 400
    assert answer.body["errors"] == {"colour": "property is not defined in schema and the schema does not allow additional properties"}


def test_wrong_token_is_refused_late_and_without_a_body(timed):
    began = time.monotonic()
    answer = timed.call("GET", "/version", "PVEAPIToken=kubehenge@pve!engine=wrong")
    assert (answer.status, answer.reason, answer.body) == (401, "Authentication failed!", None)
    assert time.monotonic() - began >= 3 / 60, "three simulated seconds"


def test_sign_in_with_password_ticket_and_csrf_token(pve):
    who = pve.lab.viewer
    password = who.password.get_secret_value()
    assert pve.call("POST", "/access/ticket", None, username=who.userid, password="wrong").status == 401
    signed_in = pve.must("POST", "/access/ticket", None, username=who.userid, password=password)
    ticket, csrf = signed_in["ticket"], signed_in["CSRFPreventionToken"]
    held = pve.must("GET", "/access/permissions", (ticket, ""), path="/pool/kubehenge")["/pool/kubehenge"]
    assert held["VM.Audit"] == 1
    assert "VM.Allocate" not in held
    assert pve.call("POST", "/pools", (ticket, ""), poolid="kubehenge/x.y").reason == "Permission denied - invalid csrf token"
    assert pve.call("POST", "/pools", (ticket, csrf), poolid="kubehenge/x.y").status == 403
    renewed = pve.must("POST", "/access/ticket", None, username=who.userid, password=ticket)
    assert pve.call("GET", "/version", (renewed["ticket"], "")).status == 200
    pve.must("PUT", f"/access/users/{who.userid}", enable=0)
    assert pve.call("GET", "/version", (ticket, "")).reason == "Authentication failed!"


def test_guest_agent_answers_some_time_after_the_start_with_the_tagged_address(timed):
    timed.cluster()
    assert timed.proxmox.ended(timed.clone(200), timed.capmox) == "OK"
    timed.must("POST", "/nodes/pve2/qemu/200/config", timed.capmox, tags="kubehenge;ip_net0_192.0.2.7")
    started = timed.must("POST", "/nodes/pve2/qemu/200/status/start", timed.capmox)
    assert timed.proxmox.ended(started, timed.capmox) == "OK"
    asked = "/nodes/pve2/qemu/200/agent/network-get-interfaces"
    assert timed.call("GET", asked, timed.capmox).reason == "QEMU guest agent is not running"
    found = until(lambda: (timed.call("GET", asked, timed.capmox).body or {}).get("data"))
    assert found["result"][0]["ip-addresses"][0]["ip-address"] == "192.0.2.7"


def test_new_guest_is_listed_without_name_and_figures_at_first(timed):
    timed.cluster()
    timed.must("POST", "/nodes/pve1/qemu", timed.engine, vmid=9000001, pool="kubehenge/clusters.prod", name="owner")

    def listed() -> dict:
        rows = timed.must("GET", "/cluster/resources", timed.engine, type="vm")
        return next((row for row in rows if row["vmid"] == 9000001), {})

    first = until(listed)
    assert (first["status"], "name" in first) == ("unknown", False)
    assert until(lambda: listed().get("name")) == "owner"


def _end_next(pve, task_type: str, exitstatus: str) -> None:
    from kubehenge.lab.proxmox.tasks import Ending

    pve.proxmox.within(lambda: pve.server.endings.append(Ending(task_type=task_type, exitstatus=exitstatus, times=1)))
