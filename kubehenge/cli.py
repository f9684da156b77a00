"""The command `kubehenge`: its commands, and how the process ends."""

from __future__ import annotations

import sys

import click

from kubehenge.commands import (
    classes,
    completion,
    database,
    decisions,
    declarations,
    doctor,
    frozen,
    get,
    history,
    lab,
    missing,
    plans,
    runs,
    serving,
    settings,
    sources,
    sql,
)
from kubehenge.commands.frame import Group, global_options, run


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="kubehenge", prog_name="kubehenge", message="%(prog)s %(version)s")
@global_options
def kubehenge() -> None:
    """
    Kubernetes clusters on Proxmox VE, from Git, by plans that people can read.

    Settings come from the environment (KUBEHENGE_...) and the file that KUBEHENGE_CONFIG names; `kubehenge doctor` shows what is set
    and reachable.
    """


PARTS = (
    serving,
    declarations,
    plans,
    decisions,
    runs,
    frozen,
    missing,
    classes,
    get,
    history,
    settings,
    sources,
    database,
    sql,
    doctor,
    lab,
    completion,
)
"""In the order in which help lists them; each has its COMMANDS."""

for _part in PARTS:
    for _command in _part.COMMANDS:
        kubehenge.add_command(_command)


def main(arguments: list[str] | None = None) -> None:
    """Run a command line and end the process with its exit code."""
    sys.exit(run(kubehenge, arguments))


if __name__ == "__main__":
    main()
