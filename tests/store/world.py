"""A small world in the database: one cluster on its way, one drifted pool, a failed run; for views, reports and commands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from kubehenge.model.canon import CANON, body_hash
from kubehenge.model.plan import PlanState, StepState
from kubehenge.model.resource import ChangeClass, ClusterState, Lane, Verb
from kubehenge.store import ledger, pins
from kubehenge.store.rows import (
    ActionRow,
    ApprovalRow,
    ApprovalVerdict,
    BodyRow,
    ClusterRow,
    CoverageRow,
    CoverageState,
    DocumentRow,
    FreezeRow,
    PlanRow,
    ResourceRow,
    RunRow,
    SettingOrigin,
    SettingRow,
    SiteRow,
    SourceRow,
    SourceState,
    StepRow,
    TickRow,
    Verdict,
    VersionRow,
    VersionSide,
)

T0 = datetime(2025, 3, 10, 8, 0, tzinfo=UTC)

CLUSTER = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": {"name": "prod", "namespace": "clusters"},
    "spec": {"topology": {"classRef": {"name": "kubehenge-rke2"}, "version": "v1.36.1+rke2r1"}},
}
SITE = {
    "apiVersion": "kubehenge.dev/v1alpha1",
    "kind": "Site",
    "metadata": {"name": "default"},
    "spec": {"workloadPool": "kubehenge", "concurrentClusters": 3},
}
STATUS = {
    "phase": "Provisioned",
    "available": True,
    "rolling": False,
    "version": "v1.35.4+rke2r1",
    "endpoint": "10.0.0.10:6443",
    "control_plane": {"desired": 3, "ready": 3},
    "workers": {"desired": 2, "ready": 1},
}
POOL = {"poolid": "kubehenge/clusters.prod", "comment": "kubehenge site=default cluster=clusters/prod incarnation=1"}
MOVED_POOL = {**POOL, "comment": "mine now"}
USER = {"userid": "kh-0123456789ab@pve", "enable": True}
NODE = {"online": True, "cores": 16, "memory_mib": 65536}
VM = {
    "name": "prod-1",
    "node": "pve1",
    "pool": "kubehenge/clusters.prod",
    "cores": 4,
    "memory_mib": 8192,
    "running": True,
    "template": False,
    "tags": ["a", "b"],
}
TEMPLATE = {"name": "t", "node": "pve1", "pool": "", "cores": 2, "memory_mib": 2048, "running": False, "template": True, "tags": []}
MACHINE = {
    "cluster": "clusters/prod",
    "control_plane": True,
    "deployment": "",
    "version": "v1.35.4+rke2r1",
    "vmid": 101,
    "ready": True,
    "deleting": False,
    "phase": "Running",
    "node_name": "prod-1",
    "addresses": ["10.0.0.11", "10.0.0.12"],
    "created_at": "2025-03-10T08:00:00Z",
}
UNBORN = {**MACHINE, "control_plane": False, "deployment": "md-0", "vmid": None, "ready": False, "addresses": []}


def at(minutes: float) -> datetime:
    """Return an instant of this world's morning."""
    return T0 + timedelta(minutes=minutes)


def keep(session: Session, body: dict[str, Any]) -> str:
    """Keep a body, and return its hash."""
    key = body_hash(body)
    session.merge(BodyRow(hash=key, canon=CANON, content=body))
    session.flush()
    return key


def resource(
    session: Session, site_id: int, kind: str, name: str, cluster_id: int | None = None, **sides: dict[str, Any] | None
) -> ResourceRow:
    """Make a resource whose sides are given as bodies."""
    hashes = {f"{side}_hash": keep(session, body) for side, body in sides.items() if body is not None}
    row = ResourceRow(site_id=site_id, cluster_id=cluster_id, kind=kind, name=name, **hashes)
    session.add(row)
    session.flush()
    return row


