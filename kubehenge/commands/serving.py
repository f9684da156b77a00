"""`serve` and `tick`: running Kubehenge, for ever or for one pass."""

from __future__ import annotations

import click

from kubehenge.commands.frame import Command, Frame, color_option, output_option, pass_frame, waiting


@click.command(cls=Command)
@click.option("--no-loops", is_flag=True, help="Serve the page only; other processes run the loops.")
@click.option("--no-page", is_flag=True, help="Run the loops only.")
def serve(no_loops: bool, no_page: bool) -> None:
    """
    Run Kubehenge until it is told to stop: the page, and beside it the loops that read, plan and carry out.

    Ctrl-C or SIGTERM lets what is being recorded end first; what goes on in Proxmox VE and Cluster API is found again at the next start.
    """
    if no_loops and no_page:
        raise click.UsageError("With neither loops nor page there is nothing to run.")
    from kubehenge.commands.server import run_server

    run_server(with_loops=not no_loops, with_page=not no_page)


@click.command(cls=Command)
@click.option("--carry-out", is_flag=True, help="Then carry out what is approved, until nothing is left to do or the time is over.")
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=30.0, show_default=True, help="With --carry-out: at most so long."
)
@output_option()
@color_option
@pass_frame
def tick(frame: Frame, carry_out: bool, minutes: float) -> None:
    """
    Read everything and plan, once.

    While another process runs the loops, it is told to do so now instead.
    """
    from kubehenge.commands.one_pass import run_pass
    from kubehenge.commands.output import show_value

    with waiting(frame, "Reading and planning …"):
        result = run_pass(carry_out_s=minutes * 60 if carry_out else 0.0)
    if frame.output != "table":
        show_value(frame, result)
    else:
        click.echo(result["said"])


COMMANDS = (serve, tick)
