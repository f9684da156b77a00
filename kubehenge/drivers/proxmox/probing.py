"""What `kubehenge doctor` finds out about Proxmox VE: reachable, trusted, signed in, allowed, with quorum (reading only)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubehenge.drivers.findings import Finding
from kubehenge.drivers.proxmox.client import ProxmoxClient
from kubehenge.drivers.proxmox.errors import NotSignedInError
from kubehenge.drivers.proxmox.reading import Membership
from kubehenge.errors import KubehengeError

OLDEST = (8, 1)
"""Nested pools came with 8.1."""

CLUSTER_ROLE = frozenset({"VM.Audit", "VM.Config.Disk"})
"""What a cluster's user gets on its pool; whoever gives a role must hold all of it there (facts: 3 Rights)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Privileges on a path, and what for; `nested` says that they have to reach down to the pools below it."""

    path: str
    privileges: frozenset[str]
    reason: str
    nested: bool = False


def needs(*, workload_pool: str, group: str, template_pool: str = "", storages: Sequence[str] = ()) -> tuple[Need, ...]:
    """Return what Kubehenge's token needs, and nothing more (reference kubehenge-architecture; tried: 4, 5)."""
    pool = f"/pool/{workload_pool}"
    fixed = (
        Need(path=pool, privileges=frozenset({"Pool.Allocate", "Pool.Audit"}), reason="to make and see the clusters' pools", nested=True),
        Need(path=pool, privileges=CLUSTER_ROLE, reason="to give the clusters' users their rights, and see the clusters' VMs", nested=True),
        Need(
            path=pool,
            privileges=frozenset({"VM.Allocate", "VM.Config.Options", "VM.Config.Memory"}),
            reason="to make and remove the volume owners",
            nested=True,
        ),
        Need(path=f"/access/groups/{group}", privileges=frozenset({"User.Modify"}), reason="to manage the clusters' users and tokens"),
        Need(path="/access/realm/pve", privileges=frozenset({"Realm.AllocateUser"}), reason="to make users in the realm pve"),
        Need(path="/", privileges=frozenset({"Sys.Audit"}), reason="to see whether the cluster has quorum"),
        Need(path="/nodes", privileges=frozenset({"Sys.Audit"}), reason="to see how large the nodes are"),
    )
    templates = (Need(path=f"/pool/{template_pool}", privileges=frozenset({"VM.Audit"}), reason="to see the templates"),)
    shared = (Need(path=f"/storage/{name}", privileges=frozenset({"Datastore.Audit"}), reason="to see the storage") for name in storages)
    return (*fixed, *(templates if template_pool else ()), *shared)


def probe(client: ProxmoxClient, wanted: Sequence[Need], *, workload_pool: str) -> list[Finding]:
    """Look at every endpoint, then at the token, its rights, quorum and the workload pool; never raises for what it finds."""
    with client.apart() as apart:
        findings = [_endpoint(apart, endpoint) for endpoint in apart.endpoints]
        if any(finding.ok for finding in findings):
            findings += [*_rights(apart, wanted), _quorum(apart), _workload_pool(apart, workload_pool)]
    return findings


def _endpoint(client: ProxmoxClient, endpoint: str) -> Finding:
    what = f"Proxmox VE at {endpoint}"
    try:
        release = str(client.get("/version", endpoint=endpoint).get("release", ""))
    except NotSignedInError as exc:
        return Finding(what=what, ok=False, detail=str(exc), mend="Set the id and secret of an API token that exists and is enabled.")
    except KubehengeError as exc:
        mend = "Check the address and port, and that pveproxy runs there."
        if "certificate" in str(exc):
            mend = "Set the CA file: /etc/pve/pve-root-ca.pem of any node, or the CA that signed the node's own certificate."
        return Finding(what=what, ok=False, detail=str(exc), mend=mend)
    version = tuple(int(part) for part in re.findall(r"\d+", release)[:2])
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return Finding(what=what, ok=False, detail=f"release {release}", mend=f"Upgrade Proxmox VE to {oldest} or newer.")
    return Finding(what=what, ok=True, detail=f"reachable, certificate trusted, token accepted, release {release}")


def _rights(client: ProxmoxClient, wanted: Sequence[Need]) -> Iterator[Finding]:
    held: dict[str, Mapping[str, Any]] = {}
    for path in dict.fromkeys(need.path for need in wanted):
        try:
            held[path] = client.get("/access/permissions", path=path).get(path) or {}
        except KubehengeError as exc:
            yield Finding(what=f"rights on {path}", ok=False, detail=str(exc))
    for need in wanted:
        if need.path not in held:
            continue
        has = held[need.path]
        missing = sorted(need.privileges - has.keys())
        shallow = sorted(name for name in need.privileges & has.keys() if need.nested and not has[name])
        what = f"rights on {need.path} {need.reason}"
        if missing:
            mend = f"Give the token's user and the token a role with {', '.join(missing)} on {need.path}, with propagation."
            yield Finding(what=what, ok=False, detail=f"missing: {', '.join(missing)}", mend=mend)
        elif shallow:
            mend = f"Give the role on {need.path} with propagation."
            yield Finding(what=what, ok=False, detail=f"not propagated: {', '.join(shallow)}", mend=mend)
        else:
            yield Finding(what=what, ok=True, detail=", ".join(sorted(need.privileges)))


def _quorum(client: ProxmoxClient) -> Finding:
    try:
        member = Membership.of(client.get("/cluster/status"))
    except KubehengeError as exc:
        return Finding(what="quorum", ok=False, detail=str(exc), mend="Give the token Sys.Audit on /.")
    away = sorted(name for name, online in (member.online or {}).items() if not online)
    if not member.quorate:
        mend = "Bring back the nodes that are away; until then Proxmox VE refuses every change."
        return Finding(what="quorum", ok=False, detail=f"no quorum; offline: {', '.join(away) or 'unknown'}", mend=mend)
    return Finding(what="quorum", ok=True, detail=f"offline: {', '.join(away)}" if away else "all nodes online")


def _workload_pool(client: ProxmoxClient, workload_pool: str) -> Finding:
    what = f"workload pool {workload_pool}"
    try:
        rows = client.get("/pools")
    except KubehengeError as exc:
        return Finding(what=what, ok=False, detail=str(exc))
    if any(row["poolid"] == workload_pool for row in rows):
        return Finding(what=what, ok=True, detail="there")
    mend = f"Make the pool {workload_pool} under Datacenter, Permissions, Pools, and give the token Pool.Audit on it."
    return Finding(what=what, ok=False, detail="not there, or not visible to the token", mend=mend)
