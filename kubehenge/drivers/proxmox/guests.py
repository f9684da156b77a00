"""
`proxmox.volume_owner`: the VM that owns a cluster's volumes and is never started (reference kubehenge-architecture; tried: 5).

Exactly one is made, whatever is interrupted: its VMID follows from the cluster's mark, so that whoever tries again meets his own
earlier try; and what bears the mark in the pool is taken over. Making it takes two steps, since Proxmox VE refuses tags at
creation to a token with rights on the pool only: a task makes the VM, a change of its configuration tags it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubehenge.drivers.base import ActionContext, Done, Outcome, Pending
from kubehenge.drivers.marks import mark_in, require_ours
from kubehenge.drivers.proxmox.client import ProxmoxClient
from kubehenge.drivers.proxmox.errors import ProxmoxRefusedError, is_denied, is_existing, is_missing
from kubehenge.drivers.proxmox.pools import find_pool
from kubehenge.drivers.proxmox.tasks import TaskState, find_running_create, task_state
from kubehenge.errors import InvariantError, RefusedError, TransientError
from kubehenge.model.canon import Body
from kubehenge.model.identity import OWNER_TAGS
from kubehenge.model.resource import Observed, ResourceRef

KIND = "proxmox.volume_owner"
MEMORY_MIB = 16
"""It never runs; but capmox counts the memory of every VM that its token sees."""

_TRIES = 32
"""How many VMIDs are tried; the owners' range holds a million of which few are taken."""


_TAG_SEPARATORS = re.compile(r"[;, ]+")


def parse_tags(text: str | None) -> frozenset[str]:
    """Read tags as Proxmox VE joins them; their case and order mean nothing."""
    return frozenset(_TAG_SEPARATORS.split(text.lower().strip(";, "))) - {""} if text else frozenset()


def owner_body(*, name: str, pool: str, tags: frozenset[str], vmids: tuple[int, int]) -> dict[str, Any]:
    """Return a volume owner's body; of its tags only ours count, others are their owners'."""
    return {"name": name, "pool": pool, "tags": sorted(tags & set(OWNER_TAGS)), "first_vmid": vmids[0], "last_vmid": vmids[1]}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vm:
    """A VM of a cluster's pool, with what its configuration says."""

    vmid: int
    node: str
    name: str
    tags: frozenset[str]
    mark: str | None
    description: str
    lock: str
    running: bool

    def __str__(self) -> str:
        return f"VM {self.vmid} ({self.name or 'without a name'}) on node {self.node}"


