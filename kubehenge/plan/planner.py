"""
The planner: one scope, one lane, the states of its resources, and what that means.

Source: MODEL 3 (three hashes), 11 (lanes and field groups), 12 (digest), 19 to 21 (absence, identity).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubehenge.model.canon import CANON, MISSING, Body, FieldChange, body_hash, changes, digest
from kubehenge.model.plan import Action, Bill, Check, Disruption, Obstacle, Plan, Remedy
from kubehenge.model.resource import LANE_OF, SERIOUSNESS, BodyHash, ChangeClass, Lane, ResourceState, Verb
from kubehenge.plan.order import ordered
from kubehenge.resources.kinds import KINDS, Kind, joined, part_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """
    What a plan is made for and from.

    `documents` are the blob ids that the desired bodies come from; `inputs` the digest of the settings and facts that their expansion
    read for this lane. `mark` is the mark of this incarnation, '' for the site. `going` says that the cluster's holder is gone.
    """

    site: str
    name: str
    incarnation: int
    mark: str
    documents: tuple[str, ...]
    inputs: str
    going: bool = False
    protected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The actions of a plan before its bill and words, and what keeps it from finishing by identity."""

    actions: tuple[Action, ...]
    obstacles: tuple[Obstacle, ...] = ()


def draft(scope: Scope, lane: Lane, states: Iterable[ResourceState], *, repairs: bool = True) -> Draft:
    """
    Return the ordered actions of one lane; none when there is nothing to do.

    `repairs` is off while a freeze holds them: duties go on, in a plan of their own (MODEL 28).
    """
    actions: list[Action] = []
    obstacles: list[Obstacle] = []
    for state in states:
        kind = KINDS[state.ref.kind]
        if state.desired is None:
            actions.extend(_deletion(scope, lane, state))
        elif state.observed is None:
            actions.extend(_creation(lane, kind, state))
        elif state.applied is None:
            if not _ours(scope, kind, state):
                obstacles.extend(_foreign(lane, state))
            else:
                actions.extend(_adoption(lane, kind, state))
        else:
            actions.extend(_updates(lane, kind, state, state.desired, state.applied, state.observed))
    if not repairs:
        actions = [action for action in actions if action.change_class is not ChangeClass.REPAIR]
    return Draft(actions=ordered(actions), obstacles=tuple(sorted(obstacles, key=lambda one: one.asked)))


def settled(scope: Scope, state: ResourceState) -> bool:
    """
    Tell whether only our own record is behind the world: nothing is to be done, `applied` is to follow `observed`.

    That is so for what is gone and not asked for, for what is as asked for and bears our mark (after a rebuild of the database),
    and for what already is as its unwritten change asks.
    """
    if state.desired is None:
        return state.applied is not None and state.observed is None and state.absent
    if state.observed_hash != state.desired_hash or state.applied_hash == state.desired_hash:
        return False
    return state.applied is not None or _ours(scope, KINDS[state.ref.kind], state)


def finish(
    scope: Scope,
    lane: Lane,
    drafted: Draft,
    *,
    bill: Bill,
    obstacles: Sequence[Obstacle],
    checks: Sequence[Check],
    title: str,
    summary: str,
) -> Plan:
    """Put a plan together and compute its digest (MODEL 12)."""
    disruption = Disruption(
        nodes_replaced=bill.control_planes_replaced + bill.workers_replaced,
        objects_destroyed=tuple(str(action.ref) for action in drafted.actions if action.verb is Verb.DELETE),
        quorum=bill.quorum,
    )
    return Plan(
        site=scope.site,
        scope=scope.name,
        incarnation=scope.incarnation,
        lane=lane,
        digest=plan_digest(scope, lane, drafted.actions, disruption),
        documents=scope.documents,
        inputs=scope.inputs,
        actions=drafted.actions,
        disruption=disruption,
        title=title,
        summary=summary,
        bill=bill,
        obstacles=(*drafted.obstacles, *obstacles),
        checks=tuple(checks),
        protected=scope.protected,
    )


def plan_digest(scope: Scope, lane: Lane, actions: Sequence[Action], disruption: Disruption) -> str:
    """Return the digest over all that an approval is bound to; amounts of the bill, times and commits stand beside it."""
    return digest(
        {
            "canon": CANON,
            "site": scope.site,
            "scope": scope.name,
            "incarnation": scope.incarnation,
            "lane": lane.value,
            "documents": sorted(scope.documents),
            "inputs": scope.inputs,
            "actions": [
                [
                    str(action.ref),
                    action.verb.value,
                    action.part.value,
                    action.change_class.value,
                    action.before,
                    action.after,
                    list(action.waits_for),
                    [str(one) for one in action.requires],
                ]
                for action in actions
            ],
            "disruption": [disruption.nodes_replaced, list(disruption.objects_destroyed), disruption.quorum.value],
        }
    )


def part_hash(kind: Kind, body: Body | None, part: Lane) -> BodyHash | None:
    """Return the hash of one field group of a body; None for absence."""
    return None if body is None else BodyHash(body_hash(part_of(kind, body, part)))


def _ours(scope: Scope, kind: Kind, state: ResourceState) -> bool:
    return not kind.marked or state.mark == scope.mark


