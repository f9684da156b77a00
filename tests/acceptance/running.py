"""A site to drive as people do: a lab and Kubehenge as real processes, a clone to push from, a browser, the command line, the database."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import requests

from kubehenge.lab.description import ControlClient, Description
from kubehenge.lab.processes import clean_environment
from tests.acceptance.browser import Browser
from tests.fakes.lab import LabProcess
from tests.lab.site.conftest import git

T = TypeVar("T")

KUBEHENGE = (sys.executable, "-c", "import sys; from kubehenge.cli import main; sys.exit(main())")
POLLS = {"KUBEHENGE_FAST_POLL_S": "1", "KUBEHENGE_BULK_POLL_S": "1", "KUBEHENGE_GIT_POLL_S": "2"}
LOOK_EVERY_S = 0.2
START_WITHIN_S = 180.0
STOP_WITHIN_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


class Clone:
    """A working copy of a repository, as someone has it who pushes."""

    def __init__(self, bare: Path, folder: Path) -> None:
        self.folder = folder
        git(folder.parent, "clone", "-q", str(bare), str(folder))

    def push(self, files: Mapping[str, str | bytes | None], message: str = "Change clusters", *, force: bool = False) -> str:
        """Write files (None deletes one), commit and push; returns the commit."""
        for name, content in files.items():
            path = self.folder / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", message)
        git(self.folder, "push", "-q", *(["--force"] if force else []), "origin", "HEAD:main")
        return git(self.folder, "rev-parse", "HEAD").stdout.strip()


class Process:
    """A running Kubehenge, in a group of its own, with its log."""

    def __init__(self, arguments: Iterable[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [*KUBEHENGE, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True
            )
        self.pid = self._process.pid

    def ended(self) -> int | None:
        return self._process.poll()

    def pids(self) -> list[int]:
        """This process and its children."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [self.pid, *map(int, children.read_text().split())] if children.exists() else [self.pid]

    def kill(self) -> None:
        """As when the power fails: the process and its workers end in the middle of whatever they do."""
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(10)

    def stop(self) -> int:
        """As Ctrl-C does."""
        if self._process.poll() is None:
            os.kill(self.pid, signal.SIGINT)
        try:
            return self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end within {STOP_WITHIN_S:.0f} s:\n{self.log.read_text()[-4000:]}") from None


