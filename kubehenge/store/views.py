"""The reporting views: their names and columns are stable, so that reports written today go on working (docs/reports.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One view: what a line of it is, and its columns with what they mean, in their order."""

    name: str
    what: str
    columns: Mapping[str, str]


_SITE = {"site": "Name of the site."}
_SCOPE = {"scope": "`<namespace>/<name>` of the cluster, or `site`; plans and runs say which part of it, such as `site:settings`."}
_THING = {"kind": "Kind of the resource, such as `proxmox.pool`.", "name": "Name within its kind."}
_SECONDS = {"seconds": "How long it took; empty while it goes on."}


def _view(name: str, what: str, *columns: Mapping[str, str]) -> View:
    return View(name=name, what=what, columns={key: meaning for part in (_SITE, *columns) for key, meaning in part.items()})


VIEWS: tuple[View, ...] = (
    _view(
        "v_cluster",
        "One life of a cluster. A cluster made again under the same name is another line.",
        {
            "scope": "`<namespace>/<name>`.",
            "namespace": "Namespace in the management cluster.",
            "name": "Name.",
            "incarnation": "Which life of that name, from 1.",
            "state": "`declared`, `foreign` (made elsewhere), `leaving` or `gone`.",
            "class": "ClusterClass that it names.",
            "declared_version": "Kubernetes version that is asked for.",
            "version": "Kubernetes version that Cluster API works on.",
            "phase": "Phase as Cluster API says it.",
            "available": "Whether Cluster API says that it is available.",
            "rolling": "Whether nodes are being replaced.",
            "control_planes": "Control-plane nodes wanted.",
            "control_planes_ready": "Control-plane nodes ready.",
            "workers": "Worker nodes wanted.",
            "workers_ready": "Worker nodes ready.",
            "endpoint": "Address of its API.",
            "source": "Source that declares it.",
            "path": "File that declares it.",
            "revision": "Commit of the declaration in force.",
            "vm_id_first": "First VM id of its range.",
            "vm_id_last": "Last VM id of its range.",
            "opened_at": "When it was first known.",
            "closed_at": "When it was known to be gone.",
        },
    ),
    _view(
        "v_class",
        "Which ClusterClass a cluster runs, or a plain class name stands for; exactly one of `scope` and `alias` is filled.",
        {
            "scope": "`<namespace>/<name>` of the cluster.",
            "alias": "Plain name, such as `kubehenge-rke2`.",
            "class": "The class, named by its content.",
        },
    ),
    _view(
        "v_document",
        "One YAML document of a source as it stood for a while.",
        {
            "source": "Source that it was read from.",
            "path": "File.",
            "position": "Which document of the file, from 1.",
            "line": "Line that it begins on.",
            "kind": "Kind that it says.",
            "namespace": "Namespace of what it declares.",
            "name": "Name of what it declares.",
            "verdict": "`accepted`, `refused` or `skipped`.",
            "problems": "How many problems it has.",
            "first_problem": "The first of them.",
            "blob": "Git's id of the file's content.",
            "revision": "Commit that it was read at.",
            "in_force": "Whether it still stands.",
            "from_at": "When it was first read.",
            "to_at": "When it was replaced or removed; empty: it still stands.",
        },
    ),
    _view(
        "v_source",
        "One Git source.",
        {
            "source": "Name.",
            "url": "Address of the repository.",
            "branch": "Branch.",
            "path": "Folder that is read; empty: all.",
            "state": "`new`, `read`, `unreachable`, `rewritten`, `gone` or `empty`.",
            "reason": "Why, where it is not well.",
            "accepted": "Commit whose documents are in force.",
            "author": "Author line of that commit.",
            "accepted_at": "When it was accepted.",
            "seen": "Commit that the branch was last seen at.",
            "polled_at": "When it was last looked at.",
        },
    ),
    _view(
        "v_plan",
        "One plan.",
        {
            "plan": "Its number.",
            **_SCOPE,
            "lane": "`asked` or `upkeep`.",
            "state": "`open`, `approved`, `running`, `done`, `failed`, `stale`, `superseded` or `interrupted`.",
            "title": "What it does, in a line.",
            "summary": "The same, longer.",
            "classes": "Its change classes.",
            "actions": "How many actions it has.",
            "can_finish": "Whether nothing is known that would keep it from finishing.",
            "held": "Why it is held back; empty when it is not.",
            "protected": "Whether the cluster is protected from deletion.",
            "nodes_replaced": "Nodes that it replaces.",
            "objects_destroyed": "What it destroys.",
            "quorum": "Whether etcd keeps its quorum through every step.",
            "addresses_needed": "Spare addresses that it needs at its peak.",
            "addresses_free": "Addresses that were free.",
            "memory_peak_mib": "Memory of its cluster at the peak, MiB.",
            "memory_free_mib": "Memory that was free, MiB.",
            "cores_peak": "Virtual cores of its cluster at the peak.",
            "digest": "What an approval is for.",
            "revision": "Newest commit that it stems from.",
            "author": "Author line of that commit.",
            "opened_at": "When it was opened.",
            "approved_at": "When its approval was complete.",
            "closed_at": "When it was closed.",
            "closed_reason": "Why.",
            "replaced_by": "Plan that took its place.",
        },
    ),
    _view(
        "v_action",
        "One action of a plan.",
        {
            "plan": "Number of its plan.",
            **_SCOPE,
            "position": "Its place in the plan.",
            **_THING,
            "verb": "`create`, `update` or `delete`.",
            "change_class": "What it means: `create`, `rollout`, `delete` and so on.",
            "fields_changed": "How many fields were asked to change.",
            "fields_drifted": "How many fields it puts back.",
            "waits_for": "Positions of the actions that must be done first.",
            "requires": "Resources of the site that it needs.",
            "reason": "Why it is planned.",
        },
    ),
    _view(
        "v_approval",
        "One word that was said on a plan.",
        {
            "plan": "Number of the plan.",
            **_SCOPE,
            "verdict": "`approve`, `reject` or `withdraw`.",
            "who": "Person (`maria@corp`, `local/root`) or rule (`rule/<name>`).",
            "comment": "What they wrote.",
            "name_typed": "Whether they typed the cluster's name.",
            "inherited": "Whether it was carried over from an interrupted run.",
            "rules_version": "Version of the approval rules that it was judged by.",
            "digest": "Digest of the plan that they saw.",
            "at": "When.",
        },
    ),
    _view(
        "v_run",
        "One carrying-out of a plan.",
        {
            "run": "Its number.",
            "plan": "Number of the plan.",
            **_SCOPE,
            "lane": "`asked` or `upkeep`.",
            "state": "`running`, or how it ended.",
            "steps": "How many steps it has.",
            "steps_done": "How many are done.",
            "steps_failed": "How many failed, are blocked, or need a look.",
            "stop_reason": "Why it was stopped early.",
            "started_at": "When it began.",
            "ended_at": "When it ended.",
            **_SECONDS,
        },
    ),
    _view(
        "v_step",
        "One action of a run, as the journal knows it.",
        {
            "run": "Number of the run.",
            "plan": "Number of the plan.",
            **_SCOPE,
            "position": "Its place in the plan.",
            **_THING,
            "verb": "`create`, `update` or `delete`.",
            "state": "`not_started`, `intended`, `pending`, `done`, `failed`, `blocked` or `unknown`.",
            "waits_on": "What it waits on, in words.",
            "progress_done": "How far it is.",
            "progress_all": "Of how much.",
            "attempts": "How often it was tried.",
            "error": "What went wrong.",
            "intended_at": "When it was about to be sent.",
            "ended_at": "When its result was known.",
            **_SECONDS,
        },
    ),
    _view(
        "v_resource",
        "One thing that Kubehenge keeps or looks at.",
        {
            **_SCOPE,
            **_THING,
            "state": "`settled`, `change`, `drift`, `change and drift`, `lost`, or `seen` (not ours).",
            "mark": "Our mark on it.",
            "desired": "Body that is asked for, JSON.",
            "applied": "Body that our last write left, JSON.",
            "observed": "Body that was last read, JSON.",
        },
    ),
    _view(
        "v_drift",
        "One resource that is not as our last write left it.",
        {
            **_SCOPE,
            **_THING,
            "applied": "Body that our last write left, JSON.",
            "observed": "Body that was last read, JSON; empty when it is gone.",
            "since": "When that was first known.",
        },
    ),
    _view(
        "v_version_as_of",
        "One body that a resource had for a while. Ask for a moment T by `from_at <= T AND (to_at IS NULL OR to_at > T)`.",
        {
            **_SCOPE,
            **_THING,
            "side": "`desired`, `applied` or `observed`.",
            "body": "The body, JSON; empty: it had none.",
            "hash": "Hash of the body.",
            "from_at": "When it was first known.",
            "to_at": "When another took its place; empty: it still stands.",
            "from_tick": "The same as a tick's number.",
            "to_tick": "The same as a tick's number.",
        },
    ),
    _view(
        "v_vm",
        "One VM in Proxmox VE, of whomever.",
        {
            "vmid": "Its VMID.",
            "name": "Name.",
            "node": "Proxmox VE node.",
            "pool": "Pool.",
            "cores": "Virtual cores.",
            "memory_mib": "Memory, MiB.",
            "running": "Whether it runs.",
            "template": "Whether it is a template.",
            "tags": "Tags.",
        },
    ),
    _view(
        "v_machine",
        "One machine of Cluster API, with the VM that it runs on.",
        {
            "scope": "`<namespace>/<name>` of its cluster.",
            "machine": "`<namespace>/<name>` of the Machine.",
            "role": "`control plane` or `worker`.",
            "deployment": "MachineDeployment's name in the topology; empty for a control-plane node.",
            "version": "Kubernetes version.",
            "phase": "Phase as Cluster API says it.",
            "ready": "Whether its node is ready.",
            "deleting": "Whether it is being deleted.",
            "vmid": "VMID, where it is known.",
            "node": "Proxmox VE node that the VM is on.",
            "kubernetes_node": "Name of its node in the workload cluster.",
            "addresses": "Addresses.",
            "created_at": "When it was made, as Kubernetes writes it.",
        },
    ),
    _view(
        "v_node",
        "One node of Proxmox VE.",
        {
            "node": "Name.",
            "online": "Whether it is online.",
            "cores": "Cores.",
            "memory_mib": "Memory, MiB.",
            "vms": "VMs on it, templates not counted.",
            "memory_taken_mib": "Memory that its running VMs may take, MiB.",
        },
    ),
    _view(
        "v_ledger",
        "One entry of the ledger.",
        {
            "position": "Its place in the chain, from 1.",
            "at": "When.",
            "tick": "Tick that it belongs to.",
            "event": "What happened, such as `plan_approved`.",
            "subject": "What it is about: `clusters/prod`, `site`, a source.",
            "who": "Who did it.",
            "facts": "Digests and small facts, JSON.",
            "hash": "Hash of the entry and the one before it.",
        },
    ),
    _view(
        "v_coverage",
        "One stretch of time in which a tier was read, or was not.",
        {
            "tier": "What was read.",
            "state": "`ok`, `failed` or `suspect`.",
            "reason": "Why not.",
            "from_at": "When it began.",
            "to_at": "When it was last so.",
            **_SECONDS,
            "from_tick": "The same as a tick's number.",
            "to_tick": "The same as a tick's number.",
        },
    ),
    _view(
        "v_setting",
        "One version of a stored setting.",
        {
            "name": "`site` or `rules`.",
            "version": "Its number, from 1.",
            "value": "The value, JSON.",
            "origin": "`default`, `git` or `page`.",
            "author": "Who made it.",
            "reason": "Why.",
            "revision": "Commit, for one from Git.",
            "path": "File, for one from Git.",
            "made_at": "When it was made.",
            "in_force_at": "When it came into force; empty: it has not.",
        },
    ),
    _view(
        "v_freeze",
        "One freeze.",
        {
            **_SCOPE,
            "duties": "Whether it holds duties too.",
            "who": "Who froze it.",
            "reason": "Why.",
            "began_at": "When it began.",
            "until": "When it ends by itself.",
            "ended_at": "When it was ended.",
            "ended_by": "By whom.",
        },
    ),
)


def as_markdown() -> str:
    """Return the tables of docs/reports.md."""
    parts = []
    for view in VIEWS:
        rows = [f"| `{name}` | {meaning} |" for name, meaning in view.columns.items()]
        parts.append("\n".join([f"## {view.name}", "", view.what, "", "| Column | Is |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"
