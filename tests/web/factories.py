"""Rows of a small fleet, as the loops would leave them; the same fleet that the screenshots show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from kubehenge.model.canon import MISSING, FieldChange, body_hash, changes
from kubehenge.model.plan import (
    Action,
    Bill,
    Check,
    Disruption,
    NodeLoad,
    NodeLoss,
    Obstacle,
    Plan,
    PlanState,
    QuorumStep,
    QuorumVerdict,
    Remedy,
    StepState,
)
from kubehenge.model.resource import BodyHash, ChangeClass, ClusterState, Lane, ResourceRef, Verb
from kubehenge.store import ledger
from kubehenge.store.bodies import hashed, put_bodies
from kubehenge.store.plans import close_plan, insert_plans, name_replacement, new_row
from kubehenge.store.rows import (
    ActionRow,
    ApprovalRow,
    ApprovalVerdict,
    ClusterRow,
    CoverageRow,
    CoverageState,
    DocumentRow,
    LeaseRow,
    PlanRow,
    ResourceRow,
    RunRow,
    SiteRow,
    SourceRow,
    SourceState,
    StepRow,
    TickRow,
    Verdict,
)

NOW = datetime(2026, 11, 30, 13, 32, tzinfo=UTC)
"""14:32 in Berlin."""
REVISION = "4be7d21" + "0" * 33
GIB = 1024


def at(clock: str, day: int = 30) -> datetime:
    """An instant of that day in Berlin's winter time, as UTC."""
    hours, minutes, *seconds = (int(part) for part in clock.split(":"))
    return datetime(2026, 11, day, hours, minutes, seconds[0] if seconds else 0, tzinfo=UTC) - timedelta(hours=1)


