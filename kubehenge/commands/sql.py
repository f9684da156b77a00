"""`sql`: a report in SQL, which only reads (ACCEPTANCE 4.6)."""

from __future__ import annotations

import sys

import click

from kubehenge.commands.frame import TABLE, Command, Frame, color_option, output_option, pass_frame


@click.command(cls=Command)
@click.argument("statement", required=False)
@click.option("--views", is_flag=True, help="List the views that reports are written on, with their columns.")
@output_option()
@color_option
@pass_frame
def sql(frame: Frame, statement: str | None, views: bool) -> None:
    """
    Run one STATEMENT that only reads, `-` or none for one from standard input.

    The views are described in docs/reports.md. Time and rows are limited (KUBEHENGE_SQL_TIMEOUT_S, KUBEHENGE_SQL_ROWS).
    """
    if views:
        _list_views(frame)
        return
    from kubehenge.commands.opening import open_settings
    from kubehenge.commands.output import show, show_value
    from kubehenge.store.database import open_database
    from kubehenge.store.readonly import ask

    text = sys.stdin.read() if statement in {None, "-"} else statement or ""
    settings = open_settings()
    database = open_database(settings.database.get_secret_value())
    try:
        answer = ask(database, text, timeout_s=settings.sql_timeout_s, max_rows=settings.sql_rows)
    finally:
        database.close()
    if frame.output == TABLE:
        # Two columns may have one name, so a row is shown by the places of its values.
        rows = [{str(place): value for place, value in enumerate(row)} for row in answer.rows]
        show(frame, rows, {str(place): name for place, name in enumerate(answer.columns)}, nothing="No rows.")
    else:
        show_value(frame, [dict(zip(answer.columns, row, strict=True)) for row in answer.rows])
    if answer.truncated:
        click.echo(f"Only the first {len(answer.rows)} rows: the limit of a report is reached (KUBEHENGE_SQL_ROWS).", err=True)


def _list_views(frame: Frame) -> None:
    from kubehenge.commands.output import show
    from kubehenge.store.views import VIEWS

    rows = [{"view": view.name, "what": view.what, "columns": list(view.columns)} for view in VIEWS]
    show(frame, rows, {"view": "VIEW", "what": "ONE LINE IS", "columns": "COLUMNS"}, nothing="")


COMMANDS = (sql,)
