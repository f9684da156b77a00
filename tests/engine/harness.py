"""A site to drive: a real Git repository and database, the engine, and a world in memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from sqlalchemy import func, select

from kubehenge.engine.apply import Apply, Limits
from kubehenge.engine.decide import Decide
from kubehenge.engine.settings_driver import SettingsDriver
from kubehenge.engine.sources import Sources
from kubehenge.engine.tick import Capmox, Tick, TickResult
from kubehenge.model.plan import CLOSED, PlanState
from kubehenge.model.resource import Lane
from kubehenge.store import leases
from kubehenge.store.database import Database
from kubehenge.store.leases import Lease
from kubehenge.store.reads.decision import Answer, Person
from kubehenge.store.rows import ActionRow, ClusterRow, PlanRow, Row, RunRow, SourceRow
from kubehenge.store.sites import ensure_site
from tests.fakes.clock import FakeClock
from tests.fakes.world import World, WorldDriver

ROOT = Person(userid="local/root", name="root", privileges=lambda _path: frozenset())

CLUSTER = """\
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: {name}
  namespace: clusters
  annotations: {annotations}
spec:
  topology:
    classRef: {{name: kubehenge-rke2, namespace: kubehenge-system}}
    version: {version}
    controlPlane: {{replicas: {control_planes}}}
    workers:
      machineDeployments:
        - {{class: worker, name: md-0, replicas: {workers}}}
    variables:
      - {{name: controlPlaneEndpoint, value: 10.{net}.0.10}}
      - name: network
        value:
          bridge: vmbr0
          addresses: [10.{net}.0.11-10.{net}.0.{last}]
          prefix: 24
          gateway: 10.{net}.0.1
          dnsServers: [10.{net}.0.1]
      - {{name: storage, value: shared-storage}}