@dataclass(slots=True)
class Fleet:
    """Makes rows in one session, and remembers their ids by name."""

    session: Session
    site_id: int = 0
    source_id: int = 0
    clusters: dict[str, int] = field(default_factory=dict)
    plans: dict[str, int] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)

    def add(self, row: Any) -> Any:
        self.session.add(row)
        self.session.flush()
        return row

    def body(self, content: Mapping[str, Any]) -> str:
        put_bodies(self.session, hashed([content]))
        return body_hash(content)

    def site(self, name: str = "default") -> None:
        self.site_id = self.add(SiteRow(name=name, created_at=at("08:00", 1))).id
        self.add(TickRow(site_id=self.site_id, number=1, at=at("08:00", 1), seen_at=at("08:00", 1)))
        self.add(TickRow(site_id=self.site_id, number=88_214, at=at("14:06:09"), seen_at=at("14:31:52")))

    def covered(self, tier: str, state: CoverageState = CoverageState.OK, *, to_at: datetime | None = None, reason: str = "") -> None:
        to_at = to_at or at("14:31:52")
        row = CoverageRow(
            site_id=self.site_id,
            tier=tier,
            from_tick=1,
            to_tick=2,
            state=state,
            reason=reason,
            from_at=to_at - timedelta(hours=1),
            to_at=to_at,
        )
        self.add(row)

    def source(self, name: str = "fleet", *, state: SourceState = SourceState.READ, **values: Any) -> int:
        row = SourceRow(
            site_id=self.site_id,
            name=name,
            url=values.pop("url", "https://git.example.org/platform/fleet.git"),
            branch="main",
            path="clusters",
            state=state,
            accepted_sha=values.pop("accepted_sha", REVISION),
            accepted_author=values.pop("accepted_author", "tomas@corp"),
            accepted_subject=values.pop("accepted_subject", "Upgrade shop to 1.37, one worker more"),
            accepted_at=at("14:05"),
            seen_sha=values.pop("seen_sha", REVISION),
            polled_at=at("14:31:40"),
            **values,
        )
        self.sources[name] = self.add(row).id
        return self.sources[name]

    def document(self, path: str, *, verdict: Verdict = Verdict.ACCEPTED, kind: str = "Cluster", scope: str = "", **values: Any) -> None:
        namespace, _slash, name = scope.rpartition("/")
        row = DocumentRow(
            site_id=self.site_id,
            source_id=values.pop("source_id", self.source_id),
            path=path,
            position=values.pop("position", 1),
            line=1,
            blob_id="b" * 40,
            revision=REVISION,
            kind=kind,
            namespace=namespace,
            name=name,
            verdict=verdict,
            own_verdict=verdict,
            from_tick=1,
            **values,
        )
        self.add(row)

    def resource(self, kind: str, name: str, observed: Mapping[str, Any], cluster: str = "") -> None:
        self.add(
            ResourceRow(
                site_id=self.site_id, cluster_id=self.clusters.get(cluster), kind=kind, name=name, observed_hash=self.body(observed)
            )
        )

    def node(self, name: str, *, memory_gib: int = 256, online: bool = True) -> None:
        self.resource("proxmox.node", name, {"online": online, "cores": 32, "memory_mib": memory_gib * GIB})

    def vm(self, vmid: int, node: str, *, memory_gib: int, pool: str = "", name: str = "guest", cores: int = 4, cluster: str = "") -> None:
        body = {
            "name": name,
            "node": node,
            "pool": pool,
            "cores": cores,
            "memory_mib": memory_gib * GIB,
            "running": True,
            "template": False,
            "tags": [],
        }
        self.resource("proxmox.vm", str(vmid), body, cluster)

    def cluster(
        self,
        scope: str,
        *,
        class_name: str = "kubehenge-rke2",
        version: str = "v1.36.5+rke2r1",
        control_plane: tuple[int, int] = (3, 3),
        workers: tuple[int, int] = (3, 3),
        state: ClusterState = ClusterState.DECLARED,
        status: Mapping[str, Any] | None = None,
        seen: bool = True,
        conditions: Sequence[Mapping[str, str]] | None = None,
        labels: Mapping[str, str] | None = None,
        protect: bool = False,
        incarnation: int = 1,
        revision: str = REVISION,
    ) -> int:
        namespace, _slash, name = scope.partition("/")
        declaration = cluster_body(
            scope,
            class_name=class_name,
            version=version,
            control_planes=control_plane[1],
            workers=workers[1],
            labels=labels,
            protect=protect,
        )
        declared = state is ClusterState.DECLARED
        row = ClusterRow(
            site_id=self.site_id,
            namespace=namespace,
            name=name,
            incarnation=incarnation,
            state=state,
            holder_source_id=self.source_id if declared and self.source_id else None,
            holder_path=f"clusters/{scope}.yaml" if declared else "",
            holder_position=1,
            declared_hash=self.body(declaration) if declared else None,
            declared_revision=revision if declared else "",
            class_name=class_name,
            opened_tick=1,
        )
        if seen:
            available = control_plane[0] == control_plane[1]
            body = {
                "phase": "Provisioned" if available else "Provisioning",
                "available": available,
                "rolling": False,
                "deleting": False,
                "paused": False,
                "version": version,
                "class": class_name,
                "endpoint": "https://192.0.2.50:6443",
                "control_plane": {"desired": control_plane[1], "replicas": control_plane[1], "ready": control_plane[0], "up_to_date": 3},
                "workers": {"desired": workers[1], "replicas": workers[1], "ready": workers[0], "up_to_date": 3},
                "conditions": list(conditions if conditions is not None else usual_conditions()),
                "observed_generation": 1,
                "generation": 1,
            }
            row.status = {**body, **(status or {})}
        self.clusters[scope] = self.add(row).id
        return self.clusters[scope]

    def machine(
        self,
        scope: str,
        name: str,
        *,
        control_plane: bool = False,
        vmid: int | None,
        node: str,
        ready: bool = True,
        memory_gib: int = 8,
        address: str = "192.0.2.111",
        version: str = "v1.36.5+rke2r1",
        deployment: str = "md-0",
    ) -> None:
        namespace, _slash, cluster = scope.partition("/")
        body = {
            "cluster": scope,
            "control_plane": control_plane,
            "deployment": "" if control_plane else deployment,
            "version": version,
            "vmid": vmid,
            "ready": ready,
            "deleting": False,
            "phase": "Running",
            "node_name": name,
            "addresses": [address],
            "created_at": at("10:00", 11).isoformat(),
        }
        self.resource("kube.machine", f"{namespace}/{name}", body, scope)
        if vmid is not None:
            self.vm(vmid, node, memory_gib=memory_gib, pool=f"kubehenge/{namespace}.{cluster}", name=name, cluster=scope)

    def plan(
        self,
        scope: str,
        title: str,
        actions: Sequence[Action],
        *,
        lane: Lane = Lane.ASKED,
        digest: str,
        opened: datetime,
        bill: Bill | None = None,
        obstacles: Sequence[Obstacle] = (),
        checks: Sequence[Check] = (),
        summary: str = "",
        author: str = "tomas@corp",
        state: PlanState = PlanState.OPEN,
        closed: datetime | None = None,
        reason: str = "",
        held: str = "",
        name: str = "",
    ) -> int:
        plan = Plan(
            site="default",
            scope=scope,
            incarnation=1,
            lane=lane,
            digest=digest.ljust(64, "0"),
            documents=("b" * 40,),
            inputs="i" * 64,
            actions=tuple(actions),
            disruption=Disruption(),
            title=title,
            summary=summary,
            bill=bill or Bill(),
            obstacles=tuple(obstacles),
            checks=tuple(checks),
        )
        row = new_row(
            plan,
            site_id=self.site_id,
            cluster_id=self.clusters.get(scope),
            tick=88_214,
            now=opened,
            revision=REVISION if lane is Lane.ASKED else "",
            author=author,
            rules_version=0,
            held=held,
        )
        insert_plans(self.session, [(row, plan)])
        row.refreshed_at = at("14:31:52") if closed is None else opened
        if closed is not None:
            close_plan(self.session, row, state, tick=88_215, now=closed, reason=reason)
        else:
            row.state = state
            row.approved_at = opened if state is not PlanState.OPEN else None
        self.session.flush()
        self.plans[name or f"{scope} {lane.value}"] = row.id
        return row.id

    def said(
        self,
        plan_id: int,
        who: str,
        verdict: ApprovalVerdict = ApprovalVerdict.APPROVE,
        *,
        when: datetime,
        comment: str = "",
        typed: str = "",
    ) -> None:
        digest = self.session.get_one(PlanRow, plan_id).digest
        self.add(
            ApprovalRow(
                plan_id=plan_id, digest=digest, verdict=verdict, who=who, rules_version=0, typed_name=typed, comment=comment, at=when
            )
        )

    def run(
        self,
        plan_id: int,
        *,
        started: datetime,
        ended: datetime | None = None,
        outcome: PlanState | None = None,
        states: Mapping[int, StepState] | None = None,
        waits_on: str = "",
        progress: tuple[int, int] = (0, 0),
        error: str = "",
        log: Sequence[Mapping[str, str]] = (),
        run_id: int | None = None,
    ) -> int:
        plan = self.session.get_one(PlanRow, plan_id)
        run = self.add(
            RunRow(
                id=run_id,
                site_id=self.site_id,
                plan_id=plan_id,
                scope=plan.scope,
                lane=plan.lane,
                fence=1,
                started_at=started,
                ended_at=ended,
                outcome=outcome,
            )
        )
        for action in self.session.query(ActionRow).filter(ActionRow.plan_id == plan_id).order_by(ActionRow.position):
            state = (states or {}).get(action.position, StepState.DONE if ended else StepState.NOT_STARTED)
            begun = state not in {StepState.NOT_STARTED, StepState.BLOCKED}
            pending = state is StepState.PENDING
            self.add(
                StepRow(
                    run_id=run.id,
                    action_id=action.id,
                    position=action.position,
                    state=state,
                    handle={"generation": 14} if pending else None,
                    waits_on=waits_on if pending else "",
                    progress_done=progress[0] if pending else 0,
                    progress_all=progress[1] if pending else 0,
                    attempts=1 if begun else 0,
                    error=error if state is StepState.FAILED else "",
                    log=list(log) if pending or state is StepState.FAILED else [],
                    intended_at=started + timedelta(seconds=action.position) if begun else None,
                    looked_at=at("14:31:52") if pending else None,
                    ended_at=started + timedelta(seconds=action.position + 2) if begun and not pending else None,
                )
            )
        self.runs[plan.scope] = run.id
        return run.id

    def entry(self, event: str, subject: str, who: str, when: datetime, facts: Mapping[str, Any] | None = None) -> None:
        ledger.append(
            self.session,
            site_id=self.site_id,
            tick=1,
            event=event,
            subject=subject,
            who=who,
            facts=facts or {},
            at=when,
        )

    def lease(self, name: str, *, renewed: datetime, expires: datetime) -> None:
        self.add(LeaseRow(name=name, holder="pid 1", fence=1, renewed_at=renewed, expires_at=expires))


