"""Reading Proxmox VE at once: a constant number of requests, one node, and what may be missing (MODEL 20, 24; ACCEPTANCE 1.15, 3.3, 3.6)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kubehenge.drivers.proxmox import ProxmoxDriver
from kubehenge.drivers.proxmox.guests import parse_tags
from kubehenge.drivers.proxmox.reading import Membership
from kubehenge.errors import RefusedError, TransientError
from kubehenge.lab.faults import FaultAction
from kubehenge.lab.pki import CertificateAuthority
from kubehenge.lab.proxmox.rights import AclRow, SubjectKind, Token, User
from tests.drivers.raw_server import RawServer, json_answer
from tests.drivers.resources import KINDS, made
from tests.drivers.servers import GROUP, OWNER_VMIDS, POOL, ROLE, SITE_KEY, ProxmoxSite, context, incarnation
from tests.drivers.test_proxmox_client import client_of

pytestmark = pytest.mark.lab

WHO = incarnation()
ALL = {*KINDS, "proxmox.node", "proxmox.vm", "proxmox.storage"}


def fill(pve: ProxmoxSite, clusters: int) -> None:
    """Clusters with their corner, put into the simulator's state directly."""
    server = pve.sim.server
    for number in range(clusters):
        who = incarnation(f"c{number}")
        pool = who.pool(POOL)
        server.pools[pool] = set()
        server.pool_info[pool] = {"comment": who.mark, "storage": set()}
        user = User(profile={"comment": who.mark})
        user.tokens["k1"] = Token(value=f"value-{number}", privsep=False, comment=f"{who.mark} generation=1")
        server.rights.users[who.user] = user
        server.rights.groups[GROUP].members.add(who.user)
        server.rights.put_row(AclRow(path=f"/pool/{pool}", kind=SubjectKind.USER, subject=who.user, role=ROLE, propagate=True))
        guest = server.add_guest(OWNER_VMIDS[0] + number, "pve1", who.owner_vm)
        guest.config |= {"name": who.owner_vm, "tags": "kubehenge;volumes", "description": who.mark}
        server._pool_join(pool, guest.vmid)


@pytest.mark.parametrize("clusters", [0, 10, 300])
def test_the_number_of_requests_does_not_depend_on_the_number_of_clusters(pve: ProxmoxSite, clusters: int) -> None:
    fill(pve, clusters)
    before = pve.calls.last_n
    reading = pve.driver.read_bulk()
    assert len(pve.since(before)) == reading.requests == 6
    assert reading.failed == {}
    assert {kind: len(reading.items[kind]) for kind in KINDS} == dict.fromkeys(KINDS, clusters)
    before = pve.calls.last_n
    assert pve.driver.read_fast().requests == 2
    assert len(pve.since(before)) == 2


def test_all_kinds_are_there_also_the_empty_ones(pve: ProxmoxSite) -> None:
    reading = pve.driver.read_bulk()
    assert reading.items.keys() == ALL == pve.driver.kinds
    assert reading.endpoint == pve.urls[0]
    assert reading.quorate
    assert reading.rights is not None
    assert "Pool.Allocate" in reading.rights[f"/pool/{POOL}"]


def test_fewer_rights_show_in_the_reading(pve: ProxmoxSite) -> None:
    before = pve.driver.read_bulk().rights
    pve.sim.server.rights.roles["Need0"] = frozenset({"Pool.Allocate"})
    pve.sim.server.rights.changed()
    after = pve.driver.read_bulk()
    assert before is not None
    assert after.rights is not None
    assert set(before[f"/pool/{POOL}"]) - set(after.rights[f"/pool/{POOL}"]) == {"Pool.Audit"}
    assert after.items["proxmox.pool"] == ()  # Proxmox VE answers an empty list with 200


