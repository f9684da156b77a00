"""
Reading all of the management cluster at once: from the watches where they run, by one list per kind where they do not.

Raw JSON, reduced once per object; Secrets as metadata only, so that none of their contents ever comes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any

from kubehenge.drivers.base import BulkReading
from kubehenge.drivers.kube import explaining, kinds, providers, reduce
from kubehenge.drivers.kube.client import METADATA, METADATA_LIST, KubeClient
from kubehenge.drivers.kube.errors import as_mapping, is_unserved
from kubehenge.drivers.kube.watching import WATCH_S, Follower, Snapshot, Source
from kubehenge.errors import KubehengeError, RefusedError, TransientError
from kubehenge.model.distribution import CLASS_NAMESPACE
from kubehenge.model.resource import Observed, ResourceRef
from kubehenge.resources.providers import VENDOR_PATCHES

_SECRET_ENDS = ("-proxmox-token", "-proxmox-credentials")
_SET_END = "-proxmox"


def _secret(obj: reduce.Object) -> Observed | None:
    """Ours by its mark, or by its name where somebody took the mark off; a cluster's other Secrets are Cluster API's."""
    found = reduce.secret(obj)
    cluster = as_mapping(obj["metadata"].get("labels")).get(kinds.CLUSTER_LABEL, "")
    named = obj["metadata"]["name"] in {f"{cluster}{end}" for end in _SECRET_ENDS}
    return found if found.mark or named else None


def _resource_set(obj: reduce.Object) -> Observed | None:
    found = reduce.whole(kinds.RESOURCE_SET, obj)
    return found if found.mark or found.ref.name.endswith(_SET_END) else None


def _status(obj: reduce.Object) -> Observed:
    return reduce.with_troubles(reduce.cluster_status(obj), [trouble.body for trouble in explaining.of_cluster(obj)])


def _vendor_patch(obj: reduce.Object) -> Observed | None:
    is_ours = obj["metadata"]["name"] in {patch.name for patch in VENDOR_PATCHES}
    return reduce.whole(kinds.VENDOR_PATCH, obj) if is_ours else None


SOURCES: Mapping[str, Source[Any]] = {
    "namespaces": Source(path=kinds.WRITTEN[kinds.NAMESPACE].all, keep=lambda obj: reduce.whole(kinds.NAMESPACE, obj)),
    "secrets": Source(
        path=kinds.WRITTEN[kinds.SECRET].all, keep=_secret, accept=METADATA_LIST, watch_accept=METADATA, labels=kinds.CLUSTER_LABEL
    ),
    "resource_sets": Source(path=kinds.WRITTEN[kinds.RESOURCE_SET].all, keep=_resource_set),
    "clusters": Source(path=kinds.CLUSTERS.all, keep=lambda obj: (reduce.whole(kinds.CLUSTER, obj), _status(obj))),
    "machines": Source(path=kinds.MACHINES.all, keep=reduce.machine),
    "proxmox_machines": Source(path=kinds.PROXMOX_MACHINES.all, keep=lambda obj: reduce.vm_place(obj, explaining.of_vm(obj))),
    "providers": Source(path=kinds.DEPLOYMENTS.all, keep=providers.controller, labels=providers.PROVIDER_LABEL),
    "vendor_patches": Source(path=kinds.WEBHOOKS.all, keep=_vendor_patch),
    "classes": Source(path=kinds.CLASSES.within(CLASS_NAMESPACE), keep=reduce.a_class),
    **{
        kind: Source(path=served.within(CLASS_NAMESPACE), keep=partial(reduce.template, kind=kind))
        for kind, served in kinds.TEMPLATES.items()
    },
}

_OF: Mapping[str, str] = {
    kinds.NAMESPACE: "namespaces",
    kinds.SECRET: "secrets",
    kinds.RESOURCE_SET: "resource_sets",
    kinds.CLUSTER: "clusters",
    kinds.VENDOR_PATCH: "vendor_patches",
    kinds.CLASS: "classes",
    kinds.CLASS_ALIAS: "classes",
}
"""The source that a written kind is read from; a template's is named like its kind in the API."""


