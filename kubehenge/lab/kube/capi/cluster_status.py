"""What a Cluster says about itself: phase, counts and conditions, rolled up from everything below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubehenge.lab.kube.capi.conditions import Condition, condition, find, flag, is_true
from kubehenge.lab.kube.capi.infrastructure import is_provisioned
from kubehenge.lab.kube.capi.objects import CONTROL_PLANE_LABEL
from kubehenge.lab.kube.capi.scaling import Counts
from kubehenge.lab.kube.kinds import Obj

_ROLLED_UP = {"RollingOut": "NotRollingOut", "ScalingUp": "NotScalingUp", "ScalingDown": "NotScalingDown", "Remediating": "NotRemediating"}
_NEEDED = ("RemoteConnectionProbe", "InfrastructureReady", "ControlPlaneAvailable", "WorkersAvailable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Everything below a Cluster, as it was read in one pass; `topology` is its condition TopologyReconciled."""

    cluster: Obj
    infra: Obj | None
    control_plane: Obj | None
    pools: Sequence[Obj]
    machines: Sequence[Obj]
    counts: Counts
    pool_counts: Sequence[Counts]
    topology: Condition
    deleting: Condition

    @property
    def initialized(self) -> bool:
        """Whether the API server of the cluster has answered once."""
        status = (self.control_plane or {}).get("status") or {}
        return bool((status.get("initialization") or {}).get("controlPlaneInitialized")) or is_true(self.cluster, "ControlPlaneInitialized")


def status_of(picture: Picture) -> tuple[Obj, list[Condition]]:
    """The Cluster's status and its conditions."""
    spec = picture.cluster["spec"]
    provisioned = is_provisioned(picture.infra)
    if "deletionTimestamp" in picture.cluster["metadata"]:
        phase = "Deleting"
    elif provisioned and spec.get("controlPlaneEndpoint"):
        phase = "Provisioned"
    else:
        phase = "Provisioning" if spec.get("infrastructureRef") else "Pending"
    status: Obj = {
        "phase": phase,
        "observedGeneration": picture.cluster["metadata"]["generation"],
        "controlPlane": _count_status([picture.counts]),
        "workers": _count_status(picture.pool_counts),
    }
    if provisioned or picture.initialized:
        status["initialization"] = {"infrastructureProvisioned": provisioned, "controlPlaneInitialized": picture.initialized}
    return status, _conditions(picture)


def _count_status(counts: Iterable[Counts]) -> Obj:
    every = list(counts)
    total = Counts(
        desired=sum(part.desired for part in every),
        replicas=sum(part.replicas for part in every),
        ready=sum(part.ready for part in every),
        up_to_date=sum(part.up_to_date for part in every),
    )
    versions = [version for part in every for version in part.versions]
    status = {"desiredReplicas": total.desired, **total.to_status()}
    if versions:
        status["versions"] = [{"version": version, "replicas": versions.count(version)} for version in sorted(set(versions))]
    return status


def _conditions(picture: Picture) -> list[Condition]:
    control = [machine for machine in picture.machines if CONTROL_PLANE_LABEL in machine["metadata"]["labels"]]
    workers = [machine for machine in picture.machines if CONTROL_PLANE_LABEL not in machine["metadata"]["labels"]]
    initialized = picture.initialized
    listed = [
        _infrastructure(picture.infra),
        flag(
            "ControlPlaneInitialized",
            initialized,
            "Initialized",
            "NotInitialized",
            "" if initialized else "Control plane not yet initialized",
        ),
        _control_plane(picture.control_plane),
        _workers(picture.pools),
        *_machine_conditions("ControlPlane", control),
        *_machine_conditions("Worker", workers),
        _probe(picture),
        *_rolled_up([holder for holder in (picture.control_plane, *picture.pools) if holder is not None]),
        picture.topology,
        picture.deleting,
        condition("Paused", False, "NotPaused"),
    ]
    return [_available(listed), *listed]


def _probe(picture: Picture) -> Condition:
    """Whether the cluster's API answers Cluster API."""
    if not picture.initialized:
        return condition("RemoteConnectionProbe", False, "ProbeFailed", "Remote connection not established yet")
    answers = picture.control_plane is not None and is_true(picture.control_plane, "Available")
    return flag("RemoteConnectionProbe", answers, "ProbeSucceeded", "ProbeFailed", "" if answers else "Remote connection probe failed")


def _infrastructure(infra: Obj | None) -> Condition:
    if infra is None:
        return condition("InfrastructureReady", False, "DoesNotExist", "ProxmoxCluster does not exist")
    provisioned = is_provisioned(infra)
    message = "" if provisioned else "ProxmoxCluster status.initialization.provisioned is false"
    return flag("InfrastructureReady", provisioned, "InfoReported", "NotReady", message)


def _control_plane(control_plane: Obj | None) -> Condition:
    if control_plane is None:
        return condition("ControlPlaneAvailable", False, "DoesNotExist", "The control plane does not exist")
    found = find(control_plane, "Available")
    available = found is not None and found["status"] == "True"
    return flag("ControlPlaneAvailable", available, "Available", "NotAvailable", "" if available or found is None else found["message"])


def _workers(pools: Sequence[Obj]) -> Condition:
    if not pools:
        return condition("WorkersAvailable", True, "NoWorkers")
    missing = [
        f"* MachineDeployment {pool['metadata']['name']}: {(find(pool, 'Available') or {}).get('message', '')}"
        for pool in pools
        if not is_true(pool, "Available")
    ]
    return flag("WorkersAvailable", not missing, "Available", "NotAvailable", "\n".join(missing))


def _machine_conditions(role: str, machines: Sequence[Obj]) -> list[Condition]:
    listed = []
    for name, no in (("Ready", "NotReady"), ("UpToDate", "NotUpToDate")):
        title = f"{role}Machines{name}"
        if not machines:
            listed.append(condition(title, True, "NoReplicas"))
            continue
        wrong = [machine for machine in machines if not is_true(machine, name)]
        messages = [f"* Machine {machine['metadata']['name']}: {(find(machine, name) or {}).get('message') or no}" for machine in wrong]
        listed.append(flag(title, not wrong, name, no, "\n".join(messages)))
    return listed


def _rolled_up(holders: Sequence[Obj]) -> list[Condition]:
    listed = []
    for name, no in _ROLLED_UP.items():
        going = [holder for holder in holders if is_true(holder, name)]
        messages = [f"* {holder['kind']} {holder['metadata']['name']}: {(find(holder, name) or {})['message']}" for holder in going]
        listed.append(flag(name, bool(going), name, no, "\n".join(messages)))
    return listed


def _available(listed: Sequence[Mapping[str, str]]) -> Condition:
    found = {entry["type"]: entry for entry in listed}
    against = [name for name in _NEEDED if found[name]["status"] != "True"]
    if found["TopologyReconciled"]["status"] == "False" and found["TopologyReconciled"]["reason"] in {
        "ReconcileFailed",
        "ClusterClassNotReconciled",
    }:
        against.append("TopologyReconciled")
    if found["Deleting"]["status"] == "True":
        against.insert(0, "Deleting")
    messages = [f"* {name}: {found[name]['message'] or found[name]['reason']}" for name in against]
    return flag("Available", not against, "Available", "NotAvailable", "\n".join(messages))
