"""The processes that `kubehenge lab up` starts: each with a log, each ended by it, and ended even when it is killed itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kubehenge.settings_files import PREFIX

_LARGEST_LOG = 10 * 1024 * 1024
_LAST_LINES = 15
LOOPBACK = "127.0.0.1,localhost"


@dataclass(slots=True)
class Child:
    """A process of ours; `log` is the file that it writes to."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    def ended(self) -> int | None:
        """Return its exit code, None while it runs."""
        return self.process.poll()

    def stop(self, timeout_s: float) -> None:
        """Let it end in order; kill it when it doesn't."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()

    def last_lines(self) -> str:
        """Return the end of its log, for people."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        return "\n".join(f"  {line}" for line in lines)


def start_child(name: str, arguments: list[str], *, logs: Path, environment: Mapping[str, str]) -> Child:
    """
    Start Python with these arguments, in a session of its own, so that Ctrl-C in the terminal reaches only us, who stop things in order.

    Shape: `environment` is added to ours, from which Kubehenge's own variables are taken out: they are about another site.
    """
    log = logs / f"{name}.log"
    if log.exists() and log.stat().st_size > _LARGEST_LOG:
        log.replace(log.with_suffix(".log.1"))
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "kubehenge.lab.child", str(os.getpid()), sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**clean_environment(), **environment},
            start_new_session=True,
        )
    return Child(name=name, log=log, process=process)


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what would lead its children elsewhere: the lab is on this machine, proxy or not."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    for name in ("NO_PROXY", "no_proxy"):
        kept[name] = ",".join(part for part in (kept.get(name, ""), LOOPBACK) if part)
    return kept
