"""What the approval rules ask of a plan's row, and how it stands with what was said of it (MODEL 15; ACCEPTANCE 1.5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy.orm import Session

from kubehenge.engine.stored import rules_of_version
from kubehenge.model.resource import ChangeClass
from kubehenge.model.site import ApprovalRules
from kubehenge.plan.approval import Need, Said, Standing, Word, judge, need_of
from kubehenge.store import plans
from kubehenge.store.clusters import labels_of
from kubehenge.store.rows import PlanRow


def need_of_row(session: Session, row: PlanRow, rules: ApprovalRules) -> Need:
    """Return what these rules ask of this row; its cluster's labels are looked up only where a rule names any."""
    return need_of(
        (ChangeClass(one) for one in row.classes),
        rules,
        namespace="" if row.cluster_id is None else row.scope.partition("/")[0],
        labels=labels_of(session, row.cluster_id) if rules.by_labels else (),
        held=bool(row.held),
    )


def standing_of(
    session: Session, row: PlanRow, rules: ApprovalRules, version: int, said: Sequence[Said] | None = None
) -> tuple[Need, Standing]:
    """
    Return what these rules ask of a row, and how it stands with them.

    `version` is that of the rules in force; `said` is what was said of the row, read when it is not given. A word counts only where
    the rules under which it was said asked of its person what is asked now.
    """
    need = need_of_row(session, row, rules)
    words = plans.said_of(session, row.id) if said is None else said
    return need, judge(need, tuple(_counting(session, row, need, words, version)), scope=row.scope)


def _counting(session: Session, row: PlanRow, need: Need, words: Iterable[Said], version: int) -> Iterable[Said]:
    """Yield the words that count; a rejection blocks until it is withdrawn, under whichever rules it was said."""
    for word in words:
        if (
            word.word is Word.REJECT
            or word.rules_version == version
            or need_of_row(session, row, rules_of_version(session, row.site_id, word.rules_version)).covers(need)
        ):
            yield word
