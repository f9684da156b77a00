"""What Cluster API and capmox say, or do not say, in our words (facts: cluster-api-tried, 1, 3 to 6; proxmox-ve-tried, 3)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kubehenge.drivers.kube import explaining
from kubehenge.lab.kube import kinds as served
from kubehenge.lab.kube.registry import WriteOptions
from tests.drivers.kube_resources import declared
from tests.drivers.servers import KubeSite

SINCE = "2026-11-30T12:00:00Z"


def obj(*conditions: tuple[str, str, str, str], **meta: Any) -> dict[str, Any]:
    rows = [
        {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}
        for kind, status, reason, message in conditions
    ]
    return {"metadata": {"name": "prod", "namespace": "clusters", **meta}, "status": {"conditions": rows}}


def topology(message: str, reason: str = "ReconcileFailed") -> dict[str, Any]:
    return obj(("TopologyReconciled", "False", reason, message))


IMMUTABLE = (
    "error reconciling the Cluster topology: failed to reconcile MachineDeployment t1/a1-w-p4lfp: failed to create patch helper for "
    'ProxmoxMachineTemplate t1/a1-w-dplf7: server side apply dry-run failed for modified object: admission webhook "validation.'
    'proxmoxmachinetemplate.infrastructure.cluster.x-k8s.io" denied the request: ProxmoxMachineTemplate.infrastructure.cluster.x-k8s.io '
    '"a1-w-dplf7" is invalid: spec: Forbidden: ProxmoxMachineTemplate is immutable'
)
MISSING = (
    "error reading the ClusterClass: failed to get infrastructure cluster template for ClusterClass kubehenge-system/kubehenge-k3s: failed to "
    'retrieve ProxmoxClusterTemplate kubehenge-system/pve: proxmoxclustertemplates.infrastructure.cluster.x-k8s.io "pve" not found'
)
EXTENSION = (
    'failed to call extension handlers: http call failed: Post "https://10.0.0.9:9443/hooks?timeout=5s": dial tcp: connection refused'
)
WEBHOOK = (
    'failed to create ProxmoxCluster: Internal error occurred: failed calling webhook "validation.proxmoxcluster.infrastructure.cluster.'
    'x-k8s.io": failed to call webhook: Post "https://capmox-webhook.capmox-system.svc:443/x": dial tcp 10.43.0.9:443: connection refused'
)


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        (obj(("TopologyReconciled", "True", "ReconcileSucceeded", ""), ("InfrastructureReady", "True", "Ready", "")), ""),
        (topology("a hook blocks", "ClusterCreating"), ""),
        (topology(MISSING), "Its class refers to proxmoxclustertemplate pve, which does not exist. Put the template back"),
        (topology("ClusterClass kubehenge-system/gone not found"), "Its class kubehenge-system/gone does not exist"),
        (topology('clusterclasses.cluster.x-k8s.io "gone" not found'), "Its class gone does not exist in the management cluster. Correct spec"),
        (topology("VariablesReady is False", "ClusterClassNotReconciled"), "Its class is not ready: VariablesReady is False. Look at the cond"),
        (topology(IMMUTABLE), "a webhook refuses the trial change of a ProxmoxMachineTemplate (capmox issue 735). The webhook needs the match"),
        (topology(EXTENSION), "It waits for a runtime extension at https://10.0.0.9:9443/hooks, which does not answer. Look at the program"),
        (topology(WEBHOOK), "The webhook of Cluster API's Proxmox provider (capmox) validation.proxmoxcluster.infrastructure.cluster.x-k8s.io is"),
        (topology("something\n  else"), "Cluster API cannot go on: something else. It tries again by itself"),
        (
            obj(("InfrastructureReady", "False", "NotReady", '* ProxmoxAvailable: Secret "prod-proxmox-credentials" not found')),
            'capmox does not find its credentials: * ProxmoxAvailable: Secret "prod-proxmox-credentials" not found. Kubehenge writes that',
        ),
        (obj(("InfrastructureReady", "False", "ProxmoxUnreachable", "ProxmoxUnreachable: x509")), "capmox does not reach Proxmox VE"),
        (
            obj(("RemoteConnectionProbe", "False", "ProbeFailed", "probe failed"), ("ControlPlaneInitialized", "True", "Initialized", "")),
            "Cluster API does not reach the cluster's API server: probe failed. Look at its control-plane nodes",
        ),
        (obj(("RemoteConnectionProbe", "False", "ProbeFailed", "not yet")), ""),
        (topology("x" * 5000), "…. It tries again"),
    ],
)  # fmt: skip
def test_what_keeps_a_cluster_from_going_on_is_told_with_the_next_step(cluster: dict[str, Any], told: str) -> None:
    found = [trouble.text for trouble in explaining.of_cluster(cluster)]
    assert len(found) == bool(told)
    assert told in "".join(found)
    assert len("".join(found)) < 1000


def test_capmox_that_says_nothing_is_a_trouble_only_after_a_while() -> None:
    silent = obj(("InfrastructureReady", "False", "NotReady", "ProxmoxCluster status.initialization.provisioned is false"))
    [trouble] = explaining.of_cluster(silent)
    assert "whether `kubehenge doctor` finds its token accepted" in trouble.text
    assert not trouble.counts(datetime(2026, 11, 30, 12, 1, 59, tzinfo=UTC))
    assert trouble.counts(datetime(2026, 11, 30, 12, 2, tzinfo=UTC))
    assert type(trouble).of(trouble.body) == trouble
    silent["metadata"]["deletionTimestamp"] = SINCE
    assert explaining.of_cluster(silent) == ()


TERMINAL = "capmox never tries this machine again: the health check replaces it 20 minutes after it was made"


@pytest.mark.parametrize(
    ("reason", "message", "told"),
    [
        ("Cloning", "", ""),
        ("WaitingForStaticIPAllocation", "", ""),
        ("WaitingForStaticIPAllocation", "all 3 are in use", "it gets no address (all 3 are in use): widen network.addresses"),
        ("CloningFailed", "storage 'nostore' does not exist", "storage 'nostore' does not exist. capmox tries it again by itself"),
        (
            "VMProvisionFailed",
            'VM template not found: found 0 VM templates with tags "capi;k8s-1.34"',
            f"no VM template bears exactly the tags capi;k8s-1.34: build it, or give the token the right to see it. {TERMINAL}",
        ),
        (
            "VMProvisionFailed",
            'VM template not found: found 2 VM templates with tags "capi"',
            "2 VM templates bear the tags capi, and there must be one: take the tags from the others. capmox never",
        ),
        (
            "VMProvisionFailed",
            "cannot reserve 70368744177664B of memory on node pve1: 25276502016B available memory left",
            "no node that it may use has 65536.0 GiB of memory left; pve1, which has most, has 23.5 GiB: free some, or allow more nodes",
        ),
        ("VMProvisionFailed", "No free vmid found in vmIDRange", "every VM id of its range is taken: remove what took them"),
        ("VMProvisionFailed", 'expected VM name to match "k2-w-1" but it was "h1-w-2"', "its VM id belongs to h1-w-2 by now: leave that VM as it is"),
        ("VMProvisionFailed", "unable to inject CloudInit ISO: unable to find the item you are looking for", "could not be put onto a storage (unable to find"),
        ("VMProvisionFailed", "cloud-init status: error", "cloud-init failed inside it"),
        ("VMProvisionFailed", "", f"capmox does not say why. {TERMINAL}"),
        ("TaskFailed", "403 Permission check failed", f"403 Permission check failed. {TERMINAL}"),
    ],
)  # fmt: skip
def test_what_keeps_a_machine_from_its_vm_is_told_with_the_next_step(reason: str, message: str, told: str) -> None:
    found = explaining.of_vm(obj(("VirtualMachineProvisioned", "False", reason, message)))
    assert told in found
    assert bool(told) == bool(found)
    assert explaining.of_vm(obj(("VirtualMachineProvisioned", "True", "Provisioned", ""))) == ""


def test_machines_with_one_trouble_are_told_together() -> None:
    found = explaining.of_machines([*((f"w{number}", "no room") for number in range(5)), ("cp", "no template")])
    assert [trouble.text for trouble in found] == ["Machine cp: no template.", "Machines w0, w1, w2 and 2 more: no room."]


def entry(manager: str, **fields: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "fieldsV1": fields or {"f:spec": {}}}


@pytest.mark.parametrize(
    ("meta", "told"),
    [
        ({"name": "kubehenge-rke2-0123456789", "generation": 1, "managedFields": [entry("kubectl-edit")]}, ""),
        ({"name": "kubehenge-rke2", "generation": 4, "managedFields": [entry("kubectl-edit")]}, ""),
        ({"name": "kubehenge-rke2-0123456789", "generation": 2, "managedFields": [entry("kubehenge"), entry("kubectl-edit")]}, "was changed by kubectl-edit after"),
        ({"name": "kubehenge-rke2-0123456789", "generation": 2, "managedFields": [entry("kubehenge"), entry("manager", **{"f:metadata": {}})]}, "was changed by hand"),
    ],
    ids=["as it was made", "named by people", "edited", "a field taken away"],
)  # fmt: skip
def test_a_class_that_is_not_what_its_name_says_is_found(meta: dict[str, Any], told: str) -> None:
    found = explaining.of_class({"metadata": meta})
    assert told in found
    assert bool(found) == bool(told)


# ---- as a reading shows it


@pytest.mark.lab
def test_a_reading_shows_each_cluster_with_what_is_wrong_with_it_its_machines_and_its_class(kube: KubeSite) -> None:
    name = "kubehenge-k3s-0123456789"

    async def fill() -> None:
        registry, options = kube.sim.registry, WriteOptions(manager="kubehenge")
        template = registry.store.find(served.CLUSTER_CLASS, "kubehenge-system", "kubehenge-k3s")
        assert template is not None
        body = {**template.obj(), "metadata": {"name": name}}
        registry.create(served.CLUSTER_CLASS, "kubehenge-system", body, options)
        for cluster, class_name in (("prod", name), ("well", "kubehenge-k3s")):
            it = declared(cluster)
            it["spec"]["topology"]["classRef"]["name"] = class_name
            registry.create(served.CLUSTER, "clusters", it, options)
        reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ProxmoxMachine", "name": "prod-m"}
        spec = {"clusterName": "prod", "bootstrap": {"dataSecretName": "x"}, "infrastructureRef": reference}
        registry.create(served.MACHINE, "clusters", {"metadata": {"name": "prod-m"}, "spec": spec}, options)
        registry.create(
            served.PROXMOX_MACHINE,
            "clusters",
            {"metadata": {"name": "prod-m"}, "spec": {"network": {"networkDevices": [{"bridge": "vmbr0", "name": "net0"}]}}},
            options,
        )

    kube._loop.run(fill())
    rows = obj(("VirtualMachineProvisioned", "False", "VMProvisionFailed", "No free vmid found in vmIDRange"))["status"]
    at = "/apis/infrastructure.cluster.x-k8s.io/v1alpha2/namespaces/clusters/proxmoxmachines/prod-m/status"
    merge = {"query": {"fieldManager": "manager"}, "content": "application/merge-patch+json"}
    kube.admin._change("PATCH", at, {"status": rows}, **merge)
    at = f"/apis/cluster.x-k8s.io/v1beta2/namespaces/kubehenge-system/clusterclasses/{name}"
    kube.admin._change("PATCH", at, {"spec": {"infrastructure": {"naming": {"template": "x"}}}}, query={"fieldManager": "kubectl-edit"}, content="application/merge-patch+json")  # fmt: skip
    reading = kube.driver.read_bulk()
    by_name = {found.ref.name: found.body for found in reading.items["kube.cluster_status"]}
    texts = [one["text"] for one in by_name["clusters/prod"]["troubles"]]
    assert len(texts) == 2
    assert texts[0].startswith("Machine prod-m: every VM id of its range is taken")
    assert texts[1].startswith(f"Its class {name} was changed by kubectl-edit")
    assert "troubles" not in by_name["clusters/well"]
    [machine] = reading.items["kube.machine"]
    assert machine.body["trouble"].startswith("every VM id")
