"""One Machine from its VM to its node, and back: Cluster API's machine controller and capmox's, over one pair of objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.admission import CLUSTER_NAME_LABEL
from kubehenge.lab.kube.capi import addresses, vm
from kubehenge.lab.kube.capi.conditions import condition, find, flag, is_true, plain
from kubehenge.lab.kube.capi.infrastructure import Infrastructure, is_provisioned
from kubehenge.lab.kube.capi.machine_status import (
    MARKED,
    REMEDIATE,
    STARTUP_TIMEOUT,
    UNHEALTHY,
    NodeState,
    holder_of,
    machine_conditions,
    machine_phase,
    why_outdated,
)
from kubehenge.lab.kube.capi.objects import CONTROL_PLANE_LABEL, Objects
from kubehenge.lab.kube.capi.pace import BOOT_S, CONTROL_PLANE_BOOT_S, DRAIN_S, NODE_STARTUP_TIMEOUT_S, TASK_POLL_S, UNHEALTHY_NODE_S, Pace
from kubehenge.lab.kube.capi.proxmox import ProxmoxError
from kubehenge.lab.kube.capi.vm import Progress, Provisioning, State, Surroundings
from kubehenge.lab.kube.capi.workqueue import Retry
from kubehenge.lab.kube.kinds import Obj

MACHINE_FINALIZER = "machine.cluster.x-k8s.io"
VM_FINALIZER = "proxmoxmachine.infrastructure.cluster.x-k8s.io"
USER_DATA = "lab.kubehenge.dev/user-data"
_PRE_DRAIN = "pre-drain.delete.hook.machine.cluster.x-k8s.io"
_PRE_TERMINATE = "pre-terminate.delete.hook.machine.cluster.x-k8s.io"
_VM_CONDITION = "VirtualMachineProvisioned"

# Whether the VM with this id runs on a node that can be reached: what a kubelet's heartbeat says in a real cluster.
GuestRuns = Callable[[int], bool]

log = structlog.get_logger()


class Machines:
    """Brings Machines further, one step a call."""

    def __init__(self, objects: Objects, infrastructure: Infrastructure, pace: Pace, guest_runs: GuestRuns | None = None) -> None:
        self._objects = objects
        self._guest_runs = guest_runs
        self._infrastructure = infrastructure
        self._pace = pace
        self._one_clone = asyncio.Lock()  # ids and nodes are chosen by looking at what is there: one at a time

    async def reconcile(self, namespace: str, name: str) -> float | None:
        """
        Bring one Machine further; the answer is when to look again.

        Errors: Retry when Proxmox VE refuses or does not answer.
        """
        objects = self._objects
        machine = objects.find(kinds.MACHINE, namespace, name)
        infra = objects.find(kinds.PROXMOX_MACHINE, namespace, name)
        if machine is None:
            return None
        cluster = objects.find(kinds.CLUSTER, namespace, machine["spec"]["clusterName"])
        if cluster is None or cluster["spec"].get("paused"):
            return None
        if "deletionTimestamp" in machine["metadata"]:
            return await self._delete(machine, infra, cluster)
        if infra is None:
            return None
        after = await (self._join(machine, infra, cluster) if is_provisioned(infra) else self._provision(machine, infra, cluster))
        self._show(namespace, name)
        return after

    def _show(self, namespace: str, name: str) -> None:
        """The Machine's own status, from what its VM and node are now."""
        objects = self._objects
        machine = objects.find(kinds.MACHINE, namespace, name)
        infra = objects.find(kinds.PROXMOX_MACHINE, namespace, name)
        if machine is None:
            return
        status: dict[str, Any] = {key: value for key, value in (machine.get("status") or {}).items() if key == "nodeRef"}
        provisioned = is_provisioned(infra)
        status["initialization"] = {"bootstrapDataSecretCreated": True, "infrastructureProvisioned": provisioned}
        if infra is not None and (found := (infra.get("status") or {}).get("addresses")):
            status["addresses"] = found
        status["phase"] = machine_phase(machine, provisioned=provisioned, joined="nodeRef" in status)
        status["observedGeneration"] = machine["metadata"]["generation"]
        if "nodeRef" in status:
            status["nodeInfo"] = {"kubeletVersion": machine["spec"].get("version", ""), "osImage": "Ubuntu 24.04 LTS"}
        outdated_by = why_outdated(objects, machine, infra)
        node = self._node(machine, infra, joined="nodeRef" in status)
        objects.set_status(kinds.MACHINE, machine, status, machine_conditions(machine, infra, node, outdated_by=outdated_by))

    def _node(self, machine: Obj, infra: Obj | None, *, joined: bool) -> NodeState:
        """A machine's node, and what the health check says of it, where there is one."""
        answers = joined and self.answers(infra)
        holder = holder_of(self._objects, machine)
        name = holder["metadata"]["name"] if holder is not None else ""
        if self._objects.find(kinds.MACHINE_HEALTH_CHECK, machine["metadata"]["namespace"], name) is None:
            return NodeState(joined=joined, answers=answers or not joined, checked=False)
        if REMEDIATE in (machine["metadata"].get("annotations") or {}):
            return NodeState(joined=joined, answers=answers or not joined, failed=MARKED)
        if not joined:
            return NodeState(joined=False, failed=STARTUP_TIMEOUT if self._is_overdue(machine) else "")
        if answers or not self._pace.speed:
            return NodeState(joined=True, answers=answers)
        known = find(machine, "NodeReady")
        silent_s = self._pace.elapsed(known["lastTransitionTime"]) if known is not None and known["status"] == "Unknown" else 0.0
        return NodeState(joined=True, answers=False, failed=UNHEALTHY if silent_s > UNHEALTHY_NODE_S else "")

    def answers(self, infra: Obj | None) -> bool:
        """Whether the kubelet in a machine's VM reports; always, where nobody can tell."""
        vmid = (infra or {}).get("spec", {}).get("virtualMachineID")
        return self._guest_runs is None or vmid is None or self._guest_runs(vmid)

    def _is_overdue(self, machine: Obj) -> bool:
        """Whether the node should have joined by now: time counts from when the cluster was there to be joined."""
        cluster = self._objects.find(kinds.CLUSTER, machine["metadata"]["namespace"], machine["spec"]["clusterName"])
        initialized = find(cluster, "ControlPlaneInitialized") if cluster is not None else None
        if initialized is None or initialized["status"] != "True" or not self._pace.speed:
            return False
        since = max(machine["metadata"]["creationTimestamp"], initialized["lastTransitionTime"])
        return self._pace.elapsed(since) > NODE_STARTUP_TIMEOUT_S

    # ---- a VM comes

    async def _provision(self, machine: Obj, infra: Obj, cluster: Obj) -> float | None:
        objects, namespace = self._objects, machine["metadata"]["namespace"]
        proxmox_cluster = self._proxmox_cluster(cluster)
        if proxmox_cluster is None or not is_provisioned(proxmox_cluster):
            self._note(infra, Progress(reason=State.CLUSTER))
            return None
        is_control_plane = CONTROL_PLANE_LABEL in machine["metadata"]["labels"]
        if not is_control_plane and not is_true(cluster, "ControlPlaneInitialized"):
            self._note(infra, Progress(reason=State.BOOTSTRAP))
            return None
        if "virtualMachineID" in infra["spec"]:
            return await self._advance(infra, proxmox_cluster)
        async with self._one_clone:
            fresh = objects.find(kinds.PROXMOX_MACHINE, namespace, infra["metadata"]["name"])
            return await self._advance(fresh, proxmox_cluster) if fresh is not None else None

    async def _advance(self, infra: Obj, proxmox_cluster: Obj) -> float | None:
        proxmox = self._infrastructure.client(proxmox_cluster)
        try:
            progress = await Provisioning(proxmox, infra, self._surroundings(infra, proxmox_cluster)).advance()
        except ProxmoxError as exc:
            raise Retry(str(exc)) from exc
        fresh = self._objects.find(kinds.PROXMOX_MACHINE, infra["metadata"]["namespace"], infra["metadata"]["name"])
        if fresh is None or "deletionTimestamp" in fresh["metadata"]:
            return None
        self._note(fresh, progress)
        if progress.failed:
            self._show(infra["metadata"]["namespace"], infra["metadata"]["name"])
            raise Retry(f"{progress.reason}: {progress.message}")
        if progress.ready:
            log.info("lab_vm_ready", machine=infra["metadata"]["name"], vmid=infra["spec"].get("virtualMachineID"))
            return 0.0
        return TASK_POLL_S

    def _surroundings(self, infra: Obj, proxmox_cluster: Obj) -> Surroundings:
        labels, spec = infra["metadata"]["labels"], proxmox_cluster["spec"]
        others = [
            other
            for other in self._objects.of_cluster(kinds.PROXMOX_MACHINE, infra["metadata"]["namespace"], labels[CLUSTER_NAME_LABEL])
            if other["metadata"]["name"] != infra["metadata"]["name"]
        ]
        by_node: dict[str, int] = {}
        for other in others:
            node = (other.get("status") or {}).get("proxmoxNode")
            if node and (CONTROL_PLANE_LABEL in other["metadata"]["labels"]) == (CONTROL_PLANE_LABEL in labels):
                by_node[node] = by_node.get(node, 0) + 1
        used = {address for other in others for address in _addresses(other)}
        config = spec["ipv4Config"]
        endpoint = spec["controlPlaneEndpoint"]["host"]
        every = addresses.pool(config["addresses"], gateway=config["gateway"], prefix=config["prefix"], without=[endpoint])
        number = addresses.count(every)
        return Surroundings(
            allowed_nodes=spec.get("allowedNodes") or [],
            by_node=by_node,
            held_ids={other["spec"]["virtualMachineID"] for other in others if "virtualMachineID" in other["spec"]},
            free_address=addresses.first_free(every, used),
            no_address=f"no free address in {addresses.show(every)}: all {number} are in use; give the cluster more addresses",
        )

    def _note(self, infra: Obj, progress: Progress) -> None:
        """Write down where a VM is."""
        objects = self._objects
        infra = objects.add_finalizer(kinds.PROXMOX_MACHINE, infra, VM_FINALIZER)
        spec, status = infra["spec"], dict(infra.get("status") or {})
        if progress.address is not None and progress.address in self._taken(infra):
            progress = Progress(reason=progress.reason, wait=True)  # another machine was faster: look again
        if progress.vmid is not None:
            spec["virtualMachineID"] = progress.vmid
            status["proxmoxNode"] = progress.node
        if progress.lost:
            spec.pop("virtualMachineID", None)
            status.pop("proxmoxNode", None)
        if progress.provider_id is not None:
            spec["providerID"] = progress.provider_id
        if progress.data_attached:
            infra["metadata"].setdefault("annotations", {})[USER_DATA] = "attached"
        infra = objects.update(kinds.PROXMOX_MACHINE, infra)
        status["taskRef"] = progress.task
        if progress.address is not None:
            name = infra["metadata"]["name"]
            status["ipAddresses"] = [{"net": "net0", "ipv4": [progress.address]}]
            status["addresses"] = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": progress.address}]
        status["vmStatus"] = "ready" if progress.ready else "pending"
        if progress.ready:
            status.update(initialization={"provisioned": True}, bootstrapDataProvided=True)
        kept = {name: value for name, value in status.items() if name != "conditions" and value != ""}
        state = condition(_VM_CONDITION, progress.ready, "Provisioned" if progress.ready else progress.reason, progress.message)
        ready = flag(
            "Ready",
            progress.ready,
            "InfoReported",
            "NotReady",
            "" if progress.ready else f"* {_VM_CONDITION}: {progress.message or progress.reason}",
        )
        objects.set_status(kinds.PROXMOX_MACHINE, infra, kept, [state, ready])

    def _taken(self, infra: Obj) -> set[str]:
        meta = infra["metadata"]
        others = self._objects.of_cluster(kinds.PROXMOX_MACHINE, meta["namespace"], meta["labels"][CLUSTER_NAME_LABEL])
        return {address for other in others if other["metadata"]["name"] != meta["name"] for address in _addresses(other)}

    def _proxmox_cluster(self, cluster: Obj) -> Obj | None:
        found = self._objects.resolve(cluster["spec"].get("infrastructureRef"), cluster["metadata"]["namespace"])
        return found[1] if found is not None else None

    # ---- a node joins

    async def _join(self, machine: Obj, infra: Obj, cluster: Obj) -> float | None:
        objects = self._objects
        if machine["spec"].get("providerID") != infra["spec"].get("providerID"):
            machine["spec"]["providerID"] = infra["spec"]["providerID"]
            machine = objects.update(kinds.MACHINE, machine)
        if "nodeRef" not in (machine.get("status") or {}):
            first = not is_true(cluster, "ControlPlaneInitialized")
            since = find(infra, _VM_CONDITION)
            left = self._pace.left(since["lastTransitionTime"], CONTROL_PLANE_BOOT_S if first else BOOT_S) if since else 0.0
            if left > 0:
                return left
            status = {**(machine.get("status") or {}), "nodeRef": {"name": machine["metadata"]["name"]}}
            objects.set_status(kinds.MACHINE, machine, status, plain((machine.get("status") or {}).get("conditions") or []))
            log.info("lab_node_joined", machine=machine["metadata"]["name"])
        if (infra["metadata"].get("annotations") or {}).get(USER_DATA):
            await self._eject(infra, cluster)
        return None

    async def _eject(self, infra: Obj, cluster: Obj) -> None:
        proxmox_cluster = self._proxmox_cluster(cluster)
        if proxmox_cluster is None:
            return
        try:
            await vm.eject_data(self._infrastructure.client(proxmox_cluster), infra)
        except ProxmoxError as exc:
            raise Retry(str(exc)) from exc
        fresh = self._objects.find(kinds.PROXMOX_MACHINE, infra["metadata"]["namespace"], infra["metadata"]["name"])
        if fresh is not None:
            fresh["metadata"].get("annotations", {}).pop(USER_DATA, None)
            self._objects.update(kinds.PROXMOX_MACHINE, fresh)

    # ---- a machine goes

    async def _delete(self, machine: Obj, infra: Obj | None, cluster: Obj) -> float | None:
        objects, meta = self._objects, machine["metadata"]
        annotations = meta.get("annotations") or {}
        if any(name.startswith(_PRE_DRAIN) for name in annotations):
            self._deleting(machine, infra, "WaitingForPreDrainHook", annotations, _PRE_DRAIN)
            return None
        drains = "nodeRef" in (machine.get("status") or {}) and "deletionTimestamp" not in cluster["metadata"]
        if drains and (left := self._pace.left(meta["deletionTimestamp"], DRAIN_S)) > 0:
            self._deleting(machine, infra, "DrainingNode", annotations)
            return left
        if any(name.startswith(_PRE_TERMINATE) for name in annotations):
            self._deleting(machine, infra, "WaitingForPreTerminateHook", annotations, _PRE_TERMINATE)
            return None
        if infra is not None:
            self._deleting(machine, infra, "WaitingForInfrastructureDeletion", annotations)
            objects.delete(kinds.PROXMOX_MACHINE, infra)
            if not await self._destroy(infra, cluster):
                return TASK_POLL_S
            objects.drop_finalizer(kinds.PROXMOX_MACHINE, infra, VM_FINALIZER)
        objects.drop_finalizer(kinds.MACHINE, machine, MACHINE_FINALIZER)
        log.info("lab_machine_removed", machine=meta["name"])
        return None

    def _deleting(self, machine: Obj, infra: Obj | None, reason: str, annotations: dict[str, str], hook: str = "") -> None:
        held = sorted(name for name in annotations if hook and name.startswith(hook))
        kind = "pre-drain" if hook == _PRE_DRAIN else "pre-terminate"
        message = f"Waiting for {kind} hooks to succeed (hooks: {','.join(held)})" if held else ""
        status = {**(machine.get("status") or {}), "phase": "Deleting", "observedGeneration": machine["metadata"]["generation"]}
        node = self._node(machine, infra, joined="nodeRef" in status)
        listed = machine_conditions(machine, infra, node, outdated_by=why_outdated(self._objects, machine, infra))
        listed = [entry for entry in listed if entry["type"] not in {"Deleting", "Ready"}]
        ready = condition("Ready", False, "NotReady", f"* Deleting: Machine deletion in progress, stage: {reason}")
        self._objects.set_status(kinds.MACHINE, machine, status, [*listed, ready, condition("Deleting", True, reason, message)])

    async def _destroy(self, infra: Obj, cluster: Obj) -> bool:
        """Whether the VM is gone; one that never had an id is."""
        if "virtualMachineID" not in infra["spec"]:
            return True
        proxmox_cluster = self._proxmox_cluster(cluster)
        if proxmox_cluster is None:
            raise Retry("the ProxmoxCluster is gone, and with it the credentials to remove the VM")
        try:
            return await vm.destroy(self._infrastructure.client(proxmox_cluster), infra)
        except ProxmoxError as exc:
            if exc.status in {401, 0}:
                raise Retry(str(exc)) from exc  # capmox has no client then, and says so in its log only
            fresh = self._objects.find(kinds.PROXMOX_MACHINE, infra["metadata"]["namespace"], infra["metadata"]["name"])
            if fresh is not None:
                self._note_failure(fresh, str(exc))
            raise Retry(str(exc)) from exc

    def _note_failure(self, infra: Obj, message: str) -> None:
        status = {name: value for name, value in (infra.get("status") or {}).items() if name != "conditions"}
        state = condition(_VM_CONDITION, False, State.DELETION_FAILED, message)
        ready = condition("Ready", False, "NotReady", f"* {_VM_CONDITION}: {message}")
        self._objects.set_status(kinds.PROXMOX_MACHINE, infra, status, [state, ready])


def _addresses(infra: Obj) -> list[str]:
    return [address for entry in (infra.get("status") or {}).get("ipAddresses") or [] for address in entry.get("ipv4") or []]
