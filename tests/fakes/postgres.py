"""A private PostgreSQL server for tests: its own data directory, reached by a socket in it, run by an unprivileged user."""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from sqlalchemy import make_url

if TYPE_CHECKING:
    import psycopg


def find_binaries() -> Path | None:
    """Return the folder with initdb and postgres, on the path or where Debian puts them; None when they or psycopg are not there."""
    if find_spec("psycopg") is None:
        return None
    found = shutil.which("initdb")
    if found and shutil.which("postgres", path=str(Path(found).resolve().parent)):
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return installed[-1].parent if installed else None


class PostgresServer:
    """A server that lives as long as the process that made it; every test draws a database of its own."""

    def __init__(self, binaries: Path) -> None:
        # PostgreSQL's socket path may have 107 characters: pytest's own directories are often longer
        self.home = Path(mkdtemp(prefix="khpg"))
        self._run_as = _unprivileged()
        if self._run_as:
            shutil.chown(self.home, self._run_as)
        self._drawn = 0
        self._environment = {"LC_ALL": "C.UTF-8", "PATH": os.environ.get("PATH", "")}
        self._start(binaries / "initdb", "-D", "data", "-A", "trust", "-U", "kubehenge", "--no-sync", "-E", "UTF8").wait(90)
        options = ("listen_addresses=", "fsync=off", "shared_buffers=16MB", "max_connections=40")
        named = [part for option in options for part in ("-c", option)]
        self._server = self._start(binaries / "postgres", "-D", "data", "-k", str(self.home), *named)
        self._wait_until_it_answers()

    def draw(self, template: str = "template1") -> str:
        """Make a database, empty or like another one, and return its URL."""
        self._drawn += 1
        name = f"test{self._drawn}"
        with self._connect() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {make_url(template).database if '//' in template else template}")
        return f"postgresql://kubehenge@/{name}?host={self.home}"

    def stop(self) -> None:
        """Stop the server and remove its directory."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(60)
        shutil.rmtree(self.home, ignore_errors=True)

    def _start(self, program: Path, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.home / "log").open("ab") as log:
            return subprocess.Popen(
                [str(program), *arguments],
                cwd=self.home,
                env=self._environment,
                user=self._run_as,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - the fixture starts it before any test makes a thread
            )

    def _wait_until_it_answers(self) -> None:
        import psycopg

        deadline = time.monotonic() + 60
        while True:
            try:
                self._connect().close()
            except psycopg.OperationalError:
                if self._server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.home / "log").read_text(errors="replace")) from None
                time.sleep(0.1)
            else:
                return

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg

        return psycopg.connect(host=str(self.home), user="kubehenge", dbname="postgres", autocommit=True)


def _end_with_parent() -> None:
    """Have the kernel end it when the tests are killed (prctl(2), PR_SET_PDEATHSIG): no server is left behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


def _unprivileged() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name for user in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in known)
