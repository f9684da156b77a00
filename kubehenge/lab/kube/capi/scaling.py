"""Control planes and MachineDeployments: their machines, made and deleted one step at a time, and what they say about them."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.admission import CLUSTER_NAME_LABEL, OWNED_LABEL
from kubehenge.lab.kube.capi import classes
from kubehenge.lab.kube.capi.conditions import Condition, condition, find, flag, is_true
from kubehenge.lab.kube.capi.machine import MACHINE_FINALIZER, VM_FINALIZER
from kubehenge.lab.kube.capi.machine_sets import MachineSets
from kubehenge.lab.kube.capi.machine_status import BOOTSTRAP, bootstrap_of, outdated, template_and_version
from kubehenge.lab.kube.capi.objects import (
    CLONED_FROM,
    CLONED_FROM_KIND,
    CONTROL_PLANE_LABEL,
    DEPLOYMENT_LABEL,
    SET_LABEL,
    Objects,
    owner,
    reference,
)
from kubehenge.lab.kube.capi.rollout import MachineView, Step, control_plane_step, workers_step
from kubehenge.lab.kube.kinds import Kind, Obj
from kubehenge.lab.kube.metadata import random_suffix

_DELETE_FIRST = "cluster.x-k8s.io/delete-machine"
log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many machines a control plane or a group of pools has, and how many of them are as they should be."""

    desired: int = 0
    replicas: int = 0
    ready: int = 0
    joined: int = 0
    up_to_date: int = 0
    versions: tuple[str, ...] = ()

    def to_status(self) -> Obj:
        """The counts as status fields."""
        return {
            "replicas": self.replicas,
            "readyReplicas": self.ready,
            "availableReplicas": self.ready,
            "upToDateReplicas": self.up_to_date,
        }


