"""
A world in memory that drivers of the engine's tests act on: it holds state, refuses what is impossible, and fails on request.

Cluster API's part is as small as it can be: a Cluster gets its machines and VMs when the test says `build`, and loses them when it
is deleted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import SecretStr

from kubehenge.drivers.base import ActionContext, BulkReading, Done, Outcome, Pending
from kubehenge.errors import RefusedError, TransientError, UncertainError
from kubehenge.model.canon import Body, resolve
from kubehenge.model.resource import Observed, ResourceRef
from kubehenge.resources.topology import Topology

PROXMOX_KINDS = ("proxmox.pool", "proxmox.user", "proxmox.token", "proxmox.acl", "proxmox.volume_owner")
CLASS_KINDS = ("kube.class", "kube.class_alias", "kube.class_template")
PROVIDER_KINDS = ("kube.provider_scale", "kube.vendor_patch")
KUBE_KINDS = ("kube.namespace", "kube.secret", "kube.resource_set", "kube.cluster", *CLASS_KINDS, *PROVIDER_KINDS)
RIGHTS = {"/": ("Sys.Audit",), "/pool/kubehenge": ("Pool.Allocate", "Pool.Audit", "VM.Audit")}


@dataclass(slots=True)
class Fault:
    """What happens to the next calls that match: `before` fails without effect, `after` loses the answer of a call that had its effect."""

    matches: Callable[[str, ResourceRef], bool]
    error: Exception
    after: bool = False
    times: int = 1


@dataclass
class World:
    """All objects, by kind and name, and the calls that changed anything."""

    clock: Callable[[], datetime]
    objects: dict[str, dict[str, Observed]] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    hooks: list[Callable[[str, ResourceRef], None]] = field(default_factory=list)
    rights: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(RIGHTS))
    hidden: set[ResourceRef] = field(default_factory=set)
    endpoints: tuple[str, ...] = ("pve1", "pve2", "pve3")
    asked: list[str] = field(default_factory=list)
    requests: int = 0
    _ids: Any = field(default_factory=lambda: itertools.count(9_000_000))
    _vmids: Any = field(default_factory=lambda: itertools.count(10_000_000))

    def __post_init__(self) -> None:
        """The classes are there under their plain names, with their namespace and RKE2's controllers, as somebody else has put them."""
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubehenge-system"}}
        self.put(ResourceRef(kind="kube.namespace", name="kubehenge-system"), space)
        for alias in ("kubehenge-kubeadm", "kubehenge-rke2", "kubehenge-k3s"):
            self.put(ResourceRef(kind="kube.class_alias", name=f"kubehenge-system/{alias}"), {"metadata": {"name": alias}})
        self.put(ResourceRef(kind="kube.provider_scale", name="rke2"), {"runs": True}, outputs={"serving": True})

    # -- looking and meddling

    def all(self, kind: str) -> dict[str, Observed]:
        return self.objects.setdefault(kind, {})

    def put(self, ref: ResourceRef, body: Body, *, mark: str | None = None, outputs: Mapping[str, Any] | None = None) -> Observed:
        item = Observed(ref=ref, body=body, mark=mark, outputs=outputs or {})
        self.all(ref.kind)[ref.name] = item
        return item

    def edit(self, ref: ResourceRef, **fields: Any) -> None:
        """Change an object by hand, as someone else would."""
        old = self.all(ref.kind)[ref.name]
        self.put(ref, {**old.body, **fields}, mark=old.mark, outputs=old.outputs)

    def remove(self, ref: ResourceRef) -> None:
        self.all(ref.kind).pop(ref.name, None)

    def names(self, kind: str) -> list[str]:
        return sorted(self.all(kind))

    def add_node(self, name: str, *, memory_mib: int = 65_536, cores: int = 16, online: bool = True) -> None:
        self.put(ResourceRef(kind="proxmox.node", name=name), {"online": online, "cores": cores, "memory_mib": memory_mib})

    def add_template(self, vmid: int, *tags: str) -> None:
        body = {
            "name": f"template-{vmid}",
            "node": "pve1",
            "pool": "kubehenge-templates",
            "cores": 2,
            "memory_mib": 2048,
            "running": False,
            "template": True,
            "tags": sorted(tags),
        }
        self.put(ResourceRef(kind="proxmox.vm", name=str(vmid)), body)

    # -- Cluster API, as small as it can be

    def build(self) -> None:
        """Give every Cluster the machines and VMs that it asks for, at once."""
        for name, item in list(self.all("kube.cluster").items()):
            if not item.body.get("deleting"):
                self._build(name, item)

    def _build(self, scope: str, item: Observed) -> None:
        topology = Topology.of(item.body)
        wanted = {("", number): topology.control_plane for number in range(topology.control_plane_replicas)}
        for pool, replicas in topology.pools.items():
            wanted |= {(pool, number): topology.worker for number in range(replicas)}
        namespace, _, name = scope.partition("/")
        names = {f"{namespace}/{name}-{pool or 'cp'}-{number}-{topology.version[1:]}" for pool, number in wanted}
        for old in [one for one, machine in self.all("kube.machine").items() if machine.body["cluster"] == scope and one not in names]:
            self.remove(ResourceRef(kind="proxmox.vm", name=str(self.all("kube.machine")[old].body["vmid"])))
            self.remove(ResourceRef(kind="kube.machine", name=old))
        nodes = sorted(node for node, one in self.all("proxmox.node").items() if one.body["online"])
        for position, ((pool, number), size) in enumerate(wanted.items()):
            machine = f"{namespace}/{name}-{pool or 'cp'}-{number}-{topology.version[1:]}"
            if machine in self.all("kube.machine"):
                continue
            vmid = next(self._vmids)
            self.put(
                ResourceRef(kind="proxmox.vm", name=str(vmid)),
                {
                    "name": machine.partition("/")[2],
                    "node": nodes[position % len(nodes)],
                    "pool": f"kubehenge/{namespace}.{name}",
                    "cores": size.cores,
                    "memory_mib": size.memory_mib,
                    "running": True,
                    "template": False,
                    "tags": [],
                },
            )
            self.put(
                ResourceRef(kind="kube.machine", name=machine),
                {
                    "cluster": scope,
                    "control_plane": not pool,
                    "deployment": pool,
                    "version": topology.version,
                    "vmid": vmid,
                    "ready": True,
                    "deleting": False,
                    "phase": "Running",
                    "node_name": "",
                    "addresses": [],
                    "created_at": "",
                },
            )
        counts = {
            "desired": topology.control_plane_replicas,
            "replicas": topology.control_plane_replicas,
            "ready": topology.control_plane_replicas,
            "up_to_date": topology.control_plane_replicas,
        }
        workers = {
            **counts,
            "desired": topology.workers,
            "replicas": topology.workers,
            "ready": topology.workers,
            "up_to_date": topology.workers,
        }
        self.put(
            ResourceRef(kind="kube.cluster_status", name=scope),
            {
                "phase": "Provisioned",
                "available": True,
                "rolling": False,
                "control_plane": counts,
                "workers": workers,
                "conditions": [],
                "endpoint": "",
                "version": topology.version,
                "class": topology.class_name,
                "paused": False,
                "deleting": False,
                "observed_generation": 1,
                "generation": 1,
            },
        )

    def _gone(self, scope: str) -> None:
        for machine, item in list(self.all("kube.machine").items()):
            if item.body["cluster"] == scope:
                self.remove(ResourceRef(kind="proxmox.vm", name=str(item.body["vmid"])))
                self.remove(ResourceRef(kind="kube.machine", name=machine))
        self.remove(ResourceRef(kind="kube.cluster_status", name=scope))

    # -- called by the drivers

    def before(self, verb: str, ref: ResourceRef) -> None:
        for hook in self.hooks:
            hook(verb, ref)
        for fault in self.faults:
            if fault.times and not fault.after and fault.matches(verb, ref):
                fault.times -= 1
                raise fault.error

    def after(self, verb: str, ref: ResourceRef) -> None:
        self.calls.append((verb, str(ref)))
        for fault in self.faults:
            if fault.times and fault.after and fault.matches(verb, ref):
                fault.times -= 1
                raise fault.error

    def next_vmid(self) -> int:
        return next(self._ids)


