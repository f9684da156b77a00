"""`completion`: the script that lets a shell complete commands."""

from __future__ import annotations

import click

from kubehenge.commands.frame import Command, FailedError


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """
    Print the completion script for a SHELL.

    In bash: eval "$(kubehenge completion bash)".
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise FailedError(f"There is no completion for {shell}.")
    click.echo(found(ctx.find_root().command, {}, "kubehenge", "_KUBEHENGE_COMPLETE").source())


COMMANDS = (completion,)