class VolumeOwners:
    """The verbs of volume owners."""

    def __init__(self, client: ProxmoxClient, vmids: tuple[int, int]) -> None:
        self._client = client
        self._politeness = client.politeness
        self._vmids = vmids

    def read(self, ref: ResourceRef, body: Body | None) -> Observed | None:
        """Read the owner of a pool's volumes, with the mark of its description."""
        wanted = body or {"pool": ref.name}
        vm = self._find(wanted, mark=None)
        return self._observed(ref, wanted, vm) if vm is not None else None

    def create(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Make it, or take over the VM with our mark; RefusedError for another of its name."""
        vm = self._find(body, mark=context.mark)
        if vm is not None:
            require_ours(vm.mark, context.mark, str(vm), verb="taken for the cluster's volume owner")
            return self._dress(ref, body, context, vm)
        if not self._politeness.claim_task(str(ref)):
            return self._queued(ref, body, "create")
        try:
            started = self._start(ref, body, context)
        except BaseException:
            self._politeness.release_task(str(ref))
            raise
        if started is None:  # it has come about meanwhile
            self._politeness.release_task(str(ref))
            return self.create(ref, body, context)
        return started

    def update(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Put its name, tags and description back."""
        vm = self._find(body, mark=context.mark)
        if vm is None:
            raise RefusedError(f"The volume owner of {ref.name} is not there any more. The next plan makes it again.")
        if vm.mark is not None:
            require_ours(vm.mark, context.mark, str(vm), verb="changed")
        return self._dress(ref, body, context, vm)

    def delete(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Delete the stopped VM with our name, pool and mark, and the volumes that it owns with it."""
        vm = self._find(body, mark=context.mark)
        if vm is None:
            return Done(left=None)
        require_ours(vm.mark, context.mark, str(vm), verb="deleted")
        if vm.name != body["name"]:
            raise RefusedError(
                f"{vm} is not deleted: the cluster's volume owner is called {body['name']}. Put its name back, or remove it."
            )
        if vm.running:
            raise RefusedError(f"{vm} is not deleted: it runs, and a volume owner never does. See what it is, and stop it.")
        if not self._politeness.claim_task(str(ref)):
            return self._queued(ref, body, "delete")
        try:
            upid = self._client.delete(f"/nodes/{vm.node}/qemu/{vm.vmid}", purge=1, destroy_unreferenced_disks=1)
        except ProxmoxRefusedError as exc:
            self._politeness.release_task(str(ref))
            # Where the rights come from the pool, a VM that has left it with its deletion is denied rather than missing.
            if (is_missing(exc) or is_denied(exc)) and self._find(body, mark=context.mark) is None:
                return Done(left=None)
            raise
        except BaseException:
            self._politeness.release_task(str(ref))
            raise
        handle = {"step": "delete", "upid": str(upid), "body": dict(body)}
        return Pending(handle=handle, waits_on=f"the deletion of {vm}", left=self._observed(ref, body, vm))

    def look(self, ref: ResourceRef, handle: Mapping[str, Any], context: ActionContext) -> Outcome:
        """Tell how a creation or deletion stands, and take its next step."""
        body = handle["body"]
        match handle["step"]:
            case "queued":
                return self.create(ref, body, context) if handle["verb"] == "create" else self.delete(ref, body, context)
            case "create" | "delete" as step:
                task = self._task(ref, handle["upid"])
                if task.running:
                    return Pending(handle=handle, waits_on=f"task {handle['upid']} of Proxmox VE")
                vm = self._find(body, mark=context.mark)
                if step == "delete":
                    if vm is None:
                        return Done(left=None, note=task.note)
                    raise TransientError(f"{vm} is still there although its deletion ended. It is looked at again.")
                if vm is None:
                    raise TransientError(f"The volume owner of {ref.name} is not there although its creation ended. It is looked at again.")
                return replace(self._dress(ref, body, context, vm), note=task.note)
            case step:
                raise InvariantError(f"{KIND} has no step {step!r}")

    def _task(self, ref: ResourceRef, upid: str) -> TaskState:
        try:
            state = task_state(self._client, upid)
        except RefusedError:
            self._politeness.release_task(str(ref))
            raise
        if state.running:
            self._politeness.claim_task(str(ref), runs_already=True)
        else:
            self._politeness.release_task(str(ref))
        return state

    def _queued(self, ref: ResourceRef, body: Body, verb: str) -> Pending:
        return Pending(
            handle={"step": "queued", "verb": verb, "body": dict(body)},
            waits_on=f"a place among the {self._politeness.limits.tasks} tasks that may run at once ({verb} {ref.name})",
        )

    def _start(self, ref: ResourceRef, body: Body, context: ActionContext) -> Pending | None:
        """Start the creation, or find the one under way; None when the VM is there by now."""
        node = self._node(context.mark)
        for vmid in _candidates(body, context.mark):
            upid = self._post(node, vmid, body, context) if self._is_free(vmid) else None
            if upid is None:  # taken, perhaps by an earlier try of ours, whose answer was lost or which comes late
                upid = find_running_create(self._client, vmid)
            if upid is not None:
                return Pending(handle={"step": "create", "upid": upid, "body": dict(body)}, waits_on=f"task {upid} of Proxmox VE")
            if self._find(body, mark=context.mark) is not None:
                return None
        raise RefusedError(
            f"The volume owner of {ref.name} is not made: {_TRIES} VM ids between {body['first_vmid']} and {body['last_vmid']} are taken. "
            "Keep others' VMs out of that range, or set a wider one."
        )

    def _post(self, node: str, vmid: int, body: Body, context: ActionContext) -> str | None:
        """Start the task that makes the VM; None when the VMID has been taken since it was looked at."""
        try:
            upid = self._client.post(
                f"/nodes/{node}/qemu",
                vmid=vmid,
                name=body["name"],
                pool=body["pool"],
                description=context.mark,
                memory=MEMORY_MIB,
            )
        except ProxmoxRefusedError as exc:
            if is_existing(exc):
                return None
            raise
        return str(upid)

    def _is_free(self, vmid: int) -> bool:
        try:
            self._client.get("/cluster/nextid", vmid=vmid)
        except ProxmoxRefusedError as exc:
            if is_existing(exc):
                return False
            raise
        return True

    def _node(self, mark: str) -> str:
        """An online node; the owner has no disks, so any will do, and clusters are spread."""
        rows = self._client.get("/cluster/resources", type="node")
        online = sorted(row["node"] for row in rows if row.get("status") == "online")
        if not online:
            raise TransientError("No node of Proxmox VE is online, so no volume owner can be made. It is tried again.")
        return str(online[_number(mark) % len(online)])

    def _dress(self, ref: ResourceRef, body: Body, context: ActionContext, vm: _Vm) -> Done:
        """Give the VM what it should have: its name, its tags beside those that others set, its mark."""
        if vm.lock:
            raise TransientError(f"{vm} is locked ({vm.lock}). It is looked at again.")
        change: dict[str, Any] = {}
        if vm.name != body["name"]:
            change["name"] = body["name"]
        if not set(body["tags"]) <= vm.tags:
            change["tags"] = ";".join(sorted(vm.tags | set(body["tags"])))
        if vm.mark is None:
            change["description"] = f"{vm.description}\n{context.mark}".strip()
        if change:
            self._client.put(f"/nodes/{vm.node}/qemu/{vm.vmid}/config", **change)
        body_left = owner_body(
            name=body["name"], pool=body["pool"], tags=vm.tags | set(body["tags"]), vmids=(body["first_vmid"], body["last_vmid"])
        )
        return Done(left=Observed(ref=ref, body=body_left, mark=context.mark, outputs={"vmid": vm.vmid, "node": vm.node}))

    def _observed(self, ref: ResourceRef, body: Body, vm: _Vm) -> Observed:
        vmids = (body.get("first_vmid", self._vmids[0]), body.get("last_vmid", self._vmids[1]))
        return Observed(
            ref=ref,
            body=owner_body(name=vm.name, pool=body["pool"], tags=vm.tags, vmids=vmids),
            mark=vm.mark,
            outputs={"vmid": vm.vmid, "node": vm.node},
        )

    def _find(self, body: Body, *, mark: str | None) -> _Vm | None:
        """
        Find the pool's volume owner: the VM with the mark, else the one with the name; without a mark to go by, else by the tags.

        Members of the pool are exact; their names lag by seconds, so the configuration of each that may be it is read.
        """
        pool = find_pool(self._client, body["pool"])
        members = pool.get("members", ()) if pool is not None else ()
        found = [self._vm(member) for member in members if self._may_be(member, body)]
        found.sort(key=lambda vm: vm.vmid)
        marked = [vm for vm in found if mark is not None and vm.mark == mark]
        named = [vm for vm in found if "name" in body and vm.name == body["name"]]
        tagged = [vm for vm in found if mark is None and vm.tags >= set(OWNER_TAGS)]
        return next(iter((*marked, *named, *tagged)), None)

    def _may_be(self, member: Mapping[str, Any], body: Body) -> bool:
        first, last = body.get("first_vmid", self._vmids[0]), body.get("last_vmid", self._vmids[1])
        if member.get("type") != "qemu":
            return False
        return first <= int(member["vmid"]) <= last or member.get("name") == body.get("name")

    def _vm(self, member: Mapping[str, Any]) -> _Vm:
        try:
            config = self._client.get(f"/nodes/{member['node']}/qemu/{member['vmid']}/config")
        except RefusedError as exc:
            if is_missing(exc):
                raise TransientError(f"VM {member['vmid']} has just left node {member['node']}. It is looked at again.") from None
            raise
        description = str(config.get("description", ""))
        return _Vm(
            vmid=int(member["vmid"]),
            node=member["node"],
            name=str(config.get("name", "")),
            tags=parse_tags(config.get("tags")),
            mark=mark_in(description),
            description=description,
            lock=str(config.get("lock", "")),
            running=member.get("status") == "running",
        )


def _number(mark: str) -> int:
    return int.from_bytes(hashlib.sha256(mark.encode()).digest()[:8])


def _candidates(body: Body, mark: str) -> Iterator[int]:
    """VMIDs of the owners' range in an order that follows from the mark, so that a second try meets the first."""
    first, last = body["first_vmid"], body["last_vmid"]
    size = last - first + 1
    start = _number(mark) % size
    for step in range(min(_TRIES, size)):
        yield first + (start + step) % size
