"""
Reading all of Proxmox VE at once, by a number of requests that does not depend on how much there is (MODEL 20, 24).

Six requests go out side by side to one endpoint. Each row is touched once, by plain dicts: a site has thousands of VMs and is
read every thirty seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kubehenge.drivers.base import BulkReading
from kubehenge.drivers.proxmox import access, guests, pools, users
from kubehenge.drivers.proxmox.client import ProxmoxClient
from kubehenge.drivers.proxmox.errors import is_denied
from kubehenge.errors import KubehengeError, RefusedError, TransientError
from kubehenge.model.identity import OWNER_TAGS
from kubehenge.model.resource import Observed, ResourceRef

NODE = "proxmox.node"
VM = "proxmox.vm"
STORAGE = "proxmox.storage"

MIB = 1 << 20
Rows = Sequence[Mapping[str, Any]]


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What `/cluster/status` says: whether the cluster has quorum, and which nodes are online; None where it may not be read."""

    quorate: bool
    online: Mapping[str, bool] | None

    @classmethod
    def of(cls, rows: Rows) -> Membership:
        """Read the answer; a single node that is in no cluster has no row for one, and needs no quorum."""
        cluster = next((row for row in rows if row.get("type") == "cluster"), None)
        nodes = {row["name"]: bool(row.get("online")) for row in rows if row.get("type") == "node"}
        return cls(quorate=bool(cluster.get("quorate")) if cluster else True, online=nodes)

    @classmethod
    def guessed(cls, rows: Rows) -> Membership:
        """Guess quorum from the list of nodes, for a token without Sys.Audit on /: more than half of them answer."""
        nodes = [row for row in rows if row.get("type") == "node"]
        online = sum(row.get("status") == "online" for row in nodes)
        return cls(quorate=online * 2 > len(nodes), online=None)


class Reader:
    """The bulk and the fast reading of one Proxmox VE cluster."""

    def __init__(
        self, client: ProxmoxClient, *, workload_pool: str, owner_vmids: tuple[int, int], clock: Callable[[], datetime] = _now
    ) -> None:
        self._client = client
        self._below = f"{workload_pool}/"
        self._owner_vmids = owner_vmids
        self._clock = clock

    def read_fast(self) -> BulkReading:
        """Read nodes and quorum, by two requests; errors as for `read_bulk`."""
        return self._from_some_endpoint(self._read_fast)

    def read_bulk(self, endpoint: str = "") -> BulkReading:
        """
        Read all kinds.

        A kind whose request is refused or fails is named in `failed`.
        Errors: what reading the rights raises, without which a reading is void; TransientError when no endpoint answers.
        """
        return self._read(endpoint) if endpoint else self._from_some_endpoint(self._read)

    def _from_some_endpoint(self, read: Callable[[str], BulkReading]) -> BulkReading:
        """Read anew from the next endpoint when one goes away meanwhile, so that no reading is put together from two nodes."""
        for _ in self._client.endpoints[:-1]:
            here = self._client.endpoint
            try:
                return read(here)
            except TransientError:
                if self._client.endpoint == here:
                    raise
        return read(self._client.endpoint)

    def _read_fast(self, endpoint: str) -> BulkReading:
        read_at = self._clock()
        answers = self._ask({"status": ("/cluster/status", {}), "resources": ("/cluster/resources", {"type": "node"})}, endpoint)
        rows = answers.rows("resources")
        member = answers.membership(rows)
        nodes = tuple(_nodes(rows, member))
        return BulkReading(
            items={NODE: nodes},
            read_at=read_at,
            endpoint=endpoint,
            endpoints=self._client.endpoints,
            quorate=member.quorate,
            requests=answers.count,
        )

    def _read(self, endpoint: str) -> BulkReading:
        read_at = self._clock()  # before the first answer: what was written since then may not be in it
        answers = self._ask(
            {
                "rights": ("/access/permissions", {}),
                "status": ("/cluster/status", {}),
                "resources": ("/cluster/resources", {}),
                "pools": ("/pools", {}),
                "users": ("/access/users", {"full": 1}),
                "acl": ("/access/acl", {}),
            },
            endpoint,
        )
        if not self._client.endpoint == endpoint and answers.transient:
            raise TransientError(f"{endpoint} went away while it was read; everything is read from another node.")
        rights = {path: tuple(sorted(held)) for path, held in answers.get("rights").items()}
        items: dict[str, tuple[Observed, ...]] = {}
        failed: dict[str, str] = {}
        quorate = True
        try:
            rows = answers.rows("resources")
            member = answers.membership(rows)
        except KubehengeError as exc:
            failed |= dict.fromkeys((NODE, VM, STORAGE, guests.KIND), str(exc))
            quorate = False
        else:
            quorate = member.quorate
            items[NODE] = tuple(_nodes(rows, member))
            items[VM] = tuple(_vms(rows))
            items[STORAGE] = tuple(_storages(rows))
            try:
                items[guests.KIND] = tuple(self._owners(rows))
            except KubehengeError as exc:
                failed[guests.KIND] = str(exc)
        for name, reduce in (("pools", self._pools), ("users", _users), ("acl", self._acl)):
            kinds = {"pools": (pools.KIND,), "users": (users.KIND, access.TOKEN), "acl": (access.ACL,)}[name]
            try:
                items |= zip(kinds, reduce(answers.rows(name)), strict=True)
            except KubehengeError as exc:
                failed |= dict.fromkeys(kinds, str(exc))
        return BulkReading(
            items=items,
            read_at=read_at,
            failed=failed,
            rights=rights,
            endpoint=endpoint,
            endpoints=self._client.endpoints,
            quorate=quorate,
            requests=answers.count,
        )

    def _ask(self, calls: Mapping[str, tuple[str, Mapping[str, Any]]], endpoint: str) -> _Answers:
        with ThreadPoolExecutor(max_workers=len(calls), thread_name_prefix="read-proxmox") as threads:
            waiting = {name: threads.submit(self._one, path, params, endpoint) for name, (path, params) in calls.items()}
            return _Answers({name: future.result() for name, future in waiting.items()})

    def _one(self, path: str, params: Mapping[str, Any], endpoint: str) -> Any:
        try:
            return self._client.get(path, endpoint=endpoint, **params)
        except KubehengeError as exc:
            return exc

    def _pools(self, rows: Rows) -> tuple[tuple[Observed, ...]]:
        return (tuple(pools.observed_pool(row) for row in rows if row["poolid"].startswith(self._below)),)

    def _acl(self, rows: Rows) -> tuple[tuple[Observed, ...]]:
        ours = users.OUR_USER.fullmatch
        return (tuple(access.observed_acl(row) for row in rows if row["type"] == "user" and ours(row["ugid"])),)

    def _owners(self, rows: Rows) -> Iterable[Observed]:
        wanted = set(OWNER_TAGS)
        found: dict[str, Mapping[str, Any]] = {}
        for row in rows:
            tags = row.get("tags")
            pool = row.get("pool", "")
            if not tags or row.get("type") != "qemu" or not pool.startswith(self._below) or not wanted <= guests.parse_tags(tags):
                continue
            first = found.get(pool)
            if first is None or row["vmid"] < first["vmid"]:  # lists come in any order
                found[pool] = row
        return [self._owner(row, pool) for pool, row in found.items()]

    def _owner(self, row: Mapping[str, Any], pool: str) -> Observed:
        # The name comes with the nodes' broadcast, up to ten seconds after a VM is made; pool, tags and node are exact at once.
        name = row.get("name") or self._client.get(f"/nodes/{row['node']}/qemu/{row['vmid']}/config").get("name", "")
        return Observed(
            ref=ResourceRef(kind=guests.KIND, name=pool),
            body=guests.owner_body(name=name, pool=pool, tags=guests.parse_tags(row["tags"]), vmids=self._owner_vmids),
            outputs={"vmid": row["vmid"], "node": row["node"]},
        )


