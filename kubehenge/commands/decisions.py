"""`approve`, `reject` and `withdraw`: what the person at this machine says of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubehenge.commands.frame import Command, FailedError, Frame, color_option, pass_frame

if TYPE_CHECKING:
    from kubehenge.commands.opening import Deciding
    from kubehenge.commands.plan_view import WholePlan
    from kubehenge.store.reads.decision import Answer

_yes = click.option("-y", "--yes", is_flag=True, help="Do not show the plan and ask first.")
_comment = click.option("-m", "--comment", default="", help="Why, in a few words; it is kept.")


@click.command(cls=Command)
@click.argument("plan_name", metavar="PLAN")
@click.option("--name", "typed", default="", metavar="SCOPE", help="The name to be typed where the rules ask for it, for scripts.")
@_comment
@_yes
@color_option
@pass_frame
def approve(frame: Frame, plan_name: str, typed: str, comment: str, yes: bool) -> None:
    """
    Approve a PLAN, by its number or digest.

    What is approved is the plan as it is shown here: if it is replaced meanwhile, the approval does not count.
    """
    from kubehenge.commands.opening import open_deciding

    with open_deciding() as deciding:
        plan = _find(deciding, plan_name)
        if not yes:
            _show(frame, plan)
        needs_name = _needs_name(deciding, plan)
        if needs_name and not typed and not yes:
            typed = click.prompt(
                f"This asks for the name, typed. Type {plan.view.line.scope} to approve it", default="", show_default=False
            )
        elif not yes:
            click.confirm("Approve it?", abort=True)
        line = plan.view.line
        answer = deciding.decide.approve(line.id, line.digest, deciding.person, typed, comment)
    tell(answer)


@click.command(cls=Command)
@click.argument("plan_name", metavar="PLAN")
@_comment
@_yes
@color_option
@pass_frame
def reject(frame: Frame, plan_name: str, comment: str, yes: bool) -> None:
    """Reject a PLAN: it does not start until the rejection is withdrawn."""
    from kubehenge.commands.opening import open_deciding

    with open_deciding() as deciding:
        plan = _find(deciding, plan_name)
        if not yes:
            _show(frame, plan)
            click.confirm("Reject it?", abort=True)
        line = plan.view.line
        answer = deciding.decide.reject(line.id, line.digest, deciding.person, comment)
    tell(answer)


@click.command(cls=Command)
@click.argument("plan_name", metavar="PLAN")
def withdraw(plan_name: str) -> None:
    """Take back your own approval or rejection of a PLAN."""
    from kubehenge.commands.opening import open_deciding

    with open_deciding() as deciding:
        answer = deciding.decide.withdraw(_find(deciding, plan_name).view.line.id, deciding.person)
    tell(answer)


def tell(answer: Answer) -> None:
    """Print the answer to a decision. Errors: FailedError when it is not in force."""
    from kubehenge.store.reads.decision import AnswerKind

    if answer.kind in {AnswerKind.ACCEPTED, AnswerKind.COUNTED, AnswerKind.ALREADY}:
        click.echo(answer.message)
        return
    follow = f" The plan that took its place is {answer.replacement_id}." if answer.replacement_id else ""
    raise FailedError(f"{answer.message}{follow}")


def _find(deciding: Deciding, name: str) -> WholePlan:
    from kubehenge.commands.plan_view import find

    with deciding.core.db.read() as session:
        return find(session, deciding.core.site_id, name)


def _show(frame: Frame, plan: WholePlan) -> None:
    from kubehenge.commands.plan_text import print_plan

    print_plan(frame.console(), plan, full=False)


def _needs_name(deciding: Deciding, plan: WholePlan) -> bool:
    """Tell whether the rules in force ask for the cluster's name, typed."""
    from kubehenge.engine.stored import rules_in_force
    from kubehenge.plan.approval import need_of
    from kubehenge.store.clusters import labels_of

    line = plan.view.line
    with deciding.core.db.read() as session:
        rules, _version = rules_in_force(session, deciding.core.site_id)
        labels = labels_of(session, line.cluster_id)
    return need_of(line.classes, rules, namespace=line.scope.partition("/")[0], labels=labels, held=bool(line.held)).typed_name


COMMANDS = (approve, reject, withdraw)
