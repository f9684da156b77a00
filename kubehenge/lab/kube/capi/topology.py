"""The topology controller: from a Cluster with its class to ProxmoxCluster, control plane, MachineDeployments and their templates."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.admission import CLUSTER_NAME_LABEL, OWNED_LABEL
from kubehenge.lab.kube.capi import desired
from kubehenge.lab.kube.capi.conditions import is_true
from kubehenge.lab.kube.capi.desired import Blueprint
from kubehenge.lab.kube.capi.machine_status import template_and_version
from kubehenge.lab.kube.capi.objects import CLONED_FROM, DEPLOYMENT_LABEL, POOL_LABEL, Objects, owner, reference
from kubehenge.lab.kube.kinds import Kind, Obj
from kubehenge.lab.kube.metadata import random_suffix

BOOTSTRAP = "lab.kubehenge.dev/bootstrap-settings"
_HEALTH_CHECK = {
    "nodeStartupTimeoutSeconds": 1200,
    "unhealthyNodeConditions": [
        {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300},
        {"type": "Ready", "status": "False", "timeoutSeconds": 300},
    ],
}


@dataclass(slots=True, kw_only=True)
class Topology:
    """The objects of a Cluster after one pass, and what still waits for an upgrade."""

    infra: Obj
    control_plane: Obj
    pools: list[Obj] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)


class TopologyController:
    """Applies what a blueprint asks for, as field manager capi-topology."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def reconcile(self, cluster: Obj, blueprint: Blueprint) -> Topology:
        """
        Apply everything that a Cluster's topology asks for now.

        Errors: ValueError for variables that cannot be built from, ApiError.
        """
        infra = self._infra(cluster, blueprint)
        control_plane = self._control_plane(cluster, blueprint)
        topology = Topology(infra=infra, control_plane=control_plane)
        self._pools(cluster, blueprint, topology)
        self._remove_templates(cluster, topology)
        return topology

    # ---- the parts

    def _infra(self, cluster: Obj, blueprint: Blueprint) -> Obj:
        name = self._name(cluster, "infrastructureRef", kinds.PROXMOX_CLUSTER)
        body = self._body(kinds.PROXMOX_CLUSTER, cluster, name, desired.proxmox_cluster_spec(blueprint))
        return self._objects.apply(kinds.PROXMOX_CLUSTER, body)

    def _control_plane(self, cluster: Obj, blueprint: Blueprint) -> Obj:
        kind = blueprint.control_plane_kind
        name = self._name(cluster, "controlPlaneRef", kind)
        live = self._objects.find(kind, blueprint.namespace, name)
        spec = desired.machine_spec(blueprint, worker=False, version=blueprint.version)
        current = template_and_version(live)[0] if live is not None else ""
        template = self._template(cluster, current, spec, desired.bootstrap_settings(blueprint))
        body = self._body(
            kind,
            cluster,
            name,
            {
                "replicas": blueprint.control_plane_replicas,
                "version": blueprint.version,
                "machineTemplate": {"spec": {"infrastructureRef": reference(kinds.PROXMOX_MACHINE_TEMPLATE, template)}},
            },
        )
        control_plane = self._objects.apply(kind, body)
        self._health_check(cluster, kind, control_plane, {"cluster.x-k8s.io/control-plane": ""})
        return control_plane

    def _pools(self, cluster: Obj, blueprint: Blueprint, topology: Topology) -> None:
        objects = self._objects
        live = {
            pool["metadata"]["labels"][POOL_LABEL]: pool
            for pool in objects.of_cluster(kinds.MACHINE_DEPLOYMENT, blueprint.namespace, blueprint.name)
            if "deletionTimestamp" not in pool["metadata"]
        }
        wanted = dict(blueprint.pools)
        for name, pool in live.items():
            if name not in wanted:
                objects.delete(kinds.MACHINE_DEPLOYMENT, pool)
        may_upgrade = _has_version(topology.control_plane, blueprint.version)
        for name, replicas in wanted.items():
            existing = live.get(name)
            if existing is not None and template_and_version(existing)[1] != blueprint.version and not may_upgrade:
                topology.pending.append(existing["metadata"]["name"])
                topology.pools.append(existing)
                continue
            pool = self._pool(cluster, blueprint, name, replicas, existing)
            topology.pools.append(pool)
            if not _pool_has_version(pool, blueprint.version) and existing is not None:
                may_upgrade = False  # one worker pool at a time

    def _pool(self, cluster: Obj, blueprint: Blueprint, pool: str, replicas: int, live: Obj | None) -> Obj:
        kind = kinds.MACHINE_DEPLOYMENT
        name = live["metadata"]["name"] if live is not None else f"{blueprint.name}-{pool}-{random_suffix()}"
        current = template_and_version(live)[0] if live is not None else ""
        spec = desired.machine_spec(blueprint, worker=True, version=blueprint.version)
        template = self._template(cluster, current, spec, {}, pool=pool)
        labels = {CLUSTER_NAME_LABEL: blueprint.name, OWNED_LABEL: "", POOL_LABEL: pool}
        machine = {
            "clusterName": blueprint.name,
            "version": blueprint.version,
            "bootstrap": {"dataSecretName": ""},
            "infrastructureRef": reference(kinds.PROXMOX_MACHINE_TEMPLATE, template),
        }
        body = self._body(
            kind,
            cluster,
            name,
            {
                "clusterName": blueprint.name,
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": {**labels, DEPLOYMENT_LABEL: name}}, "spec": machine},
                "remediation": {"maxInFlight": 1},
            },
        )
        body["metadata"]["labels"][POOL_LABEL] = pool
        applied = self._objects.apply(kind, body)
        self._health_check(cluster, kind, applied, {POOL_LABEL: pool})
        return applied

    def _template(self, cluster: Obj, current: str, spec: Obj, bootstrap: Obj, *, pool: str = "") -> str:
        """The name of a machine template with this spec: the current one when it fits, else a new one."""
        objects, meta, kind = self._objects, cluster["metadata"], kinds.PROXMOX_MACHINE_TEMPLATE
        digest = hashlib.sha256(json.dumps(bootstrap, sort_keys=True).encode()).hexdigest()[:16] if bootstrap else ""
        live = objects.find(kind, meta["namespace"], current) if current else None
        if (
            live is not None
            and live["spec"]["template"]["spec"] == spec
            and (live["metadata"].get("annotations") or {}).get(BOOTSTRAP, "") == digest
        ):
            return current
        name = "-".join(part for part in (meta["name"], pool, random_suffix()) if part)
        body = self._body(kind, cluster, name, {"template": {"spec": spec}})
        class_name = cluster["spec"]["topology"]["classRef"]["name"]
        body["metadata"]["annotations"] = {CLONED_FROM: f"{class_name}-{'worker' if pool else 'control-plane'}"}
        if digest:
            body["metadata"]["annotations"][BOOTSTRAP] = digest
        objects.apply(kind, body)
        return name

    def _remove_templates(self, cluster: Obj, topology: Topology) -> None:
        """Delete machine templates that nothing is made from any more."""
        objects, meta = self._objects, cluster["metadata"]
        used = {template_and_version(holder)[0] for holder in (topology.control_plane, *topology.pools)}
        for machine in objects.of_cluster(kinds.PROXMOX_MACHINE, meta["namespace"], meta["name"]):
            used.add((machine["metadata"].get("annotations") or {}).get(CLONED_FROM, ""))
        for template in objects.of_cluster(kinds.PROXMOX_MACHINE_TEMPLATE, meta["namespace"], meta["name"]):
            if template["metadata"]["name"] not in used:
                objects.delete(kinds.PROXMOX_MACHINE_TEMPLATE, template)

    def _health_check(self, cluster: Obj, kind: Kind, holder: Obj, labels: dict[str, str]) -> None:
        meta = cluster["metadata"]
        spec = {
            "clusterName": meta["name"],
            "selector": {"matchLabels": {CLUSTER_NAME_LABEL: meta["name"], **labels}},
            "checks": _HEALTH_CHECK,
        }
        body = self._body(kinds.MACHINE_HEALTH_CHECK, cluster, holder["metadata"]["name"], spec)
        body["metadata"]["ownerReferences"] = [owner(kind, holder)]
        self._objects.apply(kinds.MACHINE_HEALTH_CHECK, body)

    # ---- helpers

    def _name(self, cluster: Obj, field_name: str, kind: Kind) -> str:
        """The name of a Cluster's object: as it refers to it, as it is found by its label, or a new one."""
        meta = cluster["metadata"]
        if known := (cluster["spec"].get(field_name) or {}).get("name"):
            return str(known)
        found = self._objects.of_cluster(kind, meta["namespace"], meta["name"])
        return found[0]["metadata"]["name"] if found else f"{meta['name']}-{random_suffix()}"

    def _body(self, kind: Kind, cluster: Obj, name: str, spec: Obj) -> Obj:
        meta = cluster["metadata"]
        metadata = {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {CLUSTER_NAME_LABEL: meta["name"], OWNED_LABEL: ""},
            "ownerReferences": [owner(kinds.CLUSTER, cluster)],
        }
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _has_version(control_plane: Obj, version: str) -> bool:
    """Whether the whole control plane runs a version and is quiet, so that workers may follow."""
    status = control_plane.get("status") or {}
    quiet = (
        not is_true(control_plane, "RollingOut") and not is_true(control_plane, "ScalingUp") and not is_true(control_plane, "ScalingDown")
    )
    return status.get("version") == version and status.get("observedGeneration") == control_plane["metadata"]["generation"] and quiet


def _pool_has_version(pool: Obj, version: str) -> bool:
    status = pool.get("status") or {}
    seen = [entry["version"] for entry in status.get("versions") or []]
    return template_and_version(pool)[1] == version and all(found == version for found in seen) and not is_true(pool, "RollingOut")
