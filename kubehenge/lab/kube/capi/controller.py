"""The model's engine: changes of objects wake what depends on them, workers bring it further."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import assert_never

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.admission import CLUSTER_NAME_LABEL
from kubehenge.lab.kube.capi.cluster import Clusters
from kubehenge.lab.kube.capi.cluster_class import ClusterClasses, references
from kubehenge.lab.kube.capi.conditions import find
from kubehenge.lab.kube.capi.infrastructure import Infrastructure
from kubehenge.lab.kube.capi.machine import GuestRuns, Machines
from kubehenge.lab.kube.capi.objects import Objects
from kubehenge.lab.kube.capi.pace import HEARTBEAT_S, Pace
from kubehenge.lab.kube.capi.proxmox import ProxmoxClients
from kubehenge.lab.kube.capi.resource_set import ResourceSets
from kubehenge.lab.kube.capi.workqueue import WorkQueue
from kubehenge.lab.kube.cluster_rules import class_of
from kubehenge.lab.kube.registry import Registry
from kubehenge.lab.kube.storage import Change, Record


class Sort(StrEnum):
    """What a key of the work queue is about."""

    CLUSTER = "cluster"
    INFRASTRUCTURE = "infrastructure"
    MACHINE = "machine"
    RESOURCE_SET = "resource_set"
    CLUSTER_CLASS = "cluster_class"


_LEAST_PAUSE_S = 0.2  # real seconds, however fast time passes
_Key = tuple[Sort, str, str]
_TEMPLATES = frozenset(kind for kind in kinds.KINDS if kind.kind.endswith("Template"))
_HOLDERS = frozenset({*kinds.CONTROL_PLANES, kinds.MACHINE_DEPLOYMENT, kinds.PROXMOX_CLUSTER, kinds.CLUSTER})


class Controller:
    """
    Cluster API and capmox over one API server.

    Shape: `proxmox_urls` are the only Proxmox VE servers it talks to; empty lets it talk to whatever a Secret names. `guest_runs` says
    whether a VM runs where it can be reached; without it every node that has joined answers for ever.
    """

    def __init__(
        self, registry: Registry, *, speed: float, proxmox_urls: Collection[str], workload_pool: str, guest_runs: GuestRuns | None = None
    ) -> None:
        self._registry = registry
        self.pace = Pace(speed)
        self._objects = Objects(registry)
        self._clients = ProxmoxClients(proxmox_urls)
        infrastructure = Infrastructure(self._objects, self._clients)
        self._clusters = Clusters(self._objects, workload_pool=workload_pool)
        self._infrastructure = infrastructure
        self._machines = Machines(self._objects, infrastructure, self.pace, guest_runs)
        self._classes = ClusterClasses(self._objects)
        self._resource_sets = ResourceSets(self._objects, self.pace)
        self._queue: WorkQueue[_Key] = WorkQueue(self._work, self.pace, show="/".join)
        self._heartbeats: asyncio.Task[None] | None = None
        self._unlisten: Callable[[], None] = self._objects.close

    async def start(self) -> None:
        """Look at everything, then follow changes."""
        self._unlisten = self._registry.store.listen(self._note)
        for kind in (kinds.CLUSTER, kinds.PROXMOX_CLUSTER, kinds.MACHINE, kinds.CLUSTER_RESOURCE_SET, kinds.CLUSTER_CLASS):
            for record in self._registry.store.scan(kind):
                self._wake(record)
        self._queue.start()
        self._heartbeats = asyncio.create_task(self._look_at_nodes())

    async def stop(self) -> None:
        """Stop where it is."""
        self._unlisten()
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._heartbeats
        await self._queue.stop()
        await self._clients.close()

    async def _look_at_nodes(self) -> None:
        """Wake the machines whose node has fallen silent, or answers again."""
        while True:
            await asyncio.sleep(max(_LEAST_PAUSE_S, self.pace.real(HEARTBEAT_S)))
            for record in self._registry.store.scan(kinds.MACHINE):
                machine = record.obj()
                known = find(machine, "NodeReady")
                if known is None or "nodeRef" not in (machine.get("status") or {}):
                    continue
                answers = self._machines.answers(self._objects.find(kinds.PROXMOX_MACHINE, record.namespace, record.name))
                if not answers or known["status"] != "True":
                    self._queue.add((Sort.MACHINE, record.namespace, record.name))

    def _note(self, change: Change) -> None:
        self._wake(change.record)

    def _wake(self, record: Record) -> None:
        """Add the keys that an object's change is about. Secrets wake nothing but the ClusterResourceSet that owns them, as in capmox."""
        add, kind, namespace = self._queue.add, record.kind, record.namespace
        cluster = record.name if kind is kinds.CLUSTER else record.labels.get(CLUSTER_NAME_LABEL, "")
        if cluster and kind not in {kinds.SECRET, kinds.CONFIG_MAP}:
            add((Sort.CLUSTER, namespace, cluster))
        if kind in {kinds.MACHINE, kinds.PROXMOX_MACHINE}:
            add((Sort.MACHINE, namespace, record.name))
        if kind in _HOLDERS:
            for machine in self._objects.names_of_cluster(kinds.MACHINE, namespace, cluster):
                add((Sort.MACHINE, namespace, machine))
        if kind is kinds.PROXMOX_CLUSTER:
            add((Sort.INFRASTRUCTURE, namespace, record.name))
        elif kind in {kinds.CLUSTER, kinds.PROXMOX_MACHINE}:
            for infra in self._objects.names_of_cluster(kinds.PROXMOX_CLUSTER, namespace, cluster):
                add((Sort.INFRASTRUCTURE, namespace, infra))
        if kind is kinds.CLUSTER_RESOURCE_SET:
            add((Sort.RESOURCE_SET, namespace, record.name))
        elif kind is kinds.CLUSTER:
            for found in self._registry.store.scan(kinds.CLUSTER_RESOURCE_SET, namespace):
                add((Sort.RESOURCE_SET, namespace, found.name))
        elif kind in {kinds.SECRET, kinds.CONFIG_MAP}:
            self._wake_resource_sets(record)
        elif kind in _TEMPLATES and not cluster:
            for found in self._registry.store.scan(kinds.CLUSTER_CLASS, namespace):
                if any(entry["name"] == record.name and entry["kind"] == kind.kind for entry in references(found.obj())):
                    self._wake(found)
        elif kind is kinds.CLUSTER_CLASS:
            add((Sort.CLUSTER_CLASS, namespace, record.name))
            for found in self._registry.store.scan(kinds.CLUSTER):
                if class_of(found.obj()) == record.key:
                    add((Sort.CLUSTER, found.namespace, found.name))

    def _wake_resource_sets(self, record: Record) -> None:
        for found in self._registry.store.scan(kinds.CLUSTER_RESOURCE_SET, record.namespace):
            named = {(entry["kind"], entry["name"]) for entry in found.obj()["spec"]["resources"]}
            if (record.kind.kind, record.name) in named:
                self._queue.add((Sort.RESOURCE_SET, found.namespace, found.name))

    async def _work(self, key: _Key) -> float | None:
        sort, namespace, name = key
        match sort:
            case Sort.CLUSTER:
                return self._clusters.reconcile(namespace, name)
            case Sort.INFRASTRUCTURE:
                return await self._infrastructure.reconcile(namespace, name)
            case Sort.MACHINE:
                return await self._machines.reconcile(namespace, name)
            case Sort.CLUSTER_CLASS:
                self._classes.reconcile(namespace, name)
                return None
            case Sort.RESOURCE_SET:
                return self._resource_sets.reconcile(namespace, name)
            case _:
                assert_never(sort)