def cluster_body(
    scope: str,
    *,
    class_name: str,
    version: str,
    control_planes: int,
    workers: int,
    labels: Mapping[str, str] | None = None,
    protect: bool = False,
) -> dict[str, Any]:
    namespace, _slash, name = scope.partition("/")
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels or {}),
            "annotations": {"kubehenge.dev/protect": "true"} if protect else {},
        },
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.42.0.0/16"]}, "services": {"cidrBlocks": ["10.43.0.0/16"]}},
            "topology": {
                "classRef": {"name": class_name, "namespace": "kubehenge-system"},
                "version": version,
                "controlPlane": {"replicas": control_planes},
                "workers": {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": workers}]},
                "variables": [
                    {"name": "controlPlaneEndpoint", "value": "192.0.2.50"},
                    {
                        "name": "network",
                        "value": {
                            "bridge": "vmbr0",
                            "addresses": ["192.0.2.51-192.0.2.69"],
                            "prefix": 24,
                            "gateway": "192.0.2.1",
                            "dnsServers": ["192.0.2.1"],
                        },
                    },
                    {"name": "storage", "value": "ceph-vm"},
                    {"name": "controlPlaneMachine", "value": {"cores": 4, "memoryMiB": 8192, "diskGiB": 40}},
                    {"name": "workerMachine", "value": {"cores": 8, "memoryMiB": 16384, "diskGiB": 80}},
                ],
            },
        },
    }


def usual_conditions() -> list[dict[str, str]]:
    since = at("09:14", 3).isoformat()
    good = (
        "Available",
        "RemoteConnectionProbe",
        "InfrastructureReady",
        "ControlPlaneInitialized",
        "ControlPlaneAvailable",
        "WorkersAvailable",
    )
    quiet = ("ScalingUp", "ScalingDown", "RollingOut", "Deleting", "Paused")
    return [{"type": kind, "status": "True", "reason": kind, "message": "", "since": since} for kind in good] + [
        {"type": kind, "status": "False", "reason": f"Not{kind}", "message": "", "since": since} for kind in quiet
    ]


def create(
    position: int, kind: str, name: str, body: Mapping[str, Any], *, after: Sequence[int] = (), cls: ChangeClass = ChangeClass.CREATE
) -> Action:
    return Action(
        position=position,
        ref=ResourceRef(kind=kind, name=name),
        verb=Verb.CREATE,
        change_class=cls,
        part=Lane.ASKED,
        before=None,
        after=BodyHash(body_hash(body)),
        target=body,
        waits_for=tuple(after),
    )


