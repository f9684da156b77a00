"""
What was read last, in memory: finds what changed without touching the database, and answers facts (DESIGN, Words).

A tick in which nothing changed compares plain values and writes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kubehenge.model.facts import ClusterFacts, MachineFact, NodeFact, SiteFacts, TokenFact, VmFact
from kubehenge.model.identity import ANNOTATION_TOKEN_ID, OWNER_TAGS, Incarnation, token_generation
from kubehenge.model.resource import Observed, ResourceRef

APART = timedelta(seconds=5)
"""Readings that are nearer to each other count as one when they miss something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a reading changed: things found new or different, and things that it no longer shows."""

    found: Mapping[ResourceRef, Observed] = field(default_factory=dict)
    missing: tuple[ResourceRef, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.found or self.missing)


class Seen:
    """The last reading of each kind, by name."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, Observed]] = {}
        self._same: dict[str, Collection[Observed]] = {}
        """The reading of each kind in which nothing had changed: a driver that follows a kind hands out the very same one again."""
        self._by_pool: dict[str, list[VmFact]] | None = None
        self._by_cluster: dict[str, list[MachineFact]] | None = None
        self._missed: dict[ResourceRef, datetime] = {}
        self._read: set[str] = set()

    def has_read(self, kind: str) -> bool:
        """Tell whether this process has read a kind whole; what the database holds of it may be of any age."""
        return kind in self._read

    def knows(self, kind: str) -> bool:
        """Tell whether a kind was read, or loaded from the database, since this process started."""
        return kind in self._items

    def of(self, kind: str) -> Mapping[str, Observed]:
        """Return everything of a kind, by name."""
        return self._items.get(kind, {})

    def load(self, kind: str, items: Iterable[Observed], missed: Iterable[ResourceRef] = ()) -> None:
        """Take over what the database knows of a kind, and what the last reading missed, so that the first one is compared with it."""
        self._items[kind] = {item.ref.name: item for item in items}
        self._missed |= dict.fromkeys(missed, datetime.min.replace(tzinfo=UTC))
        self._forget(kind)

    def compare(self, kind: str, items: Collection[Observed]) -> Moved:
        """Return what a reading changes, without taking it over."""
        self._read.add(kind)
        if self._same.get(kind) is items:
            return Moved()
        old = self._items.get(kind, {})
        found = {}
        for item in items:
            known = old.get(item.ref.name)
            # Field by field, the one that moves first: every VM of a site comes by here every thirty seconds.
            if (
                known is None
                or item.ref in self._missed
                or known.body != item.body
                or known.mark != item.mark
                or known.outputs != item.outputs
            ):
                found[item.ref] = item
        gone = old.keys() - {item.ref.name for item in items}
        if not found and not gone:
            self._same[kind] = items
        return Moved(found=found, missing=tuple(ResourceRef(kind=kind, name=name) for name in sorted(gone)))

    def missed_apart(self, missing: Iterable[ResourceRef], read_at: datetime) -> tuple[ResourceRef, ...]:
        """Return what a reading misses and counts by: readings of nearly the same moment are one (MODEL 20)."""
        counting = tuple(ref for ref in missing if ref not in self._missed or read_at - self._missed[ref] >= APART)
        self._missed |= dict.fromkeys(counting, read_at)
        return counting

    def take(self, kind: str, found: Mapping[ResourceRef, Observed], gone: Iterable[ResourceRef]) -> None:
        """Take over what was recorded."""
        items = self._items.setdefault(kind, {})
        for ref, item in found.items():
            items[ref.name] = item
            self._missed.pop(ref, None)
        for ref in gone:
            items.pop(ref.name, None)
            self._missed.pop(ref, None)
        self._forget(kind)

    def _forget(self, kind: str) -> None:
        self._same.pop(kind, None)
        if kind == "proxmox.vm":
            self._by_pool = None
        if kind == "kube.machine":
            self._by_cluster = None

    # -- facts

    def site_facts(self, *, online: frozenset[str] | None, capmox_token_id: str, capmox_token_hmac: str, proxmox_url: str) -> SiteFacts:
        """Return what is the same for all clusters; `online` is the watch loop's judgement, None before its first one (MODEL 30)."""
        taken: dict[str, int] = defaultdict(int)
        templates = []
        for vms in self._vms_by_pool().values():
            for vm in vms:
                if vm.template:
                    templates.append(vm)
                else:
                    taken[vm.node] += vm.memory_mib
        nodes = tuple(
            NodeFact(
                name=item.ref.name,
                online=item.ref.name in online if online is not None else bool(item.body["online"]),
                cores=item.body["cores"],
                memory_mib=item.body["memory_mib"],
            )
            for _, item in sorted(self.of("proxmox.node").items())
        )
        return SiteFacts(
            nodes=nodes,
            memory_taken_mib=dict(taken),
            templates=tuple(sorted(templates, key=lambda vm: vm.vmid)),
            capmox_token_id=capmox_token_id,
            capmox_token_hmac=capmox_token_hmac,
            proxmox_url=proxmox_url,
        )

    def cluster_facts(self, who: Incarnation, pool: str, secret: str) -> ClusterFacts:
        """Return one cluster's machines, VMs and token; `secret` is the name of the Secret that counts (MODEL 8)."""
        status = self.of("kube.cluster_status").get(who.scope)
        vms = tuple(vm for vm in self._vms_by_pool().get(pool, ()) if not set(OWNER_TAGS) <= vm.tags)
        return ClusterFacts(
            machines=tuple(self._machines_by_cluster().get(who.scope, ())),
            vms=vms,
            token=self._token(who, f"{who.namespace}/{secret}"),
            available=bool(status and status.body.get("available")),
            rolling=bool(status and status.body.get("rolling")),
        )

    def _token(self, who: Incarnation, secret: str) -> TokenFact:
        prefix = f"{who.user}!"
        existing = sorted(
            generation
            for name in self.of("proxmox.token")
            if name.startswith(prefix) and (generation := token_generation(name)) is not None
        )
        held = self.of("kube.secret").get(secret)
        token_id = (held.body["metadata"].get("annotations") or {}).get(ANNOTATION_TOKEN_ID, "") if held else ""
        return TokenFact(existing=tuple(existing), held=token_generation(token_id) if token_id.startswith(prefix) else None)

    def _vms_by_pool(self) -> Mapping[str, list[VmFact]]:
        if self._by_pool is None:
            self._by_pool = defaultdict(list)
            for item in self.of("proxmox.vm").values():
                body = item.body
                self._by_pool[body["pool"]].append(
                    VmFact(
                        vmid=int(item.ref.name),
                        name=body["name"],
                        node=body["node"],
                        pool=body["pool"],
                        cores=body["cores"],
                        memory_mib=body["memory_mib"],
                        running=body["running"],
                        template=body["template"],
                        tags=frozenset(body["tags"]),
                    )
                )
        return self._by_pool

    def _machines_by_cluster(self) -> Mapping[str, list[MachineFact]]:
        if self._by_cluster is None:
            self._by_cluster = defaultdict(list)
            for item in self.of("kube.machine").values():
                body = item.body
                self._by_cluster[body["cluster"]].append(
                    MachineFact(
                        name=item.ref.name,
                        cluster=body["cluster"],
                        control_plane=body["control_plane"],
                        deployment=body["deployment"],
                        version=body["version"],
                        vmid=body["vmid"],
                        ready=body["ready"],
                        deleting=body["deleting"],
                        created_at=body["created_at"],
                        vm_node=body.get("vm_node", ""),
                    )
                )
        return self._by_cluster
