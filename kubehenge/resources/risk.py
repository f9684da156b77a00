"""How serious a change of each kind is (DESIGN, change classes; MODEL 15)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubehenge.model.canon import Body, FieldChange, canonical
from kubehenge.model.identity import ANNOTATION_POOL, ANNOTATION_PROTECT, ANNOTATION_TOKEN_ID, ANNOTATION_VM_ID_RANGE
from kubehenge.model.resource import SERIOUSNESS, ChangeClass
from kubehenge.resources.topology import Topology, rolls_control_plane, rolls_workers


def most_serious(classes: Iterable[ChangeClass]) -> ChangeClass:
    """Return the most serious of some classes."""
    return max(classes, key=SERIOUSNESS.index)


def classify_plain(before: Body | None, after: Body | None, changes: Sequence[FieldChange]) -> ChangeClass:  # noqa: ARG001
    """Creation, deletion, or a change in place."""
    if after is None:
        return ChangeClass.DELETE
    return ChangeClass.CREATE if before is None else ChangeClass.CHANGE


def classify_token(before: Body | None, after: Body | None, changes: Sequence[FieldChange]) -> ChangeClass:
    """
    A first generation comes with its cluster; a later one, and the end of an earlier one, renews a credential (MODEL 8).

    With the cluster itself the token goes as part of that deletion; `expand` then asks for nothing, and the planner says so.
    """
    if after is not None and before is None and after.get("tokenid") != "k1":
        return ChangeClass.CREDENTIAL
    return classify_plain(before, after, changes)


def classify_secret(before: Body | None, after: Body | None, changes: Sequence[FieldChange]) -> ChangeClass:
    """Another token in a Secret renews a credential."""
    if before is not None and after is not None and any(ANNOTATION_TOKEN_ID in change.path for change in changes):
        return ChangeClass.CREDENTIAL
    return classify_plain(before, after, changes)


def classify_cluster(before: Body | None, after: Body | None, changes: Sequence[FieldChange]) -> ChangeClass:
    """
    Return the most serious of what a change of the Cluster means.

    Sources: reference kubehenge-clusters (Scale, Upgrade, Change add-ons and sign-in), MODEL 15.
    """
    if after is None:
        return ChangeClass.DELETE
    new = Topology.of(after)
    if before is None:
        return ChangeClass.TRUST if new.installs_rancher else ChangeClass.CREATE
    try:
        old = Topology.of(before)
    except (KeyError, TypeError):
        return ChangeClass.ROLLOUT  # someone took apart what decides about machines: a person reads what putting it back does
    classes = {ChangeClass.CHANGE}
    if rolls_control_plane(old, new) or rolls_workers(old, new) or any(_moves_machines(change) for change in changes):
        classes.add(ChangeClass.ROLLOUT)
    if new.control_plane_replicas < old.control_plane_replicas or any(
        new.pools.get(name, 0) < replicas for name, replicas in old.pools.items()
    ):
        classes.add(ChangeClass.SHRINK)
    added_provider = any(issuer not in old.issuers for issuer in new.issuers)
    unprotected = any(ANNOTATION_PROTECT in change.path and str(change.after) != "true" for change in changes)
    if added_provider or unprotected or (new.installs_rancher and not old.installs_rancher):
        classes.add(ChangeClass.TRUST)
    return most_serious(classes)


def _moves_machines(change: FieldChange) -> bool:
    """Tell whether a change of our own annotations reaches the machines' template: their range of VM ids, and their pool."""
    return bool(change.before) and any(name in change.path for name in (ANNOTATION_VM_ID_RANGE, ANNOTATION_POOL))


def classify_class(before: Body | None, after: Body | None, changes: Sequence[FieldChange]) -> ChangeClass:
    """
    Whatever changes a class, or a template of one, may replace the machines of all clusters that use it, also where it is put back.

    What is there already and is not as asked for, though we never wrote it, is such a change too.
    """
    if after is None:
        return ChangeClass.DELETE
    return ChangeClass.CREATE if before is None and not changes else ChangeClass.ROLLOUT


def classify_rules(before: Body | None, after: Body | None, changes: Sequence[FieldChange]) -> ChangeClass:  # noqa: ARG001
    """
    A change of approval rules is one of trust unless it is sure to ask for no less than before (MODEL 15).

    Sure is only what adds approvers, a typed name or four-eyes to rules that stay in their order; all else is for a person to judge.
    """
    if after is None:
        return ChangeClass.DELETE
    old = _asked_by((before or {}).get("spec") or {})
    new = _asked_by(after.get("spec") or {})
    if before is None:
        return ChangeClass.TRUST if new.rules else ChangeClass.CHANGE
    same_rules = [rule.key for rule in old.rules] == [rule.key for rule in new.rules]
    no_less = same_rules and all(
        a.approvers <= b.approvers and a.typed_name <= b.typed_name for a, b in zip(old.rules, new.rules, strict=True)
    )
    return ChangeClass.CHANGE if no_less and old.four_eyes <= new.four_eyes else ChangeClass.TRUST


@dataclass(frozen=True, slots=True, kw_only=True)
class _AskedRule:
    key: str
    approvers: int
    typed_name: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _AskedRules:
    rules: tuple[_AskedRule, ...]
    four_eyes: bool


def _asked_by(spec: Body) -> _AskedRules:
    """Read what rules ask: how much, and under `key` everything else, which must stay the same for a comparison to mean anything."""
    rules = []
    for rule in spec.get("rules") or ():
        needs = dict(rule.get("needs") or {})
        approvers, typed_name = needs.pop("approvers", 0), needs.pop("typedName", False)
        rules.append(_AskedRule(key=canonical({**rule, "needs": needs}), approvers=approvers, typed_name=typed_name))
    return _AskedRules(rules=tuple(rules), four_eyes=bool(spec.get("fourEyes")))