def update(
    position: int,
    kind: str,
    name: str,
    before: Mapping[str, Any],
    after_body: Mapping[str, Any],
    *,
    after: Sequence[int] = (),
    cls: ChangeClass = ChangeClass.CHANGE,
    drift: Sequence[FieldChange] = (),
    reason: str = "",
) -> Action:
    return Action(
        position=position,
        ref=ResourceRef(kind=kind, name=name),
        verb=Verb.UPDATE,
        change_class=cls,
        part=Lane.UPKEEP if cls in {ChangeClass.REPAIR, ChangeClass.DUTY} else Lane.ASKED,
        before=BodyHash(body_hash(before)),
        after=BodyHash(body_hash(after_body)),
        target=after_body,
        changes=tuple(changes(before, after_body)),
        drift=tuple(drift),
        waits_for=tuple(after),
        reason=reason,
    )


def delete(position: int, kind: str, name: str, *, after: Sequence[int] = (), reason: str = "its cluster is no longer declared") -> Action:
    return Action(
        position=position,
        ref=ResourceRef(kind=kind, name=name),
        verb=Verb.DELETE,
        change_class=ChangeClass.DELETE,
        part=Lane.ASKED,
        before=BodyHash("d" * 64),
        after=None,
        target=None,
        waits_for=tuple(after),
        reason=reason,
    )


def corner(
    scope: str, version: str = "v1.36.5+k3s1", class_name: str = "kubehenge-k3s", control_planes: int = 3, workers: int = 3
) -> list[Action]:
    """The creation of a cluster with its corner of Proxmox VE."""
    namespace, _slash, name = scope.partition("/")
    pool, user = f"kubehenge/{namespace}.{name}", "kh-3f9a0c7d21be@pve"
    mark = f"kubehenge site=default cluster={scope} incarnation=1"
    body = cluster_body(scope, class_name=class_name, version=version, control_planes=control_planes, workers=workers)
    return [
        create(1, "proxmox.pool", pool, {"poolid": pool, "comment": mark}),
        create(2, "proxmox.user", user, {"userid": user, "comment": mark, "groups": ["kubehenge-clusters"], "enable": True}),
        create(
            3, "proxmox.acl", f"/pool/{pool}:{user}:KubehengeCluster", {"path": f"/pool/{pool}", "roleid": "KubehengeCluster"}, after=(1, 2)
        ),
        create(4, "proxmox.token", f"{user}!k1", {"userid": user, "tokenid": "k1", "privsep": 0}, after=(2, 3), cls=ChangeClass.CREDENTIAL),
        create(
            5,
            "proxmox.volume_owner",
            pool,
            {"name": f"{name}-3f9a0c7d-volumes", "pool": pool, "tags": ["kubehenge", "volumes"]},
            after=(1,),
        ),
        create(
            6,
            "kube.secret",
            f"{namespace}/{name}-proxmox-token",
            {"kind": "Secret", "annotations": {"kubehenge.dev/token-hmac": {"$ref": f"proxmox.token/{user}!k1#hmac"}}},
            after=(4, 5),
            cls=ChangeClass.CREDENTIAL,
        ),
        create(7, "kube.resource_set", f"{namespace}/{name}-proxmox", {"strategy": "Reconcile"}, after=(6,)),
        create(8, "kube.cluster", scope, body, after=(1, 3, 5, 6, 7)),
    ]


def upgrade_bill() -> Bill:
    """The bill of prod/shop's upgrade: 3 control planes and 5 workers replaced, one worker more."""
    steps = (
        ("Now", "pve1 pve2 pve3"),
        ("1st joins", "pve1 pve2 pve3 pve4"),
        ("1st leaves", "pve2 pve3 pve4"),
        ("2nd joins", "pve1 pve2 pve3 pve4"),
        ("2nd leaves", "pve1 pve3 pve4"),
        ("3rd joins", "pve1 pve2 pve3 pve4"),
        ("3rd leaves", "pve1 pve2 pve4"),
    )
    loads = (("pve1", 3, 3, 3, 88, 88), ("pve2", 2, 2, 2, 61, 61), ("pve3", 2, 2, 2, 97, 97), ("pve4", 1, 3, 2, 120, 88))
    lost = (("pve1", 2, 4, 40), ("pve2", 1, 5, 24), ("pve3", 1, 5, 24), ("pve4", 2, 4, 40))
    return Bill(
        addresses_needed=2,
        addresses_free=11,
        addresses_free_after=10,
        memory_now_mib=104 * GIB,
        memory_peak_mib=136 * GIB,
        memory_after_mib=120 * GIB,
        memory_free_mib=366 * GIB,
        cores_now=52,
        cores_peak=68,
        cores_after=60,
        control_planes_replaced=3,
        workers_replaced=5,
        machines_added=1,
        nodes=tuple(
            NodeLoad(
                node=node,
                online=True,
                vms_now=now,
                vms_peak=peak,
                vms_after=after,
                memory_mib=256 * GIB,
                free_now_mib=free * GIB,
                free_peak_mib=free_peak * GIB,
            )
            for node, now, peak, after, free, free_peak in loads
        ),
        quorum=QuorumVerdict.KEPT,
        quorum_steps=tuple(
            QuorumStep(
                step=step, members_on=tuple(nodes.split()), needs=len(nodes.split()) // 2 + 1, left_after_loss=len(nodes.split()) - 1
            )
            for step, nodes in steps
        ),
        losses=tuple(
            NodeLoss(
                node=node, control_planes=1, workers=workers, quorum_kept=True, workers_left=left, workers_all=6, replace_mib=needs * GIB
            )
            for node, workers, left, needs in lost
        ),
    )