def fill(session: Session) -> int:
    """Make the world; returns the site's id."""
    site = SiteRow(name="default", created_at=T0)
    session.add(site)
    session.flush()
    session.add_all(TickRow(site_id=site.id, number=number, at=at(number * 10), seen_at=at(number * 10)) for number in range(1, 5))
    source = SourceRow(
        site_id=site.id,
        name="fleet",
        url="https://git.example.com/fleet.git",
        branch="main",
        state=SourceState.READ,
        accepted_sha="c" * 40,
        accepted_author="Ada <ada@example.com>",
        accepted_at=at(10),
        seen_sha="c" * 40,
        polled_at=at(41),
    )
    session.add(source)
    session.flush()
    cluster = ClusterRow(
        site_id=site.id,
        namespace="clusters",
        name="prod",
        incarnation=1,
        state=ClusterState.DECLARED,
        holder_source_id=source.id,
        holder_path="clusters/prod.yaml",
        holder_position=1,
        declared_hash=keep(session, CLUSTER),
        declared_blob="b" * 40,
        declared_revision="c" * 40,
        class_name="kubehenge-rke2",
        status=STATUS,
        opened_tick=1,
    )
    session.add(cluster)
    session.flush()
    pins.add_pins(session, {cluster.id: "kubehenge-rke2-0123456789"})
    pins.set_alias(session, site.id, "kubehenge-rke2", "kubehenge-rke2-0123456789")
    _documents(session, site.id, source.id)
    _resources(session, site.id, cluster.id)
    _plans(session, site.id, cluster.id)
    _records(session, site.id)
    return site.id


def _documents(session: Session, site_id: int, source_id: int) -> None:
    same = {
        "site_id": site_id,
        "source_id": source_id,
        "position": 1,
        "line": 1,
        "revision": "c" * 40,
        "kind": "Cluster",
        "namespace": "clusters",
    }
    problem = {"path": "clusters/test.yaml", "document": 1, "line": 7, "column": 3, "field": "spec", "message": "spec is missing"}
    accepted, refused = Verdict.ACCEPTED, Verdict.REFUSED
    session.add_all(
        [
            DocumentRow(
                **same,
                path="clusters/prod.yaml",
                blob_id="a" * 40,
                name="prod",
                verdict=accepted,
                own_verdict=accepted,
                from_tick=1,
                to_tick=2,
            ),
            DocumentRow(
                **same, path="clusters/prod.yaml", blob_id="b" * 40, name="prod", verdict=accepted, own_verdict=accepted, from_tick=2
            ),
            DocumentRow(
                **same,
                path="clusters/test.yaml",
                blob_id="d" * 40,
                name="test",
                verdict=refused,
                own_verdict=refused,
                problems=[problem],
                from_tick=3,
            ),
        ]
    )


def _resources(session: Session, site_id: int, cluster_id: int) -> None:
    pool = resource(
        session, site_id, "proxmox.pool", "kubehenge/clusters.prod", cluster_id, desired=POOL, applied=POOL, observed=MOVED_POOL
    )
    first, second = body_hash(POOL), body_hash(MOVED_POOL)
    session.add_all(
        [
            VersionRow(resource_id=pool.id, side=VersionSide.DESIRED, body_hash=first, from_tick=1),
            VersionRow(resource_id=pool.id, side=VersionSide.APPLIED, body_hash=first, from_tick=1),
            VersionRow(resource_id=pool.id, side=VersionSide.OBSERVED, body_hash=first, from_tick=1, to_tick=3),
            VersionRow(resource_id=pool.id, side=VersionSide.OBSERVED, body_hash=second, from_tick=3),
        ]
    )
    resource(session, site_id, "proxmox.user", "kh-0123456789ab@pve", cluster_id, desired=USER)
    lost = resource(session, site_id, "proxmox.acl", "/pool/x:u:r", cluster_id, desired={"path": "/pool/x"}, applied={"path": "/pool/x"})
    lost.missing_reads = 2
    resource(session, site_id, "kube.cluster_status", "clusters/prod", cluster_id, observed=STATUS)
    resource(session, site_id, "proxmox.node", "pve1", observed=NODE)
    resource(session, site_id, "proxmox.vm", "101", observed=VM)
    resource(session, site_id, "proxmox.vm", "900", observed=TEMPLATE)
    resource(session, site_id, "kube.machine", "clusters/prod-a", cluster_id, observed=MACHINE)
    resource(session, site_id, "kube.machine", "clusters/prod-b", cluster_id, observed=UNBORN)


