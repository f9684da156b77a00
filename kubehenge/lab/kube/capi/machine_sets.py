"""MachineSets: one for each form that a MachineDeployment's machines have had, as long as machines of it are left."""

from __future__ import annotations

from typing import Any

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.capi.conditions import condition, flag
from kubehenge.lab.kube.capi.objects import DEPLOYMENT_LABEL, SET_LABEL, Objects, owner
from kubehenge.lab.kube.kinds import Obj
from kubehenge.lab.kube.metadata import random_suffix

SET_FINALIZER = "cluster.x-k8s.io/machineset"
DEPLOYMENT_FINALIZER = "cluster.x-k8s.io/machinedeployment"
TEMPLATE_HASH = "machine-template-hash"


class MachineSets:
    """Keeps the MachineSets of a MachineDeployment in step with its machines."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def of(self, holder: Obj) -> list[Obj]:
        """The MachineSets of a MachineDeployment."""
        meta = holder["metadata"]
        every = self._objects.of_cluster(kinds.MACHINE_SET, meta["namespace"], holder["spec"]["clusterName"])
        return [found for found in every if found["metadata"]["labels"].get(DEPLOYMENT_LABEL) == meta["name"]]

    def current(self, holder: Obj) -> Obj:
        """The MachineSet whose machines are as the MachineDeployment asks for now; made when there is none."""
        spec = holder["spec"]["template"]["spec"]
        for found in self.of(holder):
            if found["spec"]["template"]["spec"] == spec and "deletionTimestamp" not in found["metadata"]:
                return found
        meta, suffix = holder["metadata"], random_suffix()
        labels = {**holder["spec"]["template"]["metadata"]["labels"], TEMPLATE_HASH: suffix}
        return self._objects.create(
            kinds.MACHINE_SET,
            {
                "metadata": {
                    "name": f"{meta['name']}-{suffix}",
                    "namespace": meta["namespace"],
                    "labels": {**labels, DEPLOYMENT_LABEL: meta["name"]},
                    "finalizers": [SET_FINALIZER],
                    "ownerReferences": [owner(kinds.MACHINE_DEPLOYMENT, holder)],
                },
                "spec": {
                    "clusterName": holder["spec"]["clusterName"],
                    "replicas": 0,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                },
            },
        )

    def follow(self, holder: Obj, machines: list[Obj], current: str) -> None:
        """Write down what each has; one that has nothing left and is not the current one goes."""
        for found in self.of(holder):
            own = _own(found, machines)
            kept = [machine for machine in own if "deletionTimestamp" not in machine["metadata"]]
            if not own and found["metadata"]["name"] != current:
                self._remove(found)
                continue
            wanted = holder["spec"].get("replicas", 1) if found["metadata"]["name"] == current else len(kept)
            if found["spec"].get("replicas") != wanted:
                found["spec"]["replicas"] = wanted
                found = self._objects.update(kinds.MACHINE_SET, found)  # noqa: PLW2901 - the same one, as it is now
            self._show(found, own)

    def end(self, holder: Obj, machines: list[Obj]) -> None:
        """Take a MachineDeployment that is being deleted down: its machines, then their sets, then itself."""
        for found in self.of(holder):
            self._objects.delete(kinds.MACHINE_SET, found)
            own = _own(found, machines)
            for machine in own:
                self._objects.delete(kinds.MACHINE, machine)
            if not own:
                self._remove(found)
        if not self.of(holder):
            self._objects.drop_finalizer(kinds.MACHINE_DEPLOYMENT, holder, DEPLOYMENT_FINALIZER)

    def _remove(self, found: Obj) -> None:
        self._objects.delete(kinds.MACHINE_SET, found)
        self._objects.drop_finalizer(kinds.MACHINE_SET, found, SET_FINALIZER)

    def _show(self, found: Obj, own: list[Obj]) -> None:
        ready = sum(_is_ready(machine) for machine in own)
        desired = found["spec"]["replicas"]
        status: dict[str, Any] = {"replicas": len(own), "readyReplicas": ready, "availableReplicas": ready, "upToDateReplicas": len(own)}
        status["observedGeneration"] = found["metadata"]["generation"]
        between = f"from {len(own)} to {desired} replicas"
        listed = [
            flag("MachinesReady", ready == len(own), "Ready" if own else "NoReplicas", "NotReady"),
            flag("ScalingUp", len(own) < desired, "ScalingUp", "NotScalingUp", f"Scaling up {between}" if len(own) < desired else ""),
            flag(
                "ScalingDown", len(own) > desired, "ScalingDown", "NotScalingDown", f"Scaling down {between}" if len(own) > desired else ""
            ),
            condition("Remediating", False, "NotRemediating"),
            condition("Deleting", False, "NotDeleting"),
            condition("Paused", False, "NotPaused"),
        ]
        self._objects.set_status(kinds.MACHINE_SET, found, status, listed)


def _own(found: Obj, machines: list[Obj]) -> list[Obj]:
    return [machine for machine in machines if machine["metadata"]["labels"].get(SET_LABEL) == found["metadata"]["name"]]


def _is_ready(machine: Obj) -> bool:
    listed = (machine.get("status") or {}).get("conditions") or []
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in listed)
