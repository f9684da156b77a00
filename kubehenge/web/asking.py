"""What the approval rules ask of plans, and how the person who looks stands to each (MODEL 15; ACCEPTANCE 1.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from kubehenge.model.site import ApprovalRules
from kubehenge.plan.approval import Need, Said, Word, need_of
from kubehenge.store.reads.decision import Asked, AskedLine, Mark
from kubehenge.store.reads.plans import PlanLine, labels_of_clusters, said_of_plans
from kubehenge.store.reads.visible import is_shared
from kubehenge.web.permissions import Needed, Rights, telling, to_approve
from kubehenge.web.present import counted, listed


def asked_of(
    session: Session,
    plans: Sequence[PlanLine],
    *,
    userid: str,
    groups: frozenset[str],
    rights: Rights,
    workload_pool: str,
    rules: tuple[ApprovalRules, int],
    now: datetime,
) -> Mapping[int, Asked]:
    """Return, for each of these plans, what the rules ask and how a person stands to it; two statements for all of them."""
    said = said_of_plans(session, [plan.id for plan in plans])
    labels = labels_of_clusters(session, [plan.cluster_id for plan in plans if plan.cluster_id is not None])
    asked = {}
    for plan in plans:
        need = need_of(
            plan.classes,
            rules[0],
            namespace=plan.scope.partition("/")[0],
            labels=labels.get(plan.cluster_id or 0, ()),
            held=bool(plan.held),
        )
        needs = to_approve(need.privilege.value, workload_pool, plan.scope)
        asked[plan.id] = _asked(plan, need, said.get(plan.id, ()), rules, userid=userid, groups=groups, rights=rights, needs=needs, now=now)
    return asked


def _asked(
    plan: PlanLine,
    need: Need,
    said: Sequence[Said],
    rules: tuple[ApprovalRules, int],
    *,
    userid: str,
    groups: frozenset[str],
    rights: Rights,
    needs: Needed,
    now: datetime,
) -> Asked:
    held = rights.on(needs.path)
    approved = [one.who for one in said if one.word is Word.APPROVE]
    rejected = [one.who for one in said if one.word is Word.REJECT]
    lines = [_persons(plan, need, approved, rules[1])]
    if need.typed_name:
        lines.append(_typed(plan, said))
    if rejected:
        lines.append(AskedLine(mark=Mark.MISSING, text=f"{listed(rejected)} rejected it", note="blocks until withdrawn"))
    has = needs.privilege in held
    lines.append(
        AskedLine(
            mark=Mark.HOLDS if has else Mark.MISSING,
            text=f"You {'hold' if has else 'do not hold'} {needs.privilege} on {'the workload pool' if is_shared(plan.scope) else 'the pool'}",
            note=needs.path,
        )
    )
    for role in need.roles:
        member = role in groups
        lines.append(AskedLine(mark=Mark.HOLDS if member else Mark.MISSING, text=f"You are {'' if member else 'not '}in the group {role}"))
    if need.four_eyes:
        lines.append(
            AskedLine(mark=Mark.WAITS, text="One person more than the rule says, since one of them may have pushed it", note="four eyes")
        )
    if need.windows:
        opened = need.may_start(now)
        lines.append(
            AskedLine(
                mark=Mark.HOLDS if opened else Mark.WAITS,
                text="It starts in a window of the rules only",
                note="open now" if opened else "shut now",
            )
        )
    return Asked(
        short=f"{counted(need.approvers, 'person', 'persons') if need.approvers else 'its rule'}{', name typed' if need.typed_name else ''}",
        lines=tuple(lines),
        why_not=_why_not(need, approved, rejected, userid=userid, groups=groups, held=held, needs=needs),
        typed_name=plan.scope if need.typed_name else "",
    )


def _persons(plan: PlanLine, need: Need, approved: Sequence[str], version: int) -> AskedLine:
    classes = listed(one.value for one in plan.classes)
    enough = len(approved) >= need.approvers
    which = f"{'rule' if len(need.rules) == 1 else 'rules'} {listed(f'“{rule}”' for rule in need.rules)}"
    note = f"{which}, {f'version {version}' if version else 'the default'}{f', group {listed(need.roles)}' if need.roles else ''}"
    if plan.held:
        note = f"{plan.held} {note}"
    if not need.approvers:
        return AskedLine(
            mark=Mark.HOLDS, text=f"{classes} {'needs' if len(plan.classes) == 1 else 'need'} nobody: the rules approve it", note=note
        )
    return AskedLine(
        mark=Mark.HOLDS if enough else Mark.WAITS,
        text=f"{classes} {'needs' if len(plan.classes) == 1 else 'need'} {counted(need.approvers, 'person', 'persons')}, {len(approved)} so far",
        note=note,
    )


def _typed(plan: PlanLine, said: Sequence[Said]) -> AskedLine:
    typed = any(one.typed_name == plan.scope for one in said if one.word is Word.APPROVE)
    return AskedLine(mark=Mark.HOLDS if typed else Mark.WAITS, text=f"The name, typed: {plan.scope}")


def _why_not(
    need: Need,
    approved: Sequence[str],
    rejected: Sequence[str],
    *,
    userid: str,
    groups: frozenset[str],
    held: frozenset[str],
    needs: Needed,
) -> str:
    if needs.privilege not in held:
        return f"Approving it needs {needs}; you hold {telling(held)} there."
    if missing := need.missing_roles(groups):
        return f"The rules ask for someone of the group {listed(missing)}."
    if rejected:
        return "You rejected it. Withdraw that first." if userid in rejected else f"{listed(rejected)} rejected it; they can withdraw that."
    if userid in approved:
        return "You have approved it."
    return ""
