"""
Process settings: what one process must know before it can open the database.

They come from the environment (`KUBEHENGE_<NAME>`) and, below it, from the TOML or ENV file that KUBEHENGE_CONFIG names. What
people change while it runs (workload pool, storages, rules) is no process setting: it stands in the database and in Git.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from kubehenge.errors import SettingsError
from kubehenge.settings_files import CONFIG_VARIABLE, PREFIX, file_source, read_secret_file


class LogFormat(StrEnum):
    """AUTO writes lines for people on a terminal and JSON elsewhere."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    """From the most to the least talkative."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _split(value: Any) -> Any:
    return tuple(part for part in value.replace(",", " ").split() if part) if isinstance(value, str) else value


def _is_https(value: tuple[str, ...]) -> tuple[str, ...]:
    for address in value:
        if not address.startswith("https://"):
            raise ValueError(f"{address} must start with https://")
    return tuple(address.rstrip("/") for address in value)


Endpoints = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split), AfterValidator(_is_https)]


def setting(default: Any, what: str, *, unit: str = "", why: str = "", shown: str = "", **bounds: Any) -> Any:
    """Describe one setting: what it is, its unit, and why the default is what it is. `shown` writes a default that is worked out."""
    extra = {"unit": unit, "why": why, "shown": shown}
    return Field(default=default, description=what, json_schema_extra=dict(extra), **bounds)


