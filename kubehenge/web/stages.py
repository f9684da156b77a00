"""The stages of a plan or a run: its actions by what they are about, so that a thousand of them can be overlooked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from kubehenge.store.reads.runs import StepWord
from kubehenge.store.rows import ActionRow

FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Access on Proxmox VE", ("proxmox.pool", "proxmox.user", "proxmox.token", "proxmox.acl")),
    ("Volume owner", ("proxmox.volume_owner", "proxmox.volume")),
    ("Credentials", ("kube.namespace", "kube.secret", "kube.resource_set")),
    ("Cluster", ("kube.cluster", "kube.class")),
)
OTHER = "Everything else"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: how many actions it has, and in a run how many of them stand how."""

    name: str
    actions: int
    words: Mapping[StepWord, int]

    @property
    def done(self) -> int:
        """How many are done."""
        return self.words.get(StepWord.DONE, 0)

    @property
    def word(self) -> StepWord:
        """How the stage stands as a whole: the worst that its actions say."""
        for word in (StepWord.FAILED, StepWord.UNKNOWN, StepWord.RUNNING, StepWord.BLOCKED):
            if self.words.get(word):
                return word
        return StepWord.DONE if self.done == self.actions else StepWord.NOT_STARTED


def stages_of(session: Session, plan_id: int) -> tuple[Stage, ...]:
    """Return the stages of a plan, in the order in which they begin."""
    rows = session.execute(
        select(ActionRow.kind, func.count(), func.min(ActionRow.position)).where(ActionRow.plan_id == plan_id).group_by(ActionRow.kind)
    )
    return stages(((kind, count, first, {}) for kind, count, first in rows))


def stages(kinds: Iterable[tuple[str, int, int, Mapping[StepWord, int]]]) -> tuple[Stage, ...]:
    """Put kinds, each with its count, first position and words, together into stages."""
    counts: dict[str, int] = {}
    firsts: dict[str, int] = {}
    words: dict[str, dict[StepWord, int]] = {}
    for kind, count, first, of_kind in kinds:
        family = _family(kind)
        counts[family] = counts.get(family, 0) + count
        firsts[family] = min(firsts.get(family, first), first)
        together = words.setdefault(family, {})
        for word, number in of_kind.items():
            together[word] = together.get(word, 0) + number
    return tuple(Stage(name=name, actions=counts[name], words=words[name]) for name in sorted(counts, key=lambda name: firsts[name]))


def _family(kind: str) -> str:
    return next((name for name, kinds in FAMILIES if kind in kinds), OTHER)
