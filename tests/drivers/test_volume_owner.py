"""The volume owner: exactly one, whatever is interrupted, and never a VM that is not ours (MODEL 21, 25, 34)."""

from __future__ import annotations

import itertools
import time

import pytest

from kubehenge.drivers.base import Done, Pending
from kubehenge.errors import InvariantError, KubehengeError, RefusedError, TransientError
from kubehenge.lab.faults import FaultAction
from kubehenge.lab.proxmox.tasks import Ending
from kubehenge.model.resource import ResourceRef
from tests.drivers.resources import count, followed, made, resource, stand
from tests.drivers.servers import OWNER_VMIDS, POOL, ProxmoxSite, context, incarnation

pytestmark = pytest.mark.lab

WHO = incarnation()
KIND = "proxmox.volume_owner"
DEADLINE_S = 30


def owner_vms(pve: ProxmoxSite) -> list[dict[str, object]]:
    return [row for row in pve.admin.get("/cluster/resources", type="vm") if row.get("pool") == WHO.pool(POOL)]


def waited(pve: ProxmoxSite, ref: ResourceRef, outcome: Done | Pending) -> Done:
    deadline = time.monotonic() + DEADLINE_S
    while isinstance(outcome, Pending):
        assert time.monotonic() < deadline, outcome
        time.sleep(0.02)
        outcome = pve.driver.look(ref, outcome.handle, context(WHO))
    return outcome


def test_its_task_is_followed_to_its_end_and_then_it_is_tagged(slow_pve: ProxmoxSite) -> None:
    it = resource(KIND, WHO)
    stand(slow_pve, it, WHO)
    outcome = slow_pve.driver.create(it.ref, it.body, context(WHO))
    assert isinstance(outcome, Pending)
    assert outcome.handle["upid"].startswith("UPID:")
    slow_pve.restart()  # a successor has the handle and nothing else
    left = waited(slow_pve, it.ref, outcome).left
    assert left is not None
    assert left.body == it.body
    assert OWNER_VMIDS[0] <= left.outputs["vmid"] <= OWNER_VMIDS[1]
    [vm] = owner_vms(slow_pve)
    assert vm["tags"] == "kubehenge;volumes"
    assert vm["status"] != "running"


def test_a_creation_that_is_under_way_is_followed_rather_than_repeated(slow_pve: ProxmoxSite) -> None:
    it = resource(KIND, WHO)
    stand(slow_pve, it, WHO)
    slow_pve.fault(FaultAction.LOSE_ANSWER, method="POST")
    with pytest.raises(TransientError):
        slow_pve.driver.create(it.ref, it.body, context(WHO))
    slow_pve.restart()
    before = slow_pve.calls.last_n
    outcome = slow_pve.driver.create(it.ref, it.body, context(WHO))
    waited(slow_pve, it.ref, outcome)
    assert [call for call in slow_pve.writes_since(before) if call.startswith("POST")] == []
    assert count(slow_pve, KIND, WHO) == 1


@pytest.mark.parametrize("action", [FaultAction.LOSE_ANSWER, FaultAction.CUT, FaultAction.REFUSE, FaultAction.STATUS, FaultAction.HTML])
@pytest.mark.parametrize("nth", range(6))
def test_a_crash_at_any_request_leaves_one_owner(pve: ProxmoxSite, action: FaultAction, nth: int) -> None:
    """The nth request of the way meets a fault; what was known is forgotten, and a new process creates again."""
    it = resource(KIND, WHO)
    stand(pve, it, WHO)
    for _ in range(nth):
        pve.fault(FaultAction.SLOW)  # lets a request pass, and is used up
    pve.fault(action, status=500, reason="oops")
    ctx = context(WHO)
    for _ in range(4):
        try:
            followed(pve.driver, it.ref, pve.driver.create(it.ref, it.body, ctx), ctx)
        except KubehengeError:
            pve.restart()
        else:
            break
    left = followed(pve.driver, it.ref, pve.driver.create(it.ref, it.body, ctx), ctx)
    assert left is not None
    assert left.body == it.body
    [vm] = owner_vms(pve)
    assert vm["tags"] == "kubehenge;volumes"


def test_acceptance_3_1_warnings_at_the_end_of_its_task_are_success_and_are_told(pve: ProxmoxSite) -> None:
    it = resource(KIND, WHO)
    stand(pve, it, WHO)
    pve.sim.server.endings.append(Ending(task_type="qmcreate", exitstatus="WARNINGS: 2", times=1))
    ended = waited(pve, it.ref, pve.driver.create(it.ref, it.body, context(WHO)))
    assert ended.left is not None
    assert "ended with 2 warnings; its log on node pve" in ended.note


@pytest.mark.parametrize(
    ("exitstatus", "error"),
    [
        ("unable to create VM 1 - 403 Permission check failed (/vms/1, VM.Config.Options)", RefusedError),
        ("can't lock file '/var/lock/qemu-server/lock-1.conf' - got timeout", TransientError),
        ("unexpected status", TransientError),
    ],
)
def test_acceptance_3_1_the_end_of_its_task_decides(pve: ProxmoxSite, exitstatus: str, error: type[KubehengeError]) -> None:
    it = resource(KIND, WHO)
    stand(pve, it, WHO)
    pve.sim.server.endings.append(Ending(task_type="qmcreate", exitstatus=exitstatus, times=1))
    outcome = pve.driver.create(it.ref, it.body, context(WHO))
    assert isinstance(outcome, Pending)
    with pytest.raises(error):
        pve.driver.look(it.ref, outcome.handle, context(WHO))
    assert count(pve, KIND, WHO) == 0
    ctx = context(WHO)
    assert followed(pve.driver, it.ref, pve.driver.create(it.ref, it.body, ctx), ctx) is not None
    assert count(pve, KIND, WHO) == 1


