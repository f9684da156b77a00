"""From a pushed file to a running cluster and back to nothing: Kubehenge as a process, on the real API server and controllers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubehenge.lab.plane.programs import ProgramSet
from tests.plane.objects import CORE
from tests.plane.whole import NAMESPACE, VERSIONS, Whole, whole_site

FAST = 600.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, plane_programs: ProgramSet) -> Iterator[Whole]:
    with whole_site(tmp_path_factory.mktemp("whole"), plane_programs, speed=FAST) as made:
        made.start()
        yield made
        made.stop()


def test_clusters_live_by_pushes_and_approvals_alone(site: Whole) -> None:
    for distribution in ("k3s", "kubeadm"):
        _lives(site, distribution)


def _lives(site: Whole, distribution: str) -> None:
    name, (old, new) = f"{distribution}-a", VERSIONS[distribution][:2]
    size = {"cores": 3, "memoryMiB": 3072, "diskGiB": 41}

    def push(**options: object) -> None:
        site.clone.push({f"{name}.yaml": site.file(name, distribution, **options)})

    def approve(*more: str) -> None:
        plan = site.until(lambda: site.waiting_plan(name), "no plan waits for approval")
        site.do("approve", str(plan["plan"]), "--yes", *more)

    push(variables={"workerMachine": size})
    site.until(lambda: site.is_available(name, machines=2), f"{name} is not available")
    site.until(lambda: site.plans_end(name), "the plan is not done")
    _check_made(site, name, distribution, size)

    larger = {"workerMachine": {**size, "memoryMiB": 4096}}
    control_planes, workers = set(site.machines(name, control_plane=True)), set(site.machines(name, control_plane=False))
    push(variables=larger)
    approve()
    site.until(lambda: not workers & set(site.machines(name)) and site.is_available(name, machines=2), "workers do not roll")
    assert set(site.machines(name, control_plane=True)) == control_planes
    site.until(lambda: site.plans_end(name), "the plan is not done")

    push(variables=larger, version=new)
    approve()
    site.until(lambda: site.versions(name) == {new} and site.is_available(name, machines=2), f"{name} stays at {old}", within_s=420)
    site.until(lambda: site.plans_end(name), "the plan is not done")

    push(variables=larger, version=new, control_planes=3, workers=3)
    site.until(lambda: site.is_available(name, machines=6), f"{name} is not scaled", within_s=420)

    site.clone.push({f"{name}.yaml": None})
    approve("--name", f"{NAMESPACE}/{name}")
    site.until(lambda: site.find(CORE, "Cluster", name) is None, f"{name} does not go")
    site.until(lambda: site.plans_end(name), "its plan does not end")
    assert site.proxmox.within(lambda: [vm.name for vm in site.proxmox.server.vms if vm.name.startswith(name)]) == []


def _check_made(site: Whole, name: str, distribution: str, size: dict[str, int]) -> None:
    """The Cluster is of the class that Kubehenge pinned it to, and its VMs are what the file says."""
    body = site.find(CORE, "Cluster", name)
    assert body is not None
    assert body["spec"]["topology"]["classRef"]["name"].startswith(f"kubehenge-{distribution}-")
    first, last = (int(one) for one in body["metadata"]["annotations"]["kubehenge.dev/vm-id-range"].split("-"))
    vms = site.vms(name)
    assert len(vms) == 2
    assert all(first <= vm.vmid <= last for vm in vms)
    [worker] = [vm for vm in vms if vm.name in site.machines(name, control_plane=False)]
    config = site.proxmox.call("GET", f"/nodes/{worker.node}/qemu/{worker.vmid}/config").data
    assert (int(config["cores"]), int(config["memory"])) == (size["cores"], size["memoryMiB"])
    assert f"size={size['diskGiB']}G" in config["scsi0"]
    pool = site.proxmox.call("GET", "/pools", poolid=f"kubehenge/{NAMESPACE}.{name}").data
    assert {vm.vmid for vm in vms} <= {member["vmid"] for member in pool[0]["members"]}