def upgrade_checks() -> tuple[Check, ...]:
    return (
        Check(text="One minor version at a time, never back", holds=True, note="v1.36.5+rke2r1 to v1.37.1+rke2r1"),
        Check(text="Disks only grow", holds=True, note="unchanged"),
        Check(text="A template for its version", holds=True, note="9012"),
        Check(text="Addresses for every node, and one more while nodes are replaced", holds=True, note="9 spare at the peak"),
        Check(text="Memory for every new node on a Proxmox VE node that may run it", holds=True, note="366 GiB free"),
        Check(text="etcd keeps its quorum", holds=True, note="certificate above"),
    )


def ml_obstacles() -> tuple[Obstacle, ...]:
    return (
        Obstacle(
            what="addresses",
            asked="9 node addresses at the peak",
            there_is="6",
            short_by="3 short",
            remedies=(
                Remedy(
                    text="Give the cluster 3 more addresses.",
                    changes=(
                        FieldChange(
                            path="variables.network.addresses[0]", before="203.0.113.21-203.0.113.26", after="203.0.113.21-203.0.113.29"
                        ),
                    ),
                ),
                Remedy(
                    text="Ask for 3 workers fewer.",
                    changes=(FieldChange(path="spec.topology.workers.machineDeployments[gpu].replicas", before=8, after=5),),
                    cost="workloads move to the others",
                ),
            ),
        ),
        Obstacle(
            what="memory",
            asked="64 GiB on one node for each worker, 1 without room",
            there_is="61 GiB at most, on all online nodes",
            short_by="3 GiB short",
            remedies=(
                Remedy(
                    text="Ask for 1 worker fewer.",
                    changes=(FieldChange(path="spec.topology.workers.machineDeployments[gpu].replicas", before=8, after=7),),
                ),
                Remedy(text="Free 3 GiB on one Proxmox VE node, or add one."),
            ),
        ),
    )


def whole_fleet(session: Session) -> Fleet:
    """The twelve clusters of the pages: one of each state that a page must show."""
    fleet = Fleet(session)
    fleet.site()
    for tier in ("fast", "proxmox", "kube", "site"):
        fleet.covered(tier)
    for node in ("pve1", "pve2", "pve3", "pve4"):
        fleet.node(node)
    for vmid, node in ((201, "pve1"), (202, "pve2"), (203, "pve3"), (204, "pve4")):
        fleet.vm(vmid, node, memory_gib=32)
    fleet.source_id = fleet.source()
    _clusters(fleet)
    _machines(fleet)
    _shop(fleet)
    _others(fleet)
    _documents(fleet)
    _ledger(fleet)
    return fleet


def _clusters(fleet: Fleet) -> None:
    k3s = {"class_name": "kubehenge-k3s", "version": "v1.36.5+k3s1"}
    kubeadm = {"class_name": "kubehenge-kubeadm", "version": "v1.36.5"}
    fleet.cluster("clusters/wiki", **k3s, control_plane=(1, 1), workers=(1, 1))
    fleet.cluster("edge/kiosk", **k3s, control_plane=(0, 3), workers=(0, 3), seen=False)
    fleet.cluster("lab/ml", **kubeadm, control_plane=(1, 1), workers=(4, 4))
    fleet.cluster("lab/scratch", class_name="kubehenge-k3s", version="v1.35.9+k3s1", control_plane=(1, 1), workers=(1, 1))
    fleet.cluster("prod/billing", version="v1.36.6+rke2r1", workers=(4, 4), status={"rolling": True})
    fleet.cluster("prod/media", **kubeadm, workers=(2, 3))
    fleet.cluster("prod/search", version="v1.36.6+rke2r1", control_plane=(1, 3), workers=(0, 3))
    fleet.cluster("prod/shop", workers=(5, 5), labels={"team": "commerce"}, protect=True)
    fleet.cluster("staging/api", **k3s, control_plane=(1, 1), workers=(3, 3))
    fleet.cluster("staging/web", **k3s, control_plane=(1, 1), workers=(2, 2))
    fleet.cluster("team-data/warehouse", class_name="kubehenge-kubeadm", version="v1.35.9", workers=(6, 6), state=ClusterState.FOREIGN)
    held = {
        "type": "TopologyReconciled",
        "status": "False",
        "reason": "UpgradeHeldBack",
        "message": "v1.37.1+rke2r1 is beyond what Rancher 2.13 runs on (up to 1.36).",
        "since": at("02:00", 21).isoformat(),
    }
    fleet.cluster("tools/rancher", workers=(0, 0), conditions=[held, *usual_conditions()])


