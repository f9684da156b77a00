"""The order of a plan's actions: creation follows dependencies, deletion reverses them, consumers move before what they leave goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kubehenge.errors import InvariantError
from kubehenge.model.canon import refs_of
from kubehenge.model.plan import Action
from kubehenge.model.resource import ResourceRef, Verb
from kubehenge.resources.kinds import KINDS


def ordered(actions: Sequence[Action]) -> tuple[Action, ...]:
    """
    Return the actions with positions from 1 and with what each waits for, the same for any order of input.

    Errors: InvariantError when the kinds' own table has a circle.
    """
    listed = sorted(actions, key=lambda action: (_RANK[action.ref.kind], action.ref.name, action.part))
    waits = _waits(listed)
    positions: dict[int, int] = {}
    waiting = list(range(len(listed)))
    while waiting:
        done = set(positions)
        ready = [index for index in waiting if waits[index] <= done]
        if not ready:
            raise InvariantError(f"The order of kinds has a circle among {sorted({action.ref.kind for action in listed})}.")
        for index in ready:
            positions[index] = len(positions) + 1
        waiting = [index for index in waiting if index not in positions]
    return tuple(
        replace(listed[index], position=position, waits_for=tuple(sorted([positions[other] for other in waits[index]])))
        for index, position in positions.items()
    )


def _waits(actions: Sequence[Action]) -> list[set[int]]:
    """Return for each action the indexes of those that must be done first."""
    made: dict[str, list[int]] = defaultdict(list)
    deleted: dict[str, list[int]] = defaultdict(list)
    targets: dict[ResourceRef, list[int]] = defaultdict(list)
    for index, action in enumerate(actions):
        if action.verb is Verb.DELETE:
            deleted[action.ref.kind].append(index)
        else:
            made[action.ref.kind].append(index)
            targets[action.ref].append(index)
    waits = []
    for index, action in enumerate(actions):
        kind = KINDS[action.ref.kind]
        if action.verb is Verb.DELETE:
            before = [deleted.get(name, ()) for name in kind.delete_after] + [made.get(name, ()) for name in _CONSUMERS[kind.name]]
        else:
            named = () if action.target is None else {_target(text) for text in refs_of(action.target)}
            after = [made.get(name, ()) for name in kind.create_after]
            if action.verb is Verb.UPDATE:  # it stands already: only what is made anew, and what it refers to, comes before it
                after = [[other for other in group if actions[other].verb is Verb.CREATE] for group in after]
            before = [*after, *(targets.get(ref, ()) for ref in named)]
        waits.append({other for group in before for other in group if other != index})
    return waits


def _target(text: str) -> ResourceRef:
    return ResourceRef.parse(text.partition("#")[0])


_RANK: Mapping[str, int] = {name: rank for rank, name in enumerate(KINDS)}

_CONSUMERS: Mapping[str, tuple[str, ...]] = {
    name: tuple(other.name for other in KINDS.values() if name in other.create_after) for name in KINDS
}
"""The kinds that are created after a kind, since they use it."""
