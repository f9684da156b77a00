"""
What keeps Cluster API from going on, in our words: what it is, and what to do next. Pure functions from objects to sentences.

Cluster API and capmox say it in the messages of their conditions, or not at all (facts: cluster-api-tried, 1, 4, 6; proxmox-ve-tried, 3).
What each creation passes through within seconds is a trouble only after a while.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kubehenge.drivers.kube import webhooks
from kubehenge.drivers.kube.reduce import Object, conditions_of, is_true
from kubehenge.model.trouble import Trouble

LONGEST = 600
"""Messages of others are cut here; some hold a whole diff."""

"""Classes that are named by their content, and so never changed (MODEL 31)."""

_Condition = Mapping[str, Any]
_Finding = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]


def _said(condition: _Condition) -> str:
    text = " ".join(str(condition.get("message") or "").split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _first(findings: tuple[_Finding, ...], text: str) -> str:
    return next((tell(found) for pattern, tell in findings if (found := pattern.search(text))), "")


# ---- a Cluster

_TOPOLOGY: tuple[_Finding, ...] = (
    (
        re.compile(
            r'(?P<kind>\w+template)s?\.[\w.-]+ "(?P<name>[^"]+)" not found|(?P<kind2>\w+Template) (?P<name2>\S+?):? not found',
            re.IGNORECASE,
        ),
        lambda found: (
            f"Its class refers to {found['kind'] or found['kind2']} {found['name'] or found['name2']}, which does not exist. "
            "Put the template back, or move the cluster to a class that is whole; its machines run on meanwhile."
        ),
    ),
    (
        re.compile(r'clusterclass(?:es\.cluster\.x-k8s\.io)? "?(?P<name>[^\s"]+)"? (?:was )?not found', re.IGNORECASE),
        lambda found: (
            f"Its class {found['name']} does not exist in the management cluster. "
            "Correct spec.topology.classRef in its declaration, or make the class; nothing is built until then."
        ),
    ),
    (
        re.compile(r'(?P<kind>\w+)\.\S+ "[^"]+" is invalid: spec: Forbidden: \w+ is immutable'),
        lambda found: (
            f"Cluster API cannot replace its machines: a webhook refuses the trial change of a {found['kind']} (capmox issue 735). "
            "The webhook needs the match condition that lets trial changes pass; what runs goes on."
        ),
    ),
    (
        re.compile(r"http call failed: Post \"(?P<url>[^\"?]+)"),
        lambda found: (
            f"It waits for a runtime extension at {found['url']}, which does not answer. "
            "Look at the program that serves it; nothing of the cluster is changed until then."
        ),
    ),
)


def of_topology(obj: Object) -> str:
    """Say what keeps Cluster API from carrying out what a Cluster asks for, '' when nothing does."""
    condition = conditions_of(obj).get("TopologyReconciled", {})
    if condition.get("status") != "False" or condition.get("reason") not in {"ReconcileFailed", "ClusterClassNotReconciled"}:
        return ""
    said = _said(condition)
    if away := webhooks.away(str(condition.get("message") or "")):
        return away[0].upper() + away[1:]
    if known := _first(_TOPOLOGY, said):
        return known
    if condition.get("reason") == "ClusterClassNotReconciled":
        return f"Its class is not ready: {said or 'Cluster API does not say why'}. Look at the conditions of the ClusterClass."
    return f"Cluster API cannot go on: {said or 'it does not say why'}. It tries again by itself; what it names has to be mended."


_CREDENTIALS = re.compile(r"CredentialsNotFound|Secret \"[^\"]+\" not found")
_SILENT = "status.initialization.provisioned is false"


SILENCE_S = 120
"""How long capmox may say nothing of a new cluster; it takes up one that it can in a few seconds."""


def of_infrastructure(obj: Object) -> str:
    """Say what keeps capmox from taking a cluster up, as it says itself; '' when it says nothing."""
    conditions = conditions_of(obj)
    condition = conditions.get("InfrastructureReady", {})
    said = _said(condition)
    if condition.get("status") != "False" or "deletionTimestamp" in obj["metadata"]:
        return ""
    if _CREDENTIALS.search(said):
        return f"capmox does not find its credentials: {said}. Kubehenge writes that Secret; look at its run, and at `kubehenge doctor`."
    if "ProxmoxUnreachable" in said:
        return f"capmox does not reach Proxmox VE: {said}. Look at the address, the CA and the token that it was given."
    return ""


def _of_silence(obj: Object) -> Trouble | None:
    """Capmox 0.9.0 says nothing at all of a Secret that is missing, or of a token that Proxmox VE refuses."""
    condition = conditions_of(obj).get("InfrastructureReady", {})
    since = str(condition.get("lastTransitionTime") or "")
    if condition.get("status") != "False" or _SILENT not in _said(condition) or not since or "deletionTimestamp" in obj["metadata"]:
        return None
    text = (
        "capmox does not take the cluster up, and does not say why: mostly it does not get into Proxmox VE. "
        "Look whether its credentials Secret is there, and whether `kubehenge doctor` finds its token accepted."
    )
    return Trouble(text=text, since=since, after_s=SILENCE_S)


def of_connection(obj: Object) -> str:
    """Say that Cluster API does not reach a cluster that it has reached before, '' otherwise."""
    conditions = conditions_of(obj)
    probe = conditions.get("RemoteConnectionProbe", {})
    if probe.get("status") != "False" or not is_true(conditions, "ControlPlaneInitialized") or "deletionTimestamp" in obj["metadata"]:
        return ""
    return f"Cluster API does not reach the cluster's API server: {_said(probe) or 'no answer'}. Look at its control-plane nodes and their network."


def of_cluster(obj: Object) -> tuple[Trouble, ...]:
    """Return all that keeps a Cluster from going on."""
    said = (of_topology(obj), of_infrastructure(obj), of_connection(obj))
    silence = _of_silence(obj)
    return (*(Trouble(text=text) for text in said if text), *([silence] if silence else []))


# ---- a VM

_PROVISION: tuple[_Finding, ...] = (
    (
        re.compile(r'found 0 VM templates with tags "(?P<tags>[^"]*)"'),
        lambda found: f"no VM template bears exactly the tags {found['tags']}: build it, or give the token the right to see it",
    ),
    (
        re.compile(r'found (?P<count>\d+) VM templates with tags "(?P<tags>[^"]*)"'),
        lambda found: f"{found['count']} VM templates bear the tags {found['tags']}, and there must be one: take the tags from the others",
    ),
    (
        re.compile(r"cannot reserve (?P<bytes>\d+)B of memory on node (?P<node>\S+?): (?P<left>\d+)B"),
        lambda found: (
            f"no node that it may use has {_gib(found['bytes'])} GiB of memory left; {found['node']}, which has most, has "
            f"{_gib(found['left'])} GiB: free some, or allow more nodes"
        ),
    ),
    (
        re.compile(r"No free vmid found in vmIDRange"),
        lambda _: "every VM id of its range is taken: remove what took them, which is not Kubehenge's",
    ),
    (
        re.compile(r'expected VM name to match "(?P<ours>[^"]+)" but it was "(?P<theirs>[^"]+)"'),
        lambda found: f"its VM id belongs to {found['theirs']} by now: leave that VM as it is, and let this machine be replaced",
    ),
    (
        re.compile(r"unable to inject CloudInit ISO: (?P<why>.*)"),
        lambda found: (
            f"its cloud-init ISO could not be put onto a storage ({found['why']}): look at the storages for ISO images and the token's rights"
        ),
    ),
    (re.compile(r"cloud-init"), lambda found: f"cloud-init failed inside it ({found.string}): look at its console"),
)

_RETRIED = frozenset({"CloningFailed", "PoweringOnFailed", "DeletionFailed"})
_TERMINAL = frozenset({"VMProvisionFailed", "TaskFailed"})


def _gib(size: str) -> str:
    return f"{int(size) / (1 << 30):.1f}"


def of_vm(obj: Object) -> str:
    """Say what keeps a ProxmoxMachine from having its VM, or from letting it go, '' when nothing does; a clause without a full stop."""
    condition = conditions_of(obj).get("VirtualMachineProvisioned", {})
    reason, said = condition.get("reason"), _said(condition)
    if condition.get("status") == "True":
        return ""
    if reason in _TERMINAL:
        why = _first(_PROVISION, said) or said or "capmox does not say why"
        return f"{why}. capmox never tries this machine again: the health check replaces it 20 minutes after it was made, deleting the Machine does so at once"
    if reason in _RETRIED:
        return f"{said or reason}. capmox tries it again by itself; what it names has to be mended"
    if reason == "WaitingForStaticIPAllocation" and said:
        return f"it gets no address ({said}): widen network.addresses in the declaration, or scale down"
    return ""


NAMED = 3
"""So many machines with the same trouble are named; the others are counted."""


def of_machines(troubles: Iterable[tuple[str, str]]) -> Sequence[Trouble]:
    """Return the troubles of one cluster's machines, (name, clause) pairs, each once with whom it is about."""
    names: dict[str, list[str]] = {}
    for name, clause in sorted(troubles):
        names.setdefault(clause, []).append(name)
    return [Trouble(text=f"{_listed(those)}: {clause}.") for clause, those in names.items()]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"Machine{'s' if len(names) > 1 else ''} {', '.join(names[:NAMED])}{more}"