class _Answers:
    """What came back for each request: its data, or the error it ended in."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers
        self.count = len(answers)

    @property
    def transient(self) -> bool:
        """Whether some request failed in a way that may pass."""
        return any(isinstance(answer, TransientError) for answer in self._answers.values())

    def get(self, name: str) -> Any:
        answer = self._answers[name]
        if isinstance(answer, KubehengeError):
            raise answer
        return answer

    def rows(self, name: str) -> Rows:
        rows: Rows = self.get(name) or ()
        return rows

    def membership(self, rows: Rows) -> Membership:
        """Quorum, and who is online; guessed where the token may not read it."""
        try:
            return Membership.of(self.rows("status"))
        except RefusedError as exc:
            if not is_denied(exc):
                raise
            return Membership.guessed(rows)


def _users(rows: Rows) -> tuple[tuple[Observed, ...], tuple[Observed, ...]]:
    ours = [row for row in rows if users.OUR_USER.fullmatch(row["userid"])]
    tokens = (access.observed_token(row["userid"], token) for row in ours for token in row.get("tokens") or ())
    return tuple(users.observed_user(row) for row in ours), tuple(tokens)


def _nodes(rows: Rows, member: Membership) -> Iterable[Observed]:
    for row in rows:
        if row.get("type") != "node":
            continue
        name = row["node"]
        online = row.get("status") == "online" if member.online is None else member.online.get(name, False)
        body = {"online": online, "cores": row.get("maxcpu", 0), "memory_mib": row.get("maxmem", 0) // MIB}
        yield Observed(ref=ResourceRef(kind=NODE, name=name), body=body)


def _vms(rows: Rows) -> Iterable[Observed]:
    """Guests of both sorts: a container takes a VMID and memory as a VM does."""
    for row in rows:
        if row.get("type") not in {"qemu", "lxc"}:
            continue
        tags = row.get("tags")
        body = {
            "name": row.get("name", ""),
            "node": row["node"],
            "pool": row.get("pool", ""),
            "cores": row.get("maxcpu", 0),
            "memory_mib": row.get("maxmem", 0) // MIB,
            "running": row.get("status") == "running",
            "template": bool(row.get("template")),
            "tags": sorted(guests.parse_tags(tags)) if tags else [],
        }
        yield Observed(ref=ResourceRef(kind=VM, name=str(row["vmid"])), body=body)


def _storages(rows: Rows) -> Iterable[Observed]:
    """Storages by node; Proxmox VE lists those that are enabled there."""
    for row in rows:
        if row.get("type") != "storage":
            continue
        content = sorted(part for part in row.get("content", "").split(",") if part)
        body = {"shared": bool(row.get("shared")), "content": content, "enabled": row.get("status") != "disabled"}
        yield Observed(ref=ResourceRef(kind=STORAGE, name=f"{row['node']}/{row['storage']}"), body=body)
