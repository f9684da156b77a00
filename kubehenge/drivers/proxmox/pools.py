"""`proxmox.pool`: a cluster's pool. A nested pool is named by the parameter `poolid` only, never in a path (facts: 3 Rights)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubehenge.drivers.base import ActionContext, Done, Outcome
from kubehenge.drivers.marks import mark_in, require_ours
from kubehenge.drivers.proxmox.client import ProxmoxClient
from kubehenge.drivers.proxmox.errors import ProxmoxRefusedError, is_existing, is_missing
from kubehenge.errors import RefusedError
from kubehenge.model.canon import Body
from kubehenge.model.resource import Observed, ResourceRef

KIND = "proxmox.pool"


def observed_pool(row: Mapping[str, Any]) -> Observed:
    """Reduce a pool as `/pools` lists it."""
    poolid, comment = row["poolid"], row.get("comment", "")
    return Observed(ref=ResourceRef(kind=KIND, name=poolid), body={"poolid": poolid, "comment": comment}, mark=mark_in(comment))


def find_pool(client: ProxmoxClient, poolid: str) -> Mapping[str, Any] | None:
    """Read one pool with its members, None when there is none; any valid token may read any pool so."""
    try:
        rows = client.get("/pools", poolid=poolid)
    except RefusedError as exc:
        if is_missing(exc):
            return None
        raise
    found: Mapping[str, Any] | None = rows[0] if rows else None
    return found


class Pools:
    """The verbs of pools."""

    def __init__(self, client: ProxmoxClient) -> None:
        self._client = client

    def read(self, ref: ResourceRef, body: Body | None) -> Observed | None:  # noqa: ARG002 - a pool has no parameters
        """Read one pool."""
        row = find_pool(self._client, ref.name)
        return observed_pool(row) if row is not None else None

    def create(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Make the pool, or take over one with our mark; RefusedError for another's."""
        try:
            self._client.post("/pools", poolid=body["poolid"], comment=body["comment"])
        except ProxmoxRefusedError as exc:
            if not is_existing(exc):
                raise
            return self.update(ref, body, context, unmarked=False)
        return Done(left=observed_pool(body))

    def update(self, ref: ResourceRef, body: Body, context: ActionContext, *, unmarked: bool = True) -> Outcome:
        """Put the comment back; `unmarked` says whether one without a mark may be taken for ours, as after an edit by hand."""
        found = self.read(ref, body)
        if found is None:
            raise RefusedError(f"Pool {ref.name} is not there any more. The next plan makes it again.")
        if found.mark is not None or not unmarked:
            require_ours(found.mark, context.mark, f"Pool {ref.name}", verb="changed")
        if found.body["comment"] != body["comment"]:
            self._client.put("/pools", poolid=body["poolid"], comment=body["comment"])
        return Done(left=observed_pool(body))

    def delete(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:  # noqa: ARG002 - its name says all
        """Delete an empty pool with our mark; RefusedError names a member that is left."""
        row = find_pool(self._client, ref.name)
        if row is None:
            return Done(left=None)
        require_ours(mark_in(row.get("comment")), context.mark, f"Pool {ref.name}", verb="deleted")
        if members := [_named(member) for member in row.get("members", ())]:
            raise RefusedError(
                f"Pool {ref.name} is kept: {', '.join(sorted(members))} {'is' if len(members) == 1 else 'are'} still in it. "
                "Move or remove what is not Kubehenge's in Proxmox VE; then this is tried again."
            )
        try:
            self._client.delete("/pools", poolid=ref.name)
        except ProxmoxRefusedError as exc:
            if not is_missing(exc):
                raise
        return Done(left=None)


def _named(member: Mapping[str, Any]) -> str:
    match member.get("type"):
        case "storage":
            return f"storage {member.get('storage')}"
        case kind:
            name = f" ({member['name']})" if member.get("name") else ""
            return f"{'container' if kind == 'lxc' else 'VM'} {member.get('vmid')}{name}"
