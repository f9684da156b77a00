"""The process settings as a table, for docs/settings.md and `kubehenge settings --process`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from kubehenge.settings import SECRETS, Settings, described, variable


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingLine:
    """One setting in words; `value` and `default` are as people write them, and never a secret."""

    name: str
    what: str
    unit: str
    default: str
    why: str
    value: str
    given: bool


def lines(settings: Settings | None = None) -> tuple[SettingLine, ...]:
    """Return all settings, with the values of `settings` or without."""
    found = []
    for name, field in described().items():
        extra: dict[str, Any] = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        default = extra.get("shown") or _written(field.default)
        given = settings is not None and name in settings.model_fields_set
        value = _written(getattr(settings, name)) if given else default
        found.append(
            SettingLine(
                name=name,
                what=field.description or "",
                unit=extra.get("unit", ""),
                default=default,
                why=extra.get("why", ""),
                value="set" if given and name in SECRETS else value,
                given=given,
            )
        )
    return tuple(found)


def as_markdown() -> str:
    """Return the table of docs/settings.md."""
    rows = [
        f"| `{variable(line.name)}` | {line.what} | {line.unit} | {f'`{line.default}`' if line.default else ''} | {line.why} |"
        for line in lines()
    ]
    return "\n".join(["| Variable | What it is | Unit | Default | Why |", "|---|---|---|---|---|", *rows]) + "\n"


def _written(value: Any) -> str:
    match value:
        case None:
            return ""
        case SecretStr():
            return "set"
        case tuple():
            return ", ".join(str(item) for item in value)
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)
