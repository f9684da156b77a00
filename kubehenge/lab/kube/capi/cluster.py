"""One Cluster, whole: paused, built, rolled, scaled, and taken down in order."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import structlog
import yaml

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.admission import CLUSTER_NAME_LABEL, OWNED_LABEL
from kubehenge.lab.kube.capi import classes, desired
from kubehenge.lab.kube.capi.cluster_status import Picture, status_of
from kubehenge.lab.kube.capi.composition import Composition
from kubehenge.lab.kube.capi.conditions import Condition, condition, plain
from kubehenge.lab.kube.capi.objects import CONTROL_PLANE_LABEL, Objects, owner, reference
from kubehenge.lab.kube.capi.scaling import Counts, Scaling
from kubehenge.lab.kube.capi.topology import Topology, TopologyController
from kubehenge.lab.kube.cluster_rules import class_of
from kubehenge.lab.kube.errors import ApiError
from kubehenge.lab.kube.kinds import Kind, Obj

FINALIZER = "cluster.cluster.x-k8s.io"
_KEYS = ("ca", "etcd", "proxy", "sa")  # of a kubeadm cluster
_MADE_UP = "made up by the lab"
_CONTROL_PLANE_FINALIZERS = {"KubeadmControlPlane": "kubeadm", "RKE2ControlPlane": "rke2", "KThreesControlPlane": "kthrees"}
_NOT_DELETING = condition("Deleting", False, "NotDeleting")
_RECONCILED = condition("TopologyReconciled", True, "ReconcileSucceeded")

log = structlog.get_logger()


class Clusters:
    """Brings Clusters further; each call is one pass over everything of one Cluster, and waits for nothing."""

    def __init__(self, objects: Objects, *, workload_pool: str) -> None:
        self._objects = objects
        self._topology = TopologyController(objects)
        self._scaling = Scaling(objects)
        self._workload_pool = workload_pool

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Bring one Cluster further; it is woken by every change below it."""
        objects = self._objects
        cluster = objects.find(kinds.CLUSTER, namespace, name)
        if cluster is None or "topology" not in cluster["spec"]:
            return None
        if cluster["spec"].get("paused"):
            self._pause(cluster)
            return None
        if "deletionTimestamp" in cluster["metadata"]:
            self._delete(cluster)
            return None
        key = class_of(cluster) or ("", "")
        found = objects.find(kinds.CLUSTER_CLASS, *key)
        if found is None:  # such a Cluster cannot be written, not even its finalizer
            self._failed(cluster, f"ClusterClass {'/'.join(key)} not found")
            return None
        cluster = objects.add_finalizer(kinds.CLUSTER, cluster, FINALIZER)
        if "phase" not in (cluster.get("status") or {}):
            cluster = objects.set_status(kinds.CLUSTER, cluster, {"phase": "Pending"}, [condition("Paused", False, "NotPaused")])
        try:
            cluster = self._label(cluster)
            blueprint = desired.read(cluster, found, workload_pool=self._workload_pool)
            plan = desired.plan(blueprint, found) if classes.is_built_in(found) else Composition(cluster, found, self._find_template).plan()
            topology = self._topology.reconcile(cluster, blueprint, plan)
        except (ValueError, ApiError) as exc:
            self._failed(cluster, str(exc))
            return None
        kind = blueprint.control_plane_kind
        cluster = self._refer(cluster, kind, topology)
        if kind.kind == "KubeadmControlPlane":
            for suffix in _KEYS:
                self._secret(cluster, kind, topology.control_plane, suffix, dict.fromkeys(("tls.crt", "tls.key"), _MADE_UP))
        holder = objects.add_finalizer(kind, topology.control_plane, _finalizer_of(kind))
        counts = self._scaling.control_plane(cluster, kind, holder)
        pool_counts = [self._scaling.pool(cluster, pool, may_start=counts.replicas > 0) for pool in topology.pools]
        self._end_pools(cluster)
        self._show(cluster, counts, pool_counts, _reconciled(blueprint.version, topology, counts), _NOT_DELETING)
        return None

    # ---- a pass's parts

    def _label(self, cluster: Obj) -> Obj:
        """The Cluster with the labels that its own objects bear too."""
        cluster["metadata"]["labels"] = {
            **(cluster["metadata"].get("labels") or {}),
            CLUSTER_NAME_LABEL: cluster["metadata"]["name"],
            OWNED_LABEL: "",
        }
        return self._objects.update(kinds.CLUSTER, cluster)

    def _find_template(self, wanted: Mapping[str, str], namespace: str) -> Obj | None:
        kind = kinds.find_by_name(wanted["apiVersion"].partition("/")[0], wanted["kind"])
        return self._objects.find(kind, namespace, wanted["name"]) if kind is not None else None

    def _end_pools(self, cluster: Obj) -> None:
        """Take down the MachineDeployments that are being deleted."""
        meta = cluster["metadata"]
        for pool in self._objects.of_cluster(kinds.MACHINE_DEPLOYMENT, meta["namespace"], meta["name"]):
            if "deletionTimestamp" in pool["metadata"]:
                self._scaling.pool(cluster, pool)

    def _refer(self, cluster: Obj, kind: Kind, topology: Topology) -> Obj:
        """The Cluster with its references and, once there is something to reach, its endpoint."""
        spec = cluster["spec"]
        spec["infrastructureRef"] = reference(kinds.PROXMOX_CLUSTER, topology.infra["metadata"]["name"])
        spec["controlPlaneRef"] = reference(kind, topology.control_plane["metadata"]["name"])
        if (topology.infra.get("status") or {}).get("initialization"):
            spec["controlPlaneEndpoint"] = topology.infra["spec"]["controlPlaneEndpoint"]
        return self._objects.update(kinds.CLUSTER, cluster)

    def _show(self, cluster: Obj, counts: Counts, pool_counts: list[Counts], topology: Condition, deleting: Condition) -> None:
        objects, meta = self._objects, cluster["metadata"]
        infra = objects.resolve(cluster["spec"].get("infrastructureRef"), meta["namespace"])
        control_plane = objects.resolve(cluster["spec"].get("controlPlaneRef"), meta["namespace"])
        picture = Picture(
            cluster=cluster,
            infra=infra[1] if infra else None,
            control_plane=control_plane[1] if control_plane else None,
            pools=objects.of_cluster(kinds.MACHINE_DEPLOYMENT, meta["namespace"], meta["name"]),
            machines=objects.of_cluster(kinds.MACHINE, meta["namespace"], meta["name"]),
            counts=counts,
            pool_counts=pool_counts,
            topology=topology,
            deleting=deleting,
        )
        status, listed = status_of(picture)
        objects.set_status(kinds.CLUSTER, cluster, status, listed)
        if picture.initialized and control_plane and deleting is _NOT_DELETING:
            self._kubeconfig(cluster, *control_plane)

    def _kubeconfig(self, cluster: Obj, kind: Kind, control_plane: Obj) -> None:
        """The Secret with the cluster's admin kubeconfig, as the control-plane provider keeps it; nothing answers at its address."""
        meta = cluster["metadata"]
        endpoint = cluster["spec"].get("controlPlaneEndpoint") or {}
        context = f"{meta['name']}-admin@{meta['name']}"
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": meta["name"], "cluster": {"server": f"https://{endpoint.get('host', '')}:{endpoint.get('port', '')}"}}],
            "users": [{"name": f"{meta['name']}-admin", "user": {"token": _MADE_UP}}],
            "contexts": [{"name": context, "context": {"cluster": meta["name"], "user": f"{meta['name']}-admin"}}],
            "current-context": context,
        }
        self._secret(cluster, kind, control_plane, "kubeconfig", {"value": yaml.safe_dump(body, sort_keys=False)})

    def _secret(self, cluster: Obj, kind: Kind, control_plane: Obj, suffix: str, values: Mapping[str, str]) -> None:
        """One of the Secrets that a control-plane provider makes for a cluster, if it is not there yet."""
        meta, name = cluster["metadata"], f"{cluster['metadata']['name']}-{suffix}"
        if self._objects.find(kinds.SECRET, meta["namespace"], name) is not None:
            return
        secret = {
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "labels": {CLUSTER_NAME_LABEL: meta["name"]},
                "ownerReferences": [owner(kind, control_plane)],
            },
            "type": "cluster.x-k8s.io/secret",
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
        }
        self._objects.create(kinds.SECRET, secret)

    def _pause(self, cluster: Obj) -> None:
        status = {name: value for name, value in (cluster.get("status") or {}).items() if name != "conditions"}
        status["observedGeneration"] = cluster["metadata"]["generation"]
        said = (cluster.get("status") or {}).get("conditions") or []
        kept = plain(entry for entry in said if entry["type"] not in {"Paused", "TopologyReconciled"})
        why = "Cluster spec.paused is set to true"
        paused = [condition("Paused", True, "Paused", why), condition("TopologyReconciled", False, "Paused", why)]
        self._objects.set_status(kinds.CLUSTER, cluster, status, [*kept, *paused])
        self._pause_parts(cluster["metadata"]["namespace"], cluster["metadata"]["name"], why)

    def _pause_parts(self, namespace: str, name: str, why: str) -> None:
        """Cluster API's own objects below a paused Cluster say so too; capmox's do not."""
        for kind in (*kinds.CONTROL_PLANES, kinds.MACHINE_DEPLOYMENT, kinds.MACHINE_SET, kinds.MACHINE, kinds.MACHINE_HEALTH_CHECK):
            for found in self._objects.of_cluster(kind, namespace, name):
                status = found.get("status")
                if status is None:
                    continue
                kept = plain(entry for entry in status.get("conditions") or [] if entry["type"] != "Paused")
                rest = {key: value for key, value in status.items() if key != "conditions"}
                self._objects.set_status(kind, found, rest, [*kept, condition("Paused", True, "Paused", why)])

    def _failed(self, cluster: Obj, why: str) -> None:
        """The topology cannot be reconciled: what is there stays, and the Cluster says why."""
        name = cluster["metadata"]["name"]
        log.warning("lab_topology_failed", cluster=name, reason=why)
        topology = condition("TopologyReconciled", False, "ReconcileFailed", f"error reconciling the Cluster topology: {why}")
        counts, pool_counts = self._present(cluster)
        self._show(cluster, counts, pool_counts, topology, _NOT_DELETING)

    def _present(self, cluster: Obj) -> tuple[Counts, list[Counts]]:
        """The counts of what is there, without a step taken."""
        status = cluster.get("status") or {}

        def counts(part: Obj) -> Counts:
            return Counts(
                desired=part.get("desiredReplicas", 0),
                replicas=part.get("replicas", 0),
                ready=part.get("readyReplicas", 0),
                up_to_date=part.get("upToDateReplicas", 0),
            )

        return counts(status.get("controlPlane") or {}), [counts(status.get("workers") or {})]

    # ---- deletion: workers, control plane, infrastructure

    def _delete(self, cluster: Obj) -> None:
        objects, meta = self._objects, cluster["metadata"]
        namespace, name = meta["namespace"], meta["name"]
        machines = objects.of_cluster(kinds.MACHINE, namespace, name)
        workers = [machine for machine in machines if CONTROL_PLANE_LABEL not in machine["metadata"]["labels"]]
        pools = objects.of_cluster(kinds.MACHINE_DEPLOYMENT, namespace, name)
        for pool in pools:
            objects.delete(kinds.MACHINE_DEPLOYMENT, pool)
        self._end_pools(cluster)
        left = [
            ("MachineDeployments", objects.of_cluster(kinds.MACHINE_DEPLOYMENT, namespace, name)),
            ("MachineSets", objects.of_cluster(kinds.MACHINE_SET, namespace, name)),
            ("Worker Machines", workers),
        ]
        if any(found for _, found in left):
            self._show_deleting(cluster, "WaitingForWorkersDeletion", "\n".join(_names(title, found) for title, found in left if found))
            return
        control_plane = objects.resolve(cluster["spec"].get("controlPlaneRef"), namespace)
        if control_plane is not None or machines:
            if control_plane is not None:
                self._delete_control_plane(*control_plane, machines)
            what = control_plane[0].kind if control_plane is not None else "the control plane's machines"
            self._show_deleting(cluster, "WaitingForControlPlaneDeletion", f"Waiting for {what} to be deleted")
            return
        infra = objects.resolve(cluster["spec"].get("infrastructureRef"), namespace)
        if infra is not None:
            objects.delete(*infra)
            self._show_deleting(cluster, "WaitingForInfrastructureDeletion", f"Waiting for {infra[0].kind} to be deleted")
            return
        objects.drop_finalizer(kinds.CLUSTER, cluster, FINALIZER)
        log.info("lab_cluster_removed", cluster=f"{namespace}/{name}")

    def _delete_control_plane(self, kind: Kind, holder: Obj, machines: list[Obj]) -> None:
        self._objects.delete(kind, holder)
        for machine in machines:
            self._objects.delete(kinds.MACHINE, machine)
        if not machines:
            self._objects.drop_finalizer(kind, holder, _finalizer_of(kind))

    def _show_deleting(self, cluster: Obj, reason: str, message: str) -> None:
        fresh = self._objects.find(kinds.CLUSTER, cluster["metadata"]["namespace"], cluster["metadata"]["name"])
        if fresh is None:
            return
        counts, pool_counts = self._present(fresh)
        topology = condition("TopologyReconciled", False, "Deleting", "Cluster is deleting")
        self._show(fresh, counts, pool_counts, topology, condition("Deleting", True, reason, message))


def _names(title: str, found: list[Obj]) -> str:
    return f"* {title}: " + ", ".join(one["metadata"]["name"] for one in found)


def _finalizer_of(kind: Kind) -> str:
    return f"{_CONTROL_PLANE_FINALIZERS[kind.kind]}.controlplane.cluster.x-k8s.io"


def _reconciled(version: str, topology: Topology, counts: Counts) -> Condition:
    """Whether everything has the version asked for; during an upgrade the message lists what has not."""
    control_plane = topology.control_plane
    lines = []
    if counts.replicas and any(found != version for found in counts.versions):
        lines.append(f"  * {control_plane['kind']} upgrading to version {version}")
    for pool in topology.pools:
        seen = [entry["version"] for entry in (pool.get("status") or {}).get("versions") or []]
        name = pool["metadata"]["name"]
        if name in topology.pending:
            lines.append(f"  * MachineDeployment {name} pending upgrade to version {version}")
        elif any(found != version for found in seen):
            lines.append(f"  * MachineDeployment {name} upgrading to version {version}")
    if not lines:
        return _RECONCILED
    return condition("TopologyReconciled", False, "ClusterUpgrading", "\n".join([f"Cluster is upgrading to {version}", *lines]))