class Scaling:
    """Brings the number and kind of machines to what their owner asks for."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._sets = MachineSets(objects)

    def control_plane(self, cluster: Obj, kind: Kind, holder: Obj) -> Counts:
        """Take the control plane's next step and write down where it is."""
        machines = self.machines_of(cluster, holder)
        views = self._views(machines, holder)
        initialized = any(view.ready for view in views) or is_true(cluster, "ControlPlaneInitialized")
        desired = holder["spec"]["replicas"]
        if "deletionTimestamp" not in holder["metadata"]:
            self._take(cluster, kind, holder, machines, control_plane_step(views, desired, initialized=initialized))
        counts = self._counts(cluster, holder, desired)
        status: Obj = counts.to_status()
        if initialized:
            status["initialization"] = {"controlPlaneInitialized": True}
        if counts.replicas:
            status["version"] = min(counts.versions, default=holder["spec"]["version"])
        listed = [
            flag("Initialized", initialized, "Initialized", "NotInitialized"),
            _control_plane_available(counts, initialized=initialized),
            *self._conditions(holder, counts, len(machines)),
        ]
        self._write(kind, holder, status, listed)
        return counts

    def pool(self, cluster: Obj, holder: Obj, *, may_start: bool = True) -> Counts:
        """Take a MachineDeployment's next step and write down where it is; its first machines wait for a control plane."""
        kind = kinds.MACHINE_DEPLOYMENT
        machines = self.machines_of(cluster, holder)
        desired = holder["spec"].get("replicas", 1)
        if "deletionTimestamp" in holder["metadata"]:
            self._sets.end(holder, machines)
            return self._counts(cluster, holder, 0)
        current, begun = self._sets.current(holder), len(machines)
        if may_start or machines:
            self._take(cluster, kind, holder, machines, workers_step(self._views(machines, holder), desired))
        self._sets.follow(holder, self.machines_of(cluster, holder), current["metadata"]["name"])
        counts = self._counts(cluster, holder, desired)
        status: Obj = counts.to_status()
        status["phase"] = "ScalingUp" if counts.replicas < desired else "ScalingDown" if counts.replicas > desired else "Running"
        if counts.versions:
            each = sorted(set(counts.versions))
            status["versions"] = [{"version": version, "replicas": counts.versions.count(version)} for version in each]
        available = counts.ready >= desired
        limits = f"spec.strategy.rollout.maxUnavailable is 0, spec.replicas is {desired}"
        why = f"{counts.ready} available replicas, at least {desired} required ({limits})"
        listed = [
            flag("Available", available, "Available", "NotAvailable", "" if available else why),
            *self._conditions(holder, counts, begun),
        ]
        self._write(kind, holder, status, listed)
        return counts

    def machines_of(self, cluster: Obj, holder: Obj) -> list[Obj]:
        """The Machines that a control plane or MachineDeployment owns."""
        meta, uid = cluster["metadata"], holder["metadata"]["uid"]
        every = self._objects.of_cluster(kinds.MACHINE, meta["namespace"], meta["name"])
        if holder["kind"] == kinds.MACHINE_DEPLOYMENT.kind:
            return [machine for machine in every if machine["metadata"]["labels"].get(DEPLOYMENT_LABEL) == holder["metadata"]["name"]]
        return [machine for machine in every if any(entry["uid"] == uid for entry in machine["metadata"].get("ownerReferences") or [])]

    # ---- steps

    def _take(self, cluster: Obj, kind: Kind, holder: Obj, machines: list[Obj], step: Step) -> None:
        for _ in range(step.create):
            self._make(cluster, kind, holder)
        for machine in machines:
            if machine["metadata"]["name"] == step.delete:
                log.info("lab_machine_deleted", machine=step.delete, cluster=cluster["metadata"]["name"])
                self._objects.delete(kinds.MACHINE, machine)

    def _make(self, cluster: Obj, kind: Kind, holder: Obj) -> None:
        objects, meta = self._objects, cluster["metadata"]
        template, version = template_and_version(holder)
        source = objects.find(kinds.PROXMOX_MACHINE_TEMPLATE, meta["namespace"], template)
        if source is None:
            return
        maker_kind, maker = (kinds.MACHINE_SET, self._sets.current(holder)) if kind is kinds.MACHINE_DEPLOYMENT else (kind, holder)
        if kind is kinds.MACHINE_DEPLOYMENT:
            labels = {**maker["metadata"]["labels"], SET_LABEL: maker["metadata"]["name"]}
        else:
            labels = {CLUSTER_NAME_LABEL: meta["name"], OWNED_LABEL: "", CONTROL_PLANE_LABEL: ""}
            labels["cluster.x-k8s.io/control-plane-name"] = holder["metadata"]["name"]
        name = f"{maker['metadata']['name'][:58]}-{random_suffix()}"
        base = {"name": name, "namespace": meta["namespace"], "labels": labels}
        made_from = {BOOTSTRAP: text} if (text := bootstrap_of(holder)) else {}
        machine = objects.create(
            kinds.MACHINE,
            {
                "metadata": {
                    **base,
                    "annotations": made_from,
                    "finalizers": [MACHINE_FINALIZER],
                    "ownerReferences": [owner(maker_kind, maker)],
                },
                "spec": {
                    "clusterName": meta["name"],
                    "version": version,
                    "deletion": {"nodeDeletionTimeoutSeconds": 10},
                    "bootstrap": {"configRef": _config_reference(holder, name), "dataSecretName": name},
                    "infrastructureRef": reference(kinds.PROXMOX_MACHINE, name),
                },
            },
        )
        cloned = {CLONED_FROM: template, CLONED_FROM_KIND: "ProxmoxMachineTemplate.infrastructure.cluster.x-k8s.io"}
        owners = [owner(kinds.MACHINE, machine)]
        objects.create(
            kinds.PROXMOX_MACHINE,
            {
                "metadata": {**base, "annotations": cloned, "finalizers": [VM_FINALIZER], "ownerReferences": owners},
                "spec": source["spec"]["template"]["spec"],
            },
        )
        log.info("lab_machine_made", machine=name, cluster=meta["name"], version=version)

    # ---- what they say

    def _views(self, machines: list[Obj], holder: Obj) -> list[MachineView]:
        return [self._view(machine, holder) for machine in machines]

    def _view(self, machine: Obj, holder: Obj) -> MachineView:
        meta = machine["metadata"]
        infra = self._objects.find(kinds.PROXMOX_MACHINE, meta["namespace"], meta["name"])
        health = find(machine, "HealthCheckSucceeded")
        return MachineView(
            name=meta["name"],
            created=meta["creationTimestamp"],
            up_to_date=infra is not None and not outdated(machine, infra, holder),
            ready=is_true(machine, "Ready"),
            joined="nodeRef" in (machine.get("status") or {}),
            deleting="deletionTimestamp" in meta,
            chosen=_DELETE_FIRST in (meta.get("annotations") or {}),
            overdue=health is not None and health["status"] == "False",
        )

    def _counts(self, cluster: Obj, holder: Obj, desired: int) -> Counts:
        machines = self.machines_of(cluster, holder)
        views = self._views(machines, holder)
        return Counts(
            desired=desired,
            replicas=len(views),
            ready=sum(view.ready for view in views),
            joined=sum("nodeRef" in (machine.get("status") or {}) for machine in machines),
            up_to_date=sum(view.up_to_date and not view.deleting for view in views),
            versions=tuple(machine["spec"].get("version", "") for machine in machines),
        )

    def _conditions(self, holder: Obj, counts: Counts, begun: int) -> list[Condition]:
        """What a holder says that had `begun` machines when this step was taken: what it has only now made is on its way."""
        outdated = counts.replicas - counts.up_to_date
        rolling = f"Rolling out {outdated} not up-to-date replicas" if outdated > 0 else ""
        up, down = begun < counts.desired, counts.replicas > counts.desired and outdated <= 0
        scaling = f"from {begun if up else counts.replicas} to {counts.desired} replicas"
        all_ready = counts.ready == counts.replicas
        deleting = "deletionTimestamp" in holder["metadata"]
        return [
            flag(
                "MachinesReady",
                all_ready,
                "Ready",
                "NotReady",
                "" if all_ready else f"{counts.ready} of {counts.replicas} machines are ready",
            ),
            flag("MachinesUpToDate", outdated <= 0, "UpToDate", "NotUpToDate", rolling),
            flag("RollingOut", outdated > 0, "RollingOut", "NotRollingOut", rolling),
            flag("ScalingUp", up, "ScalingUp", "NotScalingUp", f"Scaling up {scaling}" if up else ""),
            flag("ScalingDown", down, "ScalingDown", "NotScalingDown", f"Scaling down {scaling}" if down else ""),
            condition("Remediating", False, "NotRemediating"),
            flag("Deleting", deleting, "Deleting", "NotDeleting"),
            condition("Paused", False, "NotPaused"),
        ]

    def _write(self, kind: Kind, holder: Obj, status: Obj, listed: list[Condition]) -> None:
        fresh = self._objects.find(kind, holder["metadata"]["namespace"], holder["metadata"]["name"])
        if fresh is not None:
            status["observedGeneration"] = fresh["metadata"]["generation"]
            self._objects.set_status(kind, fresh, status, listed)


def _config_reference(holder: Obj, name: str) -> dict[str, str]:
    """What names a machine's bootstrap configuration. There is none here: no guest starts from it."""
    if holder["kind"] == kinds.MACHINE_DEPLOYMENT.kind:
        template = holder["spec"]["template"]["spec"]["bootstrap"]["configRef"]["kind"]
    else:
        distribution = classes.of_control_plane(holder["kind"])
        template = distribution.bootstrap if distribution is not None else ""
    return {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": template.removesuffix("Template"), "name": name}


def _control_plane_available(counts: Counts, *, initialized: bool) -> Condition:
    """Whether the API answers: etcd needs more than half of the members that have joined."""
    if not initialized:
        return condition("Available", False, "NotAvailable", "Control plane not yet initialized")
    quorum = counts.joined // 2 + 1
    message = f"* {counts.ready} of {counts.joined} control-plane machines are ready, at least {quorum} required for etcd quorum"
    return flag("Available", counts.ready >= quorum, "Available", "NotAvailable", "" if counts.ready >= quorum else message)
