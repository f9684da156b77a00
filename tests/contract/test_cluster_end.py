"""How a Cluster is taken down, and what it says while it is built and taken down."""

from __future__ import annotations

import pytest

from tests.contract.story import CONTROL_PLANE, NAME, Story, conditions, message


def gone(story: Story) -> dict[str, int]:
    """When the last one of each kind went, workers and control planes apart."""
    last: dict[str, int] = {}
    for event in story.events("delete"):
        if event.type == "DELETED":
            role = "control plane's " if CONTROL_PLANE in event.body["metadata"].get("labels", {}) else ""
            last[f"{role}{event.kind}"] = event.version
    return last


def test_parts_go_in_this_order(story: Story) -> None:
    last = gone(story)
    order = [
        "ProxmoxMachine",
        "Machine",
        "MachineSet",
        "MachineDeployment",
        "control plane's ProxmoxMachine",
        "control plane's Machine",
        "KubeadmControlPlane",
        "ProxmoxCluster",
        "Cluster",
    ]
    assert sorted(order, key=last.__getitem__) == order


def test_control_plane_is_let_alone_until_the_workers_are_gone(story: Story) -> None:
    marked = next(
        event.version
        for event in story.events("delete")
        if event.kind == "KubeadmControlPlane" and event.body["metadata"].get("deletionTimestamp")
    )
    assert gone(story)["MachineDeployment"] < marked


def test_credentials_go_with_the_cluster(story: Story) -> None:
    assert "proxmox" not in story.after("delete")["Secret"]
    assert "proxmox" in story.before("delete")["Secret"]


def test_no_machine_is_left_in_proxmox(story: Story) -> None:
    names = {event.name for event in story.timeline.events if event.kind == "ProxmoxMachine"}
    story.chapter("delete")
    assert names
    assert not names & {vm.name for vm in story.management.vms()}


def test_second_class_stays(story: Story) -> None:
    assert list(story.after("delete")["ClusterClass"]) == ["second"]


@pytest.mark.parametrize("reason", ["WaitingForWorkersDeletion", "WaitingForControlPlaneDeletion", "WaitingForInfrastructureDeletion"])
def test_cluster_says_what_it_waits_for(story: Story, reason: str) -> None:
    seen = [
        event.body for event in story.events("delete") if event.kind == "Cluster" and event.conditions.get("Deleting") == ("True", reason)
    ]
    assert seen
    before = story.before("delete")
    names = {kind: next(iter(before[kind])) for kind in ("MachineDeployment", "MachineSet")}
    words = {
        "WaitingForWorkersDeletion": f"* MachineDeployments: {names['MachineDeployment']}\n* MachineSets: {names['MachineSet']}\n* Worker Machines: ",
        "WaitingForControlPlaneDeletion": "Waiting for KubeadmControlPlane to be deleted",
        "WaitingForInfrastructureDeletion": "Waiting for ProxmoxCluster to be deleted",
    }
    assert message(seen[0], "Deleting").startswith(words[reason])
    assert conditions(seen[0])["Available"] == ("False", "NotAvailable")
    assert seen[0]["status"]["phase"] == "Deleting"


def test_topology_is_said_to_be_deleted(story: Story) -> None:
    assert ("False", "Deleting") in {
        event.conditions.get("TopologyReconciled") for event in story.events("delete") if event.kind == "Cluster"
    }


def test_cluster_goes_through_its_phases(story: Story) -> None:
    phases: list[str] = []
    for event in story.timeline.between(0, story.chapter("delete")[1]):
        phase = event.body.get("status", {}).get("phase")
        if event.kind == "Cluster" and phase and phases[-1:] != [phase]:
            phases.append(phase)
    assert phases == ["Pending", "Provisioning", "Provisioned", "Deleting"]


def test_conditions_of_a_cluster_come_true_in_this_order(story: Story) -> None:
    first: dict[str, int] = {}
    for event in story.events("create"):
        if event.kind == "Cluster":
            for name, (status, _) in event.conditions.items():
                if status == "True":
                    first.setdefault(name, event.version)
    order = ["InfrastructureReady", "ControlPlaneInitialized", "Available"]
    assert sorted(order, key=first.__getitem__) == order
    assert first["RemoteConnectionProbe"] <= first["Available"]


def test_available_cluster_has_these_conditions(story: Story) -> None:
    body = story.after("create")["Cluster"][NAME]
    assert conditions(body) == {
        "Available": ("True", "Available"),
        "RemoteConnectionProbe": ("True", "ProbeSucceeded"),
        "InfrastructureReady": ("True", "InfoReported"),
        "ControlPlaneInitialized": ("True", "Initialized"),
        "ControlPlaneAvailable": ("True", "Available"),
        "WorkersAvailable": ("True", "Available"),
        "TopologyReconciled": ("True", "ReconcileSucceeded"),
        "RollingOut": ("False", "NotRollingOut"),
        "Remediating": ("False", "NotRemediating"),
        "ScalingDown": ("False", "NotScalingDown"),
        "ScalingUp": ("False", "NotScalingUp"),
        "ControlPlaneMachinesReady": ("True", "Ready"),
        "WorkerMachinesReady": ("True", "Ready"),
        "ControlPlaneMachinesUpToDate": ("True", "UpToDate"),
        "WorkerMachinesUpToDate": ("True", "UpToDate"),
        "Paused": ("False", "NotPaused"),
        "Deleting": ("False", "NotDeleting"),
    }
