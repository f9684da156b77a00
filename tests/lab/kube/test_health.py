"""Nodes that fall silent, and their replacement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.kube.fleet import Cluster, conditions_of
from tests.lab.kube.running import RunningKube, running, until

pytestmark = pytest.mark.lab


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three control planes and two workers on three nodes. Time stands still for health checks until a test sets a speed."""
    with running(tmp_path, proxmox=True, speed=0) as kube:
        made = Cluster(kube=kube, name="sturdy")
        made.build(control_planes=3, workers=2)
        yield made


_FIVE_MINUTES_IN_FIVE_SECONDS = 60.0


def _stop(kube: RunningKube, name: str) -> None:
    server = kube.proxmox.server
    kube.loop.within(lambda: server.power_off(next(vm for vm in server.vms if vm.name == name)))


def _going(cluster: Cluster) -> set[str]:
    """The machines that are being deleted."""
    return {machine["metadata"]["name"] for machine in cluster.machines() if "deletionTimestamp" in machine["metadata"]}


def test_silent_worker_is_replaced_after_five_minutes(cluster: Cluster) -> None:
    (name, *_) = [machine["metadata"]["name"] for machine in cluster.machines("worker")]
    _stop(cluster.kube, name)
    assert "1 available replicas, at least 2 required" in cluster.condition("WorkersAvailable", "False")
    (found,) = [conditions_of(machine) for machine in cluster.machines("worker") if machine["metadata"]["name"] == name]
    assert found["NodeReady"][:2] == ("Unknown", "NodeReadyUnknown")
    cluster.kube.set_speed(_FIVE_MINUTES_IN_FIVE_SECONDS)
    until(lambda: name in _going(cluster) or name not in cluster.vms(), why=cluster.story)
    cluster.kube.set_speed(0)
    cluster.settled()
    assert name not in cluster.vms()
    assert len(cluster.machines("worker")) == 2


def test_worker_that_answers_again_in_time_stays(cluster: Cluster) -> None:
    (name, *_) = [machine["metadata"]["name"] for machine in cluster.machines("worker")]
    _stop(cluster.kube, name)
    cluster.condition("WorkersAvailable", "False")
    server = cluster.kube.proxmox.server
    cluster.kube.loop.within(lambda: server.power_on(next(vm for vm in server.vms if vm.name == name)))
    cluster.settled()
    assert name in cluster.vms()


def test_lost_proxmox_node_costs_its_machines_and_they_come_back_elsewhere(cluster: Cluster) -> None:
    kube = cluster.kube
    lost = {vm.name for vm in cluster.vms().values() if vm.node == "pve3"}
    assert lost
    kube.loop.do(kube.proxmox.set_node("pve3", online=False, crash=True))
    cluster.annotate(**{"kubehenge.dev/online-nodes": "pve1,pve2"})
    kube.set_speed(_FIVE_MINUTES_IN_FIVE_SECONDS)
    until(lambda: lost & _going(cluster), why=cluster.story)
    kube.loop.do(kube.proxmox.set_node("pve3", online=True))
    until(lambda: lost <= _going(cluster) | (lost - set(cluster.vms())), within_s=60, why=cluster.story)
    kube.set_speed(0)
    cluster.settled()
    assert not lost & set(cluster.vms())
    assert {vm.node for vm in cluster.vms().values()} == {"pve1", "pve2"}


def test_control_plane_without_quorum_is_not_available_and_not_touched(cluster: Cluster) -> None:
    names = [machine["metadata"]["name"] for machine in cluster.machines("control-plane")]
    for name in names[:2]:
        _stop(cluster.kube, name)
    assert "at least 2 required for etcd quorum" in cluster.condition("ControlPlaneAvailable", "False", words="1 of 3")
    cluster.condition("Available", "False", words="RemoteConnectionProbe")
    cluster.kube.set_speed(_FIVE_MINUTES_IN_FIVE_SECONDS)
    until(lambda: [m for m in cluster.machines("control-plane") if conditions_of(m)["HealthCheckSucceeded"][1] == "UnhealthyNode"])
    assert {machine["metadata"]["name"] for machine in cluster.machines("control-plane")} == set(names)
    assert not _going(cluster)