def _plans(session: Session, site_id: int, cluster_id: int) -> None:
    same = {
        "site_id": site_id,
        "cluster_id": cluster_id,
        "scope": "clusters/prod",
        "lane": Lane.ASKED,
        "documents": ["b" * 40],
        "inputs": "e" * 64,
    }
    failed = PlanRow(
        **same,
        digest="1" * 64,
        state=PlanState.FAILED,
        title="Create clusters/prod",
        classes=["create"],
        disruption={"nodes_replaced": 0, "objects_destroyed": [], "quorum": "not touched"},
        opened_tick=1,
        opened_at=at(10),
        refreshed_at=at(10),
        approved_at=at(11),
        closed_tick=2,
        closed_at=at(20),
        closed_reason="1 of 2 actions failed",
    )
    waiting = PlanRow(
        **same,
        digest="2" * 64,
        state=PlanState.OPEN,
        title="Upgrade clusters/prod to v1.36.1+rke2r1",
        summary="3 control-plane nodes and 2 workers are replaced.",
        classes=["change", "rollout"],
        disruption={"nodes_replaced": 5, "objects_destroyed": ["machine a", "machine b"], "quorum": "kept"},
        bill={"addresses_needed": 1, "addresses_free": 4, "memory_peak_mib": 49152, "memory_free_mib": 131072, "cores_peak": 24},
        revision="c" * 40,
        author="Ada <ada@example.com>",
        rules_version=1,
        opened_tick=3,
        opened_at=at(30),
        refreshed_at=at(30),
    )
    session.add_all([failed, waiting])
    session.flush()
    action = {"site_id": site_id, "change_class": ChangeClass.CREATE, "part": Lane.ASKED, "verb": Verb.CREATE, "plan_id": failed.id}
    first = ActionRow(**action, position=1, kind="proxmox.pool", name="kubehenge/clusters.prod", reason="declared")
    second = ActionRow(
        **action,
        position=2,
        kind="proxmox.user",
        name="kh-0123456789ab@pve",
        waits_for=[1],
        requires=["site.pool/x"],
        changes=[{"path": "enable"}],
    )
    session.add_all([first, second])
    session.add(
        ApprovalRow(
            plan_id=failed.id,
            digest=failed.digest,
            verdict=ApprovalVerdict.APPROVE,
            who="rule/create",
            rules_version=1,
            typed_name="",
            at=at(11),
        )
    )
    run = RunRow(
        site_id=site_id,
        plan_id=failed.id,
        scope="clusters/prod",
        lane=Lane.ASKED,
        fence=1,
        started_at=at(11),
        ended_at=at(20),
        outcome=PlanState.FAILED,
    )
    session.add(run)
    session.flush()
    session.add_all(
        [
            StepRow(run_id=run.id, action_id=first.id, position=1, state=StepState.DONE, attempts=1, intended_at=at(11), ended_at=at(11.5)),
            StepRow(
                run_id=run.id,
                action_id=second.id,
                position=2,
                state=StepState.FAILED,
                attempts=3,
                error="403: no",
                intended_at=at(12),
                ended_at=at(20),
            ),
        ]
    )


def _records(session: Session, site_id: int) -> None:
    session.add_all(
        [
            CoverageRow(site_id=site_id, tier="bulk", state=CoverageState.OK, from_tick=1, to_tick=3, from_at=at(10), to_at=at(30)),
            CoverageRow(
                site_id=site_id, tier="bulk", state=CoverageState.FAILED, reason="595", from_tick=3, to_tick=4, from_at=at(31), to_at=at(41)
            ),
            FreezeRow(site_id=site_id, who="local/ada", reason="power works", began_at=at(40), until=at(100)),
            SettingRow(
                site_id=site_id,
                name="site",
                version=1,
                value=SITE,
                origin=SettingOrigin.GIT,
                author="Ada",
                made_at=at(10),
                in_force_at=at(11),
            ),
        ]
    )
    for event, subject, who in (
        ("plan_opened", "clusters/prod", "kubehenge"),
        ("plan_approved", "clusters/prod", "rule/create"),
        ("frozen", "site", "local/ada"),
    ):
        ledger.append(session, site_id=site_id, tick=4, event=event, subject=subject, who=who, facts={"number": 1}, at=at(41))
