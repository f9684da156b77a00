"""Whole lives of clusters: real Cluster API, real capmox, the simulated Proxmox VE, simulated guests."""

from __future__ import annotations

from tests.plane import objects
from tests.plane.site import VERSION, PlaneSite


def test_a_kubeadm_cluster_becomes_available_is_scaled_and_is_deleted(site: PlaneSite) -> None:
    site.apply(*objects.kubeadm_class(site.namespace, VERSION))
    body = site.cluster("one")
    site.apply(body)
    site.until(body, Available="True", RemoteConnectionProbe="True")
    guests = site.guests()
    assert len(guests) == 2
    assert {guest.status for guest in guests} == {"running"}
    assert {guest.pool for guest in guests} == {"kubehenge"}
    assert {int(guest.config["memory"]) for guest in guests} == {2048}
    assert {guest.config["scsi0"].rpartition("size=")[2] for guest in guests} == {"20G"}

    workers = body["spec"]["topology"]["workers"]["machineDeployments"]
    workers[0]["replicas"] = 2
    site.apply(body)
    site.plane.until(lambda: len(_running(site)) == 3, within_s=180, what=lambda: str(site.list(objects.CORE, "Machine")))

    ids = {guest.vmid for guest in site.guests()}
    assert len(ids) == 3
    site.api.delete(f"/apis/{objects.CORE}/namespaces/{site.namespace}/clusters/one")
    site.until_gone(body)
    assert site.list(objects.CORE, "Machine") == []
    left = site.proxmox.running.within(lambda: {vm.vmid for vm in site.proxmox.running.server.vms})
    assert not ids & left


def test_a_k3s_cluster_by_hand_is_initialized(site: PlaneSite) -> None:
    version = "v1.34.1+k3s1"
    given = site.cluster("k3s")
    port = next(one["value"] for one in given["spec"]["topology"]["variables"] if one["name"] == "port")
    bodies = objects.k3s_cluster(site.namespace, "k3s", version=version, port=port, subnet="10.91.1")
    site.apply(*bodies)
    cluster = bodies[-1]
    site.until(cluster, ControlPlaneInitialized="True", InfrastructureReady="True")
    site.plane.until(lambda: len(_running(site)) == 1, within_s=120, what=lambda: str(site.list(objects.CORE, "Machine")))


def _running(site: PlaneSite) -> list[objects.Body]:
    return [one for one in site.list(objects.CORE, "Machine") if one.get("status", {}).get("phase") == "Running"]
