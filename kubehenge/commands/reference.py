"""The table of docs/commands.md, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click

from kubehenge.commands.frame import USUAL_EXITS, Command


def leaves(root: click.Group, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, with its whole name."""
    context = click.Context(root)
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*prefix, name))
        elif command is not None:
            yield " ".join((*prefix, name)), command


def as_markdown(root: click.Group) -> str:
    """Return the table: usage, what it does, options, exit codes."""
    rows = []
    for name, command in leaves(root):
        exits = command.exits if isinstance(command, Command) else USUAL_EXITS
        arguments = [
            parameter.make_metavar(click.Context(command)) for parameter in command.params if isinstance(parameter, click.Argument)
        ]
        usage = " ".join(("kubehenge", name, *arguments))
        options = ", ".join(f"`{max(one.opts, key=len)}`" for one in command.params if isinstance(one, click.Option) and not one.hidden)
        codes = "; ".join(f"{code}: {meaning}" for code, meaning in sorted(exits.items())) if exits is not USUAL_EXITS else "0, 1"
        what = command.get_short_help_str(limit=1000)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{usage}`", what, options, codes)) + " |")
    return "\n".join(["| Command | What it does | Options | Exit codes |", "|---|---|---|---|", *rows]) + "\n"