def _source_of(ref: ResourceRef) -> str:
    return ref.name.partition("/")[0] if ref.kind == kinds.TEMPLATE else _OF[ref.kind]


class Reader:
    """The bulk reading of the management cluster."""

    def __init__(self, client: KubeClient, *, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._clock = clock
        self._followers: dict[str, Follower[Any]] = {}
        self._built: tuple[tuple[int, ...], BulkReading] | None = None

    def follow(self, *, watch_s: float = WATCH_S, changed: Callable[[], None] = lambda: None) -> None:
        """Begin to watch; readings cost nothing from the first lists on. `changed` is called when one would show something new."""
        if not self._followers:
            self._followers = {name: Follower(self._client, source, watch_s=watch_s, changed=changed) for name, source in SOURCES.items()}
            for follower in self._followers.values():
                follower.start()

    def stop(self) -> None:
        """End the watches."""
        followers, self._followers = self._followers, {}
        for follower in followers.values():
            follower.stop()

    def learn(self, ref: ResourceRef, obj: reduce.Object) -> None:
        """Take in what a write of ours has returned."""
        follower = self._followers.get(_source_of(ref))
        if follower is not None:
            follower.learn(obj)

    def forget(self, ref: ResourceRef) -> None:
        """Take out what is certainly gone."""
        follower = self._followers.get(_source_of(ref))
        if follower is not None:
            follower.forget(ref.name.partition("/")[2] if ref.kind == kinds.TEMPLATE else ref.name)

    def read_bulk(self) -> BulkReading:
        """
        Read all kinds; one whose list fails is named in `failed`.

        Shape: as long as no watch brought anything, the very same tuples are returned again.
        Errors: TransientError or RefusedError when nothing at all could be read.
        """
        for follower in self._followers.values():
            follower.await_first()
        read_at = self._clock()
        changes = tuple(-1 if follower.changes is None else follower.changes for follower in self._followers.values())
        if changes and -1 not in changes and self._built is not None and self._built[0] == changes:
            return self._again(self._built[1], read_at)
        answers, requests = self._answers()
        reading = self._put_together(answers, read_at, requests)
        if changes and -1 not in changes and not requests and not reading.failed:
            self._built = (changes, reading)
        return reading

    def _again(self, built: BulkReading, read_at: datetime) -> BulkReading:
        return BulkReading(items=built.items, read_at=read_at, endpoint=built.endpoint, endpoints=built.endpoints)

    def _answers(self) -> tuple[dict[str, Any], int]:
        """What each source holds, by key, or the error that reading it ended in; and how many requests that took."""
        answers: dict[str, Any] = {}
        for name, follower in self._followers.items():
            snapshot: Snapshot[Any] | None = follower.snapshot()
            if snapshot is not None:
                answers[name] = snapshot.values
        missing = [name for name in SOURCES if name not in answers]
        if not missing:
            return answers, 0
        requests = 0
        with ThreadPoolExecutor(max_workers=len(missing), thread_name_prefix="read-kube") as threads:
            for name, (values, sent) in zip(missing, threads.map(self._list, missing), strict=True):
                answers[name] = values
                requests += sent
        return answers, requests

    def _list(self, name: str) -> tuple[Any, int]:
        source = SOURCES[name]
        try:
            listed = self._client.list(source.path, accept=source.accept, labels=source.labels)
        except KubehengeError as exc:
            return exc, 1
        kept = ((reduce.key_of(obj), source.keep(obj)) for obj in listed.items)
        return {key: value for key, value in kept if value is not None}, listed.requests

    def _put_together(self, answers: Mapping[str, Any], read_at: datetime, requests: int) -> BulkReading:
        errors = [answer for answer in answers.values() if isinstance(answer, KubehengeError)]
        if len(errors) == len(SOURCES):
            raise next((error for error in errors if isinstance(error, TransientError)), errors[0])
        items: dict[str, tuple[Observed, ...]] = {}
        failed: dict[str, str] = {}
        for kind, name in ((kinds.NAMESPACE, "namespaces"), (kinds.SECRET, "secrets"), (kinds.RESOURCE_SET, "resource_sets")):
            _put(items, failed, (kind,), answers[name], lambda found: (tuple(found.values()),))
        _put(items, failed, (kinds.CLASS, kinds.CLASS_ALIAS), answers["classes"], _classes)
        _put(items, failed, (kinds.PROVIDER_SCALE,), answers["providers"], lambda found: (providers.scales(found.values()),))
        _put(items, failed, (kinds.VENDOR_PATCH,), answers["vendor_patches"], lambda found: (tuple(found.values()),))
        _put(items, failed, (kinds.TEMPLATE,), _templates(answers), lambda found: (tuple(found.values()),))
        vmids = answers["proxmox_machines"]
        if isinstance(vmids, RefusedError) and is_unserved(vmids):
            vmids = {}  # without the provider there are no VMs of its
        machines = vmids if isinstance(vmids, KubehengeError) else answers["machines"]
        _put(items, failed, (kinds.MACHINE,), machines, lambda found: (_machines(found, vmids),))
        others = _troubles(items.get(kinds.MACHINE, ()))
        _put(items, failed, (kinds.CLUSTER, kinds.STATUS), answers["clusters"], lambda found: _clusters(found, others))
        return BulkReading(
            items=items, read_at=read_at, failed=failed, endpoint=self._client.url, endpoints=(self._client.url,), requests=requests
        )


def _put(
    items: dict[str, tuple[Observed, ...]],
    failed: dict[str, str],
    names: tuple[str, ...],
    answer: Any,
    build: Callable[[Mapping[str, Any]], tuple[tuple[Observed, ...], ...]],
) -> None:
    if isinstance(answer, KubehengeError):
        failed |= dict.fromkeys(names, str(answer))
    else:
        items |= zip(names, build(answer), strict=True)


def _clusters(
    found: Mapping[str, Any], machines: Mapping[str, Sequence[Mapping[str, Any]]]
) -> tuple[tuple[Observed, ...], tuple[Observed, ...]]:
    """Clusters and how they stand, with the troubles of their machines."""
    whole = (reduce.with_troubles(status, machines.get(status.ref.name, ())) for _, status in found.values())
    return tuple(declared for declared, _ in found.values()), tuple(whole)


def _troubles(machines: Iterable[Observed]) -> dict[str, list[Mapping[str, Any]]]:
    """The troubles of machines, by cluster."""
    by_cluster: dict[str, list[tuple[str, str]]] = {}
    for one in machines:
        if "trouble" in one.body:
            by_cluster.setdefault(str(one.body["cluster"]), []).append((one.ref.name.rpartition("/")[2], str(one.body["trouble"])))
    return {scope: [trouble.body for trouble in explaining.of_machines(those)] for scope, those in by_cluster.items()}


def _classes(found: Mapping[str, Observed]) -> tuple[tuple[Observed, ...], tuple[Observed, ...]]:
    of = {kind: tuple(one for one in found.values() if one.ref.kind == kind) for kind in (kinds.CLASS, kinds.CLASS_ALIAS)}
    return of[kinds.CLASS], of[kinds.CLASS_ALIAS]


def _templates(answers: Mapping[str, Any]) -> Any:
    """Return all templates, or the error that reading one of their kinds ended in; a provider that is not there has none."""
    found: dict[str, Observed] = {}
    for kind in kinds.TEMPLATES:
        answer = answers[kind]
        if isinstance(answer, KubehengeError):
            if not (isinstance(answer, RefusedError) and is_unserved(answer)):
                return answer
        else:
            found |= {one.ref.name: one for one in answer.values()}
    return found


def _machines(found: Mapping[str, Any], places: Mapping[str, reduce.VmPlace]) -> tuple[Observed, ...]:
    return reduce.with_vms(found.values(), places)
