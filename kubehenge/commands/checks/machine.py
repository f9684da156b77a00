"""What `doctor` finds on this machine: programs, settings, the state directory, files that settings name."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kubehenge.drivers.findings import Finding
from kubehenge.errors import KubehengeError
from kubehenge.settings import Settings, unknown_variables, variable
from kubehenge.settings_files import CONFIG_VARIABLE, read_webhook_secrets
from kubehenge.settings_table import lines
from kubehenge.source.git import MINIMUM_GIT, installed_git
from kubehenge.source.git_process import GitRunner
from kubehenge.wiring import KEY_FILE

OLDEST_SQLITE = (3, 35, 0)
"""RETURNING, which the database layer uses, came with 3.35."""

LEAST_FREE_BYTES = 1 << 30
CERTIFICATE_ENDS_SOON = timedelta(days=14)


def programs() -> Iterator[Finding]:
    """Look at Python, SQLite and git."""
    found = sqlite3.sqlite_version_info >= OLDEST_SQLITE
    yield Finding(
        what="Python and SQLite",
        ok=found,
        detail=f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        mend="" if found else "Use a Python whose SQLite is 3.35 or newer, or PostgreSQL.",
    )
    oldest = ".".join(map(str, MINIMUM_GIT))
    mend = f"Install git {oldest} or newer."
    try:
        version = installed_git(GitRunner(Path(os.devnull)))
    except (KubehengeError, OSError) as error:
        yield Finding(what="git", ok=False, detail=str(error), mend=mend)
        return
    enough = version >= MINIMUM_GIT
    yield Finding(what="git", ok=enough, detail=f"version {'.'.join(map(str, version))}", mend="" if enough else mend)


def settings_given(settings: Settings) -> Iterator[Finding]:
    """Say what is set, without secrets, and which variables mean nothing."""
    given = [f"{variable(line.name)}={line.value}" for line in lines(settings) if line.given]
    path = os.environ.get(CONFIG_VARIABLE)
    origin = f" (file {path} and the environment)" if path else ""
    yield Finding(what=f"settings{origin}", ok=True, detail="\n".join(given) or "none; all are at their defaults")
    for name in unknown_variables(os.environ):
        yield Finding(
            what=name, ok=False, detail="is set and means nothing", mend="It may be misspelt: `kubehenge settings --process` lists all."
        )


def state_directory(settings: Settings) -> Iterator[Finding]:
    """Look at the directory of the database, the Git mirrors and the site key."""
    path = settings.state_dir
    what = f"state directory {path}"
    if not path.is_dir():
        yield Finding(
            what=what, ok=False, detail="not there", mend=f"Make it for the user that runs Kubehenge: install -d -m 700 -o USER {path}"
        )
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o027:
        yield Finding(what=what, ok=False, detail=f"mode {mode:04o}: others can look into it", mend=f"chmod 700 {path}")
    elif not os.access(path, os.W_OK | os.X_OK):
        yield Finding(what=what, ok=False, detail="cannot be written by this user", mend="Give it to the user that runs Kubehenge.")
    else:
        yield Finding(what=what, ok=True, detail=f"mode {mode:04o}, writable")
    free = shutil.disk_usage(path).free
    enough = free >= LEAST_FREE_BYTES
    mend = "" if enough else "Free some: a full disk stops everything that is written."
    yield Finding(what="space for it", ok=enough, detail=f"{free / (1 << 30):.1f} GiB free", mend=mend)
    key = path / KEY_FILE
    if key.exists():
        mode = stat.S_IMODE(key.stat().st_mode)
        private = not mode & 0o077
        yield Finding(what=f"site key {key}", ok=private, detail=f"mode {mode:04o}", mend="" if private else f"chmod 600 {key}")


def files(settings: Settings) -> Iterator[Finding]:
    """Look at the files that settings name."""
    for name in ("proxmox_ca_file", "kubeconfig"):
        path = getattr(settings, name)
        if path is not None:
            readable = os.access(path, os.R_OK)
            yield Finding(
                what=f"{variable(name)} {path}",
                ok=readable,
                detail="readable" if readable else "not there, or not readable by this user",
                mend="" if readable else "Name another file, or give this user the right to read it.",
            )
    try:
        known = read_webhook_secrets(settings.webhook_secrets_file)
    except KubehengeError as error:
        yield Finding(what="webhook secrets", ok=False, detail=str(error))
    else:
        if known:
            yield Finding(what="webhook secrets", ok=True, detail=f"for {', '.join(sorted(known))}")
    if settings.tls_cert_file is not None and settings.tls_key_file is not None:
        yield _certificate(settings.tls_cert_file, settings.tls_key_file)


def _certificate(cert: Path, key: Path) -> Finding:
    import ssl

    from cryptography import x509

    what = f"certificate of the page {cert}"
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key)
        ends = x509.load_pem_x509_certificate(cert.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        return Finding(
            what=what, ok=False, detail=f"cannot be used with {key}: {error}", mend="Name a certificate and its own key, PEM, readable."
        )
    left = ends - datetime.now(UTC)
    if left < CERTIFICATE_ENDS_SOON:
        return Finding(what=what, ok=False, detail=f"ends {ends:%Y-%m-%d}", mend="Renew it, and start Kubehenge again.")
    return Finding(what=what, ok=True, detail=f"fits its key, good until {ends:%Y-%m-%d}")
