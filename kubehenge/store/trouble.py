"""What a database's own errors mean to people, and what to do about them."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from kubehenge.errors import KubehengeError, TransientError


class DatabaseError(KubehengeError):
    """The state database cannot be used until a person does something."""


class DatabaseBusyError(TransientError):
    """The state database cannot be used just now; nothing was written, so the same may be tried again."""


_SQLITE: dict[str, str] = {
    "SQLITE_FULL": "is full: its disk has no space left. Free some; nothing was written, and Kubehenge goes on by itself.",
    "SQLITE_READONLY": "cannot be written: the file or its directory is read-only for this user. Give Kubehenge's user both, or mount the disk for writing.",
    "SQLITE_CANTOPEN": "cannot be opened: check that its directory is there and that this user may write to it.",
    "SQLITE_PERM": "cannot be opened: this user has no right to it.",
    "SQLITE_NOTADB": "is no SQLite database. Name another file, or put back a backup.",
    "SQLITE_CORRUPT": "is damaged. Stop Kubehenge and put back a backup; keep the damaged file.",
    "SQLITE_IOERR": "cannot be read or written: its disk answers with an error.",
}
"""By SQLite's primary result code (https://sqlite.org/rescode.html)."""

_POSTGRESQL: dict[str, str] = {
    "53100": "is full: PostgreSQL has no disk space left. Free some; nothing was written, and Kubehenge goes on by itself.",
    "53300": "has no connection left: raise max_connections, or run fewer replicas.",
    "25006": "is read-only, as a standby is. Name the primary.",
    "28P01": "refuses this user and password.",
    "28000": "refuses this user: see pg_hba.conf.",
    "3D000": "does not exist: make it with createdb.",
    "42501": "does not let this user do that: make it the owner of the database.",
}
"""By SQLSTATE (PostgreSQL, appendix A)."""

_TRANSIENT = frozenset({"SQLITE_FULL", "53100", "53300"})

_RETRY = frozenset({"40001", "40P01", "55P03"})
"""Serialization failure, deadlock, lock timeout."""


def explain(error: DBAPIError | PoolTimeoutError, where: str) -> KubehengeError | None:
    """Return what a database's error means to people, or None when it is a mistake of ours, such as a broken constraint."""
    if isinstance(error, PoolTimeoutError):
        return DatabaseBusyError(f"The state database {where} has no free connection: too much is going on at once. Try again.")
    original = error.orig
    name = getattr(original, "sqlite_errorname", None)
    if isinstance(name, str):
        primary = "_".join(name.split("_")[:2])
        if primary in {"SQLITE_BUSY", "SQLITE_LOCKED"}:
            return DatabaseBusyError(f"The state database {where} is being written by another process for too long. Try again.")
        return _made(_SQLITE, primary, where)
    state = getattr(original, "sqlstate", None)
    if state in _RETRY:
        return DatabaseBusyError(f"The state database {where} was being changed by another process at the same moment. Try again.")
    if isinstance(state, str) and state in _POSTGRESQL:
        return _made(_POSTGRESQL, state, where)
    if error.connection_invalidated or (state is None and type(original).__name__ == "OperationalError") or _went_away(state):
        reason = str(original).strip().splitlines()[0] if original else "no answer"
        found = next((text for text in _POSTGRESQL if _says(text, str(original))), None)
        return _made(_POSTGRESQL, found, where) if found else DatabaseBusyError(f"The state database {where} cannot be reached: {reason}")
    return None


def _made(texts: dict[str, str], code: str, where: str) -> KubehengeError | None:
    text = texts.get(code)
    if text is None:
        return None
    kind = DatabaseBusyError if code in _TRANSIENT else DatabaseError
    return kind(f"The state database {where} {text}")


def _went_away(state: str | None) -> bool:
    """Class 08 is a broken connection, 57P01 to 57P03 a server that stops or starts."""
    return state is not None and (state.startswith("08") or state in {"57P01", "57P02", "57P03", "25P03"})


def _says(state: str, text: str) -> bool:
    """Recognise what psycopg says without a SQLSTATE, which it has none of while connecting."""
    said = {
        "28P01": "password authentication failed",
        "28000": "no pg_hba.conf entry",
        "3D000": '" does not exist',
        "53300": "too many clients already",
    }
    return state in said and said[state] in text
