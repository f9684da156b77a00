"""`kubehenge lab`: a simulated site on this machine, with Kubehenge beside it, to try things out and to break them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubehenge.commands.frame import FAILED, JSON, YAML, Frame, Group, output_option, pass_frame
from kubehenge.commands.output import show, show_value

if TYPE_CHECKING:
    from kubehenge.lab.description import Description

F = TypeVar("F", bound=Callable[..., Any])

_STOP_WITHIN_S = 90.0


def directory_option(function: F) -> F:
    """Give a command `--dir`."""
    return click.option(
        "--dir",
        "directory",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("lab-site"),
        show_default=True,
        help="The lab's directory.",
    )(function)


@click.group(cls=Group)
def lab() -> None:
    """
    Run a simulated site on this machine.

    It is Proxmox VE with three nodes, a management cluster and a Git repository, all simulated, with Kubehenge beside them.
    """


@lab.command()
@directory_option
@click.option(
    "--speed", type=click.FloatRange(min=0), default=None, help="Simulated seconds in a second; 0 is instant.  [default: as it was; 60]"
)
@pass_frame
def up(frame: Frame, directory: Path, speed: float | None) -> int:
    """Start the lab and Kubehenge, and show what goes on until Ctrl-C."""
    _require_lab()
    from kubehenge.lab.up import Up

    console = frame.console()

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    def ready(description: Description) -> None:
        say(_welcome(description, directory))

    ended_in_order = Up(directory, speed, say, ready).run()
    return 0 if ended_in_order else FAILED


@lab.command()
@directory_option
def down(directory: Path) -> None:
    """Stop the lab and Kubehenge, as Ctrl-C where they were started does; `up` goes on where they were."""
    import os
    import time

    from kubehenge.errors import UsageError
    from kubehenge.lab.places import Places, holder_of

    places = Places.of(directory)
    locks = [lock for lock in (places.up_lock, places.lock) if holder_of(lock) is not None]
    if not locks:
        raise UsageError(f"No lab runs in {places.root}.")
    if (pid := holder_of(locks[0])) is not None:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_WITHIN_S
    while any(holder_of(lock) is not None for lock in locks):
        if time.monotonic() > deadline:
            raise UsageError(f"The lab in {places.root} does not end. Its log is in {places.logs}.")
        time.sleep(0.1)
    click.echo(f"The lab in {places.root} is stopped.")


@lab.command()
@directory_option
@output_option()
@pass_frame
def status(frame: Frame, directory: Path) -> None:
    """Show what the lab is doing, and where everything is."""
    from kubehenge.lab.description import ControlClient, read_description
    from kubehenge.lab.places import Places, holder_of

    description = read_description(directory)
    running = holder_of(Places.of(directory).lock) is not None
    found = ControlClient(directory).call("GET", "/state")["lab"] if running else {}
    if frame.output in {JSON, YAML}:
        show_value(frame, {"running": running, **found, "page": description["page"]["url"], "git": description["git"]})
        return
    if not running:
        click.echo(f"The lab in {description['directory']} does not run.")
        return
    online = ", ".join(node if state["online"] else f"{node} (offline)" for node, state in found["nodes"].items())
    click.echo(f"Page    {description['page']['url']}")
    click.echo(f"Git     {description['git']['path']}")
    click.echo(f"Nodes   {online}; {'quorum' if found['quorate'] else 'no quorum'}")
    click.echo(f"Speed   {found['speed']:g} times life")
    click.echo(f"Faults  {found['faults'] or 'none'}\n")
    columns = {"name": "CLUSTER", "phase": "PHASE", "version": "VERSION", "machines": "MACHINES", "machines_running": "RUNNING"}
    show(frame, found["clusters"], columns, nothing="The management cluster has no clusters.")


@lab.command()
@directory_option
@click.argument("times", type=click.FloatRange(min=0))
def speed(directory: Path, times: float) -> None:
    """Let the lab's time pass TIMES as fast as life; 0 is instant."""
    now = _control(directory)("POST", "/speed", {"speed": times})["speed"]
    click.echo(f"The lab lives {now:g} times as fast as we do." if now else "In the lab nothing takes any time.")


@lab.command()
@directory_option
@click.argument("name")
@click.argument("state", type=click.Choice(["online", "offline"]))
@click.option("--crash", is_flag=True, help="With offline: its machines stop too, as when the power fails.")
def node(directory: Path, name: str, state: str, crash: bool) -> None:
    """Take a Proxmox VE node off the network, or bring it back."""
    answer = _control(directory)("POST", f"/nodes/{name}", {"online": state == "online", "crash": crash})
    click.echo(f"{answer['node']} is {'online' if answer['online'] else 'offline'}.")


