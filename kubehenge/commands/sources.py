"""`source`: the Git repositories that declare clusters."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from kubehenge.commands.frame import FailedError, Frame, Group, color_option, output_option, pass_frame

if TYPE_CHECKING:
    from kubehenge.store.reads.sources import SourceView

_file = click.Path(exists=True, dir_okay=False, resolve_path=True)


@click.group(cls=Group)
def source() -> None:
    """Name the Git repositories that declare clusters, and accept a rewritten history."""


@source.command(name="add")
@click.argument("name")
@click.argument("url")
@click.option("-b", "--branch", default="main", show_default=True, help="Branch that is read.")
@click.option("-p", "--path", default="", help="Only this folder of it.")
@click.option("--token-file", type=_file, help="File with a token, for https.")
@click.option("--token-command", help="Command that prints a token, for https.")
@click.option("--key-file", type=_file, help="Private key, for ssh.")
@click.option("--known-hosts-file", type=_file, help="The server's public keys, for ssh.")
@click.option("--ca-file", type=_file, help="Certificate authority of the server, PEM.")
@click.option("--unchecked", is_flag=True, help="Do not look first whether it can be read.")
def add(name: str, url: str, branch: str, path: str, unchecked: bool, token_command: str | None, **files: str | None) -> None:
    """
    Add a source: NAME of your choice, and the URL of the repository (https, ssh, or an absolute path on this machine).

    Files are named, never copied: Kubehenge reads them each time, so they can be renewed.
    """
    from kubehenge.commands.opening import open_deciding
    from kubehenge.commands.source_rows import add_source

    credentials: dict[str, Any] = {key: value for key, value in files.items() if value}
    if token_command:
        credentials["token_command"] = shlex.split(token_command)
    with open_deciding() as deciding:
        said = add_source(deciding, name=name, url=url, branch=branch, path=path, credentials=credentials, check=not unchecked)
        deciding.decide.nudge()
    click.echo(said)


@source.command(name="list")
@output_option()
@color_option
@pass_frame
def list_command(frame: Frame) -> None:
    """List sources and how they were read last."""
    list_sources(frame)


@source.command(name="accept")
@click.argument("name")
@click.argument("revision", required=False)
@click.option("-y", "--yes", is_flag=True, help="Do not ask first; the REVISION must be given.")
def accept(name: str, revision: str | None, yes: bool) -> None:
    """
    Accept the new head of a source whose history was rewritten.

    Until then nothing of it is planned. The commits that are lost are shown first.
    """
    from kubehenge.commands.decisions import tell
    from kubehenge.commands.opening import open_deciding
    from kubehenge.commands.source_rows import find_by_name

    if yes and not revision:
        raise FailedError("With --yes, name the revision that you accept: it may have moved on since you looked.")
    with open_deciding() as deciding:
        with deciding.core.db.read() as session:
            found = find_by_name(session, deciding.core.site_id, name)
        head = _whole(found, revision)
        if not yes:
            _show_rewritten(found)
            click.confirm(f"Accept {head[:12]}?", abort=True)
        answer = deciding.decide.accept_rewritten(found.id, head, deciding.person)
    tell(answer)


def _whole(found: SourceView, revision: str | None) -> str:
    """Return the revision that someone means: the one that was seen, if they name its beginning or nothing."""
    if revision is None or (len(revision) >= 7 and found.seen_sha.startswith(revision)):
        return found.seen_sha
    return revision


def _show_rewritten(found: SourceView) -> None:
    click.echo(f"{found.name} ({found.url}, {found.branch}): {found.reason or found.state}")
    click.echo(f"  accepted  {found.accepted_sha}  {found.accepted_subject}")
    click.echo(f"  now       {found.seen_sha}")
    for commit in found.lost_commits:
        click.echo(f"  lost      {commit}")


def list_sources(frame: Frame) -> None:
    """Print the sources; `get sources` does the same."""
    from kubehenge.commands.opening import open_reading
    from kubehenge.commands.output import show
    from kubehenge.store.reads.sources import sources
    from kubehenge.store.reads.visible import EVERYTHING
    from kubehenge.store.rows import Verdict

    with open_reading() as reading:
        rows = [
            {
                "source": one.name,
                "url": one.url,
                "branch": one.branch,
                "path": one.path,
                "state": one.state,
                "reason": one.reason,
                "accepted": one.accepted_sha,
                "head": one.accepted_sha[:12],
                "subject": one.accepted_subject,
                "author": one.accepted_author,
                "seen": one.seen_sha,
                "lost_commits": one.lost_commits,
                "documents": one.documents,
                "accepted_documents": one.counts.get(Verdict.ACCEPTED, 0),
                "refused_documents": one.refused,
                "not_read": [{"path": path, "reason": reason} for path, reason in one.ignored],
                "polled_at": one.polled_at,
            }
            for one in sources(reading.session, reading.site_id, EVERYTHING)
        ]
    headings = {
        "source": "SOURCE",
        "url": "URL",
        "branch": "BRANCH",
        "state": "STATE",
        "head": "REVISION",
        "documents": "DOCUMENTS",
        "refused_documents": "REFUSED",
        "reason": "REASON",
    }
    show(frame, rows, headings, nothing="No sources. `kubehenge source add NAME URL` adds one.")


COMMANDS = (source,)