"""


def cluster(
    name: str = "prod",
    *,
    net: int = 20,
    version: str = "v1.36.5+rke2r1",
    control_planes: int = 3,
    workers: int = 2,
    last: int = 60,
    annotations: str = "{}",
) -> str:
    """A Cluster file of the RKE2 class."""
    return CLUSTER.format(
        name=name, net=net, version=version, control_planes=control_planes, workers=workers, last=last, annotations=annotations
    )


class Repository:
    """A Git repository that people push to: a bare one, and a working copy."""

    def __init__(self, folder: Path) -> None:
        self.bare, self.work = folder / "origin.git", folder / "work"
        self._git("init", "-q", "--bare", "-b", "main", str(self.bare), cwd=folder)
        self._git("clone", "-q", str(self.bare), str(self.work), cwd=folder)

    def push(self, files: Mapping[str, str | None], message: str = "change") -> str:
        """Write files (None deletes), commit and push; returns the commit."""
        self._write(files)
        self._git("commit", "-q", "--allow-empty", "-m", message)
        self._git("push", "-q", "origin", "HEAD:main")
        return self._git("rev-parse", "HEAD").strip()

    def rewrite(self, files: Mapping[str, str | None] | None = None) -> str:
        """Replace the newest commit by another one and force it."""
        self._write(files or {})
        self._git("commit", "-q", "--amend", "--allow-empty", "-m", "rewritten")
        self._git("push", "-q", "--force", "origin", "HEAD:main")
        return self._git("rev-parse", "HEAD").strip()

    def _write(self, files: Mapping[str, str | None]) -> None:
        for name, content in files.items():
            path = self.work / name
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
        self._git("add", "-A")

    def _git(self, *args: str, cwd: Path | None = None) -> str:
        env = {
            **os.environ,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Tomas",
            "GIT_AUTHOR_EMAIL": "tomas@example.com",
            "GIT_COMMITTER_NAME": "Tomas",
            "GIT_COMMITTER_EMAIL": "tomas@example.com",
        }
        return subprocess.run(["git", *args], cwd=cwd or self.work, env=env, check=True, capture_output=True, text=True).stdout


@dataclass
class Site:
    """One site under test; `restart` is what a kill -9 and a new start leave."""

    db: Database
    folder: Path
    clock: FakeClock
    world: World
    repo: Repository
    site_id: int = 0
    limits: Limits = field(default_factory=lambda: Limits(workers=1))

    def __post_init__(self) -> None:
        (self.folder / "state").mkdir(exist_ok=True)
        with self.db.write() as session:
            self.site_id = ensure_site(session, "default", self.clock.now()).id
            session.add(SourceRow(site_id=self.site_id, name="fleet", url=str(self.repo.bare), branch="main"))
        self.restart()

    def restart(self) -> None:
        families = {
            "proxmox": WorldDriver(self.world, "proxmox"),
            "kube": WorldDriver(self.world, "kube"),
            "site": SettingsDriver(self.db, self.site_id, self.clock),
        }
        by_kind = {kind: driver for driver in families.values() for kind in driver.kinds}
        capmox = Capmox(token_id="capmox@pve!capmox", hmac="capmox-hmac", url="https://pve1:8006")
        self.tick_loop = Tick(self.db, self.site_id, families, Sources(self.folder / "state"), self.clock, capmox)
        self.apply_loop = Apply(self.db, self.site_id, by_kind, self.clock, self.limits)
        self.decide = Decide(self.db, self.site_id, self.clock)

    # -- driving

    def tick(self) -> TickResult:
        self.clock.forward(30)
        return self.tick_loop.run_pass()

    def lease(self) -> Lease:
        with self.db.write() as session:
            lease = leases.take(session, "default/apply", "test", now=self.clock.now(), lasts=timedelta(hours=1))
        assert lease is not None
        return lease

    def apply(self) -> bool:
        self.clock.forward(5)
        return self.apply_loop.run_pass(self.lease())

    def settle(self, *, passes: int = 30, build: bool = True) -> None:
        """Tick and apply until nothing is left to do by itself."""
        quiet = 0
        for _ in range(passes):
            result = self.tick()
            open_run = self.apply()
            if build:
                self.world.build()
            quiet = quiet + 1 if result.number is None and not open_run and not self._approved() else 0
            if quiet == 2:
                return
        raise AssertionError(f"not settled after {passes} passes: {self.plans()}")

    def _approved(self) -> bool:
        with self.db.read() as session:
            return bool(session.scalar(select(func.count()).select_from(PlanRow).where(PlanRow.state == PlanState.APPROVED)))

    def approve(self, plan: PlanRow, *, typed_name: str = "", who: Person = ROOT) -> Answer:
        return self.decide.approve(plan.id, plan.digest, who, typed_name)

    # -- looking

    def plans(self, scope: str | None = None) -> list[PlanRow]:
        with self.db.read() as session:
            rows = session.scalars(select(PlanRow).order_by(PlanRow.id)).all()
            return [row for row in rows if scope is None or row.scope == scope]

    def open_plan(self, scope: str = "clusters/prod", lane: Lane = Lane.ASKED) -> PlanRow | None:
        return next((row for row in self.plans(scope) if row.lane is lane and row.state not in CLOSED), None)

    def waiting(self, scope: str = "clusters/prod") -> PlanRow:
        plan = self.open_plan(scope)
        assert plan is not None
        assert plan.state is PlanState.OPEN
        return plan

    def actions(self, plan: PlanRow) -> list[ActionRow]:
        with self.db.read() as session:
            return list(session.scalars(select(ActionRow).where(ActionRow.plan_id == plan.id).order_by(ActionRow.position)))

    def runs(self) -> list[RunRow]:
        with self.db.read() as session:
            return list(session.scalars(select(RunRow).order_by(RunRow.id)))

    def clusters(self) -> dict[str, ClusterRow]:
        with self.db.read() as session:
            return {f"{row.namespace}/{row.name}#{row.incarnation}": row for row in session.scalars(select(ClusterRow))}

    def counts(self) -> dict[str, int]:
        """Rows by table: what "adds no row" means."""
        with self.db.read() as session:
            return {table.name: session.scalar(select(func.count()).select_from(table)) or 0 for table in Row.metadata.sorted_tables}
