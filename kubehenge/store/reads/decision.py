"""What the page or the command line and the engine say to each other when a person decides something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """
    Someone who acts, as far as Proxmox VE vouches for it.

    `userid` is Proxmox VE's `name@realm`, or `local/<user>` on the appliance itself; `name` is what pages show. `privileges` answers
    with the privileges on one path, asked of Proxmox VE; it may raise TransientError.
    """

    userid: str
    name: str
    privileges: Callable[[str], frozenset[str]]
    groups: frozenset[str] = frozenset()


class AnswerKind(StrEnum):
    """
    How a decision ended.

    ACCEPTED: it is in force, and a run starts or the thing is done. COUNTED: kept, and more is needed. ALREADY: someone was faster
    and the same is in force. CONFLICT: what was decided on is no longer so. REFUSED: not allowed, or not possible.
    """

    ACCEPTED = "accepted"
    COUNTED = "counted"
    ALREADY = "already"
    CONFLICT = "conflict"
    REFUSED = "refused"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a decision: its kind, words for people, and the plan or run that it is about or leads to."""

    kind: AnswerKind
    message: str = ""
    plan_id: int | None = None
    run_id: int | None = None
    replacement_id: int | None = None


class Mark(StrEnum):
    """How one line of what a plan needs stands."""

    HOLDS = "holds"
    WAITS = "waits"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedLine:
    """One thing that the rules ask: what it is, and beside it why or from where."""

    mark: Mark
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """
    What the rules ask of one plan, and how one person stands to it.

    `short` is for lists: `1 person`. `why_not` says why this person cannot approve it, '' when they can. `typed_name` is what they
    have to type, '' when nothing.
    """

    short: str = ""
    lines: tuple[AskedLine, ...] = field(default=())
    why_not: str = ""
    typed_name: str = ""

    @property
    def may_approve(self) -> bool:
        """Whether this person can approve it now."""
        return not self.why_not
