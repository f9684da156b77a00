"""The lab's tokens and people can do what they are for, and nothing else."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.lab


def test_engine_makes_and_removes_all_that_a_cluster_needs(pve):
    token = pve.cluster()
    pool = "kubehenge/clusters.prod"
    made = {"vmid": 9000001, "pool": pool, "name": "prod-volumes", "description": "mark", "memory": 16}
    pve.must("POST", "/nodes/pve1/qemu", pve.engine, **made)
    pve.must("PUT", "/nodes/pve1/qemu/9000001/config", pve.engine, tags="kubehenge;volumes")
    assert pve.must("GET", "/nodes/pve1/qemu/9000001/config", token)["description"] == "mark"
    pve.must("POST", "/nodes/pve1/qemu/9000001/migrate", pve.engine, target="pve2")
    volume = {"vmid": 9000001, "filename": "vm-9000001-pvc-1.raw", "size": "1G", "format": "raw"}
    pve.must("POST", "/nodes/pve2/storage/shared-storage/content", token, **volume)
    pve.must("PUT", "/nodes/pve2/qemu/9000001/config", pve.engine, unused0="shared-storage:9000001/vm-9000001-pvc-1.raw")
    pve.must("PUT", "/nodes/pve2/qemu/9000001/config", pve.engine, delete="unused0")
    pve.must("DELETE", "/nodes/pve2/qemu/9000001", pve.engine, purge=1, **{"destroy-unreferenced-disks": 1})
    pve.must("PUT", "/access/acl", pve.engine, path=f"/pool/{pool}", users="kh-clusters.prod@pve", roles="KubehengeCluster", delete=1)
    pve.must("DELETE", "/access/users/kh-clusters.prod@pve", pve.engine)
    pve.must("DELETE", "/pools", pve.engine, poolid=pool)
    assert pve.server.vm(9000001) is None
    assert not [name for name in pve.server.storages["shared-storage"]["volumes"] if "9000001" in name]


def test_engine_reads_the_whole_site_by_six_requests(pve):
    pve.cluster()
    pve.clone(200)
    assert pve.must("GET", "/cluster/status", pve.engine)[0]["quorate"] == 1
    rows = pve.must("GET", "/cluster/resources", pve.engine)
    assert {row["vmid"] for row in rows if row["type"] == "qemu"} == {200, 9001, 9002, 9003, 9004}
    assert {row["maxmem"] for row in rows if row["type"] == "node"} == {64 * 1024**3}
    assert {row["storage"] for row in rows if row["type"] == "storage"} == {"shared-storage", "other-storage"}
    pools = {row["poolid"] for row in pve.must("GET", "/pools", pve.engine)}
    assert pools == {"kubehenge", "kubehenge/clusters.prod", "kubehenge-templates"}
    (user,) = pve.must("GET", "/access/users", pve.engine, full=1)
    assert (user["userid"], user["groups"], user["tokens"][0]["tokenid"]) == ("kh-clusters.prod@pve", "kubehenge-clusters", "k1")
    assert {row["path"] for row in pve.must("GET", "/access/acl", pve.engine)} == {"/pool/kubehenge", "/pool/kubehenge/clusters.prod"}
    assert pve.must("GET", "/access/permissions", pve.engine)["/pool/kubehenge"]["Pool.Allocate"] == 1


@pytest.mark.parametrize(
    ("method", "path", "params", "words"),
    [
        ("POST", "/pools", {"poolid": "elsewhere"}, "(/pool/elsewhere, Pool.Allocate)"),
        ("POST", "/access/users", {"userid": "x@pve"}, "(/access/groups, User.Modify)"),
        ("POST", "/access/users", {"userid": "x@pam", "groups": "kubehenge-clusters"}, "(/access/realm/pam, Realm.AllocateUser)"),
        ("PUT", "/access/acl", {"path": "/", "users": "kubehenge@pve", "roles": "Administrator"}, "(/, Permissions.Modify)"),
        ("POST", "/access/users/kubehenge@pve/token/more", {}, ""),
        ("POST", "/access/users/admin@pve/token/more", {}, ""),
        ("POST", "/access/roles", {"roleid": "Mine", "privs": "VM.Audit"}, "(/access, Sys.Modify)"),
        ("POST", "/nodes/pve1/qemu/9001/clone", {"newid": 300, "pool": "kubehenge"}, "(/vms/9001, VM.Clone)"),
        ("DELETE", "/nodes/pve1/qemu/9001", {}, "(/vms/9001, VM.Allocate)"),
        ("GET", "/access/permissions", {"userid": "admin@pve"}, "(/access, Sys.Audit)"),
    ],
)
def test_engine_is_refused_beyond_its_task(pve, method, path, params, words):
    answer = pve.call(method, path, pve.engine, **params)
    assert answer.status == 403
    assert answer.reason == f"Permission check failed {words}".strip()


@pytest.mark.parametrize("role", ["Administrator", "PVEVMAdmin", "NoAccess"])
def test_engine_hands_on_nothing_that_it_does_not_hold(pve, role):
    pve.cluster()
    answer = pve.call("PUT", "/access/acl", pve.engine, path="/pool/kubehenge/clusters.prod", users="viewer@pve", roles=role)
    assert answer.reason == "ACL update failed: 400 Parameter verification failed."
    assert f"Cannot add role '{role}' - requires 'Permissions.Modify'" in answer.body["message"]


def test_cluster_token_reaches_its_own_pool_and_no_neighbours(pve):
    token = pve.cluster("clusters.prod")
    pve.cluster("clusters.dev")
    pve.clone(200, "kubehenge/clusters.prod")
    pve.clone(201, "kubehenge/clusters.dev")
    seen = {row["vmid"] for row in pve.must("GET", "/cluster/resources", token, type="vm")}
    assert seen == {200}
    assert pve.call("GET", "/nodes/pve2/qemu/201/config", token).reason == "Permission check failed (/vms/201, VM.Audit)"
    stolen = pve.call("PUT", "/nodes/pve2/qemu/200/config", token, scsi5="shared-storage:201/vm-201-disk-0.raw")
    assert stolen.reason == "Permission check failed (/vms/201, VM.Config.Disk)"
    for method, path in (("POST", "/nodes/pve2/qemu/200/status/stop"), ("DELETE", "/nodes/pve2/qemu/200")):
        assert pve.call(method, path, token).status == 403
    assert pve.must("GET", "/access/users", token) == []
    assert pve.must("GET", "/access/acl", token) == []


def test_viewer_sees_and_changes_nothing(pve):
    pve.cluster()
    pve.clone(200)
    signed_in = pve.must("POST", "/access/ticket", None, username="viewer@pve", password=pve.lab.viewer.password.get_secret_value())
    viewer = (signed_in["ticket"], signed_in["CSRFPreventionToken"])
    assert {row["vmid"] for row in pve.must("GET", "/cluster/resources", viewer, type="vm")} == {200}
    assert pve.must("GET", "/access/permissions", viewer, path="/pool/kubehenge/clusters.prod")["/pool/kubehenge/clusters.prod"]["VM.Audit"]
    assert pve.call("POST", "/nodes/pve2/qemu/200/status/start", viewer).status == 403
    assert pve.call("PUT", "/pools", viewer, poolid="kubehenge", comment="x").status == 403


def test_templates_bear_their_tags(pve):
    rows = [row for row in pve.must("GET", "/cluster/resources", pve.capmox, type="vm") if row["template"]]
    assert {row["tags"] for row in rows} == {
        "kubeadm-v1.36.5;kubehenge;template",
        "kubeadm-v1.36.6;kubehenge;template",
        "kubeadm-v1.37.1;kubehenge;template",
        "cloud-image;kubehenge;template",
    }
