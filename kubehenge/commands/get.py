"""`get`: what the database knows, as lists."""

from __future__ import annotations

from typing import Any

import click

from kubehenge.commands.frame import Frame, Group, color_option, output_option, pass_frame


@click.group(cls=Group)
def get() -> None:
    """List clusters, resources, documents, sources or ledger entries."""


@get.command(name="clusters")
@click.option("-n", "--namespace", default="", help="Only those of this namespace.")
@output_option()
@color_option
@pass_frame
def clusters(frame: Frame, namespace: str) -> None:
    """List clusters and how they stand."""
    from kubehenge.commands.opening import open_reading
    from kubehenge.commands.output import show
    from kubehenge.store.reads.clusters import ClusterFilter, cluster_page
    from kubehenge.store.reads.visible import EVERYTHING

    rows: list[dict[str, Any]] = []
    with open_reading() as reading:
        number = 1
        while True:
            page = cluster_page(reading.session, reading.site_id, EVERYTHING, ClusterFilter(namespace=namespace), number)
            rows += [
                {
                    "scope": one.scope,
                    "word": one.word,
                    "state": one.state,
                    "class": one.class_name,
                    "version": one.version,
                    "control_planes": f"{one.status.control_plane.ready}/{one.status.control_plane.desired}",
                    "workers": f"{one.status.workers.ready}/{one.status.workers.desired}",
                    "endpoint": one.status.endpoint,
                    "revision": one.revision,
                    "plan": one.plan.word,
                    "plan_number": one.plan.id,
                }
                for one in page.items
            ]
            if number >= page.pages:
                break
            number += 1
    headings = {
        "scope": "CLUSTER",
        "word": "STATE",
        "version": "VERSION",
        "control_planes": "CONTROL PLANES",
        "workers": "WORKERS",
        "endpoint": "ENDPOINT",
        "plan": "PLAN",
    }
    show(frame, rows, headings, nothing="No clusters. `kubehenge source add` names a repository that declares some.")


@get.command(name="resources")
@click.option("-c", "--cluster", metavar="NAMESPACE/NAME", help="Only those of this cluster; `site` for what clusters share.")
@click.option("-k", "--kind", help="Only those of this kind, such as proxmox.pool.")
@click.option(
    "--state", type=click.Choice(["settled", "change", "drift", "change and drift", "lost", "seen"]), help="Only those in this state."
)
@output_option()
@color_option
@pass_frame
def resources(frame: Frame, cluster: str | None, kind: str | None, state: str | None) -> None:
    """List the things that Kubehenge keeps or looks at; JSON and YAML hold their bodies, too."""
    from kubehenge.commands.opening import parse_scope
    from kubehenge.commands.views import select_from

    scope = None if cluster is None else cluster if cluster == "site" else "/".join(parse_scope(cluster))
    rows = select_from("v_resource", {"scope": scope, "kind": kind, "state": state}, order=("scope", "kind", "name"))
    from kubehenge.commands.output import show

    headings = {"scope": "SCOPE", "kind": "KIND", "name": "NAME", "state": "STATE", "mark": "MARK"}
    show(frame, rows, headings, nothing="No resources.")


@get.command(name="documents")
@click.option("--refused", is_flag=True, help="Only those that are refused.")
@click.option("--source", "source_name", metavar="NAME", help="Only those of this source.")
@output_option()
@color_option
@pass_frame
def documents(frame: Frame, refused: bool, source_name: str | None) -> None:
    """List the YAML documents of all sources with their verdicts, the refused ones first."""
    from kubehenge.commands.document_rows import document_rows
    from kubehenge.commands.frame import TABLE
    from kubehenge.commands.opening import open_reading
    from kubehenge.commands.output import show

    with open_reading() as reading:
        rows = document_rows(reading, source_name, refused_only=refused)
    headings = {
        "source": "SOURCE",
        "path": "FILE",
        "line": "LINE",
        "kind": "KIND",
        "scope": "NAME",
        "verdict": "VERDICT",
        "problem": "PROBLEM",
    }
    if frame.output == TABLE:
        rows = [{**row, **problem} for row in rows for problem in _problem_cells(row)]
    show(frame, rows, headings, nothing="No documents.")


def _problem_cells(row: dict[str, Any]) -> list[dict[str, Any]]:
    """One line of the table for each problem, so that none is hidden."""
    cells = [{"line": one.line, "problem": f"{one.field}: {one.message}" if one.field else one.message} for one in row["problems"]]
    return cells or [{"problem": ""}]


@get.command(name="sources")
@output_option()
@color_option
@pass_frame
def sources(frame: Frame) -> None:
    """List Git sources and how they were read last."""
    from kubehenge.commands.sources import list_sources

    list_sources(frame)


@get.command(name="ledger")
@click.option("--who", default="", help="Only entries of whoever has this in their name.")
@click.option("--about", default="", help="Only entries about this, such as clusters/prod.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most so many, the newest first.")
@click.option("--verify", is_flag=True, help="Check the chain of hashes instead of listing it.")
@output_option()
@color_option
@pass_frame
def ledger(frame: Frame, who: str, about: str, limit: int, verify: bool) -> None:
    """List what was asked, agreed and done, the newest first."""
    from kubehenge.commands.ledger_rows import ledger_rows, verify_ledger
    from kubehenge.commands.opening import open_reading
    from kubehenge.commands.output import show

    with open_reading() as reading:
        if verify:
            verify_ledger(reading)
            return
        rows = ledger_rows(reading, who=who, about=about, limit=limit)
    headings = {"position": "#", "at": "AT", "who": "WHO", "event": "EVENT", "subject": "ABOUT", "facts": "FACTS"}
    show(frame, rows, headings, nothing="The ledger is empty.")


COMMANDS = (get,)