class Settings(BaseSettings):
    """All process settings; frozen, and safe to print (secrets are SecretStr)."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True, env_ignore_empty=True)

    state_dir: Path = setting(
        Path("/var/lib/kubehenge"),
        "Directory for the SQLite database, the bare Git repositories, the site key and the lock file.",
        why="Where the appliance keeps its state; a backup of it is a backup of Kubehenge.",
    )
    database_url: SecretStr | None = setting(
        None,
        "The state database: sqlite:////path/to/state.db or postgresql://user:password@host/name.",
        why="One file serves one appliance; PostgreSQL serves several replicas.",
        shown="sqlite:///<state_dir>/state.db",
    )
    database_url_file: Path | None = setting(None, "File that holds database_url instead.")
    site: str = setting(
        "default", "Name of the site that this process serves.", why="Most have one.", pattern=r"^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$"
    )

    proxmox_endpoints: Endpoints = setting(
        (),
        "Proxmox VE's addresses, such as https://pve1:8006, separated by commas.",
        why="Name all nodes: the driver moves on when one is away.",
    )
    proxmox_ca_file: Path | None = setting(
        None, "Certificate authority of Proxmox VE, PEM (/etc/pve/pve-root-ca.pem).", why="Without it the system's authorities count."
    )
    proxmox_token_id: str = setting("", "Kubehenge's own API token, such as kubehenge@pve!kubehenge.")
    proxmox_token_secret: SecretStr | None = setting(None, "Its secret.")
    proxmox_token_secret_file: Path | None = setting(None, "File that holds proxmox_token_secret instead.")
    proxmox_timeout_s: float = setting(
        30.0, "Time limit of one request to Proxmox VE.", unit="s", why="A loaded node answers within 20 s.", gt=0
    )
    proxmox_requests_per_s: float = setting(
        20.0, "Most requests to Proxmox VE.", unit="1/s", why="pveproxy has three workers; people use its page meanwhile.", gt=0
    )
    proxmox_tasks: int = setting(
        4, "Most tasks of Kubehenge running in Proxmox VE at once.", unit="tasks", why="Leaves room for people and backups.", ge=1
    )
    capmox_token_id: str = setting("", "The API token that Cluster API's Proxmox provider uses, such as capmox@pve!capmox.")
    capmox_token_secret: SecretStr | None = setting(None, "Its secret; it goes into each cluster's credentials Secret.")
    capmox_token_secret_file: Path | None = setting(None, "File that holds capmox_token_secret instead.")

    kubeconfig: Path | None = setting(
        None,
        "Kubeconfig of the management cluster: with a token, a client certificate, or a program that gives one.",
        why="A pod of the management cluster needs none: it signs in by its ServiceAccount.",
    )
    kube_timeout_s: float = setting(
        30.0, "Time limit of one request to the management cluster.", unit="s", why="A list of 1,000 Clusters takes 5 s.", gt=0
    )
    kube_requests_per_s: float = setting(
        20.0, "Most requests to the management cluster.", unit="1/s", why="What its priority levels give one client without queueing.", gt=0
    )

    git_timeout_s: float = setting(120.0, "Time limit of one call of git.", unit="s", why="A first fetch over a slow line.", gt=0)
    git_poll_s: float = setting(
        30.0, "Time between two looks at a source's branch.", unit="s", why="A webhook makes it quicker than any poll.", ge=2
    )
    fast_poll_s: float = setting(
        15.0, "Time between two readings of nodes and quorum.", unit="s", why="A node must be away in two readings to go.", ge=1
    )
    bulk_poll_s: float = setting(
        30.0, "Time between two readings of everything else.", unit="s", why="Twice a minute; one request per kind.", ge=1
    )
    workers: int = setting(
        4, "Plans carried out at once.", unit="threads", why="They wait for other systems most of the time.", ge=1, le=64
    )

    listen_address: str = setting("127.0.0.1", "Address of the page.", why="A reverse proxy stands in front of it on the appliance.")
    listen_port: int = setting(8443, "Port of the page.", ge=0, le=65535, why="Above 1023, so no privilege is needed. 0 takes a free one.")
    tls_cert_file: Path | None = setting(
        None, "Certificate of the page, PEM, with its chain.", why="Without it the page speaks HTTP, for a proxy on this machine."
    )
    tls_key_file: Path | None = setting(None, "Key of the certificate, PEM.")
    public_url: str = setting(
        "",
        "Address of the page as people write it, such as https://kubehenge.example.com.",
        why="For links in texts, and the only origin that forms come from.",
        shown="made from listen_address and listen_port",
    )
    proxies: int = setting(
        0,
        "Reverse proxies in front of the page that name the visitor's address.",
        unit="proxies",
        why="0 believes no header; the appliance sets 1.",
        ge=0,
        le=5,
    )
    threads: int = setting(
        8, "Threads of the page.", unit="threads", why="One process with threads, so that sessions stay in its memory.", ge=2, le=128
    )
    session_hours: float = setting(
        8.0, "A session ends after so long, however active.", unit="h", why="A working day; it can only be shorter.", gt=0, le=8
    )
    webhook_secrets_file: Path | None = setting(
        None,
        "File with one line per source, `<source> <secret>`, for signed webhooks.",
        why="Without it webhooks are refused, and sources are polled.",
    )
    metrics_token: SecretStr | None = setting(
        None, "Bearer token that /metrics asks for.", why="Without it /metrics answers this machine only."
    )
    metrics_token_file: Path | None = setting(None, "File that holds metrics_token instead.")

    sql_timeout_s: float = setting(
        10.0, "Time limit of one report in SQL.", unit="s", why="Reports share the database with the loops.", gt=0
    )
    sql_rows: int = setting(10_000, "Most rows of one report in SQL.", unit="rows", why="More belongs into an export.", ge=1)
    log_format: LogFormat = setting(LogFormat.AUTO, "auto, json or console.", why="Lines for people on a terminal, JSON elsewhere.")
    log_level: LogLevel = setting(LogLevel.INFO, "debug, info, warning or error.", why="info: something was done.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the file is named by KUBEHENGE_CONFIG alone
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Look at arguments first, then the environment, then the file that KUBEHENGE_CONFIG names."""
        path = os.environ.get(CONFIG_VARIABLE)
        if not path:
            return init_settings, env_settings
        return init_settings, env_settings, file_source(settings_cls, Path(path))

    @model_validator(mode="before")
    @classmethod
    def _read_secret_files(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        read = dict(values)
        for name in SECRETS:
            path = read.get(f"{name}_file")
            if path in {None, ""}:
                continue
            if read.get(name) not in {None, ""}:
                raise ValueError(f"{variable(name)} and {variable(name)}_FILE are both set: keep one")
            read[name] = read_secret_file(Path(str(path)), f"{variable(name)}_FILE")
        return read

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("KUBEHENGE_TLS_CERT_FILE and KUBEHENGE_TLS_KEY_FILE go together: set both or neither")
        for token, secret in (("proxmox_token_id", self.proxmox_token_secret), ("capmox_token_id", self.capmox_token_secret)):
            given = getattr(self, token)
            if given and ("@" not in given or "!" not in given):
                raise ValueError(f"{variable(token)} must look like user@realm!name")
            if bool(given) != (secret is not None):
                raise ValueError(f"{variable(token)} and its secret go together: set both or neither")
        return self

    @property
    def database(self) -> SecretStr:
        """The URL of the state database, made from `state_dir` where none is given."""
        return self.database_url or SecretStr(f"sqlite:///{self.state_dir.absolute()}/state.db")

    @property
    def secrets(self) -> tuple[SecretStr | None, ...]:
        """All secrets of this process, for `log.keep_out`."""
        password = urlsplit(self.database.get_secret_value()).password
        return SecretStr(password) if password else None, self.proxmox_token_secret, self.capmox_token_secret, self.metrics_token

    @property
    def page_url(self) -> str:
        """The address of the page as people write it, without a slash at its end."""
        scheme = "https" if self.tls_cert_file else "http"
        return self.public_url.rstrip("/") or f"{scheme}://{self.listen_address}:{self.listen_port}"


SECRETS = ("database_url", "proxmox_token_secret", "capmox_token_secret", "metrics_token")
"""Settings that may be given as a file."""


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def load_settings(**given: Any) -> Settings:
    """Read the settings; `given` wins over environment and file. Errors: SettingsError with a line for each thing that is wrong."""
    try:
        return Settings(**given)
    except ValidationError as error:
        lines = [_in_words(detail) for detail in error.errors(include_url=False, include_input=False, include_context=False)]
        raise SettingsError("\n".join(["Kubehenge's settings are wrong:", *(f"  {line}" for line in lines)])) from None


def described() -> Mapping[str, FieldInfo]:
    """Return all settings by name, for documentation and `doctor`."""
    return Settings.model_fields


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return variables that look like ours and are none: misspelt ones are otherwise passed over in silence."""
    known = {variable(name) for name in described()} | {CONFIG_VARIABLE}
    return tuple(sorted(name for name in environ if name.startswith(PREFIX) and name not in known))


def _in_words(detail: Any) -> str:
    message = str(detail["msg"]).removeprefix("Value error, ")
    place = detail["loc"]
    if not place:
        return message
    name = str(place[0])
    if detail["type"] == "extra_forbidden":
        return f"{name} is no setting; see docs/settings.md"
    return f"{variable(name) if name in described() else name}: {message}"