def _deletion(scope: Scope, lane: Lane, state: ResourceState) -> Iterable[Action]:
    kind = KINDS[state.ref.kind]
    if state.applied is None or kind.keeps or (state.observed is None and state.absent):
        return
    if not scope.going and kind.name in _GOES_WITH_ITS_CLUSTER:
        return
    change = ChangeClass.DELETE if scope.going else _deletion_class(state)
    if lane is not Lane.ASKED:
        return
    yield Action(
        position=0,
        ref=state.ref,
        verb=Verb.DELETE,
        change_class=change,
        part=Lane.ASKED,
        before=part_hash(kind, state.observed, Lane.ASKED),
        after=None,
        target=None,
        drift=_fields(state.applied, state.observed),
        reason="its cluster is no longer declared" if scope.going else "nothing asks for it any more",
    )


def _deletion_class(state: ResourceState) -> ChangeClass:
    """Within a cluster that stays, only an earlier token goes: a credential, which can be made again at no loss (MODEL 8)."""
    return ChangeClass.CREDENTIAL if state.ref.kind in {"proxmox.token", "proxmox.acl"} else ChangeClass.DELETE


def _creation(lane: Lane, kind: Kind, state: ResourceState) -> Iterable[Action]:
    if not state.absent or state.desired is None:
        return
    lost = state.applied is not None and state.applied_hash == state.desired_hash
    if (Lane.UPKEEP if lost else Lane.ASKED) is not lane:
        return
    yield Action(
        position=0,
        ref=state.ref,
        verb=Verb.CREATE,
        change_class=ChangeClass.REPAIR if lost else kind.classify(None, state.desired, ()),
        part=Lane.ASKED,
        before=None,
        after=state.desired_hash,
        target=state.desired,
        requires=state.requires,
        reason="it was there and is gone" if lost else "",
    )


def _adoption(lane: Lane, kind: Kind, state: ResourceState) -> Iterable[Action]:
    """Something bears our mark, or is of a kind without marks, and we never wrote it: bring it to what is asked for."""
    if lane is not Lane.ASKED or state.desired is None or state.observed_hash == state.desired_hash:
        return
    found = _fields(state.observed, state.desired)
    yield Action(
        position=0,
        ref=state.ref,
        verb=Verb.CREATE,
        change_class=kind.classify(state.observed if kind.name == "kube.cluster" else None, state.desired, found),
        part=Lane.ASKED,
        before=part_hash(kind, state.observed, Lane.ASKED),
        after=state.desired_hash,
        target=state.desired,
        changes=found,
        requires=state.requires,
        reason="it is there and bears our mark",
    )


def _foreign(lane: Lane, state: ResourceState) -> Iterable[Obstacle]:
    if lane is Lane.ASKED:
        yield Obstacle(
            what="identity",
            asked=f"{state.ref} for this cluster",
            there_is=f"one of that name that bears {'the mark of ' + state.mark if state.mark else 'no mark of Kubehenge'}",
            remedies=(
                Remedy(
                    text="Give the cluster another name in its file, or remove the other one; Kubehenge never touches what is not its own."
                ),
            ),
        )


def _updates(lane: Lane, kind: Kind, state: ResourceState, wanted: Body, left: Body, found: Body) -> Iterable[Action]:
    """At most one action a field group; what the asked lane changes is not repaired meanwhile (MODEL 11)."""
    if state.observed_hash == state.desired_hash:
        return
    for part in Lane if kind.upkeep else (Lane.ASKED,):
        desired, applied, observed = (part_of(kind, body, part) for body in (wanted, left, found))
        asked, moved = _fields(applied, desired), _fields(applied, observed)
        if not asked and not moved:
            continue
        change = _update_class(kind, part, (wanted, left, found), asked, moved)
        if (LANE_OF[change] if part is Lane.ASKED else Lane.UPKEEP) is not lane:
            continue
        yield Action(
            position=0,
            ref=state.ref,
            verb=Verb.UPDATE,
            change_class=change,
            part=part,
            before=BodyHash(body_hash(observed)),
            after=BodyHash(body_hash(desired)),
            target=desired,
            changes=asked,
            drift=moved,
            requires=state.requires if any(one.path == CLASS_NAME for one in asked) else (),
            reason="" if asked else "changed by someone else",
        )


def _update_class(
    kind: Kind, part: Lane, bodies: tuple[Body, Body, Body], asked: Sequence[FieldChange], moved: Sequence[FieldChange]
) -> ChangeClass:
    """Putting something back is a repair, unless that itself replaces, removes or entrusts: then it is what it does (MODEL 15)."""
    wanted, left, found = bodies
    if part is Lane.UPKEEP:
        return ChangeClass.DUTY if asked else ChangeClass.REPAIR
    target = part_of(kind, wanted, part)
    change = kind.classify(left, joined(kind, target, part, left), asked) if asked else ChangeClass.REPAIR
    if not moved:
        return change
    whole = joined(kind, target, part, found)
    harm = kind.classify(found, whole, _fields(found, whole))
    return max((change, harm), key=SERIOUSNESS.index) if harm in _HARMFUL else change


CLASS_NAME = "spec.topology.classRef.name"
"""What stands already needs the site's things only where it goes over to another class; all else must not wait for them."""

_GOES_WITH_ITS_CLUSTER = frozenset({"kube.cluster", "proxmox.volume_owner", "proxmox.pool"})
"""What holds machines and volumes: it goes with its cluster and never because a setting names another place (MODEL 19)."""

_HARMFUL = frozenset({ChangeClass.ROLLOUT, ChangeClass.SHRINK, ChangeClass.TRUST, ChangeClass.DELETE})


def _fields(before: Body | None, after: Body | None) -> tuple[FieldChange, ...]:
    return tuple(changes(MISSING if before is None else before, MISSING if after is None else after))