def test_what_is_not_ours_is_left_out(pve: ProxmoxSite) -> None:
    admin = pve.admin
    made(pve, "proxmox.volume_owner", WHO)
    admin.post("/pools", poolid="other")
    admin.post("/pools", poolid=f"{POOL}x")
    admin.post("/access/users", userid="alice@pve", groups=GROUP, comment=WHO.mark)
    admin.put("/access/acl", path=f"/pool/{WHO.pool(POOL)}", roles="PVEVMUser", users="alice@pve")
    admin.put("/access/acl", path=f"/pool/{WHO.pool(POOL)}", roles="PVEVMUser", groups=GROUP)
    admin.post("/nodes/pve1/qemu", vmid=500, name="tagged", pool="other", tags="kubehenge;volumes")
    admin.post("/nodes/pve1/qemu", vmid=501, name="half", pool=WHO.pool(POOL), tags="volumes")
    reading = pve.driver.read_bulk()
    assert [found.ref.name for found in reading.items["proxmox.pool"]] == [WHO.pool(POOL)]
    assert reading.items["proxmox.user"] == reading.items["proxmox.acl"] == ()
    assert [found.body["name"] for found in reading.items["proxmox.volume_owner"]] == [WHO.owner_vm]


def test_nodes_vms_and_storages_are_reduced_to_what_does_not_flicker(pve: ProxmoxSite) -> None:
    admin = pve.admin
    made(pve, "proxmox.pool", WHO)
    admin.post("/storage", storage="disks", type="dir", path="/mnt/disks", content="images,iso", shared=1)
    admin.put("/access/acl", path="/storage/disks", roles="PVEDatastoreUser", users="kubehenge@pve")
    admin.post("/nodes/pve2/qemu", vmid=501, name="w-1", pool=WHO.pool(POOL), tags="B;a", cores=2, memory=2048)
    admin.post("/nodes/pve2/qemu/501/status/start")
    reading = pve.driver.read_bulk()
    [vm] = reading.items["proxmox.vm"]
    assert vm.ref.name == "501"
    assert vm.body == {
        "name": "w-1",
        "node": "pve2",
        "pool": WHO.pool(POOL),
        "cores": 2,
        "memory_mib": 2048,
        "running": True,
        "template": False,
        "tags": ["a", "b"],
    }
    node = next(found for found in reading.items["proxmox.node"] if found.ref.name == "pve2")
    assert node.body["online"] is True
    assert node.body["cores"] > 0
    assert node.body["memory_mib"] > 1024
    storage = next(found for found in reading.items["proxmox.storage"] if found.ref.name == "pve2/disks")
    assert storage.body == {"shared": True, "content": ["images", "iso"], "enabled": True}
    again = pve.driver.read_bulk()  # lists come in any order
    for kind, found in reading.items.items():
        assert sorted(again.items[kind], key=str) == sorted(found, key=str)


def test_of_two_volume_owners_in_one_pool_the_first_is_shown_whatever_the_order(pve: ProxmoxSite) -> None:
    made(pve, "proxmox.pool", WHO)
    for vmid in (9_000_009, 9_000_003, 9_000_007):
        pve.admin.post("/nodes/pve1/qemu", vmid=vmid, name=WHO.owner_vm, pool=WHO.pool(POOL), tags="volumes;kubehenge")
    for _ in range(5):
        [owner] = pve.driver.read_bulk().items["proxmox.volume_owner"]
        assert owner.outputs["vmid"] == 9_000_003


def test_an_offline_node_is_shown_and_delays_nothing_else(pve: ProxmoxSite) -> None:
    made(pve, "proxmox.pool", WHO)
    pve.set_node("pve1", online=False)
    for reading in (pve.driver.read_bulk(), pve.driver.read_fast()):
        assert {found.ref.name: found.body["online"] for found in reading.items["proxmox.node"]} == {
            "pve1": False,
            "pve2": True,
            "pve3": True,
        }
        assert reading.endpoint == pve.urls[1]
        assert reading.quorate
        assert reading.failed == {}