def _machines(fleet: Fleet) -> None:
    for number, node in enumerate(("pve1", "pve2", "pve3")):
        fleet.machine("prod/shop", f"shop-cp-{number}", control_plane=True, vmid=1001 + number, node=node, address=f"192.0.2.{51 + number}")
    for number, node in enumerate(("pve1", "pve1", "pve2", "pve3", "pve4")):
        fleet.machine("prod/shop", f"shop-md-0-{number}", vmid=1011 + number, node=node, memory_gib=16, address=f"192.0.2.{54 + number}")
    media = (("7xk2m", "pve1", 1121), ("9dq4t", "pve2", 1122), ("h3v8p", "pve2", 1124))
    for number, (suffix, node, vmid) in enumerate(media):
        fleet.machine(
            "prod/media",
            f"media-cp-{suffix}",
            control_plane=True,
            vmid=vmid,
            node=node,
            version="v1.36.5",
            address=f"192.0.2.{111 + number}",
        )
    workers = (("2c6wz", "pve4", 1125, True), ("5nb7r", "pve1", 1126, True), ("tq9fj", "pve3", 1127, False))
    for number, (suffix, node, vmid, ready) in enumerate(workers):
        fleet.machine(
            "prod/media",
            f"media-md-0-{suffix}",
            vmid=vmid,
            node=node,
            ready=ready,
            memory_gib=32,
            version="v1.36.5",
            address=f"192.0.2.{114 + number}",
        )
    for number, version in enumerate(("v1.36.6+rke2r1", "v1.36.6+rke2r1", "v1.36.4+rke2r1")):
        fleet.machine(
            "prod/billing",
            f"billing-md-0-{number}",
            vmid=1092 + number,
            node=f"pve{number + 1}",
            version=version,
            address=f"192.0.2.{90 + number}",
        )


def shop_change() -> tuple[dict[str, Any], dict[str, Any]]:
    before = cluster_body("prod/shop", class_name="kubehenge-rke2", version="v1.36.5+rke2r1", control_planes=3, workers=5)
    after = cluster_body("prod/shop", class_name="kubehenge-rke2", version="v1.37.1+rke2r1", control_planes=3, workers=6)
    return before, after


def _shop(fleet: Fleet) -> None:
    before, after = shop_change()
    set_before, set_after = {"strategy": "ApplyOnce"}, {"strategy": "Reconcile"}
    earlier = fleet.plan(
        "prod/shop",
        "Upgrade prod/shop to v1.37.1+rke2r1",
        [update(1, "kube.cluster", "prod/shop", before, {**after}, cls=ChangeClass.ROLLOUT)],
        digest="a0c7735e1b92",
        opened=at("13:40"),
        closed=at("14:06"),
        state=PlanState.SUPERSEDED,
        reason="A newer revision changed its file.",
        name="shop before",
    )
    plan_id = fleet.plan(
        "prod/shop",
        "Upgrade prod/shop to v1.37.1+rke2r1, 1 worker more",
        [
            update(1, "kube.resource_set", "prod/shop-proxmox", set_before, set_after),
            update(2, "kube.cluster", "prod/shop", before, after, after=(1,), cls=ChangeClass.ROLLOUT),
        ],
        digest="7c1e90b2d4f86a31c05d1e7792ab",
        opened=at("14:06:12"),
        bill=upgrade_bill(),
        checks=upgrade_checks(),
        summary="Replaces 3 control-plane nodes and 5 workers one at a time, each new node before an old one goes. Adds 1 machine. "
        "Kubehenge itself changes 2 objects.",
    )
    name_replacement(fleet.session, earlier, plan_id)
    pool = "kubehenge/prod.shop"
    drifted = FieldChange(path="roleid", before="KubehengeCluster", after="PVEAuditor")
    fleet.plan(
        "prod/shop",
        "Put back 1 thing of prod/shop",
        [
            update(
                1,
                "proxmox.acl",
                f"/pool/{pool}:kh-7c1e90b2d4f8@pve:KubehengeCluster",
                {"roleid": "PVEAuditor"},
                {"roleid": "KubehengeCluster"},
                cls=ChangeClass.REPAIR,
                drift=(drifted,),
                reason="changed by someone else",
            )
        ],
        lane=Lane.UPKEEP,
        digest="e7731c05a88f",
        opened=at("14:30"),
        author="",
        state=PlanState.APPROVED,
    )


