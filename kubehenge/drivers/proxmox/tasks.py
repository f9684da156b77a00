"""Tasks of Proxmox VE: how they stand and how they ended (facts: 7 Tasks)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kubehenge.drivers.proxmox.client import ProxmoxClient
from kubehenge.drivers.proxmox.errors import is_missing, judge_words
from kubehenge.errors import RefusedError, UncertainError

_UPID = re.compile(r"UPID:(?P<node>[^:]+):[0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+:(?P<type>[^:]+):(?P<id>[^:]*):(?P<user>[^:]+):")
_WARNINGS = re.compile(r"WARNINGS: (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """How a task stands: it runs, or it ended well (`note` tells of warnings), or it is not known any more."""

    running: bool = False
    known: bool = True
    note: str = ""


def node_of(upid: str) -> str:
    """Return the node that a task runs on, which alone answers for it."""
    found = _UPID.fullmatch(upid)
    if found is None:
        raise UncertainError(f"Proxmox VE answered with {upid!r} where a task's id was expected; what was done is looked at first.")
    return found["node"]


def task_state(client: ProxmoxClient, upid: str) -> TaskState:
    """
    Look at a task.

    Errors: what its end says when it failed: RefusedError or TransientError; UncertainError when its node went down under it.
    """
    node = node_of(upid)
    try:
        status = client.get(f"/nodes/{node}/tasks/{upid}/status")
    except RefusedError as exc:
        if is_missing(exc):  # its log has been cleared away
            return TaskState(known=False)
        raise
    ended = status.get("exitstatus")
    if status.get("status") == "running" or ended is None:
        return TaskState(running=True)
    if ended == "OK":
        return TaskState()
    if warnings := _WARNINGS.fullmatch(ended):
        return TaskState(note=f"Task {upid} ended with {warnings[1]} warnings; its log on node {node} has them.")
    kind = _UPID.fullmatch(upid)
    what = f"Task {kind['type'] if kind else upid} on node {node}"
    if ended == "unexpected status":
        raise UncertainError(f"{what} ended without saying how, as when its node is restarted. What is there is looked at first.")
    raise judge_words(ended, what=what)


def find_running_create(client: ProxmoxClient, vmid: int) -> str | None:
    """Return the id of a running task of ours that makes this VM; others' tasks are not shown to a token without Sys.Audit."""
    for row in client.get("/cluster/tasks"):
        if row.get("type") == "qmcreate" and str(row.get("id")) == str(vmid) and not row.get("endtime"):
            return str(row["upid"])
    return None
