"""The world of a new lab: what an administrator sets up in Proxmox VE before the first cluster."""

from __future__ import annotations

import json
import os
import secrets
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from kubehenge.lab.proxmox.nodes import GIB
from kubehenge.lab.proxmox.rights import AclRow, Group, SubjectKind, Token, User
from kubehenge.lab.proxmox.server import ProxmoxServer
from kubehenge.lab.proxmox.sim import ProxmoxSim
from kubehenge.model.site import SiteSettings
from kubehenge.resources.access import CLUSTER_ROLE

ADMINISTRATOR = "admin@pve"
VIEWER = "viewer@pve"
ENGINE = "kubehenge@pve"
CAPMOX = "capmox@pve"
DISK_STORAGES = ("shared-storage", "other-storage")
ISO_STORAGE = "iso"
BRIDGE = "vmbr0"
KUBEADM_VERSIONS = ("v1.36.5", "v1.36.6", "v1.37.1")
FIRST_TEMPLATE = 9001

# What each token needs where, and not more: found by taking one privilege away at a time from the real API.
ROLES: Mapping[str, frozenset[str]] = {
    # A cluster's own token on its pool: the cloud controller manager reads, the CSI plugin changes disks.
    CLUSTER_ROLE: frozenset({"VM.Audit", "VM.Config.Disk"}),
    # Kubehenge's token on the workload pool: pools and rights on them, volume owners; it may hand on only what it holds.
    "KubehengeEngine": frozenset(
        {
            "Pool.Allocate",
            "Pool.Audit",
            "VM.Allocate",
            "VM.Audit",
            "VM.Config.Disk",
            "VM.Config.Memory",
            "VM.Config.Options",
            "VM.Migrate",
        }
    ),
    "KubehengeUsers": frozenset({"User.Modify"}),
    "KubehengeRealm": frozenset({"Realm.AllocateUser"}),
    "KubehengeNodes": frozenset({"Sys.Audit"}),
    "KubehengeTemplates": frozenset({"Pool.Audit", "VM.Audit"}),
    # capmox's token.
    "KubehengeCapmox": frozenset(
        {
            "VM.Allocate",
            "VM.Audit",
            "VM.Config.CDROM",
            "VM.Config.CPU",
            "VM.Config.Disk",
            "VM.Config.Memory",
            "VM.Config.Network",
            "VM.Config.Options",
            "VM.GuestAgent.Unrestricted",
            "VM.PowerMgmt",
        }
    ),
    "KubehengeCapmoxDisks": frozenset({"Datastore.AllocateSpace"}),
    "KubehengeCapmoxIso": frozenset({"Datastore.Allocate", "Datastore.AllocateTemplate", "Datastore.Audit"}),
    "KubehengeCapmoxBridge": frozenset({"SDN.Use"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabToken:
    """An API token: its full id ("user@realm!name") and its value."""

    id: str
    value: SecretStr


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSignIn:
    """A person of the lab."""

    userid: str
    password: SecretStr


@dataclass(frozen=True, slots=True, kw_only=True)
class LabProxmox:
    """What others need to use the simulated Proxmox VE; `urls` by node, good while it runs."""

    urls: Mapping[str, str]
    ca_file: Path
    engine: LabToken
    capmox: LabToken
    administrator: LabSignIn
    viewer: LabSignIn


def seed(sim: ProxmoxSim, directory: Path, *, site: SiteSettings | None = None) -> LabProxmox:
    """
    Set up a new lab, or find the credentials of one that was set up before.

    Shape: the credentials are kept in `directory` as `proxmox-credentials.json`, for its owner only. Call it once `sim` runs.
    Errors: ValueError when the state is there and its credentials are not.
    """
    path = directory / "proxmox-credentials.json"
    if sim.is_new:
        values = {name: secrets.token_urlsafe(12) for name in (ADMINISTRATOR, VIEWER)}
        values |= {f"{ENGINE}!engine": str(uuid.uuid4()), f"{CAPMOX}!capmox": str(uuid.uuid4())}
        _build(sim.server, values, site or SiteSettings())
        _keep(path, values)
        sim.server.touch()
    elif path.exists():
        values = json.loads(path.read_text(encoding="utf-8"))
    else:
        raise ValueError(f"{path} is missing beside the lab's state; remove the lab's directory to start a new lab")
    return LabProxmox(
        urls=sim.urls,
        ca_file=sim.ca.cert_path,
        engine=LabToken(id=f"{ENGINE}!engine", value=SecretStr(values[f"{ENGINE}!engine"])),
        capmox=LabToken(id=f"{CAPMOX}!capmox", value=SecretStr(values[f"{CAPMOX}!capmox"])),
        administrator=LabSignIn(userid=ADMINISTRATOR, password=SecretStr(values[ADMINISTRATOR])),
        viewer=LabSignIn(userid=VIEWER, password=SecretStr(values[VIEWER])),
    )


def _keep(path: Path, values: Mapping[str, str]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(values, file)


def _build(server: ProxmoxServer, values: Mapping[str, str], site: SiteSettings) -> None:
    _add_storages(server)
    for pool in (site.workload_pool, site.template_pool):
        server.pools[pool] = set()
        server.pool_info[pool] = {"comment": None, "storage": set()}
    _add_users(server, values, site)
    _give_rights(server, site)
    _add_templates(server, site.template_pool)
    server.rights.changed()


def _add_storages(server: ProxmoxServer) -> None:
    shared = {"type": "nfs", "shared": 1, "active": 1, "server": "192.0.2.200"}
    for name in DISK_STORAGES:
        server.storages[name] = {**shared, "export": f"/{name}", "path": f"/mnt/pve/{name}", "content": "images", **_space(4000)}
    server.storages[ISO_STORAGE] = {**shared, "export": "/iso", "path": "/mnt/pve/iso", "content": "iso,snippets,import", **_space(500)}
    server.storages["local"] = {
        "type": "dir",
        "shared": 0,
        "active": 1,
        "path": "/var/lib/vz",
        "content": "iso,vztmpl,backup",
        **_space(90),
    }


def _space(gib: int) -> dict[str, object]:
    return {"avail": gib * GIB, "files": set(), "volumes": {}}


def _add_users(server: ProxmoxServer, values: Mapping[str, str], site: SiteSettings) -> None:
    rights = server.rights
    rights.groups[site.cluster_group] = Group(comment="The users of all clusters")
    comments = {
        ADMINISTRATOR: "Administrator of the lab",
        VIEWER: "May look at the clusters",
        ENGINE: "Kubehenge itself",
        CAPMOX: "Cluster API's provider for Proxmox VE",
    }
    for userid, comment in comments.items():
        rights.users[userid] = User(profile={"comment": comment})
    for userid in (ADMINISTRATOR, VIEWER):
        server.signin.set_password(userid, values[userid])
    for userid, name in ((ENGINE, "engine"), (CAPMOX, "capmox")):
        rights.users[userid].tokens[name] = Token(value=values[f"{userid}!{name}"], privsep=False)
    rights.roles |= ROLES


def _give_rights(server: ProxmoxServer, site: SiteSettings) -> None:
    workload, templates = f"/pool/{site.workload_pool}", f"/pool/{site.template_pool}"
    group = f"/access/groups/{site.cluster_group}"
    disks = tuple(f"/storage/{name}" for name in DISK_STORAGES)
    give = _Giver(server)
    give.user(ADMINISTRATOR, "Administrator", ("/",), propagate=True)
    give.user(VIEWER, "PVEAuditor", (workload,), propagate=True)
    give.group(site.cluster_group, "PVEDatastoreUser", disks)
    give.group(site.cluster_group, "KubehengeNodes", ("/nodes",), propagate=True)
    give.user(ENGINE, "KubehengeEngine", (workload,), propagate=True)
    give.user(ENGINE, "KubehengeTemplates", (templates,))
    give.user(ENGINE, "KubehengeUsers", (group,))
    give.user(ENGINE, "KubehengeRealm", ("/access/realm/pve",))
    give.user(ENGINE, "KubehengeNodes", ("/",))  # quorum; not propagated, or it would also read every user
    give.user(ENGINE, "KubehengeNodes", ("/nodes",), propagate=True)
    give.user(ENGINE, "PVEDatastoreUser", disks)
    give.user(CAPMOX, "KubehengeCapmox", (workload,), propagate=True)
    give.user(CAPMOX, "PVETemplateUser", (templates,))
    give.user(CAPMOX, "KubehengeNodes", ("/nodes",), propagate=True)
    give.user(CAPMOX, "KubehengeCapmoxDisks", disks)
    give.user(CAPMOX, "KubehengeCapmoxIso", (f"/storage/{ISO_STORAGE}",))
    give.user(CAPMOX, "KubehengeCapmoxBridge", (f"/sdn/zones/localnetwork/{BRIDGE}",), propagate=True)  # its VLANs too


class _Giver:
    def __init__(self, server: ProxmoxServer) -> None:
        self._rights = server.rights

    def user(self, userid: str, role: str, paths: Iterable[str], *, propagate: bool = False) -> None:
        self._give(SubjectKind.USER, userid, role, paths, propagate=propagate)

    def group(self, name: str, role: str, paths: Iterable[str], *, propagate: bool = False) -> None:
        self._give(SubjectKind.GROUP, name, role, paths, propagate=propagate)

    def _give(self, kind: SubjectKind, subject: str, role: str, paths: Iterable[str], *, propagate: bool) -> None:
        for path in paths:
            self._rights.put_row(AclRow(path=path, kind=kind, subject=subject, role=role, propagate=propagate))


def _add_templates(server: ProxmoxServer, pool: str) -> None:
    """Templates for kubeadm by version, and the cloud image that RKE2 and k3s share; capmox finds them by their tags."""
    wanted = [(f"ubuntu-2404-kubeadm-{version.removeprefix('v').replace('.', '-')}", f"kubeadm-{version}") for version in KUBEADM_VERSIONS]
    wanted.append(("ubuntu-2404-cloud-image", "cloud-image"))
    for vmid, (name, tag) in enumerate(wanted, FIRST_TEMPLATE):
        volume = f"{vmid}/base-{vmid}-disk-0.raw"
        about = {"content": "images", "format": "raw", "size": 8 * GIB, "vmid": vmid, "ctime": int(server.clock.now())}
        server.storages[DISK_STORAGES[0]]["volumes"][volume] = about
        config = {
            "name": name,
            "agent": "enabled=1",
            "boot": "order=scsi0",
            "cores": 2,
            "memory": "2048",
            "ostype": "l26",
            "scsihw": "virtio-scsi-pci",
            "scsi0": f"{DISK_STORAGES[0]}:{volume},size=8G",
            "net0": f"virtio=BC:24:11:00:00:{vmid % 256:02X},bridge={BRIDGE}",
            "serial0": "socket",
            "smbios1": f"uuid={uuid.uuid4()}",
            "tags": ";".join(sorted(("kubehenge", "template", tag))),
        }
        template = server.add_guest(vmid, next(iter(server.nodes)), name, template=True, config=config)
        template.created_at = 0.0  # it has been there for long
        server.pools[pool].add(vmid)
        server.pool_by_vm[vmid] = pool
        template.pool = pool
