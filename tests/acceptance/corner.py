"""What one cluster has in Proxmox VE and in the management cluster, seen from outside of Kubehenge."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import requests
import yaml

from kubehenge.model.site import SiteSettings
from tests.acceptance.running import Site

CLUSTERS = "/apis/cluster.x-k8s.io/v1beta2"
RESOURCE_SETS = "/apis/addons.cluster.x-k8s.io/v1beta2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Corner:
    """Names of all that bears a cluster's name or mark; each a list, so that two of a thing show."""

    pools: list[str]
    users: list[str]
    tokens: list[str]
    acl: list[str]
    owners: list[int]
    machines: list[str]
    vms: list[int]
    clusters: list[str]
    secrets: list[str]
    resource_sets: list[str]

    def everything(self) -> list[Any]:
        return [one for name in self.__slots__ for one in getattr(self, name)]


def corner(site: Site, name: str, namespace: str = "clusters") -> Corner:
    """Look at all of it."""
    proxmox = site.proxmox()
    poolid = f"kubehenge/{namespace}.{name}"
    users = [one["userid"] for one in proxmox["users"] if f"cluster={namespace}/{name} " in (one.get("comment") or "")]
    guests = [one for one in proxmox["guests"] if one["pool"] == poolid]
    ids = SiteSettings().owner_vm_ids
    owners = [one["vmid"] for one in guests if ids.first <= one["vmid"] <= ids.last]
    return Corner(
        pools=[one["poolid"] for one in proxmox["pools"] if one["poolid"] == poolid],
        users=users,
        tokens=[one["id"] for one in proxmox["tokens"] if one["id"].split("!")[0] in users],
        acl=[f"{one['path']} {one['ugid']} {one['roleid']}" for one in proxmox["acl"] if one["path"] == f"/pool/{poolid}"],
        owners=owners,
        machines=_names(site, CLUSTERS, namespace, "machines", name),
        vms=sorted(one["vmid"] for one in guests if one["vmid"] not in owners),
        clusters=[one for one in _names(site, CLUSTERS, namespace, "clusters", "") if one == name],
        secrets=[one for one in _names(site, "/api/v1", namespace, "secrets", "") if one.startswith(f"{name}-proxmox")],
        resource_sets=[one for one in _names(site, RESOURCE_SETS, namespace, "clusterresourcesets", "") if one.startswith(f"{name}-")],
    )


def _names(site: Site, group: str, namespace: str, plural: str, cluster: str) -> list[str]:
    found = site.kube("GET", f"{group}/namespaces/{namespace}/{plural}")["items"]
    return sorted(one["metadata"]["name"] for one in found if not cluster or one["spec"].get("clusterName") == cluster)


def require_one_of_each(site: Site, name: str, namespace: str = "clusters") -> Corner:
    """One pool, user, live token, owner VM and Cluster; no VM without a machine; and the Secret holds the token that works."""
    found = corner(site, name, namespace)
    assert len(found.pools) == 1, found
    assert len(found.users) == 1, found
    assert len(found.tokens) == 1, found
    assert len(found.acl) == 1, found
    assert len(found.owners) == 1, found
    assert found.clusters == [name], found
    assert found.secrets == [f"{name}-proxmox-credentials", f"{name}-proxmox-token"], found
    assert len(found.resource_sets) == 1, found
    assert len(found.vms) == len(found.machines), found
    held = tokens_held(site, name, namespace)
    assert {token_id for token_id, _ in held} == set(found.tokens)
    for token_id, secret in held:
        assert may_use(site, token_id, secret), token_id
    return found


def tokens_held(site: Site, name: str, namespace: str = "clusters") -> set[tuple[str, str]]:
    """The tokens, with their secrets, that the Secret hands over to the cluster."""
    secret = site.kube("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}-proxmox-token")
    found = set()
    for text in secret["data"].values():
        for document in yaml.safe_load_all(base64.b64decode(text)):
            data = document["stringData"]
            found.add((data["token_id"], data["token_secret"]))
            found |= {(one["token_id"], one["token_secret"]) for one in json.loads(data["config.yaml"])["clusters"]}
    return found


def may_use(site: Site, token_id: str, secret: str) -> bool:
    """Whether Proxmox VE takes a token."""
    url = next(iter(site.description["proxmox"]["endpoints"].values()))
    with requests.Session() as session:
        session.trust_env = False
        headers = {"Authorization": f"PVEAPIToken={token_id}={secret}"}
        answer = session.get(f"{url}/api2/json/access/permissions", headers=headers, verify=site.description["ca_file"], timeout=30)
    return answer.status_code == 200
