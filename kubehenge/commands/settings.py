"""`settings`: what is set for the site, in the database and in Git, and for this process."""

from __future__ import annotations

import click

from kubehenge.commands.frame import TABLE, Command, Frame, color_option, output_option, pass_frame


@click.command(cls=Command)
@click.option("--process", is_flag=True, help="The settings of the process instead: variables, defaults, what is set here.")
@click.option("--markdown", is_flag=True, help="With --process: the table of docs/settings.md.")
@output_option()
@color_option
@pass_frame
def settings(frame: Frame, process: bool, markdown: bool) -> None:
    """Show the site's settings and approval rules in force, with their version and where they came from."""
    if process or markdown:
        _process(frame, markdown=markdown)
        return
    from dataclasses import asdict

    from kubehenge.commands.opening import open_reading
    from kubehenge.commands.output import show_value
    from kubehenge.engine.stored import RULES, SITE, rules_in_force, settings_in_force
    from kubehenge.store.sites import setting_in_force

    with open_reading() as reading:
        parts = []
        for name, value in (
            (SITE, settings_in_force(reading.session, reading.site_id)),
            (RULES, rules_in_force(reading.session, reading.site_id)[0]),
        ):
            found = setting_in_force(reading.session, reading.site_id, name)
            parts.append({"name": name, "version": found.version, "origin": found.origin, "value": asdict(value)})
    if frame.output == TABLE:
        frame.output = "yaml"
    show_value(frame, parts)


def _process(frame: Frame, *, markdown: bool) -> None:
    from kubehenge.settings_table import as_markdown, lines

    if markdown:
        click.echo(as_markdown(), nl=False)
        return
    from kubehenge.commands.opening import open_settings
    from kubehenge.commands.output import show
    from kubehenge.settings import variable

    rows = [
        {
            "variable": variable(line.name),
            "value": line.value,
            "given": line.given,
            "unit": line.unit,
            "default": line.default,
            "what": line.what,
            "why": line.why,
        }
        for line in lines(open_settings())
    ]
    show(frame, rows, {"variable": "VARIABLE", "value": "VALUE", "unit": "UNIT", "given": "SET", "what": "WHAT IT IS"}, nothing="")


COMMANDS = (settings,)
