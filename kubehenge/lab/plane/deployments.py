"""Plays the releases' Deployments: nothing here runs Pods, so a manager's process is started and stopped as its Deployment is scaled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubehenge.lab.plane.client import Api, path_of
from kubehenge.lab.plane.manifests import Body

_COUNTS = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")


@dataclass(slots=True, kw_only=True)
class Deployments:
    """
    The Deployments of a plane's managers, by the managers' names.

    Shape: `start` and `stop` take a manager's name; `serves` tells whether it runs (None: not at all) and answers.
    """

    api: Api
    bodies: Mapping[str, Body]
    start: Callable[[str], None]
    stop: Callable[[str], None]
    serves: Callable[[str], bool | None]
    _written: dict[str, tuple[int, bool]] = field(default_factory=dict)

    def install(self) -> None:
        """Write them as they are once their Pods run."""
        for name, body in self.bodies.items():
            self._report(name, self.api.create(body))

    def look(self) -> None:
        """Do what was asked for since the last look; a number of replicas other than none is one."""
        found = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in self.api.get("/apis/apps/v1/deployments")["items"]}
        for name, body in self.bodies.items():
            deployment = found.get((body["metadata"]["namespace"], body["metadata"]["name"]))
            if deployment is None:
                continue
            is_wanted, runs = bool(deployment["spec"].get("replicas")), self.serves(name) is not None
            if is_wanted and not runs:
                self.start(name)
            elif runs and not is_wanted:
                self.stop(name)
            self._report(name, deployment)

    def _report(self, name: str, deployment: Mapping[str, Any]) -> None:
        """Write the status, if it is another."""
        generation, serves = deployment["metadata"]["generation"], bool(self.serves(name))
        if self._written.get(name) == (generation, serves):
            return
        reason = "MinimumReplicasAvailable" if serves else "MinimumReplicasUnavailable"
        condition = {"type": "Available", "status": str(serves), "reason": reason, "message": "Played by a process."}
        status = {"observedGeneration": generation, **dict.fromkeys(_COUNTS, int(serves)), "conditions": [condition]}
        self.api.patch(f"{path_of(self.bodies[name])}/status", {"status": status})
        self._written[name] = generation, serves