def test_a_task_that_is_not_known_any_more_is_settled_by_what_is_there(pve: ProxmoxSite) -> None:
    it = made(pve, KIND, WHO)
    upid = next(iter(pve.sim.server.tasks))
    pve.sim.server.tasks.clear()
    outcome = pve.driver.look(it.ref, {"step": "create", "upid": upid, "body": it.body}, context(WHO))
    assert isinstance(outcome, Done)
    assert outcome.left is not None
    assert outcome.left.body == it.body


def test_a_taken_vm_id_is_passed_over(pve: ProxmoxSite) -> None:
    it = resource(KIND, WHO)
    stand(pve, it, WHO)
    body = {**it.body, "first_vmid": 9000, "last_vmid": 9003}
    for vmid in (9000, 9001, 9003):
        pve.admin.post("/nodes/pve1/qemu", vmid=vmid)
    ctx = context(WHO)
    left = followed(pve.driver, it.ref, pve.driver.create(it.ref, body, ctx), ctx)
    assert left is not None
    assert left.outputs["vmid"] == 9002


def test_a_full_range_says_which_it_is(pve: ProxmoxSite) -> None:
    it = resource(KIND, WHO)
    stand(pve, it, WHO)
    body = {**it.body, "first_vmid": 9000, "last_vmid": 9001}
    for vmid in (9000, 9001):
        pve.admin.post("/nodes/pve1/qemu", vmid=vmid)
    with pytest.raises(RefusedError, match="between 9000 and 9001"):
        pve.driver.create(it.ref, body, context(WHO))


def test_it_goes_to_a_node_that_is_online(pve: ProxmoxSite) -> None:
    pve.set_node("pve3", online=False)
    for name in ("a", "b", "c", "d"):
        made(pve, KIND, incarnation(name))
    assert {row["node"] for row in pve.admin.get("/cluster/resources", type="vm")} == {"pve1", "pve2"}


def test_a_running_vm_is_never_deleted(pve: ProxmoxSite) -> None:
    it = made(pve, KIND, WHO)
    [vm] = owner_vms(pve)
    pve.admin.post(f"/nodes/{vm['node']}/qemu/{vm['vmid']}/status/start")
    with pytest.raises(RefusedError, match="it runs"):
        pve.driver.delete(it.ref, it.body, context(WHO))
    assert count(pve, KIND, WHO) == 1


def test_a_marked_vm_under_another_name_is_not_deleted(pve: ProxmoxSite) -> None:
    it = made(pve, KIND, WHO)
    [vm] = owner_vms(pve)
    pve.admin.put(f"/nodes/{vm['node']}/qemu/{vm['vmid']}/config", name="renamed")
    with pytest.raises(RefusedError, match="is called prod-"):
        pve.driver.delete(it.ref, it.body, context(WHO))
    assert count(pve, KIND, WHO) == 1


def test_its_volumes_go_with_it(pve: ProxmoxSite) -> None:
    it = made(pve, KIND, WHO)
    [vm] = owner_vms(pve)
    pve.admin.post("/storage", storage="disks", type="dir", path="/mnt/disks", content="images", shared=1)
    pve.admin.post(f"/nodes/{vm['node']}/storage/disks/content", vmid=vm["vmid"], filename=f"vm-{vm['vmid']}-pvc-1.raw", size="1G")
    ctx = context(WHO)
    followed(pve.driver, it.ref, pve.driver.delete(it.ref, it.body, ctx), ctx)
    assert pve.admin.get("/nodes/pve1/storage/disks/content") == []


def test_no_more_tasks_run_at_once_than_are_allowed(slow_pve: ProxmoxSite) -> None:
    """Those beyond wait as pending steps, hold no thread, and come to their turn."""
    limit = slow_pve.driver.client.politeness.limits.tasks
    names = [f"c{number}" for number in range(2 * limit)]
    waiting: dict[str, Pending] = {}
    for name in names:
        who = incarnation(name)
        it = resource(KIND, who)
        stand(slow_pve, it, who)
        outcome = slow_pve.driver.create(it.ref, it.body, context(who))
        assert isinstance(outcome, Pending)
        waiting[name] = outcome
    assert sum(outcome.handle["step"] == "queued" for outcome in waiting.values()) >= 1
    deadline = time.monotonic() + DEADLINE_S
    most = 0
    for name in itertools.cycle(names):
        running = sum(task["status"] == "running" for task in slow_pve.sim.server.tasks.values())
        most = max(most, running)
        assert running <= limit
        if name in waiting:
            who = incarnation(name)
            outcome = slow_pve.driver.look(resource(KIND, who).ref, waiting[name].handle, context(who))
            if isinstance(outcome, Done):
                del waiting[name]
            else:
                waiting[name] = outcome
        if not waiting:
            break
        assert time.monotonic() < deadline
    assert len(slow_pve.admin.get("/cluster/resources", type="vm")) == len(names)
    assert slow_pve.driver.client.politeness.tasks_running == 0


def test_an_unknown_step_is_our_own_mistake(pve: ProxmoxSite) -> None:
    it = resource(KIND, WHO)
    with pytest.raises(InvariantError):
        pve.driver.look(it.ref, {"step": "dance", "body": it.body}, context(WHO))
    with pytest.raises(InvariantError):
        pve.driver.look(resource("proxmox.pool", WHO).ref, {}, context(WHO))