@dataclass(frozen=True, slots=True)
class WorldDriver:
    """One family of kinds of the world."""

    world: World
    family: str

    @property
    def kinds(self) -> frozenset[str]:
        if self.family == "proxmox":
            return frozenset({*PROXMOX_KINDS, "proxmox.node", "proxmox.vm", "proxmox.storage"})
        return frozenset({*KUBE_KINDS, "kube.machine", "kube.cluster_status"})

    @property
    def endpoints(self) -> tuple[str, ...]:
        return self.world.endpoints if self.family == "proxmox" else ()

    def read_bulk(self, *, endpoint: str = "") -> BulkReading:
        world, read_at = self.world, self.world.clock()
        world.before("read_bulk", ResourceRef(kind=self.family, name="bulk"))
        world.requests += len(self.kinds)
        world.asked.append(endpoint)
        items = {kind: tuple(item for item in world.all(kind).values() if item.ref not in world.hidden) for kind in sorted(self.kinds)}
        return BulkReading(
            items=items,
            read_at=read_at,
            rights=world.rights if self.family == "proxmox" else None,
            endpoint=endpoint or self.family,
            endpoints=self.endpoints,
            requests=len(self.kinds),
        )

    def read(self, ref: ResourceRef, body: Body | None) -> Observed | None:
        self.world.before("read", ref)
        return self.world.all(ref.kind).get(ref.name)

    def create(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        world = self.world
        world.before("create", ref)
        found = world.all(ref.kind).get(ref.name)
        if found is not None and ref.kind == "proxmox.token":
            raise RefusedError(f"{ref} is there already, and its secret is lost.")
        if found is not None and found.mark not in {context.mark, None}:
            raise RefusedError(f"{ref} bears the mark of {found.mark}.")
        item = self._write(ref, body, context)
        world.after("create", ref)
        return self._outcome(ref, item)

    def update(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        self.world.before("update", ref)
        found = self.world.all(ref.kind).get(ref.name)
        if found is None:
            raise RefusedError(f"{ref} is not there.")
        if found.mark not in {context.mark, None}:
            raise RefusedError(f"{ref} bears the mark of {found.mark}.")
        item = self._write(ref, body, context)
        self.world.after("update", ref)
        return self._outcome(ref, item)

    def delete(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        world = self.world
        world.before("delete", ref)
        found = world.all(ref.kind).get(ref.name)
        if found is not None and found.mark is not None and found.mark != context.mark:
            raise RefusedError(f"{ref} is not this cluster's.")
        if ref.kind == "proxmox.user":
            for token in [name for name in world.all("proxmox.token") if name.startswith(f"{ref.name}!")]:
                world.remove(ResourceRef(kind="proxmox.token", name=token))
        world.remove(ref)
        if ref.kind == "kube.cluster":
            world._gone(ref.name)
        world.after("delete", ref)
        return Done(left=None)

    def look(self, ref: ResourceRef, handle: Mapping[str, Any], context: ActionContext) -> Outcome:
        self.world.before("look", ref)
        item = self.world.all(ref.kind).get(ref.name)
        status = self.world.all("kube.cluster_status").get(ref.name)
        if status is None or status.body["version"] != Topology.of(item.body).version:
            return Pending(handle=handle, waits_on="machines", abandonable=True)
        return Done(left=item)

    def _write(self, ref: ResourceRef, body: Body, context: ActionContext) -> Observed:
        outputs: dict[str, Any] = dict(self.world.all(ref.kind)[ref.name].outputs) if ref.name in self.world.all(ref.kind) else {}
        if ref.kind == "proxmox.token":
            secret = f"secret-{ref.name}-{self.world.next_vmid()}"
            self.world.secrets[ref.name] = secret
            context.vault.keep(ref.name, SecretStr(secret))
            outputs = {"hmac": f"hmac-of-{secret}"}
        if ref.kind == "proxmox.volume_owner":
            outputs.setdefault("vmid", self.world.next_vmid())
        if ref.kind == "kube.secret" and "kubehenge.dev/token-generation" in body["metadata"]["annotations"]:
            name = body["metadata"]["annotations"]["kubehenge.dev/token-id"]
            if self._held(ref) != name:  # else it stays the one that the Secret holds
                self.world.secrets[str(ref)] = context.vault.get(name).get_secret_value()
        written = resolve(body, context.lookup)
        mark = None if ref.kind in {"kube.namespace", "proxmox.acl", *CLASS_KINDS, *PROVIDER_KINDS} else context.mark
        return self.world.put(ref, written, mark=mark, outputs=outputs)

    def _held(self, ref: ResourceRef) -> str | None:
        """The token that a Secret holds."""
        there = self.world.all(ref.kind).get(ref.name)
        return None if there is None else there.body["metadata"]["annotations"].get("kubehenge.dev/token-id")

    def _outcome(self, ref: ResourceRef, item: Observed) -> Outcome:
        if ref.kind == "kube.cluster":
            return Pending(handle={"want": "available"}, waits_on="machines", left=item, abandonable=True)
        return Done(left=item)


def lost_answer(verb: str, kind: str) -> Fault:
    """The call has its effect and its answer is lost."""
    return Fault(lambda v, ref: v == verb and ref.kind == kind, UncertainError(f"The answer to {verb} {kind} is lost."), after=True)


def refused(verb: str, kind: str, words: str = "403 Permission check failed (/pool/kubehenge, Pool.Allocate)") -> Fault:
    return Fault(lambda v, ref: v == verb and ref.kind == kind, RefusedError(words), times=1_000)


def unreachable(verb: str, kind: str, *, times: int = 1) -> Fault:
    return Fault(lambda v, ref: v == verb and ref.kind == kind, TransientError("No route to host."), times=times)
