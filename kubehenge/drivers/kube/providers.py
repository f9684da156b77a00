"""
The controllers of a distribution: two Deployments, found by the label that every release of a provider bears, run by their scale alone.

Nothing else of a Deployment is ever written, and no Deployment is made or deleted: installing a provider is its operator's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kubehenge.drivers.base import Done, Outcome
from kubehenge.drivers.kube import kinds
from kubehenge.drivers.kube.client import KubeClient
from kubehenge.drivers.kube.errors import as_mapping
from kubehenge.drivers.kube.reduce import Object
from kubehenge.errors import RefusedError
from kubehenge.model.canon import Body
from kubehenge.model.resource import Observed, ResourceRef
from kubehenge.resources.providers import SERVING

PROVIDER_LABEL = "cluster.x-k8s.io/provider"
PARTLY = "partly"
_ROLES = ("bootstrap", "control-plane")


class Controller(NamedTuple):
    """One Deployment of a provider: whether it is to run, and whether it does, as of its newest generation."""

    provider: str
    namespace: str
    name: str
    runs: bool
    serves: bool


def controller(obj: Object) -> Controller:
    """Reduce a Deployment."""
    meta, spec, status = obj["metadata"], as_mapping(obj.get("spec")), as_mapping(obj.get("status"))
    runs = int(spec.get("replicas", 1)) > 0
    current = int(status.get("observedGeneration", 0)) >= int(meta.get("generation", 0))
    return Controller(
        provider=str(as_mapping(meta.get("labels")).get(PROVIDER_LABEL, "")),
        namespace=meta["namespace"],
        name=meta["name"],
        runs=runs,
        serves=runs and current and int(status.get("availableReplicas", 0)) > 0,
    )


def scales(found: Iterable[Controller]) -> tuple[Observed, ...]:
    """Put Deployments together by distribution; one of which a part is missing is not there."""
    by_provider: dict[str, list[Controller]] = {}
    for one in found:
        by_provider.setdefault(one.provider, []).append(one)
    names = sorted(provider.removeprefix("control-plane-") for provider in by_provider if provider.startswith("control-plane-"))
    whole = [(name, [one for role in _ROLES for one in by_provider.get(f"{role}-{name}", ())]) for name in names]
    return tuple(_scale(name, parts) for name, parts in whole if {one.provider for one in parts} == {f"{role}-{name}" for role in _ROLES})


def _scale(distribution: str, parts: list[Controller]) -> Observed:
    return Observed(
        ref=ResourceRef(kind=kinds.PROVIDER_SCALE, name=distribution),
        body={"runs": PARTLY if len({one.runs for one in parts}) > 1 else parts[0].runs},
        outputs={SERVING: all(one.serves for one in parts)},
    )


class Providers:
    """Reads and writes the scales of one management cluster's providers."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def read(self, ref: ResourceRef) -> Observed | None:
        """Read one now; None where it is not installed whole."""
        return next(iter(scales(self._parts(ref))), None)

    def write(self, ref: ResourceRef, body: Body) -> Outcome:
        """
        Let controllers run, or not; whether they serve by then is for the readings to say, and nothing else waits here for it.

        Errors: RefusedError when they are not installed.
        """
        for one in self._require(ref):
            if one.runs != body["runs"]:
                path = f"{kinds.DEPLOYMENTS.one(one.namespace, one.name)}/scale"
                self._client.merge(path, {"spec": {"replicas": int(body["runs"])}})
        [left] = scales(self._require(ref))
        return Done(left=left)

    def _require(self, ref: ResourceRef) -> list[Controller]:
        parts = self._parts(ref)
        if not scales(parts):
            missing = [f"{role}-{ref.name}" for role in _ROLES if f"{role}-{ref.name}" not in {one.provider for one in parts}]
            raise RefusedError(
                f"The controllers of {ref.name} are not installed: there is no Deployment with the label {PROVIDER_LABEL} of "
                f"{' and of '.join(missing)}. Install the provider, for example with clusterctl."
            )
        return parts

    def _parts(self, ref: ResourceRef) -> list[Controller]:
        labels = f"{PROVIDER_LABEL} in ({', '.join(f'{role}-{ref.name}' for role in _ROLES)})"
        listed = self._client.list(kinds.DEPLOYMENTS.all, labels=labels)
        return [controller(obj) for obj in listed.items]
