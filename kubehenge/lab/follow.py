"""What goes on in a lab, one line for each change: its clusters, as the management cluster has them, and Kubehenge's plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import text

from kubehenge.errors import KubehengeError
from kubehenge.store.database import Database

_PLANS = text("SELECT plan, scope, state, title, digest, can_finish, held FROM v_plan WHERE site = :site ORDER BY plan")
_WORDS = {
    "approved": "is approved",
    "running": "is carried out",
    "done": "is done",
    "failed": "failed",
    "stale": "is stale: what it was made on has changed",
    "superseded": "is superseded by a newer one",
    "interrupted": "was interrupted",
}


@dataclass(slots=True)
class Follower:
    """Remembers what it said, and says what is new. `status` returns the lab's own summary; `page_url` is where people decide."""

    db: Database
    site: str
    page_url: str
    status: Callable[[], dict[str, Any]]
    _said: dict[str, str] = field(default_factory=dict)

    def news(self) -> tuple[str, ...]:
        """Return a line for each thing that is another than it was."""
        found = dict((*self._clusters(), *self._plans()))
        gone = {name: "is gone" for name in self._said if name not in found and not name.startswith("plan ")}
        lines = tuple(f"{name}  {words}" for name, words in {**found, **gone}.items() if self._said.get(name) != words)
        self._said = found
        return lines

    def _clusters(self) -> Iterator[tuple[str, str]]:
        try:
            clusters = self.status()["clusters"]
        except KubehengeError:  # it will answer the next time, or its process has ended, which is said elsewhere
            yield from (item for item in self._said.items() if not item[0].startswith("plan "))
            return
        for cluster in clusters:
            yield f"cluster {cluster['name']}", _cluster_words(cluster)

    def _plans(self) -> Iterator[tuple[str, str]]:
        with self.db.read() as session:
            rows = session.execute(_PLANS, {"site": self.site}).mappings().all()
        for row in rows:
            yield f"plan {row['digest'][:12]} of {row['scope']}", f"{_plan_words(row)}  ({row['title']}){self._where(row)}"

    def _where(self, row: Any) -> str:
        return f"  {self.page_url}/plans/{row['digest'][:12]}" if row["state"] == "open" else ""


def _cluster_words(cluster: dict[str, Any]) -> str:
    machines = f"{cluster['machines_running']} of {cluster['machines']} machines run, {cluster['version']}"
    state = "is being deleted" if cluster["deleting"] else "is available" if cluster["available"] else "is coming up"
    return f"{state}: {machines}"


def _plan_words(row: Any) -> str:
    if row["state"] != "open":
        return _WORDS.get(row["state"], row["state"])
    if not row["can_finish"]:
        return "cannot finish; its page says why"
    return f"is held back: {row['held']}" if row["held"] else "waits for approval"
