"""`history`: what was known of a cluster, and when."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from kubehenge.commands.frame import Command, Frame, color_option, output_option, pass_frame

if TYPE_CHECKING:
    from collections.abc import Sequence


class Instant(click.ParamType[datetime]):
    """An instant as people write it: `2025-03-10 14:00` in local time, or with a zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Read it; one without a zone is in local time."""
        if isinstance(value, datetime):
            return value
        try:
            return datetime.fromisoformat(str(value)).astimezone()
        except ValueError:
            self.fail(f"{value!r} is no instant: write 2025-03-10 14:00, or with a zone 2025-03-10T14:00:00Z.", param, ctx)


@click.command(cls=Command)
@click.argument("cluster", metavar="NAMESPACE/NAME")
@click.option("--at", "moment", type=Instant(), metavar="TIME", help="Show everything as it was known then, instead of what changed.")
@click.option("-k", "--kind", help="Only resources of this kind.")
@click.option("--side", type=click.Choice(["desired", "applied", "observed"]), help="Only what was asked for, written, or read.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many changes, the newest first.")
@output_option()
@color_option
@pass_frame
def history(frame: Frame, cluster: str, moment: datetime | None, kind: str | None, side: str | None, limit: int) -> None:
    """List what changed of a cluster, the newest first, or with --at how it was known at a moment."""
    from kubehenge.commands.history_rows import as_of, changes_of
    from kubehenge.commands.opening import open_reading, parse_scope
    from kubehenge.commands.output import show

    scope = "/".join(parse_scope(cluster))
    rows: Sequence[dict[str, Any]]
    with open_reading() as reading:
        if moment is not None:
            rows = as_of(reading, scope, moment, kind=kind, side=side or "observed")
            headings = {"kind": "KIND", "name": "NAME", "side": "SIDE", "since": "SINCE", "body": "BODY"}
            nothing = f"Nothing was known of {scope} then."
        else:
            rows = changes_of(reading, scope, kind=kind, side=side, limit=limit)
            headings = {"at": "AT", "side": "SIDE", "what": "WHAT", "name": "NAME", "change": "CHANGE"}
            nothing = f"Nothing is known of {scope}."
    show(frame, rows, headings, nothing=nothing)


COMMANDS = (history,)
