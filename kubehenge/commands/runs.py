"""`runs`: what was carried out, and what is going on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubehenge.commands.frame import TABLE, Command, Frame, color_option, output_option, pass_frame

if TYPE_CHECKING:
    from kubehenge.commands.opening import Reading
    from kubehenge.store.reads.runs import RunLine


@click.command(cls=Command)
@click.argument("run", required=False, type=int, metavar="[RUN]")
@click.option("--limit", type=click.IntRange(1), default=30, show_default=True, help="At most so many, the newest first.")
@output_option()
@color_option
@pass_frame
def runs(frame: Frame, run: int | None, limit: int) -> None:
    """List runs, the newest first, or show the steps of one RUN."""
    from kubehenge.commands.opening import open_reading

    with open_reading() as reading:
        if run is None:
            _list(frame, reading, limit)
        else:
            _one(frame, reading, run)


def _list(frame: Frame, reading: Reading, limit: int) -> None:
    from kubehenge.commands.output import show
    from kubehenge.store.reads.runs import run_page
    from kubehenge.store.reads.visible import EVERYTHING

    rows: list[dict[str, object]] = []
    number = 1
    while True:
        page = run_page(reading.session, reading.site_id, EVERYTHING, number)
        rows += [_row(one) for one in page.items]
        if number >= page.pages or len(rows) >= limit:
            break
        number += 1
    headings = {
        "run": "RUN",
        "scope": "SCOPE",
        "state": "STATE",
        "title": "TITLE",
        "steps": "STEPS",
        "started_at": "STARTED",
        "ended_at": "ENDED",
    }
    show(frame, rows[:limit], headings, nothing="Nothing has been carried out yet.")


def _row(line: RunLine) -> dict[str, object]:
    from kubehenge.store.reads.runs import StepWord

    return {
        "run": line.id,
        "plan": line.plan_id,
        "scope": line.scope,
        "lane": line.lane,
        "state": "running" if line.is_open else str(line.outcome or "ended"),
        "title": line.title,
        "steps": f"{line.counts.get(StepWord.DONE, 0)} of {line.actions}",
        "waits_on": line.waits_on,
        "stop_reason": line.stop_reason,
        "started_at": line.started_at,
        "ended_at": line.ended_at,
    }


def _one(frame: Frame, reading: Reading, run: int) -> None:
    from kubehenge.commands.output import show, show_value
    from kubehenge.errors import UsageError
    from kubehenge.store.reads.runs import find_run, run_log, run_steps
    from kubehenge.store.reads.visible import EVERYTHING

    view = find_run(reading.session, reading.site_id, EVERYTHING, run)
    if view is None:
        raise UsageError(f"There is no run {run}. `kubehenge runs` lists them.")
    steps: list[dict[str, object]] = []
    number = 1
    while True:
        page = run_steps(reading.session, run, number)
        steps += [
            {
                "position": one.position,
                "verb": one.verb,
                "kind": one.kind,
                "name": one.name,
                "word": one.word,
                "waits_on": one.waits_on,
                "progress": f"{one.progress_done} of {one.progress_all}" if one.progress_all else "",
                "attempts": one.attempts,
                "error": one.error,
                "intended_at": one.intended_at,
                "ended_at": one.ended_at,
            }
            for one in page.items
        ]
        if number >= page.pages:
            break
        number += 1
    lines = [{"at": one.at, "level": one.level, "step": one.position, "text": one.text} for one in run_log(reading.session, run)]
    if frame.output != TABLE:
        show_value(
            frame, {**_row(view.line), "approved_by": view.approved_by, "approved_at": view.approved_at, "actions": steps, "log": lines}
        )
        return
    line = view.line
    click.echo(f"Run {line.id} of plan {line.plan_id} ({line.plan_digest[:12]}): {line.title}")
    click.echo(f"{line.scope}, {line.lane}, {_row(line)['state']}, approved by {view.approved_by or 'nobody'}")
    if line.stop_reason:
        click.echo(f"Stops: {line.stop_reason}")
    click.echo()
    headings = {"position": "#", "verb": "VERB", "kind": "KIND", "name": "NAME", "word": "STATE", "waits_on": "WAITS ON", "error": "ERROR"}
    show(frame, steps, headings, nothing="It has no steps.")
    if lines:
        click.echo()
        show(frame, lines, {"at": "AT", "level": "LEVEL", "step": "#", "text": "LOG"}, nothing="")


COMMANDS = (runs,)
