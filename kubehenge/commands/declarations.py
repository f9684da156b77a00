"""`validate` and `schema`: what files mean, without a database or a network (ACCEPTANCE 2.4, 2.5)."""

from __future__ import annotations

import click

from kubehenge.commands.frame import JSON, Command, Frame, color_option, pass_frame

CANNOT_RUN = 2
VALIDATE_EXITS = {
    0: "all documents are accepted or skipped",
    1: "a document is refused",
    CANNOT_RUN: "could not run; the reason is printed",
}
TEXT, GITHUB, GITLAB = "text", "github", "gitlab"
KINDS = ("Cluster", "Site", "ApprovalRules")


@click.command(cls=Command, exits=VALIDATE_EXITS, cannot_run=CANNOT_RUN)
@click.argument("path", default=".", type=click.Path())
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice([TEXT, JSON, GITHUB, GITLAB]),
    help="For people, for programs, or as the notes that GitHub (also Gitea and Forgejo) or GitLab show beside the line.  [default: text]",
)
@color_option
@pass_frame
@click.pass_context
def validate(ctx: click.Context, frame: Frame, path: str, form: str | None) -> None:
    """
    Judge the YAML files under PATH as Kubehenge does.

    What only the settings or the world can answer is left to the plan, and listed as not looked at.
    """
    from kubehenge.source.report import ReportFormat, validate

    console = frame.console()
    wanted = form or (JSON if frame.output == JSON else TEXT)
    colour = console.is_terminal and not console.no_color
    widths = {"width": console.width} if console.is_terminal else {}
    text, code = validate(path, ReportFormat(wanted), colour=colour, **widths)
    click.echo(text, nl=False, err=code == CANNOT_RUN, color=colour or None)
    ctx.exit(code)


@click.command(cls=Command)
@click.argument("kind", required=False, metavar="[KIND]", type=click.Choice(KINDS, case_sensitive=False))
def schema(kind: str | None) -> None:
    """Print the JSON Schema of a KIND (Cluster, Site, ApprovalRules), or of every kind that is read, for editors."""
    import json

    from kubehenge.source.schema import schema_of, schema_of_all

    click.echo(json.dumps(schema_of(kind) if kind else schema_of_all(), indent=2, ensure_ascii=False))


COMMANDS = (validate, schema)
