"""Answers of the real Proxmox VE 9.2 API code, replayed against the simulator and compared."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kubehenge.lab.proxmox.rights import AclRow, SubjectKind
from tests.lab.proxmox.running import Answer, RunningProxmox

DATA = Path(__file__).parent / "data"

# Facts of the host and of the moment; who answered is not in them.
_VOLATILE = """
    avail boot-info cgroup-mode cpu cpuinfo ctime current-kernel digest disk diskread diskwrite endtime idle ip ksm kversion
    loadavg local maxcpu mem memhost memory meta netin netout pid pstart pveversion rootfs smbios1 ssl_fingerprint starttime swap
    ticket total upid uptime used used_fraction value vmgenid wait CSRFPreventionToken
"""
VOLATILE = frozenset(_VOLATILE.split())
_MASKS = (
    (re.compile(r"UPID:(\w+):[0-9A-F]{8}:[0-9A-F]{8,9}:[0-9A-F]{8}:"), r"UPID:\1:*:"),
    (re.compile(r"(?:[0-9A-F]{2}:){5}[0-9A-F]{2}"), "MAC"),
    (re.compile(r"(100/base-100|vm-100)-disk-\d+"), r"\1-disk-N"),  # numbered by chance in the recording
    (re.compile(r"conf\.tmp(?:\.\d+)?"), "conf.tmp"),
)


def load(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def known_differences(name: str) -> dict[int, str]:
    return {int(n): reason for n, reason in json.loads((DATA / f"{name}-differences.json").read_text()).items()}


def masked(value: Any, *, key: str = "") -> Any:
    """A value as it is compared: volatile parts hidden, lists (whose order Proxmox VE changes from call to call) sorted."""
    if isinstance(value, dict):
        known = {name: part for name, part in value.items() if (name, part) != ("email", "")}  # comes and goes
        return {name: "*" if name in VOLATILE else masked(part, key=name) for name, part in sorted(known.items())}
    if isinstance(value, list):
        return sorted((masked(part, key=key) for part in value), key=lambda part: json.dumps(part, sort_keys=True))
    if isinstance(value, str):
        if key in {"content", "nodes"} and " " not in value:
            return ",".join(sorted(value.split(",")))
        for pattern, text in _MASKS:
            value = pattern.sub(text, value)
    return value


def compare(row: dict[str, Any], answer: Answer, exitstatus: str | None) -> list[str]:
    """What differs, in words; nothing when the simulator answers as Proxmox VE did."""
    found = []
    if answer.status != row["status"]:
        found.append(f"status {answer.status}, recorded {row['status']}")
    if masked(answer.reason) != masked(row["reason"]):
        found.append(f"reason {answer.reason!r}, recorded {row['reason']!r}")
    if not row.get("cut") and masked(answer.body) != masked(row["body"]):
        found.append(f"body {json.dumps(masked(answer.body))}, recorded {json.dumps(masked(row['body']))}")
    if "task" in row and masked(exitstatus or "") != masked(row["task"]["exitstatus"] or ""):
        found.append(f"task {exitstatus!r}, recorded {row['task']['exitstatus']!r}")
    return found


class Replay:
    """
    A recording made once more.

    Subclasses build the world it began in, and say what was done to it beside the recorded calls (`before`), which secrets and files
    calls had (`secrets`), and how each caller signs in (`auth`).
    """

    before: Mapping[int, Callable[[Any], None]] = {}
    secrets: Mapping[int, Callable[[Any], dict[str, Any]]] = {}

    def __init__(self, proxmox: RunningProxmox) -> None:
        self.proxmox = proxmox
        self.server = proxmox.server
        self.upids: dict[str, str] = {}
        self.do(lambda replay: replay.build())

    def build(self) -> None:
        """Set up what there was before the first call."""

    def auth(self, row: dict[str, Any]) -> Any:
        raise NotImplementedError

    def other(self, row: dict[str, Any]) -> None:
        """A line that is no call."""

    def seen(self, row: dict[str, Any], answer: Answer) -> None:
        """Note what later calls need of an answer."""

    def do(self, change: Callable[[Any], None]) -> None:
        """Change the world in the simulator's own loop."""
        self.proxmox.within(lambda: change(self))
        self.proxmox.within(self.server.rights.changed)

    def give(self, path: str, subject: str, role: str, *, propagate: bool = True) -> None:
        kind = SubjectKind.TOKEN if "!" in subject else SubjectKind.USER if "@" in subject else SubjectKind.GROUP
        self.server.rights.put_row(AclRow(path=path, kind=kind, subject=subject, role=role, propagate=propagate))

    def run(self, rows: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], list[str]]]:
        """Each recorded call with what differs."""
        for row in rows:
            if "method" not in row:
                self.other(row)
                continue
            if row["n"] in self.before:
                self.do(self.before[row["n"]])
            answer = self._call(row)
            exitstatus = None
            if isinstance(answer.body, dict) and str(answer.body.get("data")).startswith("UPID:"):
                exitstatus = self.server.tasks[answer.data].get("exitstatus")
                if str(row["body"].get("data")).startswith("UPID:"):
                    self.upids[row["body"]["data"]] = answer.data
            self.seen(row, answer)
            yield row, compare(row, answer, exitstatus)

    def _call(self, row: dict[str, Any]) -> Answer:
        secrets = self.secrets.get(row["n"])
        params = {**row["params"], **(secrets(self) if secrets else {})}
        path = row["path"]
        for recorded, own in self.upids.items():
            path = path.replace(recorded, own)
        return self.proxmox.call(row["method"], path, self.auth(row), **params)


def check(name: str, replay: Replay) -> str:
    """
    Replay a recording and compare; returns how many calls agree, in words.

    Fails on a difference that is not listed with its reason, and on one that is listed and gone.
    """
    rows = load(name)
    known = known_differences(name)
    found = {row["n"]: (row, differences) for row, differences in replay.run(rows) if differences}
    calls = sum("method" in row for row in rows)
    new = [
        f"{n} {row['as']}: {row['method']} {row['path']} {row['params']}\n    " + "\n    ".join(differences)
        for n, (row, differences) in sorted(found.items())
        if n not in known
    ]
    assert not new, f"{len(new)} of {calls} calls are answered otherwise than Proxmox VE did:\n" + "\n".join(new)
    assert not set(known) - set(found), (
        f"answered alike by now: {sorted(set(known) - set(found))}; take them out of {name}-differences.json"
    )
    return f"{calls - len(found)} of {calls} recorded calls are answered alike, {len(found)} differ for reasons that are listed"
