"""What `kubehenge doctor` finds out about the management cluster: sign-in, Cluster API, its webhooks, rights; it stores nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kubehenge.drivers.findings import Finding
from kubehenge.drivers.kube import kinds, unserved
from kubehenge.drivers.kube.client import KubeClient
from kubehenge.drivers.kube.errors import is_unserved
from kubehenge.drivers.kube.kinds import Served
from kubehenge.drivers.kube.signing_in import certificate_ends
from kubehenge.errors import KubehengeError, RefusedError

OLDEST = (1, 30)
ENDS_SOON = timedelta(days=14)

_READ = ("get", "list", "watch")
_WRITE = ("get", "list", "watch", "create", "patch", "delete")
_KEEP = ("get", "list", "watch", "create", "patch")
NEEDS: tuple[tuple[Served, tuple[str, ...]], ...] = (
    (kinds.WRITTEN[kinds.NAMESPACE], _KEEP),
    (kinds.WRITTEN[kinds.SECRET], _WRITE),
    (kinds.WRITTEN[kinds.RESOURCE_SET], _WRITE),
    (kinds.CLUSTERS, _WRITE),
    (kinds.CLASSES, _KEEP),
    *((served, _KEEP) for served in kinds.TEMPLATES.values() if served.group == kinds.PROXMOX_MACHINES.group),
    (kinds.DEPLOYMENTS, _READ),
    (kinds.WEBHOOKS, (*_READ, "patch")),
    (kinds.MACHINES, _READ),
    (kinds.PROXMOX_MACHINES, _READ),
    (kinds.PROXMOX_CLUSTERS, ("list", "patch")),
)
"""What Kubehenge's ServiceAccount may have to do, and nothing more, whichever distributions are installed."""

_OF_DISTRIBUTIONS = (
    *((served, _KEEP) for served in kinds.TEMPLATES.values() if served.group != kinds.PROXMOX_MACHINES.group),
    (replace(kinds.DEPLOYMENTS, plural="deployments/scale"), ("patch",)),
)
"""What it has to do beside that where a distribution is used; its kinds are served only where its provider is installed."""


def account_rules() -> list[dict[str, list[str]]]:
    """Return the rules of the ClusterRole that Kubehenge's ServiceAccount needs."""
    return [
        {"apiGroups": [served.group], "resources": [served.plural], "verbs": list(verbs)} for served, verbs in (*NEEDS, *_OF_DISTRIBUTIONS)
    ]


def probe(client: KubeClient) -> list[Finding]:
    """Look at the API server, the kinds it serves and what the account may do there; never raises for what it finds."""
    with client.apart() as apart:
        found = [*_certificate(apart), _reachable(apart)]
        if found[-1].ok:
            served = list(_served(apart))
            found += [*served, *_rights(apart)]
            if all(one.ok for one in served):
                found += _webhooks(apart)
        return found


def _certificate(client: KubeClient) -> Iterator[Finding]:
    ends = certificate_ends(client.configuration)
    if ends is None:
        return
    ok = ends - datetime.now(UTC) > ENDS_SOON
    mend = "" if ok else "Put a new one into the kubeconfig; Kubehenge takes it up by itself."
    yield Finding(what="client certificate of the kubeconfig", ok=ok, detail=f"good until {ends:%Y-%m-%d %H:%M} UTC", mend=mend)


def _reachable(client: KubeClient) -> Finding:
    what = f"management cluster at {client.url}"
    try:
        version = client.get("/version")
        client.get(kinds.WRITTEN[kinds.NAMESPACE].root)
    except KubehengeError as exc:
        mend = "Check the kubeconfig: its address, its CA, and that its token or certificate has not expired."
        return Finding(what=what, ok=False, detail=str(exc), mend=mend)
    release = str(version.get("gitVersion", ""))
    number = tuple(int(part) for part in re.findall(r"\d+", release)[:2])
    if number < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return Finding(what=what, ok=False, detail=f"Kubernetes {release}", mend=f"Upgrade the management cluster to {oldest} or newer.")
    return Finding(what=what, ok=True, detail=f"reachable, certificate trusted, account accepted, Kubernetes {release}")


def _served(client: KubeClient) -> Iterator[Finding]:
    for root in dict.fromkeys(served.root for served, _ in NEEDS if served.group):
        wanted = sorted(served.plural for served, _ in NEEDS if served.root == root)
        group = root.removeprefix("/apis/")
        what = f"API {group}"
        try:
            listed = client.get(root)
        except RefusedError as exc:
            mend = client.explain_unserved(f"{root}/{wanted[0]}") if is_unserved(exc) else "Look at the account's rights."
            yield Finding(what=what, ok=False, detail="not served" if is_unserved(exc) else str(exc), mend=mend)
            continue
        except KubehengeError as exc:
            yield Finding(what=what, ok=False, detail=str(exc), mend="Look at the API server and its webhooks.")
            continue
        there = {resource.get("name") for resource in listed.get("resources") or ()}
        missing = [plural for plural in wanted if plural not in there]
        name, _, version = group.partition("/")
        mend = " ".join(unserved.explain(unserved.Wanted(group=name, version=version, plural=one), [version]) for one in missing)
        yield Finding(what=what, ok=not missing, detail=f"missing: {', '.join(missing)}" if missing else ", ".join(wanted), mend=mend)


def _rights(client: KubeClient) -> Iterator[Finding]:
    for served, verbs in (*NEEDS, *_OF_DISTRIBUTIONS):
        what = f"rights on {served.plural}"
        try:
            denied = [verb for verb in verbs if not _may(client, served, verb)]
        except RefusedError as exc:
            if is_unserved(exc):
                yield Finding(what="rights in the management cluster", ok=True, detail="this API server cannot be asked about them")
                return
            yield Finding(what=what, ok=False, detail=str(exc), mend="Let the account create SelfSubjectAccessReviews.")
            continue
        except KubehengeError as exc:
            yield Finding(what=what, ok=False, detail=str(exc), mend="Look at the API server.")
            continue
        mend = f"Give the account's ClusterRole {', '.join(denied)} on {served.plural}.{served.group}".rstrip(".") + "." if denied else ""
        yield Finding(what=what, ok=not denied, detail=f"missing: {', '.join(denied)}" if denied else ", ".join(verbs), mend=mend)


def _webhooks(client: KubeClient) -> Iterator[Finding]:
    """Have a Cluster judged that is not stored: all webhooks on the way must answer."""
    what = "webhooks of Cluster API"
    body = {
        "apiVersion": kinds.CLUSTERS.api_version,
        "kind": "Cluster",
        "metadata": {"name": "kubehenge-doctor", "namespace": "default"},
        "spec": {"topology": {"classRef": {"name": "kubehenge-doctor"}, "version": "v1.30.0"}},
    }
    try:
        client.apply(kinds.CLUSTERS.one("default", "kubehenge-doctor"), body, dry_run=True)
    except RefusedError as exc:
        if "admission webhook" in str(exc):  # whoever refuses has answered; rights were looked at
            yield Finding(what=what, ok=True, detail="answer")
    except KubehengeError as exc:
        yield Finding(
            what=what, ok=False, detail=str(exc), mend="Until they answer, no Cluster is made, changed or deleted; what runs goes on."
        )
    else:
        yield Finding(what=what, ok=True, detail="answer")


def _may(client: KubeClient, served: Served, verb: str) -> bool:
    resource, _, subresource = served.plural.partition("/")
    review = client.ask(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "group": served.group, "resource": resource, "subresource": subresource}},
        },
    )
    return bool((review.get("status") or {}).get("allowed"))
