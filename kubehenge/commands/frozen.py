"""`freeze` and `thaw`: nothing is carried out for now (MODEL 28)."""

from __future__ import annotations

import click

from kubehenge.commands.frame import Command, Frame, color_option, output_option, pass_frame


@click.command(cls=Command)
@click.argument("scope", required=False, metavar="[NAMESPACE/NAME]")
@click.option("-m", "--reason", default="", help="Why; every page shows it.")
@click.option("--all", "duties", is_flag=True, help="Hold duties, too: placement, HA and hooks of running clusters. At most four hours.")
@click.option("--hours", type=click.FloatRange(0, min_open=True), help="End by itself after so long.")
def freeze(scope: str | None, reason: str, duties: bool, hours: float | None) -> None:
    """
    Hold the plans of one cluster, or of the whole site.

    What is asked for and repairs wait until it is thawed; what keeps running clusters alive goes on, unless --all is given.
    """
    from kubehenge.commands.decisions import tell
    from kubehenge.commands.opening import open_deciding, parse_scope, require_cluster

    name = "/".join(parse_scope(scope)) if scope else ""
    with open_deciding() as deciding:
        if name:
            require_cluster(deciding.core, name)
        answer = deciding.decide.freeze(name, deciding.person, reason, duties=duties, hours=hours)
    tell(answer)


@click.command(cls=Command)
@click.argument("freeze_number", required=False, type=int, metavar="[FREEZE]")
@output_option()
@color_option
@pass_frame
def thaw(frame: Frame, freeze_number: int | None) -> None:
    """End a FREEZE, by its number; without one, list those in force."""
    from kubehenge.commands.decisions import tell
    from kubehenge.commands.opening import open_deciding

    if freeze_number is None:
        _list(frame)
        return
    with open_deciding() as deciding:
        answer = deciding.decide.thaw(freeze_number, deciding.person)
    tell(answer)


def _list(frame: Frame) -> None:
    from kubehenge.commands.opening import open_reading
    from kubehenge.commands.output import show
    from kubehenge.store.reads.site import freezes_in_force
    from kubehenge.store.reads.visible import EVERYTHING

    with open_reading() as reading:
        rows = [
            {
                "freeze": one.id,
                "scope": one.scope or "site",
                "duties": one.duties,
                "who": one.who,
                "reason": one.reason,
                "began_at": one.began_at,
                "until": one.until,
            }
            for one in freezes_in_force(reading.session, reading.site_id, EVERYTHING, reading.now)
        ]
    headings = {
        "freeze": "FREEZE",
        "scope": "SCOPE",
        "duties": "DUTIES, TOO",
        "who": "BY",
        "reason": "REASON",
        "began_at": "SINCE",
        "until": "UNTIL",
    }
    show(frame, rows, headings, nothing="Nothing is frozen.")


COMMANDS = (freeze, thaw)
