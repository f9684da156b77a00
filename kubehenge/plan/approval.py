"""What approval rules ask of a plan, and how it stands (MODEL 14, 15; ACCEPTANCE 1.5, 1.6)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kubehenge.model.resource import ChangeClass
from kubehenge.model.site import ApprovalRules, Privilege
from kubehenge.model.window import UpgradeWindow, is_open

RULE = "rule/"
"""Before the name of a rule where it is the one who approved."""


class Word(StrEnum):
    """What someone said of a plan's row."""

    APPROVE = "approve"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One person's word that still counts; a later one of the same person has replaced the earlier, a withdrawal removed it."""

    who: str
    word: Word
    typed_name: str = ""
    rules_version: int = 0
    """The rules under which it was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """
    What the rules ask for one plan: persons, the privilege each must hold on the pool, groups that each must be in, the name typed.

    `windows` are those of each deciding rule that has any; in one of each the plan may start.
    """

    rules: tuple[str, ...]
    approvers: int
    privilege: Privilege
    roles: tuple[str, ...] = ()
    typed_name: bool = False
    four_eyes: bool = False
    windows: tuple[tuple[UpgradeWindow, ...], ...] = ()

    def missing_roles(self, groups: Collection[str]) -> tuple[str, ...]:
        """Return the groups that are asked for and are not among these."""
        return tuple(role for role in self.roles if role not in groups)

    def covers(self, other: Need) -> bool:
        """Tell whether this asks of each person at least what another need asks."""
        privileged = self.privilege is Privilege.SYS_MODIFY or other.privilege is not Privilege.SYS_MODIFY
        return privileged and set(other.roles) <= set(self.roles)

    def may_start(self, now: datetime) -> bool:
        """Tell whether the rules let the plan start at an instant, once it is approved."""
        return all(any(is_open(window, now) for window in windows) for windows in self.windows)


class Standing(StrEnum):
    """How a plan's row stands with the rules."""

    BY_RULE = "by rule"
    APPROVED = "approved"
    WAITING = "waiting"
    REJECTED = "rejected"


GRANTED = frozenset({Standing.BY_RULE, Standing.APPROVED})


def need_of(
    classes: Iterable[ChangeClass], rules: ApprovalRules, *, namespace: str, labels: tuple[tuple[str, str], ...] = (), held: bool = False
) -> Need:
    """
    Return what the rules ask, the strictest over all classes of the plan.

    `held` is the deletion guard's word (ACCEPTANCE 1.7): at least one person, and the name typed. With four-eyes one person more is
    asked for: who wrote a commit is not known for sure (MODEL 16), and one of them may be its author.
    """
    deciding = [rules.rule_for(one, namespace=namespace, labels=labels) for one in sorted(classes)]
    privileges = {rule.needs.privilege for rule in deciding if rule.needs.approvers}
    approvers = max((rule.needs.approvers for rule in deciding), default=0)
    approvers = max(approvers, 1) if held else approvers
    four_eyes = rules.four_eyes and approvers > 0
    return Need(
        rules=tuple(dict.fromkeys(rule.name for rule in deciding)),
        approvers=approvers + four_eyes,
        privilege=Privilege.SYS_MODIFY if Privilege.SYS_MODIFY in privileges else Privilege.VM_ALLOCATE,
        roles=tuple(dict.fromkeys(rule.needs.role for rule in deciding if rule.needs.role)),
        typed_name=held or any(rule.needs.typed_name for rule in deciding),
        four_eyes=four_eyes,
        windows=tuple(dict.fromkeys(rule.needs.windows for rule in deciding if rule.needs.windows)),
    )


def judge(need: Need, said: Sequence[Said], *, scope: str) -> Standing:
    """Tell how a plan stands: a rejection blocks until it is withdrawn, one person counts once, the name must have been typed."""
    if any(one.word is Word.REJECT for one in said):
        return Standing.REJECTED
    if need.approvers == 0:
        return Standing.BY_RULE
    approving = [one for one in said if one.word is Word.APPROVE and not one.who.startswith(RULE)]
    people = {one.who for one in approving}
    typed = not need.typed_name or any(one.typed_name == scope for one in approving)
    return Standing.APPROVED if len(people) >= need.approvers and typed else Standing.WAITING


def is_remainder(actions: Iterable[tuple[str, ...]], approved: Iterable[tuple[str, ...]]) -> bool:
    """Tell whether every action was contained in an approved row that closed early (MODEL 14); each as resource, verb, part, before, after, class."""
    return set(actions) <= set(approved)
