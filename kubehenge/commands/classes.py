"""`class`: which ClusterClass each cluster runs, and moving one to the newest (MODEL 31)."""

from __future__ import annotations

import click

from kubehenge.commands.frame import Command, Frame, Group, color_option, output_option, pass_frame


@click.group(cls=Group, name="class")
def classes() -> None:
    """Show which ClusterClass each cluster runs, and move one to the newest."""


@classes.command(cls=Command, name="list")
@output_option()
@color_option
@pass_frame
def listed(frame: Frame) -> None:
    """List the clusters and plain class names with the class that each stands on, and whether there is a newer one."""
    from kubehenge.commands.opening import open_reading
    from kubehenge.commands.output import show
    from kubehenge.model.distribution import CLASS_NAMESPACE
    from kubehenge.source.class_files import load_classes
    from kubehenge.store.pins import standing

    with open_reading() as reading:
        found = standing(reading.session, reading.site_id)
    newest = {one.name for one in load_classes(CLASS_NAMESPACE).values()}
    rows = [{"on": who, "class": name, "newer": "no" if name in newest else "yes"} for who, name in found]
    show(frame, rows, {"on": "CLUSTER OR NAME", "class": "CLASS", "newer": "NEWER"}, nothing="No cluster is pinned to a class yet.")


@classes.command(cls=Command)
@click.argument("what", metavar="NAMESPACE/NAME|CLASS")
def move(what: str) -> None:
    """
    Move a cluster, or a plain class name, to the newest class.

    The plan that follows says what it replaces. A plain name such as kubehenge-rke2 is what clusters made elsewhere use: it moves last.
    """
    from kubehenge.commands.decisions import tell
    from kubehenge.commands.opening import open_deciding, parse_scope
    from kubehenge.model.distribution import find_distribution
    from kubehenge.wiring import class_moves

    with open_deciding() as deciding:
        moves = class_moves(deciding.core)
        if find_distribution(what) is not None:
            answer = moves.move_alias(what, deciding.person)
        else:
            answer = moves.move_cluster("/".join(parse_scope(what)), deciding.person)
        deciding.decide.ring("tick")
    tell(answer)


COMMANDS = (classes,)
