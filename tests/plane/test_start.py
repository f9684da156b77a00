"""A plane starts, with every manager signed in as its own release's service account, and nothing more."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubehenge.lab.plane.client import ApiError, path_of
from kubehenge.lab.plane.managers import MANAGERS
from tests.fakes.plane import RunningPlane, processes_of
from tests.plane import objects
from tests.plane.site import VERSION, PlaneSite

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
EVERYTHING = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectAccessReview",
    "spec": {"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}},
}
NAMES = [manager.name for manager in MANAGERS]


def test_all_its_processes_run(plane: RunningPlane) -> None:
    expected = {"plane", "etcd", "kube-apiserver", "kube-controller-manager", "guestsim", *NAMES}
    plane.until(lambda: set(processes_of(plane)) == expected, what=lambda: str(processes_of(plane)))


@pytest.mark.parametrize("name", [*NAMES, "guestsim"])
def test_who_signs_in_is_a_service_account_that_may_not_do_everything(plane: RunningPlane, name: str) -> None:
    api = plane.as_(name)
    review = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", REVIEW)
    assert review["status"]["userInfo"]["username"] == plane.about["accounts"][name]
    access = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", EVERYTHING)
    assert not access["status"]["allowed"]
    with pytest.raises(ApiError, match="cannot list resource") as refused:
        api.get("/apis/apps/v1/daemonsets")
    assert refused.value.code == 403


def test_managers_write_as_their_own_accounts(site: PlaneSite) -> None:
    """What the IPAM provider's own account may do was enough for it, and no manager was refused anything."""
    refused = {name: [line for line in site.plane.log(name).splitlines() if "is forbidden" in line] for name in NAMES}
    assert {name: lines[:2] for name, lines in refused.items() if lines} == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_release_is_installed_with_its_webhooks(plane: RunningPlane, name: str) -> None:
    if name not in plane.about["webhooks"]:
        pytest.skip("where listeners cannot be moved, only one of those with a fixed port has webhooks")
    port = plane.about["webhooks"][name]
    found = plane.api.get("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations")["items"]
    urls = [hook["clientConfig"].get("url", "") for one in found for hook in one["webhooks"]]
    assert any(url.startswith(f"https://127.0.0.1:{port}/") for url in urls)


def test_objects_are_read_in_an_older_version_by_conversion(site: PlaneSite) -> None:
    """Cluster API's own words: in v1beta1 a reference has a version, which only its webhook knows."""
    body = site.cluster("paused")
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ProxmoxCluster", "name": "paused"}
    body["spec"] = {"paused": True, "infrastructureRef": reference}
    site.apply(body)
    old = site.api.get(f"/apis/cluster.x-k8s.io/v1beta1/namespaces/{site.namespace}/clusters/paused")
    assert old["spec"]["infrastructureRef"]["apiVersion"] == "infrastructure.cluster.x-k8s.io/v1alpha2"


def test_capmox_converts_its_objects_too(site: PlaneSite) -> None:
    body = objects.kubeadm_class(site.namespace, VERSION)[1]
    site.apply(body)
    old = site.api.get(path_of(body).replace("v1alpha2", "v1alpha1"))
    assert old["spec"]["template"]["spec"]["network"]["default"]["bridge"] == "vmbr0"


def test_nothing_listens_beyond_loopback(plane: RunningPlane) -> None:
    if len(plane.about["webhooks"]) < len(NAMES):
        pytest.skip("where listeners cannot be moved, managers listen at every address, as in their releases")
    pids = processes_of(plane)
    assert not {name: places for name, pid in pids.items() if (places := _listens_elsewhere(pid))}


def _listens_elsewhere(pid: int) -> list[str]:
    """Local addresses, as the kernel writes them, at which a process listens and that are not loopback's."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            sockets.add(target[8:-1])
    out = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            local, state, inode = (fields := line.split())[1], fields[3], fields[9]
            if state == "0A" and inode in sockets and not local.startswith(("0100007F:", "0000000000000000FFFF00000100007F:")):
                out.append(local)
    return out
