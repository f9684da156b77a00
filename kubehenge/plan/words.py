"""The title and the short summary of a plan, in the words of the pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kubehenge.model.plan import Action, Bill, QuorumVerdict
from kubehenge.model.resource import ChangeClass, Verb
from kubehenge.resources.topology import Topology

_SHARED = {
    "site.setting": "Put the site's settings in force",
    "site.rules": "Put the approval rules in force",
    "kube.namespace": "Make the namespace {names} in the management cluster",
    "kube.class": "Put the classes of this release in place",
    "kube.class_template": "Put the templates of the classes in place",
    "kube.class_alias": "Let {names} stand for a class of this release",
    "kube.provider_scale": "Let the controllers of {names} run only while they are used",
    "kube.vendor_patch": "Add to {names} what its release needs to work",
}
"""Titles of plans of shared things, each sort of which has plans of its own."""

_CLASSES = frozenset({"kube.class", "kube.class_template"})


def title(scope: str, actions: Sequence[Action], before: Topology | None, after: Topology | None) -> str:
    """Return one line that says what happens to which thing."""
    if not actions:  # something stands in the way of all that is left to do
        return f"Make what is missing of {scope}"
    cluster = next((action for action in actions if action.ref.kind == "kube.cluster"), None)
    classes = {action.change_class for action in actions}
    shared = next((kind for kind in _SHARED if any(action.ref.kind == kind for action in actions)), None)
    if shared is not None:
        names = ", ".join(action.ref.name.rpartition("/")[2] for action in actions)
        changed = shared in _CLASSES and ChangeClass.ROLLOUT in classes
        return f"Put back what differs in {names}" if changed else _SHARED[shared].format(names=names)
    if classes <= {ChangeClass.REPAIR, ChangeClass.DUTY}:
        return _upkeep_title(scope, actions)
    if ChangeClass.DELETE in classes and after is None:
        return f"Delete {scope}"
    if cluster is not None and cluster.verb is Verb.CREATE and after is not None:
        return f"Create {scope}: {_nodes(after)}"
    if cluster is not None and before is not None and after is not None:
        return _change_title(scope, before, after)
    if ChangeClass.CREDENTIAL in classes:
        return f"Renew the Proxmox VE token of {scope}"
    if ChangeClass.DELETE in classes:
        return f"Remove what {scope} no longer needs"
    if all(action.verb is Verb.CREATE for action in actions):
        return f"Make {_count(len(actions), 'thing')} for {scope}"
    return f"Change {_count(len(actions), 'thing')} of {scope}"


def _upkeep_title(scope: str, actions: Sequence[Action]) -> str:
    repairs = sum(1 for action in actions if action.change_class is ChangeClass.REPAIR)
    if not repairs:
        return f"Tell {scope} which Proxmox VE nodes are online"
    return f"Put back {_count(repairs, 'thing')} of {scope}"


def _change_title(scope: str, before: Topology, after: Topology) -> str:
    parts = []
    if before.version != after.version:
        parts.append(f"Upgrade {scope} to {after.version}")
    steps = after.control_plane_replicas - before.control_plane_replicas
    if steps:
        parts.append(f"{_count(abs(steps), 'control plane')} {'more' if steps > 0 else 'fewer'}")
    steps = after.workers - before.workers
    if steps:
        parts.append(f"{_count(abs(steps), 'worker')} {'more' if steps > 0 else 'fewer'}")
    if not parts:
        return f"Change {scope}"
    return ", ".join(parts) if before.version != after.version else f"Scale {scope}: {', '.join(parts)}"


def summary(actions: Sequence[Action], bill: Bill) -> str:
    """Return what happens, in two or three sentences; reading it must be enough to know the harm."""
    sentences = []
    replaced = [
        _count(number, word)
        for number, word in ((bill.control_planes_replaced, "control-plane node"), (bill.workers_replaced, "worker"))
        if number
    ]
    if replaced:
        sentences.append(f"Replaces {' and '.join(replaced)} one at a time, each new node before an old one goes.")
    if bill.machines_added:
        sentences.append(f"Adds {_count(bill.machines_added, 'machine')}.")
    if bill.machines_removed:
        sentences.append(f"Removes {_count(bill.machines_removed, 'machine')}.")
    verbs = Counter(action.verb for action in actions)
    made = [
        f"{word} {_count(verbs[verb], 'object')}"
        for verb, word in ((Verb.CREATE, "makes"), (Verb.UPDATE, "changes"), (Verb.DELETE, "deletes"))
        if verbs[verb]
    ]
    sentences.append(f"Kubehenge itself {', '.join(made) or 'changes nothing'}.")
    deleted = [action for action in actions if action.verb is Verb.DELETE]
    if any(action.ref.kind == "kube.cluster" for action in deleted):
        sentences.append("The cluster's VMs and its persistent volumes are deleted. It cannot be undone.")
    elif not deleted and not replaced and not bill.machines_removed:
        sentences.append("Nothing is deleted.")
    if bill.quorum is QuorumVerdict.AT_RISK:
        sentences.append("etcd keeps its quorum only while no Proxmox VE node fails.")
    return " ".join(sentences)


def _nodes(topology: Topology) -> str:
    return f"{_count(topology.control_plane_replicas, 'control plane')} and {_count(topology.workers, 'worker')}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
