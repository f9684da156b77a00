"""Printing what a command found: as a table for people, or as JSON or YAML for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

import click

from kubehenge.commands.frame import JSON, YAML, Frame


def show(frame: Frame, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, nothing: str) -> None:
    """
    Print rows. `columns` maps a row's key to the heading that a table gives it; JSON and YAML print all keys of each row.

    `nothing` is what a table says when there is no row.
    """
    if frame.output in {JSON, YAML}:
        show_value(frame, list(rows))
    elif not rows:
        click.echo(nothing)
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in columns.values():
            table.add_column(heading, overflow="fold")
        for row in rows:
            table.add_row(*(Text(_cell(row.get(key)), style=_style(key, row.get(key))) for key in columns))
        frame.console().print(table)


def show_value(frame: Frame, value: Any) -> None:
    """Print any value as YAML when that is asked for, as JSON otherwise."""
    plain = as_plain(value)
    if frame.output == YAML:
        import yaml

        click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, default_flow_style=False), nl=False)
    else:
        click.echo(json.dumps(plain, indent=2, ensure_ascii=False))


def as_plain(value: Any) -> Any:
    """Return a value as plain JSON: instants in ISO form, words of closed sets as text, dataclasses as their fields."""
    match value:
        case StrEnum():
            return value.value
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case Mapping():
            return {str(key): as_plain(item) for key, item in value.items()}
        case list() | tuple():
            return [as_plain(item) for item in value]
        case set() | frozenset():
            return sorted(as_plain(item) for item in value)
        case None | bool() | int() | float() | str():
            return value
        case _ if is_dataclass(value) and not isinstance(value, type):
            return as_plain(asdict(value))
        case _:
            return str(value)


def instant(value: datetime | None) -> str:
    """Write an instant as people read it: in local time, to the second; '' for none."""
    return value.astimezone().strftime("%Y-%m-%d %H:%M:%S") if value else ""


def _cell(value: Any) -> str:
    match value:
        case None | "":
            return "–"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return instant(value)
        case list() | tuple() | frozenset():
            return ", ".join(str(item) for item in value) or "–"
        case Mapping():
            return json.dumps(as_plain(value), ensure_ascii=False)
        case _:
            return str(value)


_GOOD = frozenset({"Available", "Done", "done", "accepted", "settled", "read", "ok"})
_BAD = frozenset(
    {"Failed", "Failed in part", "failed", "refused", "lost", "unreachable", "Run failed", "Cannot finish", "rewritten", "gone"}
)
_LOOK = frozenset(
    {"Needs a look", "Waiting for approval", "drift", "change and drift", "Held back", "Unknown", "unknown", "Stale", "suspect"}
)


def _style(key: str, value: Any) -> str:
    if key not in {"state", "word", "verdict"} or not isinstance(value, str):
        return ""
    return "green" if value in _GOOD else "red" if value in _BAD else "yellow" if value in _LOOK else ""
