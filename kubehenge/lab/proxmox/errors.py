"""Refusals in Proxmox VE's words: what the API answers when it does not do what was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fakepve.model import PveError, TaskError

__all__ = ["PveError", "TaskError", "bad_parameter", "denied", "failed", "in_lock", "in_task", "no_config", "read_only", "spoken"]

BAD_PARAMETERS = "Parameter verification failed."


def failed(message: str) -> PveError:
    """Status 500 with a message: what most refusals inside a call are."""
    return PveError(500, message)


def bad_parameter(errors: Mapping[str, str]) -> PveError:
    """Status 400 with one text per parameter."""
    return PveError(400, BAD_PARAMETERS, dict(errors))


def denied(path: str | None = None, privileges: Iterable[str] = ()) -> PveError:
    """Status 403, naming the path and the privileges of which one would have been enough; bare without a path."""
    if path is None:
        return PveError(403, "Permission check failed")
    return PveError(403, f"Permission check failed ({path}, {'|'.join(privileges)})")


def no_config(node: str, vmid: int) -> PveError:
    """What is said of a VM that is not on the node that was asked."""
    return failed(f"Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist")


def read_only(guest: Any) -> PveError:
    """What writing a guest's configuration says when the cluster file system is read-only."""
    return failed(f"unable to open file '/etc/pve/nodes/{guest.node}/qemu-server/{guest.vmid}.conf.tmp' - Permission denied")


def in_lock(prefix: str, error: PveError) -> PveError:
    """A refusal inside a lock: status and `errors` are lost, both end up in the message of a 500."""
    return failed(f"{prefix}: {spoken(error)}")


def in_task(error: PveError) -> TaskError:
    """A refusal inside a task: its exit status is the message, with the number where it is no plain failure."""
    return TaskError(spoken(error))


def spoken(error: PveError) -> str:
    """An error as one text, as Proxmox VE prints it where only a text can be kept."""
    text = error.message if error.status == 500 else f"{error.status} {error.message}"
    return "\n".join([text, *(f"{name}: {why.rstrip()}" for name, why in sorted((error.errors or {}).items()))])
