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
    name, old, new = f"{distribution}-a", VERSIONS[distribution][0], VERSIONS[distribution][1]
    sizes = {"workerMachine": {"cores": 3, "memoryMiB": 3072, "diskGiB": 41}}

    def push(**options: object) -> None:
        site.clone.push({f"{name}.yaml": site.file(name, distribution, **options)})

    push(variables=sizes)
    site.until(lambda: site.is_available(name, machines=2), f"{name} is not available")
    body = site.find(CORE, "Cluster", name)
    assert body is not None
    assert body["spec"]["topology"]["classRef"]["name"].startswith(f"kubehenge-{distribution}-")
    first, last = (int(one) for one in body["metadata"]["annotations"]["kubehenge.dev/vm-id-range"].split("-"))
    vms = site.vms(name)
    assert len(vms) == 2
    assert all(first <= vm.vmid <= last for vm in vms)
    site.until(lambda: site.plans_end(name), "the plan is not done")

    push(variables=sizes, workers=2)
    site.until(lambda: site.is_available(name, machines=3), f"{name} is not scaled")

    control_planes, workers = set(site.machines(name, control_plane=True)), set(site.machines(name, control_plane=False))
    push(variables={"workerMachine": {"cores": 3, "memoryMiB": 4096, "diskGiB": 41}}, workers=2)
    plan = site.until(lambda: site.waiting_plan(name), "no plan waits for approval")
    site.do("approve", str(plan["plan"]), "--yes")
    site.until(
        lambda: site.is_available(name, machines=3) and not workers & set(site.machines(name, control_plane=False)), "workers do not roll"
    )
    assert set(site.machines(name, control_plane=True)) == control_planes

    push(variables={"workerMachine": {"cores": 3, "memoryMiB": 4096, "diskGiB": 41}}, workers=2, version=new)
    plan = site.until(lambda: site.waiting_plan(name), "no plan waits for approval")
    site.do("approve", str(plan["plan"]), "--yes")
    site.until(
        lambda: site.is_available(name, machines=3) and {one["spec"]["version"] for one in site.machines(name).values()} == {new},
        f"{name} is not upgraded from {old}",
        within_s=420,
    )

    site.clone.push({f"{name}.yaml": None})
    plan = site.until(lambda: site.waiting_plan(name), "no plan waits for approval")
    site.do("approve", str(plan["plan"]), "--yes", "--name", f"{NAMESPACE}/{name}")
    site.until(lambda: site.find(CORE, "Cluster", name) is None, f"{name} does not go")
    site.until(lambda: site.plans_end(name), "its plan does not end")
    assert site.proxmox.within(lambda: [vm.name for vm in site.proxmox.server.vms if vm.name.startswith(name)]) == []
