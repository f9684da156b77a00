"""A plan as text for a terminal: coloured, folded, with a summary line at its end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from kubehenge.commands.output import instant
from kubehenge.commands.plan_view import WholePlan
from kubehenge.model.canon import MISSING, FieldChange, is_ref
from kubehenge.model.plan import Bill, QuorumVerdict
from kubehenge.model.resource import Verb
from kubehenge.store.reads.plans import ActionLine

SIGNS = {Verb.CREATE: "+", Verb.UPDATE: "~", Verb.DELETE: "-"}
COLOURS = {Verb.CREATE: "green", Verb.UPDATE: "yellow", Verb.DELETE: "red"}

FOLDED_FIELDS = 8
"""So many fields of an action are shown; `--full` shows all."""

LONGEST_VALUE = 90
"""Characters of one value; `--full` shows all."""


def print_plan(console: Console, plan: WholePlan, *, full: bool) -> None:
    """Print one plan."""
    for line in _head(plan):
        console.print(line)
    for action in plan.actions:
        console.print(_action_line(action))
        for line in _fields(action, full=full):
            console.print(line)
    if plan.actions:
        console.print()
    for line in (*_obstacles(plan), *_costs(plan.view.line.bill), *_checks(plan)):
        console.print(line)
    console.print(Text(tally(plan.actions), style="bold"))


def tally(actions: Sequence[ActionLine]) -> str:
    """Return the last line of a plan: how much it makes, changes and deletes."""
    verbs = Counter(action.verb for action in actions)
    return f"Plan: {verbs[Verb.CREATE]} to create, {verbs[Verb.UPDATE]} to change, {verbs[Verb.DELETE]} to delete."


def _head(plan: WholePlan) -> Iterator[Text]:
    line, view = plan.view.line, plan.view
    number = f"Plan {line.id}, " if line.id else ""
    yield Text(line.title, style="bold")
    if line.summary:
        yield Text(line.summary)
    yield Text(f"{number}{line.short_digest}: {line.scope}, {line.lane}, {line.word}", style="dim")
    origin = [
        f"from {line.revision[:7]}" if line.revision else "",
        f"by {line.author}" if line.author else "",
        f"opened {instant(line.opened_at)}",
    ]
    yield Text(" ".join(part for part in origin if part), style="dim")
    if line.held:
        yield Text(f"Held back: {line.held}", style="yellow")
    if view.replaced_by is not None:
        yield Text(f"Replaced by plan {view.replaced_by.id} ({view.replaced_by.short_digest}).", style="yellow")
    if view.closed_reason:
        yield Text(f"Closed {instant(line.closed_at)}: {view.closed_reason}", style="dim")
    for one in view.approvals:
        comment = f": {one.comment}" if one.comment else ""
        yield Text(f"{one.verdict.capitalize()} by {one.who} at {instant(one.at)}{comment}", style="dim")
    yield Text()


def _action_line(action: ActionLine) -> Text:
    style = COLOURS[action.verb]
    found = Text(f"  {SIGNS[action.verb]} ", style=style)
    found.append(f"{action.kind} {action.name}", style="bold")
    found.append(f"  {action.change_class}", style=style)
    if action.reason:
        found.append(f"  {action.reason}", style="dim")
    return found


def _fields(action: ActionLine, *, full: bool) -> Iterator[Text]:
    # What is made is made whole: its fields say little until someone asks for them.
    shown = len(action.fields) if full else 0 if action.verb is Verb.CREATE else FOLDED_FIELDS
    for change in action.fields[:shown]:
        yield Text(f"      {change.path}: {arrow(change, full=full)}")
    if len(action.fields) > shown:
        more = len(action.fields) - shown
        yield Text(f"      ({more} {'more ' if shown else ''}field{'' if more == 1 else 's'}: --full shows them)", style="dim")
    for change in action.drift:
        yield Text(f"      {change.path}: {arrow(change, full=full)}  (changed by someone else)", style="magenta")


def arrow(change: FieldChange, *, full: bool = True) -> str:
    """Write one field that differs: what it was, and what it becomes."""
    if change.before is MISSING:
        return written(change.after, full=full)
    if change.after is MISSING:
        return f"{written(change.before, full=full)} → taken away"
    return f"{written(change.before, full=full)} → {written(change.after, full=full)}"


def written(value: Any, *, full: bool = True) -> str:
    """Write one value on one line."""
    if value is MISSING:
        return "not set"
    text = f"known later ({value['$ref']})" if is_ref(value) else json.dumps(value, ensure_ascii=False)
    return text if full or len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _obstacles(plan: WholePlan) -> Iterator[Text]:
    for obstacle in plan.view.obstacles:
        yield Text(f"Cannot finish: {obstacle.what}", style="bold red")
        yield Text(
            f"  asked: {obstacle.asked}; there is: {obstacle.there_is}" + (f"; short by {obstacle.short_by}" if obstacle.short_by else "")
        )
        for remedy in obstacle.remedies:
            yield Text(f"  could be: {remedy.text}" + (f" ({remedy.cost})" if remedy.cost else ""), style="green")
            for change in remedy.changes:
                yield Text(f"      {change.path}: {arrow(change)}")


def bill_lines(bill: Bill) -> Iterator[str]:
    """Yield what a plan costs, a line each; nothing for what it does not touch."""
    if bill.addresses_needed:
        yield f"Addresses: {bill.addresses_needed} spare needed, {bill.addresses_free} free."
    if bill.memory_peak_mib != bill.memory_now_mib or bill.control_planes_replaced or bill.workers_replaced:
        yield f"Memory: {_gib(bill.memory_now_mib)} now, {_gib(bill.memory_peak_mib)} at the peak, {_gib(bill.memory_after_mib)} after; {_gib(bill.memory_free_mib)} free."
        yield f"Cores: {bill.cores_now} now, {bill.cores_peak} at the peak, {bill.cores_after} after."
    if bill.quorum is not QuorumVerdict.NOT_TOUCHED:
        yield f"Quorum of etcd: {_QUORUM[bill.quorum]}"


_QUORUM = {
    QuorumVerdict.KEPT: "kept through every step, even if one Proxmox VE node fails.",
    QuorumVerdict.AT_RISK: "kept only while no Proxmox VE node fails.",
    QuorumVerdict.SINGLE: "there is one member; while it is replaced, or its node fails, the cluster's API is away.",
}


def _costs(bill: Bill) -> Iterator[Text]:
    for line in bill_lines(bill):
        yield Text(line, style="yellow" if bill.quorum is QuorumVerdict.AT_RISK and line.startswith("Quorum") else "")


def _checks(plan: WholePlan) -> Iterator[Text]:
    for check in plan.view.checks:
        if not check.holds:
            yield Text(f"Does not hold: {check.text}" + (f" ({check.note})" if check.note else ""), style="red")


def _gib(mib: int) -> str:
    return f"{mib / 1024:g} GiB"