def _others(fleet: Fleet) -> None:
    _kiosk(fleet)
    _billing(fleet)
    fleet.plan(
        "lab/ml",
        "Scale lab/ml: 4 workers more",
        [
            update(
                1,
                "kube.cluster",
                "lab/ml",
                cluster_body("lab/ml", class_name="kubehenge-kubeadm", version="v1.36.5", control_planes=1, workers=4),
                cluster_body("lab/ml", class_name="kubehenge-kubeadm", version="v1.36.5", control_planes=1, workers=8),
            )
        ],
        digest="c6e4428d1b700b3e",
        opened=at("10:31:40"),
        author="aisha@corp",
        obstacles=ml_obstacles(),
        bill=Bill(
            addresses_needed=4,
            addresses_free=1,
            addresses_free_after=-3,
            memory_now_mib=264 * GIB,
            memory_peak_mib=520 * GIB,
            memory_after_mib=520 * GIB,
            memory_free_mib=366 * GIB,
            machines_added=4,
        ),
        summary="Adds 4 machines. Kubehenge itself changes 1 object. Nothing is deleted.",
    )
    fleet.plan(
        "lab/scratch",
        "Delete lab/scratch",
        [
            delete(1, "kube.cluster", "lab/scratch"),
            delete(2, "kube.resource_set", "lab/scratch-proxmox", after=(1,)),
            delete(3, "proxmox.volume_owner", "kubehenge/lab.scratch", after=(1,)),
            delete(4, "kube.secret", "lab/scratch-proxmox-token", after=(2, 3)),
            delete(5, "proxmox.token", "kh-3f9a0c7d21bf@pve!k1", after=(3, 4)),
            delete(6, "proxmox.acl", "/pool/kubehenge/lab.scratch:kh-3f9a0c7d21bf@pve:KubehengeCluster", after=(5,)),
            delete(7, "proxmox.user", "kh-3f9a0c7d21bf@pve", after=(5, 6)),
            delete(8, "proxmox.pool", "kubehenge/lab.scratch", after=(3, 6)),
        ],
        digest="d35b6a90c2e1",
        opened=at("11:52:03"),
        author="aisha@corp",
        bill=Bill(
            machines_removed=2,
            memory_now_mib=12 * GIB,
            memory_peak_mib=12 * GIB,
            addresses_free=4,
            addresses_free_after=6,
            memory_free_mib=366 * GIB,
        ),
        summary="Removes 2 machines. Kubehenge itself deletes 8 objects. The cluster's VMs and its persistent volumes are deleted. It cannot be undone.",
        checks=(Check(text="Nothing protected is deleted", holds=True),),
    )
    stale = fleet.plan(
        "staging/web",
        "Upgrade staging/web to v1.36.6+k3s1",
        corner("staging/web")[:3],
        digest="f2049ac7d1e3",
        opened=at("02:00:06"),
        closed=at("02:00:41"),
        state=PlanState.STALE,
        author="",
        reason="Just before action 3, proxmox.acl was no longer as planned: roleid is PVEAuditor.",
        name="stale",
    )
    fleet.run(
        stale,
        started=at("02:00:08"),
        ended=at("02:00:41"),
        outcome=PlanState.STALE,
        states={3: StepState.NOT_STARTED},
        run_id=414,
    )
    old = fleet.plan(
        "staging/api",
        "Scale staging/api: 3 workers more",
        corner("staging/api")[:2],
        digest="b81d6f3e0a97",
        opened=at("09:12:30"),
        closed=at("09:20:04"),
        state=PlanState.SUPERSEDED,
        reason="Revision 9a3f0c7 changed clusters/staging/api.yaml.",
        name="superseded",
    )
    fleet.said(old, "aisha@corp", when=at("09:15"), comment="Fine by me.")
    new = fleet.plan(
        "staging/api",
        "Scale staging/api: 2 workers more",
        corner("staging/api")[:1],
        digest="e0c35f1a7d42",
        opened=at("09:20:04"),
        closed=at("09:31"),
        state=PlanState.DONE,
        name="replacement",
    )
    name_replacement(fleet.session, old, new)


def _kiosk(fleet: Fleet) -> None:
    failed = fleet.plan(
        "edge/kiosk",
        "Create edge/kiosk: 3 control planes and 3 workers",
        corner("edge/kiosk"),
        digest="3fd0127be6a8",
        opened=at("14:08"),
        closed=at("14:11:20"),
        state=PlanState.FAILED,
        author="aisha@corp",
        reason="1 action failed.",
        bill=Bill(machines_added=6, addresses_needed=7, addresses_free=19, memory_peak_mib=30 * GIB, memory_free_mib=366 * GIB),
    )
    fleet.said(failed, "rule/by-rule", when=at("14:08:12"))
    fleet.run(
        failed,
        started=at("14:09:41"),
        ended=at("14:11:20"),
        outcome=PlanState.FAILED,
        states={3: StepState.FAILED, 4: StepState.BLOCKED, 6: StepState.BLOCKED, 7: StepState.BLOCKED, 8: StepState.BLOCKED},
        error="403: Proxmox VE refused to change an ACL, since it needs Pool.Allocate on /pool/kubehenge/edge.kiosk. "
        "Give Kubehenge's token Pool.Allocate, and the privileges of the role it hands out, on /pool/kubehenge, then plan again.",
        log=[{"at": at("14:09:43").isoformat(), "level": "error", "text": "PUT /access/acl was refused"}],
        run_id=417,
    )


