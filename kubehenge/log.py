"""
Logging: constant past-tense events with fields, JSON or lines for people, and a last net that keeps secrets out.

Code says `log = get_logger()` and `log.info("plan_opened", plan=7)`. Nothing passes a secret on purpose; the net is for texts of
other programs. What other libraries log through `logging` goes the same way.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, MutableMapping
from typing import Any, TextIO

import structlog
from pydantic import SecretStr
from structlog.typing import EventDict, FilteringBoundLogger, Processor

REDACTED = "[redacted]"

_SECRET_KEYS = re.compile(
    r"(secret|password|passphrase|ticket|authorization|cookie|csrf|kubeconfig|private_key|otp)s?$|(^|_)token$", re.IGNORECASE
)
_SECRET_TEXTS = (
    (re.compile(r"(PVEAPIToken[=\s]+[^=\s]+=)[^\s'\",]+"), r"\1" + REDACTED),
    (re.compile(r"PVE(?:\w+)?:[^:\s]+:[0-9A-F]{8}::[A-Za-z0-9+/=]+"), REDACTED),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), r"\1 " + REDACTED),
    (re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"), REDACTED),
    (re.compile(r"(://[^/\s:@]*:)[^/\s@]+@"), r"\1" + REDACTED + "@"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL), REDACTED),
)

_kept_out: set[str] = set()


def get_logger(**fields: Any) -> FilteringBoundLogger:
    """Return a logger with fields that stand in each of its lines."""
    logger: FilteringBoundLogger = structlog.get_logger(**fields)
    return logger


def keep_out(secrets: Iterable[SecretStr | None]) -> None:
    """Remember secrets of this process, so that no line holds them, whatever text they are part of."""
    _kept_out.update(value for secret in secrets if secret is not None and len(value := secret.get_secret_value()) >= 8)


def redact(text: str) -> str:
    """Take out of a text what looks like a secret, and all that `keep_out` was told."""
    for secret in _kept_out:
        text = text.replace(secret, REDACTED)
    for pattern, replacement in _SECRET_TEXTS:
        text = pattern.sub(replacement, text)
    return text


def configure(*, level: str = "info", form: str = "auto", stream: TextIO | None = None) -> None:
    """Send all logging to a stream (stderr): `json`, `console`, or `auto` for console on a terminal. Colours on terminals only."""
    out = stream if stream is not None else sys.stderr
    on_terminal = out.isatty()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.format_exc_info,
        _redact_event,
    ]
    renderer: Processor
    if form == "console" or (form == "auto" and on_terminal):
        renderer = structlog.dev.ConsoleRenderer(colors=on_terminal, timestamp_key="at", exception_formatter=structlog.dev.plain_traceback)
    else:
        renderer = structlog.processors.JSONRenderer(sort_keys=True, default=str)
    numeric = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=structlog.PrintLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _redact_event, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(numeric, logging.INFO))
    for chatty in ("alembic", "urllib3", "kubernetes", "proxmoxer", "werkzeug"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)


def _redact_event(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {key: _redact_value(key, value) for key, value in event.items()}


def _redact_value(key: str, value: Any) -> Any:
    if isinstance(value, SecretStr) or (_SECRET_KEYS.search(key) and value not in {None, ""} and not isinstance(value, bool | int | float)):
        return REDACTED
    match value:
        case str():
            return redact(value)
        case MutableMapping():
            return {name: _redact_value(str(name), item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_redact_value(key, item) for item in value]
        case bool() | int() | float() | None:
            return value
        case _:
            return redact(str(value))
