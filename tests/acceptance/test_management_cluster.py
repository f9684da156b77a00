"""A management cluster that is not as it should be: each case is told with what to do, and harms nothing else (MODEL 2, 4, 21, 31)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.acceptance.files import cluster
from tests.acceptance.running import Site
from tests.acceptance.test_faults import is_told, trouble

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(600)]

CLUSTERS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/clusters/clusters"
CLASSES = "/apis/cluster.x-k8s.io/v1beta2/namespaces/kubehenge-system/clusterclasses"
WEBHOOK = (
    'Internal error occurred: failed calling webhook "default.cluster.cluster.x-k8s.io": failed to call webhook: Post '
    '"https://capi-webhook-service.capi-system.svc:443/x?timeout=10s": dial tcp 10.43.0.9:443: connect: connection refused'
)


@pytest.fixture(scope="module")
def running(sites: Callable[..., Site]) -> Site:
    site = sites()
    site.start()
    site.clone.push({"steady.yaml": cluster("steady", 900)})
    site.wait_until_up("clusters/steady")
    return site


@pytest.fixture
def site(running: Site) -> Iterator[Site]:
    yield running
    running.no_faults()
    running.wait(lambda: not trouble(running), "it does not recover")


def scale(site: Site) -> None:
    """What has nothing to do with the trouble is scaled by a push."""
    machines = site.clusters()["clusters/steady"]["machines"]
    site.clone.push({"steady.yaml": cluster("steady", 900, workers=machines)})
    site.wait_until_up("clusters/steady", machines=machines + 1)


def says(site: Site, scope: str, words: str) -> None:
    """A run of the cluster says it, on its page and on the command line."""

    def saying() -> int | None:
        for row in site.rows("SELECT id FROM run WHERE scope = ? ORDER BY id DESC", scope):
            run = json.loads(site.must("runs", str(row["id"]), "-o", "json").out)
            if any(words in line["text"] for line in run["log"]):
                return int(row["id"])
        return None

    run = site.wait(saying, f"no run says {words!r}")
    assert words in site.administrator.open(f"/runs/{run}").words


def test_webhooks_that_are_away_are_told_and_hold_up_only_what_needs_them(site: Site, net: int) -> None:
    name, scope = f"w{net}", f"clusters/w{net}"
    site.fault("kube", "status", method="PATCH", path=f"/clusters/({name}|kubehenge-doctor)", status=500, reason=WEBHOOK)
    site.clone.push({f"{name}.yaml": cluster(name, net)})
    words = "Cluster API's webhook default.cluster.cluster.x-k8s.io is away (10.43.0.9:443: connect: connection refused). Nothing was done."
    says(site, scope, words)
    assert words in site.kh("doctor").out
    assert not trouble(site)  # reading goes on
    scale(site)
    site.no_faults()
    site.wait_until_up(scope)


def test_without_a_resource_definition_the_loop_says_what_to_install_and_the_rest_goes_on(site: Site, net: int) -> None:
    name, scope = f"w{net}", f"clusters/w{net}"
    site.stop()
    site.fault("kube", "html", status=404, path="/apis/cluster.x-k8s.io/v1beta2")
    site.start()
    site.forget_sessions()
    is_told(site, "the CRD clusters.cluster.x-k8s.io is missing. Install Cluster API 1.11 or newer", log="tier_not_read")
    assert site.clusters()["clusters/steady"]["available"]
    assert site.administrator.open("/clusters/clusters/steady").find("Available")
    site.clone.push({f"{name}.yaml": cluster(name, net)})
    made = "SELECT 1 FROM resource WHERE kind = 'proxmox.token' AND cluster_id = (SELECT id FROM cluster WHERE name = ?)"
    site.wait(lambda: site.rows(made, name), "Proxmox VE's part is not made")
    says(site, scope, "the CRD clusters.cluster.x-k8s.io is missing")
    site.no_faults()
    site.wait_until_up(scope)


def test_a_cluster_of_the_same_name_that_is_not_ours_is_told_and_never_touched(site: Site, net: int) -> None:
    name, scope = f"w{net}", f"clusters/w{net}"
    topology = {"classRef": {"name": "someone-elses", "namespace": "clusters"}, "version": "v1.36.5"}
    body = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": name}, "spec": {"topology": topology}}
    theirs = site.kube("POST", f"{CLUSTERS}?fieldManager=kubectl-create", body)
    site.clone.push({f"{name}.yaml": cluster(name, net)})
    plan = site.wait(lambda: next((row for row in site.plans(scope) if row["obstacles"] != "[]"), None), "it is planned over it")
    page = site.administrator.open(f"/plans/{plan['id']}").words
    assert "one of that name that bears no mark of Kubehenge" in page
    assert "Give the cluster another name in its file, or remove the other one" in page
    assert site.kh("approve", str(plan["id"]), "--yes").code != 0
    now = site.kube("GET", f"{CLUSTERS}/{name}")
    assert (now["spec"], now["metadata"]["uid"]) == (theirs["spec"], theirs["metadata"]["uid"])
    assert not any("kubehenge.dev" in key for key in now["metadata"].get("annotations", {}))
    scale(site)
    site.clone.push({f"{name}.yaml": None})


def test_a_field_that_another_manager_took_is_told_with_its_name(site: Site, net: int) -> None:
    name, scope = f"w{net}", f"clusters/w{net}"
    site.clone.push({f"{name}.yaml": cluster(name, net, workers=2)})
    site.wait_until_up(scope)
    theirs = site.kube("GET", f"{CLUSTERS}/{name}")
    theirs["spec"]["topology"]["workers"]["machineDeployments"][0]["replicas"] = 1
    site.kube("PUT", f"{CLUSTERS}/{name}?fieldManager=gitops-tool", theirs)
    says(site, scope, '"gitops-tool" owns .spec.topology.workers.machineDeployments')
    says(site, scope, "put the value into the declaration, or have that manager give the field up")
    assert site.kube("GET", f"{CLUSTERS}/{name}")["spec"] == theirs["spec"]
    scale(site)


def test_a_cluster_waits_for_a_class_that_does_not_exist_and_says_so(site: Site, net: int) -> None:
    name, scope, missing = f"w{net}", f"clusters/w{net}", "kubehenge-rke2-0123456789"
    site.clone.push({f"{name}.yaml": cluster(name, net).replace("kubehenge-rke2", missing)})
    words = f"waits for kube.class/kubehenge-system/{missing}"
    waiting = "SELECT run_id FROM step WHERE waits_on = ?"
    [row] = site.wait(lambda: site.rows(waiting, words), "no run waits for it")
    assert missing in site.administrator.open(f"/runs/{row['run_id']}").words
    scale(site)
    site.clone.push({f"{name}.yaml": cluster(name, net)})
    site.wait_until_up(scope)


def test_a_class_that_somebody_changed_is_put_back(site: Site) -> None:
    [name] = [
        one["metadata"]["name"] for one in site.kube("GET", CLASSES)["items"] if one["metadata"]["name"].startswith("kubehenge-rke2-")
    ]
    made = site.kube("GET", f"{CLASSES}/{name}")
    theirs = json.loads(json.dumps(made))
    theirs["spec"]["controlPlane"]["healthCheck"]["checks"]["nodeStartupTimeoutSeconds"] = 60
    site.kube("PUT", f"{CLASSES}/{name}?fieldManager=kubectl-edit", theirs)
    [plan] = site.wait(lambda: [row for row in site.plans("site:classes") if row["state"] == "open"], "no plan says so")
    page = site.administrator.open(f"/plans/{plan['id']}").words
    assert "changed by someone else" in page
    assert "nodeStartupTimeoutSeconds" in page
    scale(site)
    site.must("approve", str(plan["id"]), "--yes")
    site.wait(lambda: site.kube("GET", f"{CLASSES}/{name}")["spec"] == made["spec"], "it is not put back")


def test_a_class_that_somebody_deleted_is_made_again(site: Site) -> None:
    site.kube("DELETE", f"{CLASSES}/kubehenge-k3s")
    site.wait(lambda: "kubehenge-k3s" in {one["metadata"]["name"] for one in site.kube("GET", CLASSES)["items"]}, "it is not made again")
    scale(site)