def test_lost_quorum_is_told(pve: ProxmoxSite) -> None:
    pve.sim.set_quorum(quorate=False)
    assert not pve.driver.read_bulk().quorate
    assert not pve.driver.read_fast().quorate


def test_another_node_may_be_asked(pve: ProxmoxSite) -> None:
    reading = pve.driver.read_bulk(endpoint=pve.driver.endpoints[2])
    assert reading.endpoint == pve.urls[2]
    assert pve.driver.client.endpoint == pve.urls[0]
    pve.set_node("pve3", online=False)
    with pytest.raises(TransientError):
        pve.driver.read_bulk(endpoint=pve.urls[2])


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("/pools", {"proxmox.pool"}),
        ("/access/users", {"proxmox.user", "proxmox.token"}),
        ("/access/acl", {"proxmox.acl"}),
        ("/cluster/resources", {"proxmox.node", "proxmox.vm", "proxmox.storage", "proxmox.volume_owner"}),
    ],
)
def test_a_request_that_is_refused_fails_its_own_kinds_only(pve: ProxmoxSite, path: str, kinds: set[str]) -> None:
    pve.fault(FaultAction.STATUS, path=f"{path}(\\?|$)", status=403, reason="Permission check failed (/x, Some.Right)")
    reading = pve.driver.read_bulk()
    assert reading.failed.keys() == kinds
    assert reading.items.keys() == ALL - kinds
    assert all("Some.Right" in reason for reason in reading.failed.values())


@pytest.mark.parametrize(("status", "error"), [(403, RefusedError), (500, TransientError)])
def test_a_reading_without_its_rights_is_void(pve: ProxmoxSite, status: int, error: type[Exception]) -> None:
    pve.fault(
        FaultAction.STATUS,
        path="/access/permissions",
        status=status,
        reason="Permission check failed" if status == 403 else "oops",
        times=None,
    )
    with pytest.raises(error):
        pve.driver.read_bulk()


@pytest.mark.parametrize("action", [FaultAction.CUT, FaultAction.HTML, FaultAction.REFUSE])
def test_a_node_that_goes_away_meanwhile_has_everything_read_from_the_next(pve: ProxmoxSite, action: FaultAction) -> None:
    made(pve, "proxmox.pool", WHO)
    pve.fault(action, path="/pools", status=502)
    pve.fault(action, path="/pools", status=502)  # a read on a used connection is tried twice
    reading = pve.driver.read_bulk()
    assert reading.endpoint in pve.urls
    assert reading.failed == {}
    assert len(reading.items["proxmox.pool"]) == 1


def test_a_token_without_audit_on_the_root_guesses_quorum_from_the_nodes(pve: ProxmoxSite) -> None:
    pve.admin.put("/access/acl", path="/", roles="Need5", users="kubehenge@pve", delete=1)
    with pytest.raises(RefusedError):
        pve.driver.client.get("/cluster/status")
    assert pve.driver.read_fast().quorate
    for node in ("pve2", "pve3"):
        pve.set_node(node, online=False)
    assert not pve.driver.read_fast().quorate
    assert not pve.driver.read_bulk().quorate


def test_a_single_node_outside_a_cluster_needs_no_quorum() -> None:
    member = Membership.of([{"type": "node", "name": "pve", "online": 1}])
    assert member.quorate
    assert member.online == {"pve": True}


@pytest.mark.parametrize(
    ("text", "tags"),
    [("b;A", {"a", "b"}), ("", set()), (None, set()), ("a,b c;;", {"a", "b", "c"}), ("Kubehenge;VOLUMES", {"kubehenge", "volumes"})],
)
def test_acceptance_3_3_tags_compare_as_sets_without_case(text: str | None, tags: set[str]) -> None:
    assert parse_tags(text) == tags


