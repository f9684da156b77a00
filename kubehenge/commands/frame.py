"""What all commands share: the options `-o` and `--no-color`, how a command ends, and the exit codes that it promises."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kubehenge.errors import KubehengeError

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])

OK = 0
FAILED = 1
USUAL_EXITS: Mapping[int, str] = {OK: "done", FAILED: "not done; the reason is printed"}

TABLE, JSON, YAML, MARKDOWN = "table", "json", "yaml", "markdown"


@dataclass(slots=True)
class Frame:
    """The options that stand before or after a command's name."""

    output: str = TABLE
    no_color: bool = False

    def console(self, *, stderr: bool = False) -> Console:
        """Return where to print: in colour on a terminal only, and cut to no width elsewhere."""
        from rich.console import Console

        stream = sys.stderr if stderr else sys.stdout
        plain = self.no_color or bool(os.environ.get("NO_COLOR"))
        wide = None if stream.isatty() else 10_000
        return Console(
            file=stream, no_color=plain, color_system="auto" if not plain else None, width=wide, highlight=False, soft_wrap=wide is not None
        )


class FailedError(click.ClickException):
    """A command that could not do its work; what is printed is the reason."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.code = exit_code


class Command(click.Command):
    """A command that says which exit codes it has, and ends with `cannot_run` when it cannot do its work."""

    def __init__(self, *arguments: Any, exits: Mapping[int, str] | None = None, cannot_run: int = FAILED, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.exits = exits or USUAL_EXITS
        self.cannot_run = cannot_run

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; an error of ours becomes its message and an exit code."""
        try:
            return super().invoke(ctx)
        except KubehengeError as error:
            raise FailedError(str(error), self.cannot_run) from error


class Group(click.Group):
    """A group of commands, listed in the order in which they were added."""

    command_class = Command
    group_class = type

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Keep the order of the subjects."""
        return list(self.commands)


pass_frame = click.make_pass_decorator(Frame, ensure=True)


def output_option(*more: str) -> Callable[[F], F]:
    """Give a command `-o`; the last one given counts, before or after the command's name."""

    def keep(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.ensure_object(Frame).output = value

    return click.option(
        "-o",
        "--output",
        type=click.Choice([TABLE, JSON, YAML, *more]),
        expose_value=False,
        callback=keep,
        help="How to print.  [default: table]",
    )


def color_option(function: F) -> F:
    """Give a command `--no-color`."""

    def keep(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            ctx.ensure_object(Frame).no_color = True

    return click.option("--no-color", is_flag=True, expose_value=False, callback=keep, help="Print without colours, as NO_COLOR asks.")(
        function
    )


def global_options(function: F) -> F:
    """Give the root command what all commands share."""
    return output_option(MARKDOWN)(color_option(function))


def run(root: click.Group, arguments: list[str] | None) -> int:
    """Run a command line and return its exit code; what goes wrong is one message on the error stream."""
    try:
        code = root.main(args=arguments, prog_name="kubehenge", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return _cannot_run(error.ctx)
    except click.ClickException as error:
        _say(error.format_message())
        return error.code if isinstance(error, FailedError) else FAILED
    except (click.Abort, KeyboardInterrupt):
        _say("stopped")
        return FAILED
    except BrokenPipeError:
        # Whoever read the output has had enough; without this Python complains again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception:  # noqa: BLE001 - the last resort: what it says passes the net for secrets
        return _mistake()
    return code if isinstance(code, int) else OK


def _cannot_run(ctx: click.Context | None) -> int:
    command = ctx.command if ctx else None
    return command.cannot_run if isinstance(command, Command) else FAILED


def _say(message: str) -> None:
    from kubehenge.log import redact

    click.echo(f"kubehenge: {redact(message)}", err=True)


def _mistake() -> int:
    import traceback

    _say(f"This is a mistake of Kubehenge's own. Please report it, with these lines:\n{traceback.format_exc()}")
    return FAILED


@contextmanager
def waiting(frame: Frame, text: str) -> Iterator[None]:
    """Show that something is going on, on a terminal only."""
    console = frame.console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield
