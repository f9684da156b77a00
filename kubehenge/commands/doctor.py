"""`doctor`: what is set, what is reachable, what is missing, and how to mend it; without secrets, and changing nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubehenge.commands.frame import TABLE, Command, Frame, color_option, output_option, pass_frame, waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubehenge.drivers.findings import Finding

DOCTOR_EXITS = {0: "all is well", 1: "something is to be mended; each thing is printed with how"}


@click.command(cls=Command, exits=DOCTOR_EXITS)
@click.option("--local", is_flag=True, help="Look at this machine and the database only, and ask no other system.")
@output_option()
@color_option
@pass_frame
@click.pass_context
def doctor(ctx: click.Context, frame: Frame, local: bool) -> None:
    """Look at settings, state, database, Git, Proxmox VE and the management cluster, and say what to mend."""
    from kubehenge.commands.checks import examine

    with waiting(frame, "Looking …"):
        findings = examine(ask_others=not local)
    if frame.output == TABLE:
        _print(frame, findings)
    else:
        from kubehenge.commands.output import show_value

        show_value(frame, findings)
    ctx.exit(0 if all(one.ok for one in findings) else 1)


def _print(frame: Frame, findings: Sequence[Finding]) -> None:
    from rich.text import Text

    from kubehenge.log import redact

    console = frame.console()
    for one in findings:
        line = Text("✓ " if one.ok else "✗ ", style="green" if one.ok else "bold red")
        line.append(one.what, style="bold")
        detail = redact(one.detail)
        line.append(f": {detail}" if "\n" not in detail else ":\n    " + detail.replace("\n", "\n    "))
        console.print(line)
        if not one.ok and one.mend:
            console.print(Text(f"    {redact(one.mend)}", style="yellow"))
    wrong = sum(1 for one in findings if not one.ok)
    console.print(Text(f"{len(findings)} things looked at, {wrong} to mend.", style="bold"))


COMMANDS = (doctor,)