@dataclass
class Site:
    """
    One lab with its Kubehenge.

    `folder` holds all of it. The lab is instant unless told otherwise, and empty: what there is was pushed by a test.
    """

    folder: Path
    speed: float = 0.0
    settings: dict[str, str] = field(default_factory=dict)
    kubehenge: Process | None = None

    def __post_init__(self) -> None:
        first = self.folder / "first"
        first.mkdir(parents=True)
        (first / "README.md").write_text("Clusters of this site.\n")
        self.lab = LabProcess(self.lab_folder, "--speed", str(self.speed), "--gitops", str(first), "--no-story")
        self.clone = Clone(self.lab.places.repository, self.folder / "clone")
        git_part = self.description["git"]
        self.must("db", "upgrade")
        self.must(
            "source",
            "add",
            git_part["source"],
            git_part["url"],
            "--token-file",
            git_part["token_file"],
            "--ca-file",
            self.description["ca_file"],
        )

    # -- processes

    @property
    def lab_folder(self) -> Path:
        return self.folder / "lab"

    @property
    def state(self) -> Path:
        return self.lab.places.state

    @property
    def log(self) -> Path:
        return self.folder / "kubehenge.log"

    @property
    def environment(self) -> dict[str, str]:
        return {**clean_environment(), "KUBEHENGE_CONFIG": str(self.lab.places.settings), **POLLS, **self.settings}

    def start(self, *arguments: str, ready: bool = True) -> Process:
        """Start `kubehenge serve`, and wait until page and loops are there."""
        assert self.kubehenge is None or self.kubehenge.ended() is not None
        process = self.kubehenge = Process(["serve", *arguments], self.environment, self.log)
        if ready:
            self.wait(lambda: self.is_ready() if "--no-page" not in arguments else self.loops_run(), "Kubehenge is not up")
        return process

    def start_loops(self) -> None:
        """Start the loops without a page, one process, unless they run."""
        if self.kubehenge is None or self.kubehenge.ended() is not None:
            self.start("--no-page")

    def stop(self) -> None:
        if self.kubehenge is not None and self.kubehenge.ended() is None:
            assert self.kubehenge.stop() == 0, self.log.read_text()[-4000:]

    def kill(self) -> None:
        """Kill -9 Kubehenge."""
        assert self.kubehenge is not None
        self.kubehenge.kill()

    def let_leases_expire(self) -> None:
        """Let the time pass for which a dead process's leases last and its calls may still arrive, without waiting for it."""
        with closing(sqlite3.connect(self.state / "state.db", timeout=10)) as db, db:
            db.execute("UPDATE lease SET holder = '', expires_at = renewed_at WHERE expires_at > renewed_at")

    def close(self) -> None:
        """End everything."""
        if self.kubehenge is not None and self.kubehenge.ended() is None:
            self.kubehenge.kill()
        if self.lab.process.poll() is None:
            self.lab.stop()

    def restart_lab(self) -> None:
        """Start the lab again after it ended."""
        self.lab = LabProcess(self.lab_folder, "--no-story")
        self.__dict__.pop("control", None)

    def is_ready(self) -> bool:
        try:
            return self.anonymous.get("/readyz").ok
        except requests.RequestException:
            return False

    def loops_run(self) -> bool:
        rows = self.rows("SELECT name FROM lease WHERE holder <> '' AND expires_at > datetime('now')")
        return len(rows) == 3

    # -- the lab

    @property
    def description(self) -> Description:
        return self.lab.description

    @cached_property
    def control(self) -> Callable[..., dict[str, Any]]:
        return ControlClient(self.lab_folder).call

    def fault(self, target: str, action: str, **more: Any) -> str:
        return str(self.control("POST", "/faults", {"target": target, "action": action, **more})["id"])

    def no_faults(self) -> None:
        self.control("DELETE", "/faults")

    def has_struck(self, fault: str) -> bool:
        """Whether a fault with a number of times has met them all."""
        return fault not in {rule["id"] for rule in self.control("GET", "/faults")["faults"]}

    def clusters(self) -> dict[str, dict[str, Any]]:
        """The clusters of the management cluster, as the lab sees them."""
        return {one["name"]: one for one in self.control("GET", "/state")["lab"]["clusters"]}

    def proxmox(self) -> dict[str, Any]:
        """What there is in Proxmox VE."""
        found: dict[str, Any] = self.control("GET", "/state")["proxmox"]
        return found

    def calls(self, since: int = 0) -> list[dict[str, Any]]:
        """The requests that the lab's servers were sent after number `since`."""
        found: list[dict[str, Any]] = []
        while True:
            answer = self.control("GET", f"/calls?since={found[-1]['n'] if found else since}")
            found += answer["calls"]
            if not answer["calls"] or found[-1]["n"] >= answer["last_n"]:
                return found

    def last_call(self) -> int:
        return int(self.control("GET", "/calls?since=999999999")["last_n"])

    def as_root(self, method: str, path: str, /, **params: Any) -> Any:
        """Call Proxmox VE as root at its console does."""
        return self.control("POST", "/proxmox/call", {"method": method, "path": path, "params": params})["data"]

    def kube(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, missing: bool = False) -> Any:
        """Call the management cluster as its administrator does; None for what is not there, where that is an answer."""
        config = Path(self.description["kube"]["admin_kubeconfig"]).read_text()
        token = config.split("token: ")[1].split()[0]
        with requests.Session() as session:
            session.trust_env = False
            headers = {"Authorization": f"Bearer {token}"}
            url = self.description["kube"]["url"] + path
            answer = session.request(method, url, json=body, headers=headers, verify=self.description["ca_file"], timeout=30)
            if missing and answer.status_code == 404:
                return None
            answer.raise_for_status()
            return answer.json()

    # -- the command line

    def kh(self, *arguments: str, stdin: str = "", **environment: str) -> Ended:
        """Run `kubehenge …` as this machine's administrator, with other settings where they are given."""
        done = subprocess.run(
            [*KUBEHENGE, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env={**self.environment, **environment},
            timeout=120,
            check=False,
            cwd=self.folder,
        )
        return Ended(code=done.returncode, out=done.stdout, err=done.stderr)

    def must(self, *arguments: str) -> Ended:
        """Run `kubehenge …`, which must work."""
        done = self.kh(*arguments)
        assert done.code == 0, done
        return done

    # -- the page

    @property
    def anonymous(self) -> Browser:
        return Browser(self.description["page"]["url"], self.description["ca_file"])

    def sign_in(self, who: str = "administrator") -> Browser:
        """Sign in through the form."""
        person = self.description["sign_ins"][who]
        browser = self.anonymous
        browser.open("/sign-in")
        page = browser.submit("/sign-in", username=person["username"], realm=person["realm"], password=person["password"])
        assert page.status == 200, page.text
        assert page.path == "/clusters", page.path
        return browser

    @cached_property
    def administrator(self) -> Browser:
        return self.sign_in("administrator")

    def forget_sessions(self) -> None:
        """Sessions live in the memory of the page, and end with it."""
        self.__dict__.pop("administrator", None)

    # -- the database

    def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Read from the database beside whoever uses it."""
        with closing(sqlite3.connect(f"file:{self.state}/state.db?mode=ro", uri=True, timeout=10)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(statement, values)]

    def counts(self) -> dict[str, int]:
        """Rows of every table."""
        names = [row["name"] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {name: int(self.rows(f'SELECT count(*) AS n FROM "{name}"')[0]["n"]) for name in names}

    def plans(self, scope: str) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM plan WHERE scope = ? ORDER BY id", scope)

    def open_plan(self, scope: str, *, state: str | None = None) -> dict[str, Any] | None:
        found = [row for row in self.plans(scope) if row["closed_tick"] is None and state in {None, row["state"]}]
        return found[-1] if found else None

    # -- waiting

    def wait(self, look: Callable[[], T | None], otherwise: str, *, within_s: float = START_WITHIN_S) -> T:
        """Wait for a condition; says what is going on when it does not come."""

        deadline = time.monotonic() + within_s
        while not (found := look()):
            if self.kubehenge is not None and self.kubehenge.ended() is not None:
                raise AssertionError(f"{otherwise}; Kubehenge has ended:\n{self.log.read_text()[-4000:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{otherwise} within {within_s:.0f} s:\n{self.tell()}")
            time.sleep(LOOK_EVERY_S)
        return found

    def wait_for_plan(self, scope: str, state: str = "open", *, after: int = 0) -> dict[str, Any]:
        """Wait until a cluster has a plan in that state, newer than plan `after`."""

        def look() -> dict[str, Any] | None:
            return next((row for row in reversed(self.plans(scope)) if row["state"] == state and row["id"] > after), None)

        return self.wait(look, f"{scope} has no plan that is {state}")

    def wait_until_up(self, *scopes: str, machines: int | None = None) -> None:
        """
        Wait until clusters run, and nothing is left to do for them.

        What failed and waits to be tried again is started by a person, who need not wait for that.
        """

        def look() -> bool:
            for scope in scopes:
                waiting = self.open_plan(scope, state="open")
                if waiting is not None and waiting["retry_at"] is not None:
                    self.kh("approve", str(waiting["id"]), "--yes")
            found = self.clusters()
            return all(_runs(found.get(scope), machines) for scope in scopes) and self.settled(*scopes)

        self.wait(look, f"{', '.join(scopes)} do not run")

    def settled(self, *scopes: str) -> bool:
        """Whether all that was planned for clusters is done, in both lanes."""
        rows = self.rows("SELECT scope, state FROM plan WHERE closed_tick IS NULL OR state = 'done'")
        done = {row["scope"] for row in rows if row["state"] == "done"}
        return all(scope in done for scope in scopes) and not any(row["scope"] in scopes and row["state"] != "done" for row in rows)

    def wait_for_read(self, sha: str) -> None:
        """Wait until a commit was taken up."""
        self.wait(lambda: self.rows("SELECT 1 FROM source WHERE accepted_sha = ?", sha), f"{sha} was not read")

    def tell(self) -> str:
        """What a person would look at first when something is wrong."""
        plans = self.rows("SELECT id, scope, lane, state, held, title, closed_reason FROM plan ORDER BY id DESC LIMIT 8")
        steps = self.rows("SELECT run_id, position, state, error, waits_on FROM step ORDER BY id DESC LIMIT 16")
        sources = self.rows("SELECT name, state, reason, accepted_sha FROM source")
        coverage = self.rows("SELECT tier, state, reason FROM coverage WHERE state <> 'ok'")
        log = self.log.read_text()[-3000:] if self.log.exists() else ""
        parts = {"plans": plans, "steps": steps, "sources": sources, "coverage": coverage}
        return "\n".join([*(f"{name}: {row}" for name, rows in parts.items() for row in rows), "log:", log])


def free_memory_of(folder: Path) -> None:
    """Take a site's directory away once its processes have ended."""
    shutil.rmtree(folder, ignore_errors=True)


def _runs(found: Mapping[str, Any] | None, machines: int | None) -> bool:
    if found is None or not found["available"] or found["machines"] != found["machines_running"]:
        return False
    return machines in {None, found["machines"]}