@lab.command()
@directory_option
@click.argument("state", type=click.Choice(["on", "off"]))
def quorum(directory: Path, state: str) -> None:
    """Take quorum away from Proxmox VE (off), or give it back (on)."""
    answer = _control(directory)("POST", "/quorum", {"quorate": state == "on"})
    click.echo("Proxmox VE has quorum." if answer["quorate"] else "Proxmox VE has no quorum: it refuses every change.")


# ---- faults


@lab.group()
def faults() -> None:
    """Make the simulated servers slow, wrong or silent while they run."""


@faults.command("add")
@directory_option
@click.option("--target", type=click.Choice(["proxmox", "kube"]), required=True, help="The server.")
@click.option(
    "--action",
    type=click.Choice(["slow", "refuse", "status", "html", "late_answer", "lose_answer", "cut"]),
    required=True,
    help="slow: carried out late. refuse: not carried out, no answer. status: an error instead. html: the same as a proxy's page. "
    "late_answer: carried out, answered late. lose_answer: carried out, no answer. cut: carried out, half an answer.",
)
@click.option("--method", default="*", show_default=True, help="HTTP method of the requests that it meets.")
@click.option("--path", default="", help="Regular expression, looked for in the request's path and query.  [default: every path]")
@click.option("--status", type=click.IntRange(400, 599), default=500, show_default=True, help="Status of status and html.")
@click.option("--reason", default="", help="What status says.")
@click.option(
    "--delay", type=click.FloatRange(min=0), default=0.0, help="Seconds before anything happens; with late_answer, before the answer."
)
@click.option("--times", type=click.IntRange(min=1), default=None, help="How many requests it meets.  [default: all]")
def add_fault(directory: Path, delay: float, **given: Any) -> None:
    """Switch a fault on."""
    rule = _control(directory)("POST", "/faults", {**given, "delay_s": delay})
    click.echo(f"Fault {rule['id']} is on. `kubehenge lab faults clear {rule['id']}` switches it off.")


@faults.command("list")
@directory_option
@output_option()
@pass_frame
def list_faults(frame: Frame, directory: Path) -> None:
    """List the faults that are on."""
    found = _control(directory)("GET", "/faults")["faults"]
    columns = ("id", "target", "action", "method", "path", "status", "delay_s", "times")
    show(frame, found, {name: name.upper() for name in columns}, nothing="No fault is on.")


@faults.command("clear")
@directory_option
@click.argument("name", required=False)
def clear_faults(directory: Path, name: str | None) -> None:
    """Switch one fault off, or all."""
    _control(directory)("DELETE", f"/faults/{name}" if name else "/faults")
    click.echo(f"Fault {name} is off." if name else "No fault is on.")


def _control(directory: Path) -> Callable[..., dict[str, Any]]:
    _require_lab()
    from kubehenge.lab.description import ControlClient

    return ControlClient(directory).call


def _require_lab() -> None:
    """The lab is an extra; say so, rather than which module is missing."""
    from importlib.util import find_spec

    from kubehenge.errors import UsageError

    if find_spec("fakepve") is None or find_spec("aiohttp") is None:
        raise UsageError("The lab is not installed. Install Kubehenge with its extra `lab`: kubehenge[lab].")


def _welcome(description: Description, directory: Path) -> str:
    administrator, viewer = (_person(description["sign_ins"][name]) for name in ("administrator", "viewer"))
    return f"""
Kubehenge is up.

  Page           {description["page"]["url"]}
  Certificate    by the lab's own authority: {description["ca_file"]}
  Administrator  {administrator}
  Few rights     {viewer}
  Git            git clone {description["git"]["path"]}
  Command line   export KUBEHENGE_CONFIG={description["settings_file"]} PATH={Path(sys.executable).parent}:$PATH
  For scripts    {description["directory"]}/lab.json

Clusters come up by themselves. Then a plan waits for you: an upgrade of staging. Ctrl-C stops everything; `kubehenge lab up{_dir(directory)}`
goes on where it was.
"""


def _person(sign_in: dict[str, str]) -> str:
    return f"{sign_in['username']}, realm {sign_in['realm']}, password {sign_in['password']}"


def _dir(directory: Path) -> str:
    return "" if directory == Path("lab-site") else f" --dir {directory}"


COMMANDS = (lab,)
