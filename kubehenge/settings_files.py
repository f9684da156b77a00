"""The files that process settings come from: the one that KUBEHENGE_CONFIG names, and small ones that hold secrets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr
from pydantic_settings import BaseSettings, DotEnvSettingsSource, InitSettingsSource, PydanticBaseSettingsSource, TomlConfigSettingsSource

from kubehenge.errors import SettingsError

PREFIX = "KUBEHENGE_"
CONFIG_VARIABLE = "KUBEHENGE_CONFIG"
LARGEST_SECRET = 65_536
"""Bytes."""


def file_source(settings_cls: type[BaseSettings], path: Path) -> PydanticBaseSettingsSource:
    """Return the source for a TOML file (names in lower case) or an ENV file (variables). Raises SettingsError, in words."""
    if not path.is_file():
        raise SettingsError(f"{CONFIG_VARIABLE} names {path}, which is no file.")
    try:
        if path.suffix == ".toml":
            return TomlConfigSettingsSource(settings_cls, toml_file=path)
        if path.suffix == ".env":
            source = DotEnvSettingsSource(settings_cls, env_file=path, env_prefix=PREFIX)
            return InitSettingsSource(settings_cls, init_kwargs=source())
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read as settings: {error}") from error
    raise SettingsError(f"{CONFIG_VARIABLE} names {path}: its name must end in .toml or .env.")


def read_secret_file(path: Path, named_by: str) -> str:
    """Read a small file that a setting names, without white space at its ends. Raises ValueError, in words."""
    try:
        if path.stat().st_size > LARGEST_SECRET:
            raise ValueError(f"{named_by} names {path}, which is too large for a secret")
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ValueError(f"{named_by} names {path}, which cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{named_by} names {path}, which is not text") from None


def read_webhook_secrets(path: Path | None) -> Mapping[str, SecretStr]:
    """Read one line per source, `<source> <secret>`; `#` begins a comment. Errors: SettingsError naming the line."""
    if path is None:
        return {}
    try:
        text = read_secret_file(path, f"{PREFIX}WEBHOOK_SECRETS_FILE")
    except ValueError as error:
        raise SettingsError(f"{error}.") from error
    found: dict[str, SecretStr] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        name, _, secret = line.strip().partition(" ")
        if not name or name.startswith("#"):
            continue
        if not secret.strip():
            raise SettingsError(f"{path}, line {number}: write `<source> <secret>`.")
        found[name] = SecretStr(secret.strip())
    return found
