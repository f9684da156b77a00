"""Clusters from their creation to their end, over HTTP against both simulated servers."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.lab.kube.fleet import Cluster, conditions_of
from tests.lab.kube.running import until

pytestmark = pytest.mark.lab


def test_cluster_is_built_scaled_upgraded_and_deleted(cluster: Cluster) -> None:
    body = cluster.build(class_name="kubehenge-rke2", version="v1.36.5+rke2r1", control_planes=3, workers=2)
    assert body["status"]["phase"] == "Provisioned"
    assert body["status"]["controlPlane"] | {"versions": []} == {
        "desiredReplicas": 3,
        "replicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "upToDateReplicas": 3,
        "versions": [],
    }
    assert body["spec"]["controlPlaneEndpoint"] == {"host": f"10.{cluster.number}.0.10", "port": 6443}
    assert len(cluster.vms()) == 5
    cluster.scale(workers=4)
    cluster.settled()
    assert len(cluster.vms()) == 6 + 1
    before = set(cluster.vms())
    cluster.topology(version="v1.37.1+rke2r1")
    cluster.settled()
    assert not before & set(cluster.vms())
    cluster.scale(control_planes=1, workers=1)
    cluster.settled()
    assert len(cluster.vms()) == 2
    cluster.delete()
    cluster.gone()
    assert cluster.vms() == {}
    for plural in (
        "machines",
        "machinedeployments",
        "machinehealthchecks",
        "proxmoxmachines",
        "proxmoxclusters",
        "proxmoxmachinetemplates",
    ):
        until(lambda plural=plural: not cluster.objects(plural), why=lambda plural=plural: cluster.objects(plural))
    until(
        lambda: (
            not [
                s
                for s in cluster.kube.server.call("GET", "/api/v1/namespaces/clusters/secrets")[1]["items"]
                if s["metadata"]["name"].startswith(f"{cluster.name}-")
            ]
        )
    )
    assert not [
        name
        for storage in cluster.kube.proxmox.server.storages.values()
        for name in storage["files"]
        if str(10_000 + cluster.number) in str(name)
    ]


def test_vms_are_what_the_variables_ask_for(cluster: Cluster) -> None:
    size = {"cores": 3, "memoryMiB": 3072, "diskGiB": 25}
    cluster.build(variables={"workerMachine": size}, control_planes=3, workers=1)
    vms = cluster.vms()
    first = 10_000_000 + cluster.number * 1000
    assert all(first <= vm.vmid < first + 1000 for vm in vms.values())
    assert all(vm.status == "running" for vm in vms.values())
    control_planes = [machine["metadata"]["name"] for machine in cluster.machines("control-plane")]
    assert {vms[name].node for name in control_planes} == {"pve1", "pve2", "pve3"}
    (worker,) = cluster.machines("worker")
    config = vms[worker["metadata"]["name"]].config
    assert (int(config["cores"]), int(config["memory"])) == (3, 3072)
    assert "size=25G" in config["scsi0"]
    addresses = [re.search(r"ip_net0_([0-9.]+)", vm.config["tags"])[1] for vm in vms.values()]
    assert len(set(addresses)) == 4
    assert all(address.startswith(f"10.{cluster.number}.0.") for address in addresses)
    until(lambda: all("user-data" not in str(vm.config.get("ide0")) for vm in cluster.vms().values()))


def test_machines_say_which_vm_and_node_they_are(cluster: Cluster) -> None:
    cluster.build()
    (infra, *_) = [item for item in cluster.objects("proxmoxmachines") if "cluster.x-k8s.io/control-plane" in item["metadata"]["labels"]]
    (machine,) = cluster.machines("control-plane")
    vm = cluster.vms()[machine["metadata"]["name"]]
    assert infra["spec"]["virtualMachineID"] == vm.vmid
    assert infra["status"]["proxmoxNode"] == vm.node
    assert (
        machine["spec"]["providerID"]
        == infra["spec"]["providerID"]
        == "proxmox://" + re.search(r"uuid=([0-9a-f-]+)", vm.config["smbios1"])[1]
    )
    assert machine["status"]["phase"] == "Running"
    assert machine["status"]["nodeRef"]["name"] == machine["metadata"]["name"]
    assert {entry["type"] for entry in machine["status"]["addresses"]} == {"Hostname", "InternalIP"}
    (worker,) = cluster.machines("worker")
    labels = worker["metadata"]["labels"]
    assert labels["cluster.x-k8s.io/cluster-name"] == cluster.name
    assert labels["topology.cluster.x-k8s.io/deployment-name"] == "md-0"
    assert labels["cluster.x-k8s.io/deployment-name"].startswith(f"{cluster.name}-md-0-")


def test_upgrade_rolls_the_control_plane_before_the_workers(cluster: Cluster) -> None:
    cluster.build(control_planes=3, workers=2)
    start = len(cluster.kube.calls.since())
    cluster.topology(version="v1.37.1+k3s1")
    message = cluster.condition("TopologyReconciled", "False", "ClusterUpgrading")
    assert message.startswith("Cluster is upgrading to v1.37.1+k3s1\n  * KThreesControlPlane ")
    cluster.settled()
    clones = [call for call in cluster.kube.calls.since()[start:] if call.path.endswith("/clone") and call.status == 200]
    new = sorted(cluster.machines(), key=lambda machine: cluster.vms()[machine["metadata"]["name"]].created_at)
    roles = ["cluster.x-k8s.io/control-plane" in machine["metadata"]["labels"] for machine in new]
    assert len(clones) >= 5
    assert roles == sorted(roles, reverse=True)


def test_second_version_change_is_refused_while_the_first_rolls(cluster: Cluster) -> None:
    cluster.build(control_planes=3)
    cluster.topology(version="v1.37.1+k3s1")
    body = {"spec": {"topology": {"version": "v1.37.2+k3s1"}}}
    path = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/clusters/clusters/{cluster.name}"
    status, answer = cluster.kube.server.call("PATCH", path, body, media="application/merge-patch+json")
    assert status == 422
    assert "version cannot be changed: " in answer["message"]
    cluster.settled()


def test_size_of_workers_rolls_workers_only(cluster: Cluster) -> None:
    cluster.build(workers=2)
    before = {role: {machine["metadata"]["name"] for machine in cluster.machines(role)} for role in ("control-plane", "worker")}
    cluster.variable("workerMachine", {"cores": 4})
    cluster.condition("RollingOut", "True")
    cluster.settled()
    assert {machine["metadata"]["name"] for machine in cluster.machines("control-plane")} == before["control-plane"]
    assert not {machine["metadata"]["name"] for machine in cluster.machines("worker")} & before["worker"]


def test_online_nodes_place_new_vms_and_roll_nothing(cluster: Cluster) -> None:
    cluster.build(workers=2)
    before = set(cluster.vms())
    cluster.annotate(**{"kubehenge.dev/online-nodes": "pve3"})
    cluster.scale(workers=4)
    cluster.settled()
    vms = cluster.vms()
    assert before < set(vms)
    assert {vm.node for name, vm in vms.items() if name not in before} == {"pve3"}


def test_pool_that_is_taken_out_goes(cluster: Cluster) -> None:
    cluster.build(workers=2)
    cluster.change({"spec": {"topology": {"workers": None}}})
    until(lambda: len(cluster.vms()) == 1, why=cluster.story)
    assert cluster.condition("WorkersAvailable", "True", "NoWorkers") == ""


def test_cluster_without_credentials_waits_and_says_so(cluster: Cluster) -> None:
    cluster.corner()
    cluster.create()
    assert cluster.condition("InfrastructureReady", "False", "NotReady") == "ProxmoxCluster status.initialization.provisioned is false"
    (infra,) = until(lambda: cluster.objects("proxmoxclusters"))
    assert "status" not in infra
    cluster.credentials()
    cluster.nudge()
    cluster.settled()


def test_wrong_token_looks_like_a_missing_secret(cluster: Cluster) -> None:
    cluster.corner()
    cluster.credentials(secret="11111111-2222-3333-4444-555555555555")
    cluster.create()
    assert cluster.condition("InfrastructureReady", "False", "NotReady") == "ProxmoxCluster status.initialization.provisioned is false"
    until(lambda: any(call.status == 401 for call in cluster.kube.calls.since()))
    cluster.credentials()
    cluster.nudge()
    cluster.settled()


def test_address_of_another_server_is_never_called(cluster: Cluster) -> None:
    cluster.corner()
    cluster.credentials(url="https://192.0.2.77:8006")
    cluster.create()
    cluster.condition("InfrastructureReady", "False", "NotReady")
    cluster.delete()
    cluster.gone()


def test_secret_goes_with_its_cluster_as_capmox_has_it(cluster: Cluster) -> None:
    cluster.build(workers=0)
    path = f"/api/v1/namespaces/clusters/secrets/{cluster.name}-proxmox-credentials"
    _, secret = cluster.kube.server.call("GET", path)
    assert secret["metadata"]["finalizers"] == ["proxmoxcluster.infrastructure.cluster.x-k8s.io/secret"]
    assert [entry["kind"] for entry in secret["metadata"]["ownerReferences"]] == ["ProxmoxCluster"]
    cluster.delete()
    cluster.gone()
    until(lambda: cluster.kube.server.call("GET", path)[0] == 404)


def test_kubeconfig_is_there_once_the_control_plane_is(cluster: Cluster) -> None:
    cluster.build(workers=0)
    path = f"/api/v1/namespaces/clusters/secrets/{cluster.name}-kubeconfig"
    _, secret = until(lambda: (answer := cluster.kube.server.call("GET", path))[0] == 200 and answer)
    assert secret["type"] == "cluster.x-k8s.io/secret"
    assert secret["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == cluster.name


def test_missing_template_is_named_and_a_new_one_taken_up(cluster: Cluster) -> None:
    cluster.corner()
    cluster.credentials()
    cluster.create(class_name="kubehenge-kubeadm", version="v1.35.9", workers=0, variables={"cni": "cilium"})
    message = cluster.machine_reason("VMProvisionFailed")
    assert message == 'VM template not found: found 0 VM templates with tags "kubehenge;kubeadm-v1.35.9"'
    assert "VM template not found" in cluster.condition("ControlPlaneMachinesReady", "False")
    server = cluster.kube.proxmox.server
    template = next(vm for vm in server.vms if "kubeadm-v1.36.5" in str(vm.config.get("tags")))
    old, template.config["tags"] = template.config["tags"], "kubehenge;kubeadm-v1.35.9;template"
    try:
        cluster.settled()
    finally:
        template.config["tags"] = old


def test_machine_without_an_address_waits_and_says_so(cluster: Cluster) -> None:
    cluster.corner()
    cluster.credentials()
    cluster.create(addresses=[f"10.{cluster.number}.0.11"], workers=1)
    message = cluster.machine_reason("WaitingForStaticIPAllocation", "no free address")
    assert message == f"no free address in 10.{cluster.number}.0.11: all 1 are in use; give the cluster more addresses"
    network = next(entry["value"] for entry in cluster.read()["spec"]["topology"]["variables"] if entry["name"] == "network")
    cluster.variable("network", {**network, "addresses": [f"10.{cluster.number}.0.11-10.{cluster.number}.0.12"]})
    cluster.settled()


@pytest.mark.parametrize(
    ("addresses", "words"),
    [(["10.{}.0.5-10.{}.0.15"], "addresses may not contain the endpoint IP 10.{}.0.10"), (["over there"], "spec.ipv4Config.addresses: ")],
    ids=["endpoint inside", "no address"],
)
def test_addresses_that_cannot_be_used_are_named(cluster: Cluster, addresses: list[str], words: str) -> None:
    cluster.corner()
    cluster.credentials()
    number = cluster.number
    cluster.create(addresses=[entry.format(number, number) for entry in addresses])
    assert words.format(number) in cluster.condition("TopologyReconciled", "False", "ReconcileFailed")
    network = next(entry["value"] for entry in cluster.read()["spec"]["topology"]["variables"] if entry["name"] == "network")
    cluster.variable("network", {**network, "addresses": [f"10.{number}.0.20-10.{number}.0.25"]})
    cluster.settled()


def test_machine_too_large_for_any_node_says_so(cluster: Cluster) -> None:
    cluster.corner()
    cluster.credentials()
    cluster.create(workers=0, variables={"controlPlaneMachine": {"memoryMiB": 8_000_000}})
    assert re.fullmatch(
        r"cannot reserve 8388608000000B of memory on node pve\d: \d+B available memory left", cluster.machine_reason("VMProvisionFailed")
    )
    cluster.delete()
    cluster.gone()


def test_refused_clone_says_so_and_goes_on_when_it_is_allowed(cluster: Cluster) -> None:
    cluster.credentials()
    cluster.create(workers=0)  # its pool is not there
    assert cluster.machine_reason("CloningFailed") == "unable to create new vm: not authorized to access endpoint"
    cluster.corner()
    cluster.settled()
    assert len(cluster.vms()) == 1


def test_vm_ids_of_the_range_are_used_up(cluster: Cluster) -> None:
    cluster.corner()
    cluster.credentials()
    first = 10_000_000 + cluster.number * 1000
    cluster.create(workers=1, annotations={"kubehenge.dev/vm-id-range": f"{first}-{first}"})
    assert cluster.machine_reason("VMProvisionFailed") == "No free vmid found in vmIDRange"
    cluster.delete()
    cluster.gone()


def test_paused_cluster_stands_still(cluster: Cluster) -> None:
    cluster.corner()
    cluster.credentials()
    cluster.create(paused=True)
    cluster.condition("Paused", "True")
    assert cluster.objects("proxmoxclusters") == []
    cluster.change({"spec": {"paused": False}})
    cluster.settled()
    assert cluster.conditions()["Paused"][0] == "False"


def test_missing_class_says_so_and_is_taken_up(cluster: Cluster) -> None:
    cluster.corner()
    cluster.credentials()
    cluster.create(class_name="kubehenge-later")
    assert "ClusterClass kubehenge-system/kubehenge-later not found" in cluster.condition("TopologyReconciled", "False", "ReconcileFailed")
    root = "/apis/cluster.x-k8s.io/v1beta2/namespaces/kubehenge-system/clusterclasses"
    _, known = cluster.kube.server.call("GET", f"{root}/kubehenge-k3s")
    assert cluster.kube.server.call("POST", root, {"metadata": {"name": "kubehenge-later"}, "spec": known["spec"]})[0] == 201
    cluster.settled()


def test_deletion_waits_for_hooks_on_machines(cluster: Cluster) -> None:
    cluster.build(workers=0)
    (machine,) = cluster.machines()
    path = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/clusters/machines/{machine['metadata']['name']}"
    hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kubehenge-ha"
    change = {"metadata": {"annotations": {hook: ""}}}
    assert cluster.kube.server.call("PATCH", path, change, media="application/merge-patch+json")[0] == 200
    cluster.delete()
    cluster.condition("Deleting", "True", "WaitingForControlPlaneDeletion", "Waiting for KThreesControlPlane to be deleted")
    until(lambda: conditions_of(cluster.machines()[0])["Deleting"][1] == "WaitingForPreTerminateHook")
    assert len(cluster.vms()) == 1
    assert (
        cluster.kube.server.call("PATCH", path, {"metadata": {"annotations": {hook: None}}}, media="application/merge-patch+json")[0] == 200
    )
    cluster.gone()


def test_cluster_with_a_dead_token_hangs_in_deletion(cluster: Cluster) -> None:
    cluster.build(workers=0)
    cluster.credentials(secret="11111111-2222-3333-4444-555555555555")
    cluster.delete()
    cluster.condition("Deleting", "True", "WaitingForControlPlaneDeletion")
    until(lambda: [call for call in cluster.kube.calls.since() if call.status == 401 and "nextid" in call.path])
    assert len(cluster.vms()) == 1
    cluster.credentials()
    cluster.nudge()
    cluster.gone()


def test_settled_cluster_makes_no_call_and_no_write(cluster: Cluster) -> None:
    cluster.build()
    until(lambda: all("user-data" not in str(vm.config.get("ide0")) for vm in cluster.vms().values()))
    until(lambda: not [c for c in cluster.kube.calls.since()[-3:] if c.target == "proxmox"] or _quiet(cluster))
    before = [item["metadata"]["resourceVersion"] for item in (cluster.read(), *cluster.machines(), *cluster.objects("proxmoxmachines"))]
    cluster.annotate(**{"example.org/touched": "yes"})
    again = [item["metadata"]["resourceVersion"] for item in (*cluster.machines(), *cluster.objects("proxmoxmachines"))]
    assert again == before[1:]


def _quiet(cluster: Cluster) -> bool:
    """Whether reading something twice shows no call in between."""
    seen = cluster.kube.calls.last_n
    cluster.read()
    return not [call for call in cluster.kube.calls.since(seen) if call.target == "proxmox"]


@pytest.mark.kubectl
def test_kubectl_waits_for_a_cluster_and_shows_it(cluster: Cluster) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on this machine")
    cluster.corner()
    cluster.credentials()
    cluster.create(workers=0)
    kubectl = cluster.kube.server.kubectl
    assert (
        "condition met" in kubectl("-n", "clusters", "wait", "--for=condition=Available", f"cluster/{cluster.name}", "--timeout=40s").stdout
    )
    shown = kubectl("-n", "clusters", "get", "cluster", cluster.name).stdout
    assert "Provisioned" in shown
    assert "v1.36.5+k3s1" in shown
