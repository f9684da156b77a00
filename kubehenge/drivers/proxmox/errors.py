"""
What Proxmox VE's answers mean (facts: the shapes of errors seen on 9.2).

Its texts have no stable codes, and an error inside a lock keeps its words but not its status. So the text decides first, the
status only where the text says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kubehenge.errors import KubehengeError, RefusedError, TransientError, UncertainError

HIDDEN = "***"


class Sort(StrEnum):
    """How a call ended on the wire."""

    ANSWERED = "answered"  # by Proxmox VE, whatever the status
    UNREACHED = "unreached"  # nothing was sent: no connection, or no trust in its certificate
    LOST = "lost"  # sent, and no whole answer came
    GARBLED = "garbled"  # an answer that is not Proxmox VE's: a proxy's page, a redirect, broken JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """
    The end of one call.

    Shape: `text` is the message in full (all its lines), `errors` the text per refused parameter; `value` what an answer below
    300 holds in `data`; `slow` says that the time limit ended it.
    """

    sort: Sort
    status: int = 0
    value: Any = None
    text: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    retry_after_s: float = 0.0
    slow: bool = False

    @property
    def good(self) -> bool:
        """Whether the call did what it was sent for."""
        return self.sort is Sort.ANSWERED and self.status < 300

    @property
    def words(self) -> str:
        """The message with the texts per parameter, on one line."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        named = [f"{name}: {' '.join(text.split())}" for name, text in sorted(self.errors.items())]
        text = "; ".join((*lines, *named)) or f"status {self.status} without words"
        return text.rstrip(".!")


class ProxmoxRefusedError(RefusedError):
    """Proxmox VE refused a call; `words` are its own, for verbs that know what they mean."""

    def __init__(self, message: str, words: str) -> None:
        super().__init__(message)
        self.words = words


class NotSignedInError(ProxmoxRefusedError):
    """Proxmox VE does not accept who asks: wrong, expired, revoked or disabled."""


_MISSING = re.compile(
    r"no such (user|token|pool|task|resource|volume)\b|(?<!role )'[^']*' does not exist|unable to find configuration file"
)
_EXISTS = re.compile(r"already (exists|defined)", re.IGNORECASE)
_DENIED = re.compile(r"Permission check failed")
_PRIVILEGE = re.compile(r"Permission check failed \((?P<path>/[^,()]*), (?P<privileges>[^()]+)\)")
_INVALID = re.compile(r"Parameter verification failed|invalid format|requires 'Permissions\.Modify'")

_PASSING = re.compile(
    r"no quorum"
    r"|cluster not ready"
    r"|got (lock |request )?time-?out"
    r"|can't (lock|acquire|get) "
    r"|unable to acquire"
    r"|is locked \("
    r"|checksum mismatch"
    r"|detected modified configuration"
    r"|unable to open file '/etc/pve/[^']*' - Permission denied",
    re.IGNORECASE,
)
"""What passes by itself: quorum comes back, a lock is given back, somebody changed the same file at the same moment."""

_LASTING = re.compile(
    r"already (exists|defined|running|attached)"
    r"|(^|: |\n)400 "  # a refused parameter that lost its status inside a lock
    r"|does not exist|non-existent|no such |unable to find "
    r"|is not empty|belongs already to pool"
    r"|protection mode enabled|is running - destroy failed|used in HA resources|not HA managed"
    r"|only root (can|may)"
    r"|hostname lookup '"
    r"|does not support|not supported|not allowed for"
    r"|can't (clone|convert|move|remove|start a vm)|cannot (be deleted|delete|use|index|move|add|remove)"
    r"|unable to (parse|associate)"
    r"|must start with a letter|is too (short|long)|validation error|unexpected property"
    r"|No QEMU guest agent configured"
    r"|for data too large",
    re.IGNORECASE,
)
"""What stays as it is until something is changed."""


def is_missing(error: RefusedError) -> bool:
    """Tell whether Proxmox VE refused because the object is not there."""
    return isinstance(error, ProxmoxRefusedError) and bool(_MISSING.search(error.words))


