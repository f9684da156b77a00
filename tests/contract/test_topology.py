"""What Cluster API makes of a Cluster: which objects, under which names, with which labels and owners, in which order."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.contract.objects import Body
from tests.contract.story import CONTROL_PLANE, FIRST, NAME, POOL, VERSIONS, Story, conditions, control_planes, workers
from tests.contract.timeline import World

CLUSTER_LABEL, OWNED = "cluster.x-k8s.io/cluster-name", "topology.cluster.x-k8s.io/owned"
POOL_LABEL, DEPLOYMENT = "topology.cluster.x-k8s.io/deployment-name", "cluster.x-k8s.io/deployment-name"
CLONED = "cluster.x-k8s.io/cloned-from-name"
RANDOM = "[bcdfghjklmnpqrstvwxz2456789]{5}"
# Kind, and the form of the name of the one that is there.
NAMES = {
    "ProxmoxCluster": f"{NAME}-{RANDOM}",
    "KubeadmControlPlane": f"{NAME}-{RANDOM}",
    "MachineDeployment": f"{NAME}-{POOL}-{RANDOM}",
    "MachineSet": f"{NAME}-{POOL}-{RANDOM}-{RANDOM}",
    "MachineHealthCheck": f"{NAME}-{POOL}-{RANDOM}",
}


@pytest.fixture
def built(story: Story) -> World:
    return story.after("create")


def only(world: World, kind: str) -> Body:
    (body,) = world[kind].values()
    return body


def owners(body: Body) -> list[tuple[str, str, bool]]:
    """Kind, name, and whether it controls."""
    return [(one["kind"], one["name"], one.get("controller", False)) for one in body["metadata"]["ownerReferences"]]


@pytest.mark.parametrize("kind", NAMES)
def test_there_is_one_with_a_name_of_this_form(built: World, kind: str) -> None:
    assert re.fullmatch(NAMES[kind], only(built, kind)["metadata"]["name"])


@pytest.mark.parametrize(("kind", "controls"), [("ProxmoxCluster", True), ("KubeadmControlPlane", True), ("MachineDeployment", False)])
def test_it_belongs_to_the_cluster(built: World, kind: str, controls: bool) -> None:
    assert owners(only(built, kind)) == [("Cluster", NAME, controls)]


@pytest.mark.parametrize(
    "kind", ["Cluster", "ProxmoxCluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "MachineHealthCheck"]
)
def test_it_bears_the_labels_of_the_cluster(built: World, kind: str) -> None:
    labels = only(built, kind)["metadata"]["labels"]
    assert (labels[CLUSTER_LABEL], labels[OWNED]) == (NAME, "")


@pytest.mark.parametrize("kind", ["ProxmoxMachineTemplate", "KubeadmConfigTemplate"])
def test_templates_are_cloned_from_those_of_the_class(built: World, kind: str) -> None:
    clones = {name: body for name, body in built[kind].items() if name != FIRST}
    assert len(clones) == (2 if kind == "ProxmoxMachineTemplate" else 1)
    for name, body in clones.items():
        pool = body["metadata"]["labels"].get(POOL_LABEL)
        assert re.fullmatch(f"{NAME}-{RANDOM}" if pool is None else f"{NAME}-{POOL}-{RANDOM}", name)
        assert body["metadata"]["annotations"][CLONED] == FIRST
        assert owners(body) == [("Cluster", NAME, False)]


def test_templates_of_the_class_belong_to_it(built: World) -> None:
    for kind in ("ProxmoxMachineTemplate", "KubeadmConfigTemplate"):
        assert owners(built[kind][FIRST]) == [("ClusterClass", FIRST, False)]


def test_class_says_that_it_is_ready(built: World) -> None:
    body = built["ClusterClass"][FIRST]
    assert conditions(body) == {
        "RefVersionsUpToDate": ("True", "RefVersionsUpToDate"),
        "VariablesReady": ("True", "VariablesReady"),
        "Paused": ("False", "NotPaused"),
    }
    assert body["status"]["observedGeneration"] == body["metadata"]["generation"]
    assert [variable["name"] for variable in body["status"]["variables"]] == ["addresses", "memoryMiB", "port"]


def test_cluster_refers_to_its_parts_and_has_their_endpoint(built: World) -> None:
    spec, infra = built["Cluster"][NAME]["spec"], only(built, "ProxmoxCluster")
    group = {"ProxmoxCluster": "infrastructure", "KubeadmControlPlane": "controlplane"}
    for field, kind in (("infrastructureRef", "ProxmoxCluster"), ("controlPlaneRef", "KubeadmControlPlane")):
        name = only(built, kind)["metadata"]["name"]
        assert spec[field] == {"apiGroup": f"{group[kind]}.cluster.x-k8s.io", "kind": kind, "name": name}
    variables = {entry["name"]: entry["value"] for entry in spec["topology"]["variables"]}
    assert spec["controlPlaneEndpoint"] == {"host": "127.0.0.1", "port": variables["port"]} == infra["spec"]["controlPlaneEndpoint"]


def test_patches_bring_the_variables_into_the_objects(built: World) -> None:
    spec = built["Cluster"][NAME]["spec"]
    variables = {entry["name"]: entry["value"] for entry in spec["topology"]["variables"]}
    assert only(built, "ProxmoxCluster")["spec"]["ipv4Config"]["addresses"] == variables["addresses"]
    assert {body["spec"]["memoryMiB"] for body in built["ProxmoxMachine"].values()} == {variables["memoryMiB"]}


def test_control_plane_has_what_the_class_and_the_cluster_say(built: World) -> None:
    spec = only(built, "KubeadmControlPlane")["spec"]
    arguments = spec["kubeadmConfigSpec"]["initConfiguration"]["nodeRegistration"]["kubeletExtraArgs"]
    assert [argument["name"] for argument in arguments] == ["provider-id"]
    assert (spec["replicas"], spec["version"]) == (1, VERSIONS[0])
    assert spec["machineTemplate"]["spec"]["infrastructureRef"]["kind"] == "ProxmoxMachineTemplate"
    assert spec["machineTemplate"]["metadata"]["labels"] == {CLUSTER_LABEL: NAME, OWNED: ""}


def test_machine_deployment_selects_its_machines(built: World) -> None:
    spec = only(built, "MachineDeployment")["spec"]
    labels = {CLUSTER_LABEL: NAME, OWNED: "", POOL_LABEL: POOL}
    assert spec["selector"]["matchLabels"] == labels
    assert spec["template"]["metadata"]["labels"] == labels
    assert (spec["replicas"], spec["template"]["spec"]["version"], spec["clusterName"]) == (1, VERSIONS[0], NAME)
    assert spec["template"]["spec"]["bootstrap"]["configRef"]["kind"] == "KubeadmConfigTemplate"
    assert spec["remediation"] == {"maxInFlight": 1}


def test_machine_set_belongs_to_its_deployment(built: World) -> None:
    deployment, found = only(built, "MachineDeployment"), only(built, "MachineSet")
    assert owners(found) == [("MachineDeployment", deployment["metadata"]["name"], True)]
    assert found["metadata"]["labels"][DEPLOYMENT] == deployment["metadata"]["name"]
    assert found["spec"]["template"]["spec"] == deployment["spec"]["template"]["spec"]
    assert found["spec"]["replicas"] == 1


def test_health_check_is_that_of_the_class(built: World) -> None:
    check, deployment = only(built, "MachineHealthCheck"), only(built, "MachineDeployment")
    assert check["metadata"]["name"] == deployment["metadata"]["name"]
    assert check["spec"]["selector"]["matchLabels"] == {OWNED: "", POOL_LABEL: POOL}
    assert check["spec"]["checks"]["nodeStartupTimeoutSeconds"] == 1200
    assert owners(check) == [("Cluster", NAME, False)]


def test_machine_of_the_control_plane(built: World) -> None:
    ((name, body),) = control_planes(built).items()
    holder = only(built, "KubeadmControlPlane")["metadata"]["name"]
    assert re.fullmatch(f"{holder}-{RANDOM}", name)
    assert owners(body) == [("KubeadmControlPlane", holder, True)]
    assert body["metadata"]["labels"] == {
        CLUSTER_LABEL: NAME,
        OWNED: "",
        CONTROL_PLANE: "",
        "cluster.x-k8s.io/control-plane-name": holder,
    }
    _is_whole(built, name)


def test_machine_of_the_workers(built: World) -> None:
    ((name, body),) = workers(built).items()
    made_by = only(built, "MachineSet")["metadata"]
    assert re.fullmatch(f"{made_by['name']}-{RANDOM}", name)
    assert owners(body) == [("MachineSet", made_by["name"], True)]
    labels = dict(body["metadata"]["labels"])
    assert labels.pop("machine-template-hash") == made_by["labels"]["machine-template-hash"]
    assert labels == {
        CLUSTER_LABEL: NAME,
        OWNED: "",
        POOL_LABEL: POOL,
        DEPLOYMENT: only(built, "MachineDeployment")["metadata"]["name"],
        "cluster.x-k8s.io/set-name": made_by["name"],
    }
    _is_whole(built, name)


def _is_whole(world: World, name: str) -> None:
    machine, infra = world["Machine"][name], world["ProxmoxMachine"][name]
    assert machine["spec"]["infrastructureRef"] == {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ProxmoxMachine", "name": name}
    assert machine["spec"]["bootstrap"]["dataSecretName"] == name
    assert machine["spec"]["bootstrap"]["configRef"]["kind"] == "KubeadmConfig"
    assert machine["spec"]["providerID"] == infra["spec"]["providerID"]
    assert machine["metadata"]["finalizers"] == ["machine.cluster.x-k8s.io"]
    assert owners(infra) == [("Machine", name, True)]
    assert infra["metadata"]["finalizers"] == ["proxmoxmachine.infrastructure.cluster.x-k8s.io"]
    assert infra["metadata"]["annotations"][CLONED] in world["ProxmoxMachineTemplate"]
    status = machine["status"]
    assert (status["phase"], status["nodeRef"]["name"]) == ("Running", name)
    assert status["initialization"] == {"bootstrapDataSecretCreated": True, "infrastructureProvisioned": True}
    assert status["nodeInfo"]["kubeletVersion"] == VERSIONS[0]
    assert [address["type"] for address in status["addresses"]] == ["Hostname", "InternalIP"]
    assert infra["status"]["initialization"] == {"provisioned": True}
    assert infra["status"]["vmStatus"] == "ready"


def test_credentials_are_held_as_long_as_the_cluster_is_there(built: World) -> None:
    body = built["Secret"]["proxmox"]
    assert owners(body) == [("ProxmoxCluster", only(built, "ProxmoxCluster")["metadata"]["name"], False)]
    assert body["metadata"]["finalizers"] == ["proxmoxcluster.infrastructure.cluster.x-k8s.io/secret"]


def test_kubeconfig_belongs_to_the_control_plane(built: World) -> None:
    body = built["Secret"][f"{NAME}-kubeconfig"]
    assert owners(body) == [("KubeadmControlPlane", only(built, "KubeadmControlPlane")["metadata"]["name"], True)]
    assert (body["type"], body["metadata"]["labels"]) == ("cluster.x-k8s.io/secret", {CLUSTER_LABEL: NAME})
    assert list(body["data"]) == ["value"]


@pytest.mark.parametrize("suffix", ["ca", "sa", "etcd", "proxy"])
def test_keys_of_the_cluster_belong_to_the_control_plane(built: World, suffix: str) -> None:
    assert owners(built["Secret"][f"{NAME}-{suffix}"])[0][0] == "KubeadmControlPlane"


def test_objects_appear_in_this_order(story: Story) -> None:
    first: dict[str, int] = {}
    for event in story.events("create"):
        if event.type == "ADDED" and event.name.startswith(f"{NAME}-"):
            role = "control plane's" if CONTROL_PLANE in event.body["metadata"].get("labels", {}) else "worker's"
            name = f"{role} {event.kind}" if event.kind == "Machine" else event.kind
            first.setdefault(name, event.version)
    for order in (
        ["ProxmoxCluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "worker's Machine"],
        ["KubeadmControlPlane", "control plane's Machine", "worker's Machine"],
        ["MachineDeployment", "MachineHealthCheck"],
    ):
        assert sorted(order, key=first.__getitem__) == order


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ProxmoxCluster", {"Ready": ("True", "InfoReported"), "ProxmoxAvailable": ("True", "Provisioned")}),
        ("ProxmoxMachine", {"Ready": ("True", "InfoReported"), "VirtualMachineProvisioned": ("True", "Provisioned")}),
    ],
)
def test_infrastructure_says_only_this(built: World, kind: str, expected: dict[str, Any]) -> None:
    for body in built[kind].values():
        assert conditions(body) == expected
