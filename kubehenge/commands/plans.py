"""`plan`, `plans` and `show`: what there is to do, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubehenge.commands.frame import MARKDOWN, TABLE, Command, Frame, color_option, output_option, pass_frame

if TYPE_CHECKING:
    from kubehenge.commands.plan_view import WholePlan

CHANGES = 2
PLAN_EXITS = {0: "nothing to do", 1: "not planned; the reason is printed", CHANGES: "there is something to do"}


@click.command(cls=Command, exits=PLAN_EXITS)
@click.argument("scope", nargs=-1)
@click.option("--from", "origin", metavar="DIR|REVISION", help="Plan what is there instead of what is pushed; nothing is kept.")
@click.option("--source", "source_name", metavar="NAME", help="With --from: which source that takes the place of, where there are several.")
@click.option("--full", is_flag=True, help="Show every field of every action.")
@output_option(MARKDOWN)
@color_option
@pass_frame
@click.pass_context
def plan(ctx: click.Context, frame: Frame, scope: tuple[str, ...], origin: str | None, source_name: str | None, full: bool) -> None:
    """
    Show what there is to do: the open plans, or those that a folder or revision would open.

    SCOPE narrows it to clusters (NAMESPACE/NAME), or to `site` for what they share. With --from, a folder is read as it is, and a
    REVISION is one of the Git repository around the current folder; both are planned against what was recorded last, and nothing is
    written.
    """
    if origin is None:
        found = _open_plans(scope)
    else:
        from kubehenge.commands.drafting import plan_from
        from kubehenge.commands.frame import waiting

        with waiting(frame, "Planning …"):
            found = plan_from(origin, source_name, scope)
    print_plans(frame, found, full=full)
    ctx.exit(CHANGES if found else 0)


def _open_plans(scopes: tuple[str, ...]) -> tuple[WholePlan, ...]:
    from kubehenge.commands.opening import open_reading
    from kubehenge.commands.plan_view import load
    from kubehenge.store.plans import open_plans

    with open_reading() as reading:
        rows = [row.id for row in open_plans(reading.session, reading.site_id) if wanted(row.scope, scopes)]
        loaded = (load(reading.session, reading.site_id, one) for one in rows)
        return tuple(one for one in loaded if one is not None)


def wanted(scope: str, scopes: tuple[str, ...]) -> bool:
    """Tell whether a scope is among those that were named; a name alone is in the namespace `clusters`."""
    return not scopes or bool({scope, scope.removeprefix("clusters/"), scope.partition(":")[0]} & set(scopes))


def print_plans(frame: Frame, plans: tuple[WholePlan, ...], *, full: bool) -> None:
    """Print plans as the frame asks."""
    if frame.output == MARKDOWN:
        from kubehenge.commands.plan_markdown import as_markdown

        click.echo(as_markdown(plans), nl=False)
    elif frame.output != TABLE:
        from kubehenge.commands.output import show_value
        from kubehenge.commands.plan_view import as_json

        show_value(frame, [as_json(one) for one in plans])
    elif not plans:
        click.echo("Nothing to do: everything is as it is declared.")
    else:
        from kubehenge.commands.plan_text import print_plan

        console = frame.console()
        for number, one in enumerate(plans):
            if number:
                console.rule(style="dim") if console.is_terminal else console.print()
            print_plan(console, one, full=full)


@click.command(cls=Command)
@click.option("--all", "everything", is_flag=True, help="Closed ones, too.")
@click.option("--closed", is_flag=True, help="Closed ones only.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most so many, the newest first.")
@output_option()
@color_option
@pass_frame
def plans(frame: Frame, everything: bool, closed: bool, limit: int) -> None:
    """List plans, the newest first."""
    from kubehenge.commands.opening import open_reading
    from kubehenge.commands.output import show
    from kubehenge.store.reads.plans import PlanFilter, plan_page
    from kubehenge.store.reads.visible import EVERYTHING

    rows: list[dict[str, object]] = []
    with open_reading() as reading:
        number = 1
        while True:
            narrowed = PlanFilter(state="closed" if closed else "all" if everything else "open")
            page = plan_page(reading.session, reading.site_id, EVERYTHING, narrowed, number)
            rows += [
                {
                    "plan": one.id,
                    "digest": one.short_digest,
                    "scope": one.scope,
                    "lane": one.lane,
                    "word": one.word,
                    "title": one.title,
                    "classes": one.classes,
                    "author": one.author,
                    "opened_at": one.opened_at,
                    "closed_at": one.closed_at,
                    "run": one.run_id,
                    "cannot": one.cannot,
                    "held": one.held,
                }
                for one in page.items
            ]
            if number >= page.pages or len(rows) >= limit:
                break
            number += 1
    headings = {"plan": "PLAN", "digest": "DIGEST", "scope": "SCOPE", "word": "STATE", "title": "TITLE", "opened_at": "OPENED"}
    show(frame, rows[:limit], headings, nothing="No plans." if everything or closed else "No open plans: everything is as it is declared.")


@click.command(cls=Command)
@click.argument("plan_name", metavar="PLAN")
@click.option("--full", is_flag=True, help="Show every field of every action.")
@output_option(MARKDOWN)
@color_option
@pass_frame
def show(frame: Frame, plan_name: str, full: bool) -> None:
    """Show one PLAN, by its number or at least 7 digits of its digest."""
    from kubehenge.commands.opening import open_reading
    from kubehenge.commands.plan_view import find

    with open_reading() as reading:
        found = find(reading.session, reading.site_id, plan_name)
    print_plans(frame, (found,), full=full)


COMMANDS = (plan, plans, show)