def _billing(fleet: Fleet) -> None:
    before = cluster_body("prod/billing", class_name="kubehenge-rke2", version="v1.36.4+rke2r1", control_planes=3, workers=4)
    after = cluster_body("prod/billing", class_name="kubehenge-rke2", version="v1.36.6+rke2r1", control_planes=3, workers=4)
    running = fleet.plan(
        "prod/billing",
        "Upgrade prod/billing to v1.36.6+rke2r1",
        [
            update(1, "kube.resource_set", "prod/billing-proxmox", {"strategy": "ApplyOnce"}, {"strategy": "Reconcile"}),
            update(2, "kube.cluster", "prod/billing", before, after, after=(1,), cls=ChangeClass.ROLLOUT),
            update(
                3,
                "kube.secret",
                "prod/billing-proxmox-token",
                {"generation": "1"},
                {"generation": "2"},
                after=(2,),
                cls=ChangeClass.CREDENTIAL,
            ),
        ],
        digest="52e8c0a4417d",
        opened=at("13:55"),
        state=PlanState.RUNNING,
        bill=Bill(control_planes_replaced=3, workers_replaced=4, addresses_needed=1, addresses_free=6, quorum=QuorumVerdict.KEPT),
    )
    fleet.said(running, "aisha@corp", when=at("13:57"))
    log = [
        {"at": at("14:24:40").isoformat(), "level": "info", "text": "md-0-j7n1x Ready; md-0-c8m5z drained in 41 s"},
        {"at": at("14:26:58").isoformat(), "level": "warn", "text": "clone ended with WARNINGS: 1, counts as done"},
        {"at": at("14:31:52").isoformat(), "level": "info", "text": "md-0-p6d4s: kubelet registered, not ready yet"},
    ]
    fleet.run(
        running,
        started=at("13:58:04"),
        states={1: StepState.DONE, 2: StepState.PENDING, 3: StepState.NOT_STARTED},
        waits_on="5 of 7 nodes replaced",
        progress=(5, 7),
        log=log,
        run_id=418,
    )
    search = fleet.plan(
        "prod/search",
        "Create prod/search: 3 control planes and 3 workers",
        corner("prod/search"),
        digest="91ab73f05c26",
        opened=at("14:20"),
        state=PlanState.RUNNING,
        author="maria@corp",
        bill=Bill(machines_added=6, addresses_needed=7, addresses_free=19, memory_peak_mib=72 * GIB, memory_free_mib=366 * GIB),
    )
    fleet.said(search, "rule/by-rule", when=at("14:20:10"))
    fleet.run(
        search,
        started=at("14:21:16"),
        states={**dict.fromkeys(range(1, 8), StepState.DONE), 8: StepState.PENDING},
        waits_on="1 of 3 control-plane nodes",
        progress=(1, 6),
        run_id=419,
    )


def _documents(fleet: Fleet) -> None:
    problems = [
        {
            "path": "clusters/lab/gpu.yaml",
            "document": 1,
            "line": 21,
            "column": 16,
            "field": "variables.controlPlaneEndpoint",
            "kind": "overlap",
            "message": "203.0.113.60 is one of the node addresses. Take an address outside them.",
            "severity": "error",
        },
        {
            "path": "clusters/lab/gpu.yaml",
            "document": 1,
            "line": 41,
            "column": 17,
            "field": "variables.upgrades.mode",
            "kind": "type",
            "message": '`off` is a boolean in YAML. Write `"off"`.',
            "severity": "error",
        },
    ]
    fleet.document(
        "clusters/lab/gpu.yaml",
        verdict=Verdict.REFUSED,
        scope="lab/gpu",
        problems=problems,
        declared_hash=fleet.body({"kind": "Cluster", "name": "gpu"}),
    )
    for scope in fleet.clusters:
        if scope not in {"team-data/warehouse", "lab/scratch"}:
            fleet.document(f"clusters/{scope}.yaml", scope=scope)
    fleet.document("site/approvals.yaml", kind="ApprovalRules", scope="default")
    fleet.document("clusters/prod/shop-dns.yaml", verdict=Verdict.SKIPPED, kind="ConfigMap", scope="prod/shop-dns")
    fleet.source(
        "lab-team",
        state=SourceState.REWRITTEN,
        url="ssh://git@git.example.org/lab/clusters.git",
        accepted_sha="c07e55d" + "0" * 33,
        accepted_author="jonas@corp",
        accepted_subject="Raise memory of ml workers",
        seen_sha="2ab91f4" + "0" * 33,
        lost_commits=["c07e55d Raise memory of ml workers", "b6120aa Fix gateway"],
    )


def _ledger(fleet: Fleet) -> None:
    digest = "7c1e90b2d4f86a31c05d1e7792ab".ljust(64, "0")
    fleet.entry("revision_accepted", "fleet", "tomas@corp", at("14:05:12"), {"revision": REVISION, "documents": 13, "refused": 1})
    fleet.entry("plan_opened", "prod/shop", "", at("14:06:12"), {"plan": digest})
    fleet.entry("plan_approved", "edge/kiosk", "rule/by-rule", at("14:08:12"), {"plan": "3fd0127be6a8".ljust(64, "0")})
    fleet.entry("run_ended", "edge/kiosk", "", at("14:11:20"), {"run": 417, "failed": 1, "blocked": 4})
    fleet.entry("run_started", "prod/search", "", at("14:21:16"), {"run": 419})


def large_plan(fleet: Fleet, scope: str, count: int = 1000) -> int:
    """A plan of many actions, each with a field or two, as after a change of the workload pool's name."""
    actions = [
        update(
            number,
            "proxmox.acl",
            f"/pool/kubehenge/{scope.replace('/', '.')}:kh-{number:012x}@pve:KubehengeCluster",
            {
                "roleid": f"KubehengeCluster{number}",
                "propagate": 0,
                "comment": f"kubehenge site=default cluster={scope} incarnation={number}",
            },
            {"roleid": "KubehengeCluster", "propagate": 1, "comment": f"kubehenge site=default cluster={scope} incarnation=1"},
            after=(number - 1,) if number > 1 else (),
        )
        for number in range(1, count + 1)
    ]
    return fleet.plan(
        scope,
        f"Change {count:,} things of {scope}",
        actions,
        digest="1a2b3c4d5e6f",
        opened=at("14:00"),
        bill=upgrade_bill(),
        checks=upgrade_checks(),
    )


__all__ = ["MISSING", "NOW", "REVISION", "Fleet", "at", "large_plan", "whole_fleet"]
