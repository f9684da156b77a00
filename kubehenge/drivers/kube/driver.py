"""The driver of the management cluster: Clusters, their Secrets and resource sets, and what Cluster API makes of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from kubehenge.drivers.base import ActionContext, BulkReading, Done, Outcome, Pending
from kubehenge.drivers.findings import Finding
from kubehenge.drivers.kube import applying, clusters, kinds, probing, reduce, secrets
from kubehenge.drivers.kube.client import KubeClient, TimeLimits
from kubehenge.drivers.kube.errors import as_mapping, is_unserved
from kubehenge.drivers.kube.providers import Providers
from kubehenge.drivers.kube.reading import Reader
from kubehenge.drivers.kube.watching import WATCH_S
from kubehenge.drivers.politeness import Politeness
from kubehenge.errors import InvariantError, RefusedError
from kubehenge.model.canon import Body, resolve
from kubehenge.model.resource import Observed, ResourceRef
from kubehenge.resources.class_objects import templates_of

GONE = "gone"
NUDGED = "kubehenge.dev/templates-made"


class KubeDriver:
    """
    Namespaces, Secrets, ClusterResourceSets and Clusters of one management cluster; its machines and classes to look at.

    `site_key` is the key of the HMACs that stand for tokens' secrets.
    """

    def __init__(
        self,
        client: KubeClient,
        access: secrets.ProxmoxAccess,
        *,
        site_key: bytes,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.client = client
        self._clock = clock
        self._reader = Reader(client, clock=clock)
        self._secrets = secrets.Secrets(client, access, site_key)
        self._providers = Providers(client)
        if access.capmox_secret is not None:
            client.secrets.append(access.capmox_secret)

    @classmethod
    def from_kubeconfig(
        cls,
        path: Path | None,
        *,
        site_key: bytes,
        proxmox_url: str,
        proxmox_ca: str = "",
        region: Callable[[], str] = str,
        capmox_token_id: str = "",
        capmox_secret: SecretStr | None = None,
        timeout_s: float = 20.0,
        hidden: Sequence[SecretStr] = (),
        politeness: Politeness | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> KubeDriver:
        """
        Make the driver from a kubeconfig file, or without one as the pod that this process is; no text shows any of `hidden`.

        Errors: SettingsError when that cannot be used.
        """
        limits = TimeLimits(connect_s=min(5.0, timeout_s), read_s=timeout_s, change_s=timeout_s)
        client = (
            KubeClient.from_kubeconfig(path, limits=limits, politeness=politeness)
            if path is not None
            else KubeClient.in_cluster(os.environ, limits=limits, politeness=politeness)
        )
        client.secrets.extend(hidden)
        access = secrets.ProxmoxAccess(
            url=proxmox_url.rstrip("/"), region=region, ca=proxmox_ca, capmox_token_id=capmox_token_id, capmox_secret=capmox_secret
        )
        return cls(client, access, site_key=site_key, clock=clock)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that it reads; those of `kinds.WRITTEN` it also writes."""
        return kinds.KINDS

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The one API server."""
        return (self.client.url,)

    def start_watching(self, changed: Callable[[], None] = lambda: None, *, watch_s: float = WATCH_S) -> None:
        """Follow the management cluster in the background, so that a reading costs no request (MODEL 24); `changed` hears of news."""
        self._reader.follow(watch_s=watch_s, changed=changed)

    def stop(self) -> None:
        """End the watches and close what is open."""
        self._reader.stop()
        self.client.close()

    def probe(self) -> list[Finding]:
        """Look at what the driver needs, for `kubehenge doctor`."""
        return probing.probe(self.client)

    # ---- reading

    def read_bulk(self, *, endpoint: str = "") -> BulkReading:  # noqa: ARG002 - there is one API server
        """Read all kinds."""
        return self._reader.read_bulk()

    def read(self, ref: ResourceRef, body: Body | None) -> Observed | None:  # noqa: ARG002 - its name says all
        """Read one resource now, past the watches."""
        if ref.kind == kinds.PROVIDER_SCALE:
            return self._providers.read(ref)
        found = applying.find(self.client, ref)
        return _observed(ref, found) if found is not None else None

    # ---- writing

    def create(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Make it, or bring what bears our mark to the body; RefusedError for what does not."""
        return self._apply(ref, body, context, create=True)

    def update(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:
        """Bring our fields to the body; RefusedError where another manager owns one with another value."""
        return self._apply(ref, body, context, create=False)

    def delete(self, ref: ResourceRef, body: Body, context: ActionContext) -> Outcome:  # noqa: ARG002 - its name says all
        """Delete what bears our mark, by its UID."""
        deleted = applying.delete(self.client, ref, context)
        if deleted.obj is None:
            self._reader.forget(ref)
            return Done(left=None, warnings=deleted.warnings)
        self._reader.learn(ref, deleted.obj)
        return replace(self._leaving(ref, deleted.obj), warnings=deleted.warnings)

    def look(self, ref: ResourceRef, handle: Mapping[str, Any], context: ActionContext) -> Outcome:  # noqa: ARG002 - the handle says all
        """Tell how a Cluster or a deletion stands."""
        found = applying.find(self.client, ref)
        if handle["want"] == GONE:
            if found is None or found["metadata"]["uid"] != handle["uid"]:
                self._reader.forget(ref)
                return Done(left=None, note="" if found is None else f"another object is called {ref.name} by now")
            return self._leaving(ref, found)
        if found is None:
            raise RefusedError(f"{kinds.called(ref)} was deleted while it was waited for. The next plan looks anew.")
        return self._standing(ref, found, generation=int(handle["generation"]), want=str(handle["want"]))

    def _apply(self, ref: ResourceRef, body: Body, context: ActionContext, *, create: bool) -> Outcome:
        if ref.kind == kinds.PROVIDER_SCALE:
            return self._providers.write(ref, body)
        resolved = resolve(body, context.lookup)
        # What it refuses it may quote, and an admission webhook's words are kept in the journal.
        self.client.secrets.extend(one for one in context.vault.secrets if one not in self.client.secrets)

        def compose() -> Mapping[str, Any]:
            manifest: Mapping[str, Any] = resolved
            return self._secrets.compose(ref, manifest, context) if ref.kind == kinds.SECRET else manifest

        applied = applying.apply(self.client, ref, compose, context, create=create)
        self._reader.learn(ref, applied.obj)
        if ref.kind == kinds.SECRET and secrets.is_capmox(body):
            self._wake_capmox(ref, body)
        if ref.kind == kinds.TEMPLATE:
            self._wake_classes(ref)
        if ref.kind == kinds.CLUSTER:
            return replace(self._after_cluster(ref, applied, create=create), warnings=applied.warnings)
        return Done(left=_observed(ref, applied.obj), warnings=applied.warnings)

    def _after_cluster(self, ref: ResourceRef, applied: applying.Applied, *, create: bool) -> Outcome:
        """
        Tell how it goes on after a write to a Cluster.

        A change of its metadata alone starts nothing and is done at once, also while a rollout runs; a write that changed
        nothing is the repetition of one whose answer was lost, and is waited for as that one.
        """
        meta, before = applied.obj["metadata"], applied.before["metadata"] if applied.before else None
        generation = int(meta.get("generation", 0))
        same_spec = not create and before is not None and before.get("generation") == generation
        if same_spec and before is not None and before.get("resourceVersion") != meta.get("resourceVersion"):
            return Done(left=_observed(ref, applied.obj))
        return self._standing(ref, applied.obj, generation=generation, want=clusters.AVAILABLE if create else clusters.ROLLED)

    def _standing(self, ref: ResourceRef, obj: reduce.Object, *, generation: int, want: str) -> Outcome:
        if want not in {clusters.AVAILABLE, clusters.ROLLED}:
            raise InvariantError(f"{ref.kind} cannot be waited to be {want!r}")
        rolled = want == clusters.ROLLED
        left = _observed(ref, obj)
        if clusters.is_settled(obj, generation=generation, rolled=rolled):
            return Done(left=left)
        waits_on, done, of = clusters.progress(obj, rolled=rolled, now=self._clock())
        handle = {"generation": generation, "want": want}
        return Pending(handle=handle, waits_on=waits_on, left=left, done=done, of=of, abandonable=True)

    def _leaving(self, ref: ResourceRef, obj: reduce.Object) -> Pending:
        handle = {"want": GONE, "uid": obj["metadata"]["uid"]}
        return Pending(handle=handle, waits_on=clusters.deletion(obj), left=_observed(ref, obj), abandonable=False)

    def _wake_classes(self, ref: ResourceRef) -> None:
        """Touch the classes that refer to a template: they may have been waiting for it, for up to 16 minutes more (MODEL 36)."""
        _, namespace, _ = kinds.find_place(ref)
        touched = {"metadata": {"annotations": {NUDGED: self._clock().isoformat(timespec="microseconds")}}}
        for one in self.client.list(kinds.CLASSES.within(namespace)).items:
            if any(target.name == ref.name for target in templates_of(one)):
                self.client.merge(kinds.CLASSES.one(namespace, one["metadata"]["name"]), touched)

    def _wake_capmox(self, ref: ResourceRef, body: Body) -> None:
        cluster = as_mapping(body["metadata"].get("labels")).get(kinds.CLUSTER_LABEL, "")
        try:
            secrets.nudge(self.client, ref, cluster, self._clock().isoformat(timespec="microseconds"))
        except RefusedError as exc:
            if not is_unserved(exc):
                raise


def _observed(ref: ResourceRef, obj: reduce.Object) -> Observed:
    if ref.kind == kinds.SECRET:
        return reduce.secret(obj)
    return reduce.template(obj) if ref.kind == kinds.TEMPLATE else reduce.whole(ref.kind, obj)
