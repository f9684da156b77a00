"""The topology controller: from a Cluster with its plan to ProxmoxCluster, control plane, MachineDeployments and their templates."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from kubehenge.lab.kube import kinds
from kubehenge.lab.kube.admission import CLUSTER_NAME_LABEL, OWNED_LABEL
from kubehenge.lab.kube.capi.composition import Part, Plan, PoolPlan
from kubehenge.lab.kube.capi.conditions import is_true
from kubehenge.lab.kube.capi.desired import Blueprint
from kubehenge.lab.kube.capi.machine_sets import DEPLOYMENT_FINALIZER
from kubehenge.lab.kube.capi.machine_status import BOOTSTRAP, template_and_version
from kubehenge.lab.kube.capi.objects import CLONED_FROM, CLONED_FROM_KIND, POOL_LABEL, Objects, mention, owner, reference
from kubehenge.lab.kube.kinds import Kind, Obj
from kubehenge.lab.kube.metadata import random_suffix

_LONGEST_BASE = 63 - 5  # of a name with a random end


@dataclass(slots=True, kw_only=True)
class Topology:
    """The objects of a Cluster after one pass, and what still waits for an upgrade."""

    infra: Obj
    control_plane: Obj
    pools: list[Obj] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)


class TopologyController:
    """Applies what a plan asks for, as field manager capi-topology."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def reconcile(self, cluster: Obj, blueprint: Blueprint, plan: Plan) -> Topology:
        """
        Apply everything that a Cluster's topology asks for now.

        Errors: ApiError.
        """
        infra = self._infra(cluster, plan)
        control_plane = self._control_plane(cluster, blueprint, plan)
        topology = Topology(infra=infra, control_plane=control_plane)
        self._pools(cluster, blueprint, plan, topology)
        self._remove_templates(cluster, topology)
        return topology

    # ---- the parts

    def _infra(self, cluster: Obj, plan: Plan) -> Obj:
        kind = kinds.PROXMOX_CLUSTER
        name = self._name(cluster, "infrastructureRef", kind)
        body = self._body(kind, cluster, name, plan.infra.spec, source=plan.infra, controls=True)
        return self._objects.apply(kind, body)

    def _control_plane(self, cluster: Obj, blueprint: Blueprint, plan: Plan) -> Obj:
        kind = blueprint.control_plane_kind
        name = self._name(cluster, "controlPlaneRef", kind)
        live = self._objects.find(kind, blueprint.namespace, name)
        current = template_and_version(live)[0] if live is not None else ""
        template = self._template(cluster, current, plan.machine)
        machines = {
            "metadata": {"labels": {CLUSTER_NAME_LABEL: blueprint.name, OWNED_LABEL: ""}},
            "spec": {"infrastructureRef": reference(kinds.PROXMOX_MACHINE_TEMPLATE, template)},
        }
        given = {**plan.control_plane.spec, "replicas": blueprint.control_plane_replicas, "version": blueprint.version}
        body = self._body(
            kind,
            cluster,
            name,
            {**given, "machineTemplate": {**(given.get("machineTemplate") or {}), **machines}},
            source=plan.control_plane,
            controls=True,
        )
        if plan.rolls:
            digest = hashlib.sha256(json.dumps(plan.rolls, sort_keys=True).encode()).hexdigest()[:16]
            body["metadata"]["annotations"][BOOTSTRAP] = digest
        control_plane = self._objects.apply(kind, body)
        selected = {CLUSTER_NAME_LABEL: blueprint.name, "cluster.x-k8s.io/control-plane": ""}
        self._health_check(cluster, control_plane, plan.health_check, selected)
        return control_plane

    def _pools(self, cluster: Obj, blueprint: Blueprint, plan: Plan, topology: Topology) -> None:
        objects = self._objects
        live = {
            pool["metadata"]["labels"][POOL_LABEL]: pool
            for pool in objects.of_cluster(kinds.MACHINE_DEPLOYMENT, blueprint.namespace, blueprint.name)
            if "deletionTimestamp" not in pool["metadata"]
        }
        wanted = {pool.name: pool for pool in plan.pools}
        for name, pool in live.items():
            if name not in wanted:
                objects.delete(kinds.MACHINE_DEPLOYMENT, pool)
        may_upgrade = _has_version(topology.control_plane, blueprint.version)
        for name, asked in wanted.items():
            existing = live.get(name)
            if existing is not None and template_and_version(existing)[1] != blueprint.version and not may_upgrade:
                topology.pending.append(existing["metadata"]["name"])
                topology.pools.append(existing)
                continue
            pool = self._pool(cluster, blueprint, asked, existing)
            topology.pools.append(pool)
            if not _pool_has_version(pool, blueprint.version) and existing is not None:
                may_upgrade = False  # one worker pool at a time

    def _pool(self, cluster: Obj, blueprint: Blueprint, asked: PoolPlan, live: Obj | None) -> Obj:
        kind, pool = kinds.MACHINE_DEPLOYMENT, asked.name
        name = live["metadata"]["name"] if live is not None else _random_name(blueprint.name, pool)
        current, bootstrap = template_and_version(live)[0] if live is not None else "", _bootstrap_of(live)
        template = self._template(cluster, current, asked.machine, pool=pool)
        config = self._template(cluster, bootstrap, asked.bootstrap, pool=pool)
        selected = {CLUSTER_NAME_LABEL: blueprint.name, OWNED_LABEL: "", POOL_LABEL: pool}
        labels = {**(asked.metadata.get("labels") or {}), **selected}
        annotations: Obj = asked.metadata.get("annotations") or {}
        machine = {
            "clusterName": blueprint.name,
            "version": blueprint.version,
            "bootstrap": {"configRef": reference(asked.bootstrap.kind, config)},
            "infrastructureRef": reference(kinds.PROXMOX_MACHINE_TEMPLATE, template),
        }
        meta = {"labels": labels, **({"annotations": annotations} if annotations else {})}
        spec: Obj = {
            "clusterName": blueprint.name,
            "replicas": asked.replicas,
            "selector": {"matchLabels": selected},
            "template": {"metadata": meta, "spec": machine},
        }
        if in_flight := ((asked.health_check or {}).get("remediation") or {}).get("maxInFlight"):
            spec["remediation"] = {"maxInFlight": in_flight}
        body = self._body(kind, cluster, name, spec)
        body["metadata"]["labels"] |= labels
        if annotations:
            body["metadata"]["annotations"] = annotations
        applied = self._objects.add_finalizer(kind, self._objects.apply(kind, body), DEPLOYMENT_FINALIZER)
        self._health_check(cluster, applied, asked.health_check, {OWNED_LABEL: "", POOL_LABEL: pool})
        return applied

    def _template(self, cluster: Obj, current: str, part: Part, *, pool: str = "") -> str:
        """The name of a clone of a template with this spec: the current one when it fits, else a new one."""
        objects, meta = self._objects, cluster["metadata"]
        live = objects.find(part.kind, meta["namespace"], current) if current else None
        if live is not None and live["spec"]["template"].get("spec") == part.spec:
            return current
        name = _random_name(meta["name"], pool)
        body = self._body(part.kind, cluster, name, {"template": {"spec": part.spec}}, source=part)
        if pool:
            body["metadata"]["labels"][POOL_LABEL] = pool
        objects.apply(part.kind, body)
        return name

    def _remove_templates(self, cluster: Obj, topology: Topology) -> None:
        """Delete templates that nothing is made from any more."""
        objects, meta = self._objects, cluster["metadata"]
        used = {template_and_version(holder)[0] for holder in (topology.control_plane, *topology.pools)}
        for machine in objects.of_cluster(kinds.PROXMOX_MACHINE, meta["namespace"], meta["name"]):
            used.add((machine["metadata"].get("annotations") or {}).get(CLONED_FROM, ""))
        for found in objects.of_cluster(kinds.MACHINE_SET, meta["namespace"], meta["name"]):
            spec = found["spec"]["template"]["spec"]
            used |= {spec["infrastructureRef"]["name"], (spec["bootstrap"].get("configRef") or {}).get("name", "")}
        used |= {_bootstrap_of(pool) for pool in topology.pools}
        for kind in (kinds.PROXMOX_MACHINE_TEMPLATE, *kinds.BOOTSTRAP_TEMPLATES):
            for template in objects.of_cluster(kind, meta["namespace"], meta["name"]):
                if template["metadata"]["name"] not in used:
                    objects.delete(kind, template)

    def _health_check(self, cluster: Obj, holder: Obj, check: Obj | None, selected: dict[str, str]) -> None:
        meta, kind, name = cluster["metadata"], kinds.MACHINE_HEALTH_CHECK, holder["metadata"]["name"]
        if check is None:
            if found := self._objects.find(kind, meta["namespace"], name):
                self._objects.delete(kind, found)
            return
        spec: Obj = {"clusterName": meta["name"], "selector": {"matchLabels": selected}}
        if checks := check.get("checks"):
            spec["checks"] = checks
        remediation = {key: value for key, value in (check.get("remediation") or {}).items() if key != "maxInFlight"}
        if remediation:
            spec["remediation"] = remediation
        self._objects.apply(kind, self._body(kind, cluster, name, spec))

    # ---- helpers

    def _name(self, cluster: Obj, field_name: str, kind: Kind) -> str:
        """The name of a Cluster's object: as it refers to it, as it is found by its label, or a new one."""
        meta = cluster["metadata"]
        if known := (cluster["spec"].get(field_name) or {}).get("name"):
            return str(known)
        found = self._objects.of_cluster(kind, meta["namespace"], meta["name"])
        return found[0]["metadata"]["name"] if found else _random_name(meta["name"])

    @staticmethod
    def _body(kind: Kind, cluster: Obj, name: str, spec: Obj, *, source: Part | None = None, controls: bool = False) -> Obj:
        meta = cluster["metadata"]
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {CLUSTER_NAME_LABEL: meta["name"], OWNED_LABEL: ""},
            "ownerReferences": [owner(kinds.CLUSTER, cluster) if controls else mention(kinds.CLUSTER, cluster)],
        }
        if source is not None:
            metadata["annotations"] = {CLONED_FROM: source.source, CLONED_FROM_KIND: source.source_kind}
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _random_name(*parts: str) -> str:
    """A name with a random end, cut so that it can be a label's value."""
    base = "".join(f"{part}-" for part in parts if part)
    return base[:_LONGEST_BASE] + random_suffix()


def _bootstrap_of(pool: Obj | None) -> str:
    spec = pool["spec"]["template"]["spec"] if pool is not None else {}
    return str(((spec.get("bootstrap") or {}).get("configRef") or {}).get("name", ""))


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
