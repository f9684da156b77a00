"""Plans: what will happen, in which order, what it costs, and why it may not be able to finish (DESIGN, Plans)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kubehenge.model.canon import Body, FieldChange
from kubehenge.model.resource import BodyHash, ChangeClass, Lane, ResourceRef, Verb


class PlanState(StrEnum):
    """
    The state of a plan's row.

    OPEN waits (for approval, for a window, or because it cannot finish: `PlanStanding` says which); the last five close it.
    """

    OPEN = "open"
    APPROVED = "approved"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STALE = "stale"
    SUPERSEDED = "superseded"
    INTERRUPTED = "interrupted"


CLOSED = frozenset({PlanState.DONE, PlanState.FAILED, PlanState.STALE, PlanState.SUPERSEDED, PlanState.INTERRUPTED})


class StepState(StrEnum):
    """What the journal knows of one action of a run (MODEL 25)."""

    NOT_STARTED = "not_started"
    INTENDED = "intended"
    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """
    One verb on one resource.

    `part` is the field group that it is about (MODEL 11); a creation and a deletion are about the whole. `before` is the hash of
    that part of the observed body that it is planned on (None: absent); `after` that of `target`, the part as it leaves it, None
    for a deletion. `waits_for` holds the positions of the actions of this plan that must be done first.
    """

    position: int
    ref: ResourceRef
    verb: Verb
    change_class: ChangeClass
    part: Lane
    before: BodyHash | None
    after: BodyHash | None
    target: Body | None
    changes: tuple[FieldChange, ...] = ()
    drift: tuple[FieldChange, ...] = ()
    waits_for: tuple[int, ...] = ()
    requires: tuple[ResourceRef, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoad:
    """VMs of the cluster on one Proxmox VE node, and that node's memory; memory in MiB."""

    node: str
    online: bool
    vms_now: int
    vms_peak: int
    vms_after: int
    memory_mib: int
    free_now_mib: int
    free_peak_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStep:
    """One moment of a rollout: which Proxmox VE nodes hold etcd members, how many it needs, and how many are left when the worst node fails."""

    step: str
    members_on: tuple[str, ...]
    needs: int
    left_after_loss: int

    @property
    def kept(self) -> bool:
        """Whether etcd keeps its quorum here even if any one Proxmox VE node fails."""
        return self.left_after_loss >= self.needs


class QuorumVerdict(StrEnum):
    """
    Whether etcd keeps its quorum through every step.

    KEPT: even if one Proxmox VE node fails meanwhile. AT_RISK: only while no node fails. SINGLE: one member, nothing to lose
    but all. NOT_TOUCHED: no control-plane node is added or removed.
    """

    KEPT = "kept"
    AT_RISK = "at risk"
    SINGLE = "single"
    NOT_TOUCHED = "not touched"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoss:
    """What losing one Proxmox VE node in the middle of the plan would cost."""

    node: str
    control_planes: int
    workers: int
    quorum_kept: bool
    workers_left: int
    workers_all: int
    replace_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """
    What a plan needs, on what was read last; its amounts may change while the plan waits (MODEL 12).

    Addresses are counted, memory is in MiB, cores are virtual ones. `*_free` is what is there before the plan starts.
    """

    addresses_needed: int = 0
    addresses_free: int = 0
    addresses_free_after: int = 0
    memory_now_mib: int = 0
    memory_peak_mib: int = 0
    memory_after_mib: int = 0
    memory_free_mib: int = 0
    cores_now: int = 0
    cores_peak: int = 0
    cores_after: int = 0
    control_planes_replaced: int = 0
    workers_replaced: int = 0
    machines_added: int = 0
    machines_removed: int = 0
    nodes: tuple[NodeLoad, ...] = ()
    quorum: QuorumVerdict = QuorumVerdict.NOT_TOUCHED
    quorum_steps: tuple[QuorumStep, ...] = ()
    losses: tuple[NodeLoss, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change that would let a plan finish: in words, as fields of the declaration where it is one, and what it costs."""

    text: str
    changes: tuple[FieldChange, ...] = ()
    cost: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a plan cannot finish, and the changes that would let it, the smallest first (MODEL 18)."""

    what: str
    asked: str
    there_is: str
    short_by: str = ""
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A rule that this plan was held against: its words, whether it holds, and on what."""

    text: str
    holds: bool
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """What the digest says of the harm a plan does (MODEL 12)."""

    nodes_replaced: int = 0
    objects_destroyed: tuple[str, ...] = ()
    quorum: QuorumVerdict = QuorumVerdict.NOT_TOUCHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    A plan for one scope and lane. What its digest covers is everything but the bill, obstacles, checks and words.

    `scope` is `<namespace>/<name>` of a cluster, or `site:<what>` for shared things. `documents` are blob ids, `inputs` the
    digest of the settings and facts that the expansion read.
    """

    site: str
    scope: str
    incarnation: int
    lane: Lane
    digest: str
    documents: tuple[str, ...]
    inputs: str
    actions: tuple[Action, ...]
    disruption: Disruption
    title: str
    summary: str
    bill: Bill = Bill()
    obstacles: tuple[Obstacle, ...] = ()
    checks: tuple[Check, ...] = ()
    protected: bool = False

    @property
    def classes(self) -> frozenset[ChangeClass]:
        """The change classes that its actions have."""
        return frozenset(action.change_class for action in self.actions)

    @property
    def can_finish(self) -> bool:
        """Whether nothing is known that would keep it from finishing (MODEL 18)."""
        return not self.obstacles
