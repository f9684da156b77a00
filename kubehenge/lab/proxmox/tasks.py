"""Tasks: work that goes on after its call was answered, takes simulated time and ends with a status."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import structlog
from fakepve import FakePve

from kubehenge.lab.proxmox.call import ApiCall, Page, Route
from kubehenge.lab.proxmox.clock import SimClock
from kubehenge.lab.proxmox.errors import PveError, TaskError, bad_parameter, denied, in_task
from kubehenge.lab.proxmox.rights import Rights

log = structlog.get_logger()

# Simulated seconds that a task of a type takes, of those worth telling apart.
DURATION_S: dict[str, float] = {
    "download": 30,
    "imgcopy": 1,
    "imgdel": 1,
    "qmclone": 20,
    "qmconfig": 0.5,
    "qmcreate": 2,
    "qmdestroy": 3,
    "qmigrate": 4,
    "qmmove": 10,
    "qmreboot": 10,
    "qmshutdown": 8,
    "qmstart": 2,
    "qmstop": 2,
    "qmtemplate": 2,
    "resize": 1,
}
KEPT_TASKS = 5000
UNEXPECTED = "unexpected status"
_UPID = re.compile(r"UPID:([^:\s]+):([0-9A-F]{8}):([0-9A-F]{8,9}):([0-9A-F]{8}):([^:\s]+):([^:\s]*):([^:\s]+):")


@dataclass(slots=True, kw_only=True)
class Ending:
    """How coming tasks of a type end instead of OK: with warnings (the work is done) or an error text (it is not)."""

    task_type: str
    exitstatus: str
    times: int


class TaskCalls(FakePve):
    """
    Mixin of the server: tasks.

    `tasks` holds the records by UPID, oldest first; a record's `exitstatus` comes with its end and not before.
    """

    rights: Rights
    clock: SimClock
    endings: list[Ending]
    running: dict[str, asyncio.Task[None]]

    def _calls_tasks(self) -> list[Route]:
        one = "/nodes/{node}/tasks/{upid}"
        return [
            ("GET", "/cluster/tasks", self._cluster_tasks),
            ("GET", "/nodes/{node}/tasks", self._node_tasks),
            ("GET", one + "/status", self._get_status),
            ("GET", one + "/log", self._get_log),
            ("DELETE", one, self._stop_task),
        ]

    async def pause(self, secs: float) -> None:
        """Let simulated seconds pass."""
        await self.clock.sleep(secs)

    async def task(
        self,
        node: str,
        ttype: str,
        tid: object,
        user: str,
        body: Callable[[], Awaitable[str | None]],
        vm: Any = None,
        lock: bool = True,
        log: Iterable[str] = (),
        undo: Callable[[], None] | None = None,
    ) -> str:
        """
        Start a task and return its UPID.

        Shape: `body` runs after the time its type takes, holding the lock of `vm`; a text it returns is logged. `undo` tidies up
        when the task is stopped or fails.
        """
        upid, pid, start = self._upid(node, ttype, tid, user)
        record = {"upid": upid, "node": node, "pid": pid, "pstart": pid * 7, "starttime": start, "type": ttype, "id": str(tid)}
        record |= {"user": user, "status": "running", "log": list(log)}
        self.tasks[upid] = record
        self._forget_old_tasks()
        self.touch()
        runner = asyncio.ensure_future(self._run_task(record, body, vm if lock else None, undo))
        if self.clock.speed:
            self.running[upid] = runner
            runner.add_done_callback(lambda _done: self.running.pop(upid, None))
        else:
            await runner
        return upid

    async def _run_task(
        self, record: dict[str, Any], body: Callable[[], Awaitable[str | None]], locked: Any, undo: Callable[[], None] | None
    ) -> None:
        ending = self._take_ending(record["type"])
        try:
            if locked is not None:
                await self.acquire(locked, record["upid"])
            try:
                await self.pause(DURATION_S.get(record["type"], 1))
                if ending and not ending.startswith("WARNINGS"):
                    raise TaskError(ending)
                note = await body()
                record["log"] += [note] if note else []
                status = ending or "OK"
            finally:
                if locked is not None:
                    self.release(locked, record["upid"])
        except TaskError as exc:
            status = str(exc)
        except PveError as exc:
            status = str(in_task(exc))
        except asyncio.CancelledError:
            status = self._stopped_words(record)
        except Exception as exc:  # a mistake of the simulator: seen in the log, and the task still ends
            log.exception("task_crashed", upid=record["upid"])
            status = f"internal error: {exc!r}"
        if undo is not None and status != "OK" and not status.startswith("WARNINGS"):
            undo()
        self._end_task(record, status)

    def _end_task(self, record: dict[str, Any], status: str) -> None:
        record["log"].append(
            "TASK OK" if status == "OK" else f"TASK {status}" if status.startswith("WARNINGS") else f"TASK ERROR: {status}"
        )
        record |= {"status": "stopped", "exitstatus": status.splitlines()[0], "endtime": int(time.time())}
        self.touch()

    def _stopped_words(self, record: dict[str, Any]) -> str:
        if self.is_stopping:
            return UNEXPECTED
        return "clone failed: interrupted by signal" if record["type"] == "qmclone" else "interrupted by signal"

    def _take_ending(self, task_type: str) -> str | None:
        for ending in self.endings:
            if ending.task_type == task_type:
                ending.times -= 1
                if ending.times <= 0:
                    self.endings.remove(ending)
                return ending.exitstatus
        return None

    def _forget_old_tasks(self) -> None:
        while len(self.tasks) > KEPT_TASKS:
            oldest = next(iter(self.tasks))
            if oldest in self.running:
                return
            del self.tasks[oldest]

    async def finish_tasks(self) -> None:
        """Let everything that runs come to its end at once, as before a shutdown."""
        speed = self.clock.speed
        self.clock.set_speed(0)
        while self.running:
            await asyncio.gather(*self.running.values(), return_exceptions=True)
        self.clock.set_speed(speed)

    # ---- calls

    def _may_see(self, auth: str, record: dict[str, Any]) -> bool:
        """Own tasks, and those of one's tokens; a token's tasks also belong to its user, and a user's to the user alone."""
        return auth == record["user"] or auth == record["user"].partition("!")[0]

    def _record(self, call: ApiCall) -> dict[str, Any]:
        if not _UPID.fullmatch(call["upid"]):
            raise bad_parameter({"upid": "unable to parse worker upid"})
        record: dict[str, Any] | None = self.tasks.get(call["upid"])
        if record is None or record["node"] != call["node"]:
            raise bad_parameter({"upid": "no such task"})
        if not self._may_see(call.auth, record) and not self.rights.has(call.auth, f"/nodes/{record['node']}", "Sys.Audit"):
            raise denied(f"/nodes/{record['node']}", ("Sys.Audit",))
        return record

    async def _get_status(self, call: ApiCall) -> Any:
        record = self._record(call)
        return {key: value for key, value in _with_token(record).items() if key not in {"log", "endtime"}}

    async def _get_log(self, call: ApiCall) -> Any:
        lines = [{"n": number, "t": text} for number, text in enumerate(self._record(call)["log"], 1)]
        start, limit = call.get("start", 0), call.get("limit", 50)
        return Page(data=lines[start : start + limit] if limit else lines[start:], total=len(lines))

    async def _stop_task(self, call: ApiCall) -> Any:
        if not _UPID.fullmatch(call["upid"]):
            raise bad_parameter({"upid": "unable to parse worker upid"})
        record = self.tasks.get(call["upid"])
        if (
            record is not None
            and not self._may_see(call.auth, record)
            and not self.rights.has(call.auth, f"/nodes/{call['node']}", "Sys.Modify")
        ):
            raise denied(f"/nodes/{call['node']}", ("Sys.Modify",))
        runner = self.running.get(call["upid"])
        if runner is not None:
            runner.cancel()
            await asyncio.wait({runner})

    async def _node_tasks(self, call: ApiCall) -> Any:
        everything = self.rights.has(call.auth, f"/nodes/{call['node']}", "Sys.Audit")
        vmid, source = call.get("vmid"), call.get("source", "archive")
        found = [
            _listed(record)
            for record in reversed(self.tasks.values())
            if record["node"] == call["node"]
            and (source == "all" or (record["status"] == "running") == (source == "active"))
            and (vmid is None or record["id"] == str(vmid))
            and (everything or self._may_see(call.auth, record))
        ]
        start = call.get("start", 0)
        return Page(data=found[start : start + call.get("limit", 50)], total=len(found))

    async def _cluster_tasks(self, call: ApiCall) -> Any:
        newest: deque[dict[str, Any]] = deque(maxlen=25 * len(self.nodes))
        for record in self.tasks.values():
            if self._may_see(call.auth, record) or self.rights.has(call.auth, f"/nodes/{record['node']}", "Sys.Audit"):
                entry = {key: value for key, value in _listed(record).items() if key not in {"pid", "pstart"}}
                newest.append({**entry, "saved": "1"} if "endtime" in entry else entry)
        return list(reversed(newest))


def _with_token(record: dict[str, Any]) -> dict[str, Any]:
    """The record with the user and the token's name apart, as answers have them."""
    user, _, token = record["user"].partition("!")
    return {**record, "user": user, **({"tokenid": token} if token else {})}


def _listed(record: dict[str, Any]) -> dict[str, Any]:
    """A task as lists show it: its exit status stands where the status call has running or stopped."""
    entry = {key: value for key, value in _with_token(record).items() if key not in {"log", "status", "exitstatus"}}
    return {**entry, "status": record["exitstatus"]} if "exitstatus" in record else entry