def test_acceptance_3_3_tags_that_come_back_in_another_case_and_order_are_no_drift(pve: ProxmoxSite) -> None:
    it = made(pve, "proxmox.volume_owner", WHO)
    [vm] = [row for row in pve.admin.get("/cluster/resources", type="vm") if row["name"] == WHO.owner_vm]
    pve.admin.put(f"/nodes/{vm['node']}/qemu/{vm['vmid']}/config", tags="VOLUMES;theirs;Kubehenge")
    found = next(one for one in pve.driver.read_bulk().items[it.ref.kind] if one.ref == it.ref)
    alone = pve.driver.read(it.ref, it.body)
    assert alone is not None
    assert found.body == alone.body == it.body
    before = pve.calls.last_n
    pve.driver.update(it.ref, it.body, context(WHO))
    assert pve.writes_since(before) == []


# ---- a large site, answered from memory so that only our own work is measured


def _large(clusters: int) -> dict[str, Any]:
    marks = [incarnation(f"c{number}") for number in range(clusters)]
    vms: list[dict[str, Any]] = []
    for number, who in enumerate(marks):
        pool = who.pool(POOL)
        owner = {"vmid": OWNER_VMIDS[0] + number, "name": who.owner_vm, "tags": "kubehenge;volumes", "status": "stopped"}
        workers = [
            {
                "vmid": 10_000_000 + 1000 * number + nth,
                "name": f"c{number}-w-{nth}",
                "tags": f"go-proxmox;ip_net0_10.0.0.{nth}",
                "status": "running",
            }
            for nth in range(5)
        ]
        figures = {"type": "qemu", "node": "pve1", "pool": pool, "maxcpu": 2, "maxmem": 4 << 30, "template": 0, "cpu": 0.17, "mem": 1 << 30}
        vms += [{**figures, "id": f"qemu/{vm['vmid']}", "uptime": 77, "netin": 12345, "netout": 54321, **vm} for vm in (owner, *workers)]
    nodes = [{"type": "node", "node": f"pve{n}", "status": "online", "maxcpu": 16, "maxmem": 64 << 30} for n in range(1, 17)]
    token = [{"tokenid": "k1", "privsep": 0, "expire": 0}]
    return {
        "/access/permissions": {f"/pool/{who.pool(POOL)}": dict.fromkeys(("Pool.Allocate", "Pool.Audit", "VM.Audit"), 1) for who in marks},
        "/cluster/status": [{"type": "cluster", "quorate": 1}, *({"type": "node", "name": node["node"], "online": 1} for node in nodes)],
        "/cluster/resources": [*nodes, *vms],
        "/pools": [{"poolid": who.pool(POOL), "comment": who.mark} for who in marks],
        "/access/users": [
            {
                "userid": who.user,
                "comment": who.mark,
                "groups": GROUP,
                "enable": 1,
                "expire": 0,
                "tokens": [{**token[0], "comment": f"{who.mark} generation=1"}],
            }
            for who in marks
        ],
        "/access/acl": [
            {"path": f"/pool/{who.pool(POOL)}", "type": "user", "ugid": who.user, "roleid": ROLE, "propagate": 1} for who in marks
        ],
    }


@pytest.fixture
def large(ca: CertificateAuthority) -> Iterator[RawServer]:
    answers = {path: json_answer(json.dumps({"data": data})) for path, data in _large(1000).items()}

    def answer(conn: Any, head: bytes) -> bool:
        path = head.split(b" ")[1].decode().removeprefix("/api2/json").partition("?")[0]
        conn.sendall(answers[path])
        return True

    server = RawServer(ca, answer)
    yield server
    server.close()


def test_a_thousand_clusters_are_read_whole(large: RawServer, ca: CertificateAuthority) -> None:
    driver = ProxmoxDriver(client_of(large, ca=ca), workload_pool=POOL, owner_vmids=OWNER_VMIDS, site_key=SITE_KEY)
    began = time.process_time()
    reading = driver.read_bulk()
    print(f"CPU of one reading, server's own included: {time.process_time() - began:.3f} s")
    assert len(reading.items["proxmox.vm"]) == 6000
    assert {len(reading.items[kind]) for kind in KINDS} == {1000}
    driver.client.close()
