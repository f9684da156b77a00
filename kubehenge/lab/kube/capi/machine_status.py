"""What a Machine says about itself: phase and conditions, from its VM, its node and its owner."""

from __future__ import annotations

from dataclasses import dataclass

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.capi.conditions import Condition, condition, find, flag
from kubehenge.lab.kube.capi.infrastructure import is_provisioned
from kubehenge.lab.kube.capi.objects import CLONED_FROM, DEPLOYMENT_LABEL, Objects
from kubehenge.lab.kube.kinds import Obj

BOOTSTRAP = "lab.kubehenge.dev/bootstrap-settings"  # of a control plane and its machines: what else they are made from
REMEDIATE = "cluster.x-k8s.io/remediate-machine"
MARKED = "HasRemediateAnnotation"
STARTUP_TIMEOUT = "NodeStartupTimeout"
UNHEALTHY = "UnhealthyNode"
_HEALTH_WORDS = {
    STARTUP_TIMEOUT: "Health check failed: Node failed to report startup in 20m0s",
    MARKED: f"Health check failed: marked for remediation via {REMEDIATE} annotation",
    UNHEALTHY: "Health check failed: Condition Ready on Node is reporting status Unknown for more than 5m0s",
}
_NO_NODE = "Waiting for a Node with spec.providerID to exist"
_SILENT = "Kubelet stopped posting node status."


def machine_phase(machine: Obj, *, provisioned: bool, joined: bool) -> str:
    """Cluster API's word for where a Machine is."""
    if "deletionTimestamp" in machine["metadata"]:
        return "Deleting"
    if joined:
        return "Running"
    if provisioned:
        return "Provisioned"
    return "Provisioning" if machine["spec"].get("infrastructureRef") else "Pending"


def template_and_version(owner: Obj) -> tuple[str, str]:
    """The machine template and version that a control plane or MachineDeployment asks for."""
    spec = owner["spec"]
    if owner["kind"] == kinds.MACHINE_DEPLOYMENT.kind:
        machine = spec["template"]["spec"]
        return machine["infrastructureRef"]["name"], machine.get("version", "")
    return spec["machineTemplate"]["spec"]["infrastructureRef"]["name"], spec["version"]


def why_outdated(objects: Objects, machine: Obj, infra: Obj | None) -> str:
    """What tells a Machine from what its owner would make today; '' when nothing does."""
    owner = holder_of(objects, machine)
    return "" if owner is None or infra is None else outdated(machine, infra, owner)


def holder_of(objects: Objects, machine: Obj) -> Obj | None:
    """The control plane or MachineDeployment that a Machine is of."""
    meta = machine["metadata"]
    if name := meta["labels"].get(DEPLOYMENT_LABEL):
        return objects.find(kinds.MACHINE_DEPLOYMENT, meta["namespace"], name)
    for entry in meta.get("ownerReferences") or []:
        kind = kinds.find_by_name(entry["apiVersion"].partition("/")[0], entry["kind"])
        if kind is not None:
            return objects.find(kind, meta["namespace"], entry["name"])
    return None


def bootstrap_of(owner: Obj) -> str:
    """What else than template and version the machines of an owner are made from."""
    if owner["kind"] == kinds.MACHINE_DEPLOYMENT.kind:
        return str((owner["spec"]["template"]["spec"]["bootstrap"].get("configRef") or {}).get("name", ""))
    return str((owner["metadata"].get("annotations") or {}).get(BOOTSTRAP, ""))


def outdated(machine: Obj, infra: Obj, owner: Obj) -> str:
    """What tells a Machine from those that its owner makes now; '' when nothing does."""
    template, version = template_and_version(owner)
    has = machine["spec"].get("version")
    cloned_from = (infra["metadata"].get("annotations") or {}).get(CLONED_FROM)
    made_from = (machine["metadata"].get("annotations") or {}).get(BOOTSTRAP, "")
    reasons = [
        f"* Version {has}, {version} required" if has != version else "",
        "* ProxmoxMachine is not up-to-date" if cloned_from != template else "",
        "* KubeadmConfig is not up-to-date" if made_from != bootstrap_of(owner) else "",
    ]
    return "\n".join(filter(None, reasons))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """
    What Cluster API sees of a machine's node.

    Shape: `joined` once it has a Node; `answers` while its kubelet reports; `failed` is the reason of the health check, empty while it
    passes; `checked` when there is one.
    """

    joined: bool
    answers: bool = True
    failed: str = ""
    checked: bool = True


def machine_conditions(machine: Obj, infra: Obj | None, node: NodeState, *, outdated_by: str) -> list[Condition]:
    """The conditions of a Machine."""
    provisioned, deleting = is_provisioned(infra), "deletionTimestamp" in machine["metadata"]
    vm = find(infra, "Ready") if infra is not None else None
    why = vm["message"] if vm is not None and vm["status"] != "True" else ""
    waits = why or "ProxmoxMachine status.initialization.provisioned is false"
    healthy = node.joined and node.answers
    ready = provisioned and healthy and not node.failed and not deleting
    parts = [
        *([] if provisioned else [f"* InfrastructureReady: {waits}"]),
        *([] if node.joined else [f"* NodeHealthy: {_NO_NODE}"]),
        *([f"* NodeHealthy: {_SILENT}"] if node.joined and not node.answers else []),
        *([f"* HealthCheckSucceeded: {_HEALTH_WORDS[node.failed]}"] if node.failed else []),
    ]
    passed = flag("HealthCheckSucceeded", not node.failed, "HealthCheckSucceeded", node.failed, _HEALTH_WORDS.get(node.failed, ""))
    return [
        condition("BootstrapConfigReady", True, "Ready"),
        flag("InfrastructureReady", provisioned, "InfoReported", "NotReady", "" if provisioned else waits),
        *_node_conditions(node),
        *([passed] if node.checked else []),
        flag("UpToDate", not outdated_by, "UpToDate", "NotUpToDate", outdated_by),
        flag("Ready", ready, "Ready", "NotReady", "\n".join(parts)),
        flag("Available", ready, "Available", "NotReady"),
        condition("Updating", False, "NotUpdating"),
        condition("Deleting", deleting, "DeletionInProgress" if deleting else "NotDeleting"),
        condition("Paused", False, "NotPaused"),
    ]


def _node_conditions(node: NodeState) -> list[Condition]:
    if not node.joined:
        return [
            condition("NodeReady", None, "InspectionFailed", "Node does not exist yet"),
            condition("NodeHealthy", None, "InspectionFailed", _NO_NODE),
        ]
    if not node.answers:
        return [
            condition("NodeReady", None, "NodeReadyUnknown", f"* Node.Ready: {_SILENT}"),
            condition("NodeHealthy", None, "NodeHealthUnknown", f"* Node.Ready: {_SILENT}"),
        ]
    return [condition("NodeReady", True, "NodeReady"), condition("NodeHealthy", True, "NodeHealthy")]