def is_existing(error: RefusedError) -> bool:
    """Tell whether Proxmox VE refused because the object is there already."""
    return isinstance(error, ProxmoxRefusedError) and bool(_EXISTS.search(error.words))


def is_denied(error: RefusedError) -> bool:
    """Tell whether a privilege is missing; Proxmox VE also answers so for what is gone when the rights came from its pool."""
    return isinstance(error, ProxmoxRefusedError) and bool(_DENIED.search(error.words))


def judge(reply: Reply, *, what: str, endpoint: str, change: bool) -> KubehengeError:
    """
    Return the error that a call which is not `good` means.

    Shape: `what` is the call as people read it (`GET /pools`); `change` whether it may have changed something.
    """
    match reply.sort:
        case Sort.UNREACHED:
            return TransientError(f"{what}: {endpoint} cannot be reached: {reply.text}. Nothing was sent; it is tried again.")
        case Sort.LOST if change:
            return UncertainError(
                f"{what}: {endpoint} was sent this and its answer is lost ({reply.text}). "
                "It may have been carried out; what is there is looked at before it is sent again."
            )
        case Sort.LOST:
            return TransientError(f"{what}: {endpoint} gave no whole answer ({reply.text}). It is tried again.")
        case Sort.GARBLED:
            error = UncertainError if change else TransientError
            return error(
                f"{what}: {endpoint} answered with something that is not Proxmox VE's ({reply.text}). "
                "Is a proxy in between, or the address wrong? It is tried again."
            )
        case Sort.ANSWERED:
            return _judge_answer(reply, what=what, endpoint=endpoint, change=change)


def _judge_answer(reply: Reply, *, what: str, endpoint: str, change: bool) -> KubehengeError:
    words, status = reply.words, reply.status
    if status == 401:
        return NotSignedInError(_not_signed_in(words, what), words)
    if status >= 595:
        return _node_away(reply, what=what, endpoint=endpoint, change=change)
    if status == 429:
        return TransientError(f"{what}: {endpoint} has too many requests to answer. It is tried again more slowly.")
    return judge_words(words, what=what, status=status)


def judge_words(words: str, *, what: str, status: int = 0) -> KubehengeError:
    """Return the error that a text of Proxmox VE means, in an answer or at the end of a task."""
    if named := _PRIVILEGE.search(words):
        privileges = named["privileges"].replace("|", " or ")
        return ProxmoxRefusedError(
            f"{what} is not allowed: {words}. Give Kubehenge's token {privileges} on {named['path']} in Proxmox VE.", words
        )
    if _DENIED.search(words):
        return ProxmoxRefusedError(
            f"{what} is not allowed: {words}. Proxmox VE names no privilege; `kubehenge doctor` compares the token's.", words
        )
    if _PASSING.search(words):
        return TransientError(f"{what} could not be done now: {words}. It is tried again.")
    if status == 501:
        return ProxmoxRefusedError(f"{what}: this Proxmox VE does not know the call: {words}. Is it older than 8.1?", words)
    if _INVALID.search(words) or _LASTING.search(words) or 400 <= status < 500:
        return ProxmoxRefusedError(f"{what} was refused by Proxmox VE: {words}.", words)
    return TransientError(f"{what} failed: {words}. It is tried again.")


def _not_signed_in(words: str, what: str) -> str:
    if "csrf" in words.lower():
        return f"{what}: Proxmox VE refused the session's CSRF token. Sign in again."
    return (
        f"{what}: Proxmox VE does not accept the sign-in: {words}. The token is wrong, expired or revoked, its user is disabled, "
        "or a password or second factor was wrong."
    )


def _node_away(reply: Reply, *, what: str, endpoint: str, change: bool) -> KubehengeError:
    words = f"{reply.status} {reply.text.strip()}".strip()
    if change and reply.status > 595:  # 595 alone says that no connection to the node was made
        return UncertainError(
            f"{what}: the node it is for gave {endpoint} no answer ({words}). It may have been carried out; what is there is looked at first."
        )
    return TransientError(f"{what}: the node it is for does not answer {endpoint} ({words}). It is tried again once the node is back.")


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Return a text without the secrets that it may hold, whoever put them there."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    return text
