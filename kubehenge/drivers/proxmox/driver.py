"""The driver of Proxmox VE: which family of verbs serves which kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from kubehenge.drivers.base import ActionContext, BulkReading, Outcome
from kubehenge.drivers.findings import Finding
from kubehenge.drivers.proxmox import access, guests, pools, probing, reading, users
from kubehenge.drivers.proxmox.client import ProxmoxClient
from kubehenge.errors import InvariantError
from kubehenge.model.canon import Body
from kubehenge.model.resource import Observed, ResourceRef


class Family(Protocol):
    """The verbs of one kind, as `base.Driver` promises them."""

    def read(self, ref: ResourceRef, body: Body | None) -> Observed | None: ...
    def create(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome: ...
    def update(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome: ...
    def delete(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome: ...


class ProxmoxDriver:
    """
    Pools, users, tokens, rights and volume owners of one Proxmox VE cluster, and its nodes, VMs and storages to look at.

    Shape: `workload_pool` is the pool that the clusters' pools are nested in; `owner_vmids` the first and last VMID for volume
    owners; `site_key` the key of the HMACs that stand for tokens' secrets.
    """

    def __init__(
        self,
        client: ProxmoxClient,
        *,
        workload_pool: str,
        owner_vmids: tuple[int, int],
        site_key: bytes,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.client = client
        self._workload_pool = workload_pool
        self._reader = reading.Reader(client, workload_pool=workload_pool, owner_vmids=owner_vmids, clock=clock)
        self._owners = guests.VolumeOwners(client, owner_vmids)
        self._families: Mapping[str, Family] = {
            pools.KIND: pools.Pools(client),
            users.KIND: users.Users(client),
            access.TOKEN: access.Tokens(client, site_key),
            access.ACL: access.Acls(client),
            guests.KIND: self._owners,
        }

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that it reads; those of `_families` it also writes."""
        return frozenset(self._families) | {reading.NODE, reading.VM, reading.STORAGE}

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The nodes' addresses that a reading may be asked of."""
        return self.client.endpoints

    def region(self) -> str:
        """Return the Proxmox VE cluster's name, which stands for the region on nodes; on a single node outside any cluster, the node's."""
        rows = self.client.get("/cluster/status")
        first = sorted(rows, key=lambda row: (row.get("type") != "cluster", not row.get("local")))
        return str(first[0]["name"])

    def read_bulk(self, *, endpoint: str = "") -> BulkReading:
        """Read all kinds, by six requests."""
        return self._reader.read_bulk(endpoint)

    def read_fast(self) -> BulkReading:
        """Read nodes and quorum, by two requests."""
        return self._reader.read_fast()

    def probe(self, *, group: str = "kubehenge-clusters", template_pool: str = "", storages: Sequence[str] = ()) -> list[Finding]:
        """Look at what the driver needs, for `kubehenge doctor`; `group` is the clusters' users' group."""
        wanted = probing.needs(workload_pool=self._workload_pool, group=group, template_pool=template_pool, storages=storages)
        return probing.probe(self.client, wanted, workload_pool=self._workload_pool)

    def read(self, ref: ResourceRef, body: Body | None) -> Observed | None:
        """Read one resource now."""
        return self._family(ref).read(ref, body)

    def create(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Make it, or take over what bears our mark."""
        return self._family(ref).create(ref, body, context)

    def update(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Bring it to the body."""
        return self._family(ref).update(ref, body, context)

    def delete(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Remove it after a look at its identity."""
        return self._family(ref).delete(ref, body, context)

    def look(self, ref: ResourceRef, handle: Mapping[str, Any], context: ActionContext) -> Outcome:
        """Tell how a pending step stands; only volume owners have any."""
        if ref.kind != guests.KIND:
            raise InvariantError(f"{ref.kind} has no pending steps, so there is none of {ref.name} to look at")
        return self._owners.look(ref, handle, context)

    def _family(self, ref: ResourceRef) -> Family:
        try:
            return self._families[ref.kind]
        except KeyError:
            raise InvariantError(f"{ref.kind} is not read or written one by one in Proxmox VE") from None
