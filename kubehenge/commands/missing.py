"""`missing`: what vanished at once, kept aside until more readings or a person say that it is gone (MODEL 20)."""

from __future__ import annotations

import click

from kubehenge.commands.frame import Command, FailedError, Frame, color_option, output_option, pass_frame


@click.command(cls=Command)
@click.argument("kind", required=False, metavar="[KIND]")
@click.option("-y", "--yes", is_flag=True, help="Do not list what is missing and ask first.")
@output_option()
@color_option
@pass_frame
def missing(frame: Frame, kind: str | None, yes: bool) -> None:
    """
    Say that what vanished of a KIND is really gone; without one, list the readings that are kept aside.

    What is gone is planned for as its declaration asks: a Cluster that was deleted counts as leaving.
    """
    from kubehenge.commands.decisions import tell
    from kubehenge.commands.opening import open_deciding, open_reading
    from kubehenge.commands.output import show
    from kubehenge.store.reads.site import suspicions

    with open_reading() as reading:
        found = suspicions(reading.session, reading.site_id)
    if kind is None:
        rows = [{"kind": one.kind, "missing": list(one.names), "since": one.opened_at, "readings": one.readings} for one in found]
        headings = {"kind": "KIND", "missing": "MISSING", "since": "SINCE", "readings": "READINGS"}
        show(frame, rows, headings, nothing="No reading is kept aside.")
        return
    meant = next((one for one in found if one.kind == kind), None)
    if meant is None:
        raise FailedError(f"No reading of {kind} is kept aside; `kubehenge missing` lists those that are.")
    if not yes:
        click.echo("\n".join(meant.names))
        click.confirm(f"Are {len(meant.names)} things of kind {kind} really gone?", abort=True)
    with open_deciding() as deciding:
        answer = deciding.decide.confirm_missing(kind, meant.names, deciding.person)
    tell(answer)


COMMANDS = (missing,)
