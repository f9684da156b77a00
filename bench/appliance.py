"""An appliance to measure: database, repository and engine as they ship (SQLite, FULL), against a simulated site in another process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fleet import Repository
from simulated_site import SimulatedSite
from sqlalchemy import func, select, update

from kubehenge import wiring
from kubehenge.engine.loops import Loops
from kubehenge.lab.register import prepare_database
from kubehenge.model.canon import resolve
from kubehenge.model.identity import Incarnation
from kubehenge.settings import Settings
from kubehenge.store.database import Database
from kubehenge.store.resources import differing
from kubehenge.store.rows import BodyRow, ClusterRow, PlanRow, ResourceRow, SourceRow


class Appliance:
    """
    One state directory and what works on it; `loops` are never started, since their passes are called one by one.

    `site` None leaves out all that reads the world.
    """

    def __init__(self, folder: Path, site: SimulatedSite) -> None:
        self.folder, self.site = folder, site
        folder.mkdir()
        self.state = folder / "state"
        self.state.mkdir()
        self.repository = Repository(folder / "clusters.git")
        given = {**site.settings, "KUBEHENGE_STATE_DIR": str(self.state)}
        self.environment = given
        self.settings = Settings(**{name.removeprefix("KUBEHENGE_").lower(): value for name, value in given.items()})
        prepare_database(
            self.settings.database.get_secret_value(),
            site="default",
            source="fleet",
            url=str(self.repository.path),
            branch="main",
            credentials={},
            now=datetime.now(UTC),
        )
        self.loops: Loops | None = None

    def open(self) -> Loops:
        """Start anew on the state directory: nothing is in memory but what the watches of the management cluster have listed."""
        self.close()
        self.core = wiring.open_core(self.settings)
        self.loops = wiring.make_loops(self.core)
        for watcher in self.loops.watchers.values():
            watcher.start_watching()
        self.tick.families["kube"].read_bulk()  # which waits for the first lists
        return self.loops

    def close(self) -> None:
        if self.loops is not None:
            for watcher in self.loops.watchers.values():
                watcher.stop()
            self.core.db.close()
            self.loops = None

    @property
    def db(self) -> Database:
        return self.core.db

    @property
    def tick(self) -> Any:
        assert self.loops is not None
        return self.loops.tick

    # ---- states that measurements begin with

    def keep(self, name: str) -> None:
        """Keep the state directory as it is now, under a name."""
        self.close()
        shutil.copytree(self.state, self.folder / name, symlinks=True)

    def restore(self, name: str) -> None:
        """Bring a kept state directory back."""
        self.close()
        shutil.rmtree(self.state)
        shutil.copytree(self.folder / name, self.state, symlinks=True)

    def fill_site(self) -> None:
        """
        Put into the world what the open first plans make and Cluster API builds of it, and take it over.

        What only the maker of a thing is told, a token's HMAC, stands in its row then; so does a volume owner's VMID.
        """
        made = self.folder / "made.json"
        made.write_text(json.dumps(self._made()))
        self.site.fill(made)
        self.tick.run_pass()

    def _made(self) -> list[Mapping[str, Any]]:
        with self.db.write() as session:
            clusters = session.scalars(select(ClusterRow).order_by(ClusterRow.id)).all()
            rows = session.execute(
                select(ResourceRow.id, ResourceRow.cluster_id, ResourceRow.kind, ResourceRow.name, BodyRow.content)
                .join(BodyRow, BodyRow.hash == ResourceRow.desired_hash)
                .where(ResourceRow.cluster_id.is_not(None))
                .order_by(ResourceRow.id)
            ).all()
            numbers = {row.id: number for number, row in enumerate(clusters)}
            known = [
                {
                    "id": row.id,
                    "outputs": {"hmac": _hmac(row.name)}
                    if row.kind == "proxmox.token"
                    else {"vmid": _vmid(row.content, numbers[row.cluster_id])},
                }
                for row in rows
                if row.kind in {"proxmox.token", "proxmox.volume_owner"}
            ]
            session.execute(update(ResourceRow), known)
        by_cluster: dict[int, list[tuple[str, Any]]] = {row.id: [] for row in clusters}
        for row in rows:
            by_cluster[row.cluster_id].append((row.kind, row.content))
        return [_made_of(row, number, by_cluster[row.id]) for number, row in enumerate(clusters)]

    # ---- looking

    def differing(self) -> int:
        """How many scopes are not as they should be."""
        with self.db.read() as session:
            return len(differing(session, self.core.site_id))

    def open_plans(self) -> int:
        with self.db.read() as session:
            return session.scalar(select(func.count()).select_from(PlanRow).where(PlanRow.closed_tick.is_(None))) or 0

    def source(self) -> SourceRow:
        with self.db.read() as session:
            return session.scalars(select(SourceRow)).one()


def _hmac(token: str) -> str:
    return f"hmac of {token}"


def _vmid(owner: Mapping[str, Any], number: int) -> int:
    return int(owner["first_vmid"]) + number


def _made_of(row: ClusterRow, number: int, resources: list[tuple[str, Any]]) -> Mapping[str, Any]:
    who = Incarnation(site="default", namespace=row.namespace, name=row.name, number=row.incarnation)
    pool = who.pool("kubehenge")
    owner = next(body for kind, body in resources if kind == "proxmox.volume_owner")

    def known(reference: str) -> str:
        target, _, field = reference.partition("#")
        return str(_vmid(owner, number)) if field == "vmid" else _hmac(target.partition("/")[2])

    return {
        "name": row.name,
        "pool": pool,
        "first_vmid": row.vm_id_first,
        # what others are in comes first
        "resources": [(kind, resolve(body, known)) for kind, body in sorted(resources, key=lambda one: _ORDER.index(one[0]))],
    }


_ORDER = (
    "proxmox.pool",
    "proxmox.user",
    "proxmox.token",
    "proxmox.acl",
    "proxmox.volume_owner",
    "kube.secret",
    "kube.resource_set",
    "kube.cluster",
)
