"""What happens in a namespace, as its watches tell it: one order over all kinds, as every write has a number of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import requests

from tests.contract.objects import BOOTSTRAP, CAPI, CONTROL, INFRA, Body, path_of
from tests.lab.kube.running import Server, until

KINDS = {
    "Cluster": CAPI,
    "ClusterClass": CAPI,
    "MachineDeployment": CAPI,
    "MachineSet": CAPI,
    "Machine": CAPI,
    "MachineHealthCheck": CAPI,
    "ProxmoxCluster": INFRA,
    "ProxmoxMachine": INFRA,
    "ProxmoxMachineTemplate": INFRA,
    "KubeadmControlPlane": CONTROL,
    "KubeadmConfigTemplate": BOOTSTRAP,
    "Secret": "v1",
}
World = dict[str, dict[str, Body]]  # objects by kind and name


@dataclass(frozen=True, kw_only=True)
class Event:
    version: int
    type: str
    kind: str
    name: str
    body: Body

    @property
    def conditions(self) -> dict[str, tuple[str, str]]:
        """Status and reason by type."""
        return {one["type"]: (one["status"], one["reason"]) for one in self.body.get("status", {}).get("conditions") or []}


class Timeline:
    """The events of a namespace from now on, until it is closed; a moment of it is a number."""

    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        self._namespace = namespace
        self._events: list[Event] = []
        self._lock = threading.Lock()
        self._answers: list[requests.Response] = []
        self._threads = [self._follow(kind) for kind in KINDS]

    def _follow(self, kind: str) -> threading.Thread:
        # The first read of a kind whose storage is only now set up is put off with 429.
        until(lambda: self._server.call("GET", path_of(self._namespace, kind))[0] == 200)
        answer = requests.get(
            f"{self._server.url}{path_of(self._namespace, kind)}?watch=true&timeoutSeconds=900",
            headers={"Authorization": f"Bearer {self._server.token}"},
            verify=str(self._server.ca_file),
            stream=True,
            timeout=(30, None),
        )
        assert answer.status_code == 200, answer.text
        self._answers.append(answer)
        thread = threading.Thread(target=self._read, args=(kind, answer), daemon=True)
        thread.start()
        return thread

    def _read(self, kind: str, answer: requests.Response) -> None:
        try:
            for line in answer.iter_lines(chunk_size=None):
                event = json.loads(line)
                body = event["object"]
                meta = body["metadata"]
                with self._lock:
                    self._events.append(
                        Event(version=int(meta["resourceVersion"]), type=event["type"], kind=kind, name=meta["name"], body=body)
                    )
        except (AttributeError, requests.RequestException, ValueError):
            return  # how a connection ends that is closed from here

    def close(self) -> None:
        for answer in self._answers:
            answer.raw.shutdown()
        for thread in self._threads:
            thread.join(10)
        for answer in self._answers:
            answer.close()

    # ---- looking

    @property
    def events(self) -> list[Event]:
        """All so far, in the order of the writes."""
        with self._lock:
            return sorted(self._events, key=lambda event: event.version)

    def world(self, moment: int | None = None) -> World:
        """What was there at a moment, or is now."""
        found: World = {kind: {} for kind in KINDS}
        for event in self.events:
            if moment is not None and event.version > moment:
                break
            if event.type == "DELETED":
                found[event.kind].pop(event.name, None)
            else:
                found[event.kind][event.name] = event.body
        return found

    def between(self, after: int, until_: int | None = None) -> list[Event]:
        return [event for event in self.events if event.version > after and (until_ is None or event.version <= until_)]

    def now(self) -> int:
        """This moment: everything that is told up to here has been read."""
        return self.events[-1].version if self.events else 0

    def until(self, look: Callable[[World], Any], *, within_s: float, what: str) -> int:
        """Wait until something is so; the moment."""
        until(lambda: look(self.world()), within_s=within_s, why=lambda: f"{what}: {self._told()}")
        return self.now()

    def _told(self) -> str:
        world = self.world()
        lines = []
        for kind in ("Cluster", "KubeadmControlPlane", "MachineDeployment", "Machine", "ProxmoxCluster", "ProxmoxMachine"):
            for name, body in world[kind].items():
                conditions = body.get("status", {}).get("conditions") or []
                lines.append(f"{kind} {name} {[(c['type'], c['status'], c['reason'], c.get('message', '')[:200]) for c in conditions]}")
        return "\n".join(lines)
