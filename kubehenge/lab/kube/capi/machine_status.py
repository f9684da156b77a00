"""What a Machine says about itself: phase and conditions, from its VM, its node and its owner."""

from __future__ import annotations

from dataclasses import dataclass

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.capi.conditions import Condition, condition, find, flag
from kubehenge.lab.kube.capi.infrastructure import is_provisioned
from kubehenge.lab.kube.capi.objects import CLONED_FROM, Objects
from kubehenge.lab.kube.kinds import Obj

STARTUP_TIMEOUT = "NodeStartupTimeout"
UNHEALTHY = "UnhealthyNode"
_HEALTH_WORDS = {
    STARTUP_TIMEOUT: "Health check failed: Node failed to report startup in 20m0s",
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


def is_up_to_date(objects: Objects, machine: Obj, infra: Obj | None) -> bool:
    """Whether a Machine is what its owner would make today."""
    meta = machine["metadata"]
    owners = meta.get("ownerReferences") or []
    if not owners or infra is None:
        return False
    group = owners[0]["apiVersion"].partition("/")[0]
    kind = kinds.find_by_name(group, owners[0]["kind"])
    owner = objects.find(kind, meta["namespace"], owners[0]["name"]) if kind is not None else None
    return owner is not None and matches(machine, infra, owner)


def matches(machine: Obj, infra: Obj, owner: Obj) -> bool:
    """Whether a Machine was made from the template and version that this owner asks for."""
    template, version = template_and_version(owner)
    cloned_from = (infra["metadata"].get("annotations") or {}).get(CLONED_FROM)
    return bool(cloned_from == template and machine["spec"].get("version") == version)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """
    What Cluster API sees of a machine's node.

    Shape: `joined` once it has a Node; `answers` while its kubelet reports; `failed` is the reason of the health check, empty while it passes.
    """

    joined: bool
    answers: bool = True
    failed: str = ""


def machine_conditions(machine: Obj, infra: Obj | None, node: NodeState, *, up_to_date: bool) -> list[Condition]:
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
        *(["* Deleting: Machine deletion in progress"] if deleting else []),
    ]
    return [
        condition("BootstrapConfigReady", True, "Ready"),
        flag("InfrastructureReady", provisioned, "Ready", "NotReady", "" if provisioned else waits),
        *_node_conditions(node),
        flag("HealthCheckSucceeded", not node.failed, "HealthCheckSucceeded", node.failed, _HEALTH_WORDS.get(node.failed, "")),
        flag("UpToDate", up_to_date, "UpToDate", "NotUpToDate", "" if up_to_date else "* the machine's template or version has changed"),
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
