"""Reading the management cluster at once, by lists and by watches (MODEL 24; ACCEPTANCE 1.15)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from kubehenge.drivers.base import BulkReading
from kubehenge.drivers.kube import kinds
from kubehenge.drivers.kube.watching import Follower, Source
from kubehenge.errors import RefusedError, TransientError
from kubehenge.lab.faults import FaultAction
from kubehenge.lab.kube import kinds as served
from kubehenge.lab.kube.registry import WriteOptions
from kubehenge.model.identity import mark_annotations
from tests.drivers.kube_resources import declared, resource
from tests.drivers.servers import KubeSite, incarnation

pytestmark = pytest.mark.lab

WHO = incarnation()
CLUSTER = kinds.CLUSTERS.one("clusters", "prod")
DEADLINE_S = 20

LISTS = 17
"""One for each kind: nine, and the eight kinds of templates that classes refer to."""


def until(look: Callable[[], Any], what: str = "") -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return found


def fill(kube: KubeSite, clusters: int) -> None:
    """Clusters with their Secrets and machines, put into the simulator directly."""

    async def put() -> None:
        options = WriteOptions(manager="tests")
        registry = kube.sim.registry
        for number in range(clusters):
            who = incarnation(f"c{number}")
            meta = {"namespace": "clusters", "annotations": mark_annotations(who)}
            body = declared(who.name)
            registry.create(served.CLUSTER, "clusters", {**body, "metadata": {**meta, "name": who.name}}, options)
            for end in ("token", "credentials"):
                named = {**meta, "name": f"{who.name}-proxmox-{end}", "labels": {kinds.CLUSTER_LABEL: who.name}}
                registry.create(served.SECRET, "clusters", {"metadata": named, "data": {"x": "c2VjcmV0"}}, options)
            spec = {"clusterName": who.name, "bootstrap": {"dataSecretName": "x"}}
            reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ProxmoxMachine", "name": f"{who.name}-m"}
            machine = {"metadata": {"name": f"{who.name}-m"}, "spec": {**spec, "infrastructureRef": reference}}
            registry.create(served.MACHINE, "clusters", machine, options)

    kube._loop.run(put())


@pytest.mark.parametrize("clusters", [0, 10, 300])
def test_the_number_of_lists_does_not_depend_on_the_number_of_clusters(kube: KubeSite, clusters: int) -> None:
    fill(kube, clusters)
    before = kube.calls.last_n
    reading = kube.driver.read_bulk()
    assert len(kube.since(before)) == reading.requests == LISTS
    assert reading.failed == {}
    assert reading.items.keys() == kube.driver.kinds
    assert len(reading.items["kube.cluster"]) == len(reading.items["kube.machine"]) == clusters
    assert len(reading.items["kube.secret"]) == 2 * clusters


def test_a_long_list_comes_page_by_page(kube: KubeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubehenge.drivers.kube.client.PAGE", 7)
    fill(kube, 20)
    reading = kube.driver.read_bulk()
    assert len({found.ref for found in reading.items["kube.secret"]}) == 40
    assert reading.requests > LISTS


def test_a_clusters_other_secrets_are_left_out(kube: KubeSite) -> None:
    it = resource(kube, "token", WHO)
    kube.driver.create(it.ref, it.body, kube.context(WHO))
    for name, labels in (("prod-kubeconfig", {kinds.CLUSTER_LABEL: "prod"}), ("prod-proxmox-credentials", {}), ("plain", {})):
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}}
        kube.admin._change("POST", "/api/v1/namespaces/clusters/secrets", body, query={"fieldManager": "x"})
    assert [found.ref.name for found in kube.driver.read_bulk().items["kube.secret"]] == ["clusters/prod-proxmox-token"]


def test_a_secret_whose_mark_was_taken_off_is_still_seen(kube: KubeSite) -> None:
    it = resource(kube, "token", WHO)
    kube.driver.create(it.ref, it.body, kube.context(WHO))
    kube.admin.merge("/api/v1/namespaces/clusters/secrets/prod-proxmox-token", {"metadata": {"annotations": {"kubehenge.dev/site": None}}})
    [found] = kube.driver.read_bulk().items["kube.secret"]
    assert found.mark is None


@pytest.mark.parametrize(
    ("path", "failed"),
    [
        ("/secrets", {"kube.secret"}),
        ("/clusters$|/clusters\\?", {"kube.cluster", "kube.cluster_status"}),
        ("/proxmoxmachines", {"kube.machine"}),
        ("/machines\\?", {"kube.machine"}),
        ("/clusterclasses", {"kube.class", "kube.class_alias"}),
        ("/rke2configtemplates", {"kube.class_template"}),
    ],
)
def test_a_list_that_is_refused_fails_its_own_kinds_only(kube: KubeSite, path: str, failed: set[str]) -> None:
    kube.fault(FaultAction.STATUS, path=path, status=403, reason="secrets is forbidden", times=None)
    reading = kube.driver.read_bulk()
    assert reading.failed.keys() == failed
    assert reading.items.keys() == kube.driver.kinds - failed


def test_a_list_that_breaks_off_is_read_again(kube: KubeSite) -> None:
    kube.fault(FaultAction.CUT, path="/secrets")
    assert kube.driver.read_bulk().failed == {}


@pytest.mark.parametrize(("status", "error"), [(500, TransientError), (403, RefusedError)])
def test_when_nothing_can_be_read_it_says_so(kube: KubeSite, status: int, error: type[Exception]) -> None:
    kube.fault(FaultAction.STATUS, status=status, reason="no", times=None)
    with pytest.raises(error):
        kube.driver.read_bulk()


# ---- watches


def watching(kube: KubeSite, *, watch_s: float = 60) -> None:
    kube.driver.start_watching(watch_s=watch_s)
    until(lambda: kube.driver.read_bulk().requests == 0, "the first lists")


def prod(reading: BulkReading) -> list[Any]:
    return [found for found in reading.items["kube.cluster"] if found.ref.name == "clusters/prod"]


def test_a_reading_costs_no_request_while_the_watches_are_open(kube: KubeSite) -> None:
    fill(kube, 10)
    by_lists = kube.driver.read_bulk()
    watching(kube)
    before = kube.calls.last_n
    readings = [kube.driver.read_bulk() for _ in range(5)]
    assert kube.since(before) == ()
    for reading in readings:
        assert {kind: set(map(str, found)) for kind, found in reading.items.items()} == {
            kind: set(map(str, found)) for kind, found in by_lists.items.items()
        }
        assert all(reading.items[kind] is readings[0].items[kind] for kind in reading.items)  # nothing changed: the very same tuples


def test_the_first_reading_waits_for_the_lists_of_the_watches_and_makes_none_of_its_own(kube: KubeSite) -> None:
    fill(kube, 3)
    kube.driver.start_watching(watch_s=60)
    assert kube.driver.read_bulk().requests == 0
    assert sum("limit=" in call.path for call in kube.since(0)) == LISTS


def test_what_others_do_comes_by_the_watch(kube: KubeSite) -> None:
    watching(kube)
    kube.admin.apply(CLUSTER, declared("prod"))
    until(lambda: prod(kube.driver.read_bulk()))
    kube.admin.merge(CLUSTER, {"metadata": {"labels": {"tier": "gold"}}})
    until(lambda: prod(kube.driver.read_bulk())[0].body["metadata"].get("labels") == {"tier": "gold"})
    kube.admin.delete(CLUSTER, uid=kube.admin.get(CLUSTER)["metadata"]["uid"])
    until(lambda: not prod(kube.driver.read_bulk()))


def test_our_own_writes_are_in_the_very_next_reading(kube: KubeSite) -> None:
    watching(kube)
    before = kube.calls.last_n
    for name in ("kube.cluster", "token", "credentials", "kube.resource_set", "kube.namespace"):
        it = resource(kube, name, WHO)
        kube.driver.create(it.ref, it.body, kube.context(WHO))
        reading = kube.driver.read_bulk()
        assert it.ref in {found.ref for found in reading.items[it.ref.kind]}
        if name != "kube.namespace":
            kube.driver.delete(it.ref, it.body, kube.context(WHO))
            reading = kube.driver.read_bulk()
            assert it.ref not in {found.ref for found in reading.items[it.ref.kind]}
    assert not any("limit=" in call.path and "proxmoxclusters" not in call.path for call in kube.since(before))


def test_a_watch_whose_time_is_over_goes_on_without_a_new_list(kube: KubeSite) -> None:
    watching(kube, watch_s=1)
    before = kube.calls.last_n
    until(lambda: sum("watch=1" in call.path for call in kube.since(before)) >= 2 * LISTS, "the next watches")
    assert not any("limit=" in call.path for call in kube.since(before))
    kube.admin.apply(CLUSTER, declared("prod"))
    until(lambda: prod(kube.driver.read_bulk()))


@pytest.mark.parametrize("action", [FaultAction.STATUS, FaultAction.REFUSE, FaultAction.HTML])
def test_a_watch_that_cannot_be_opened_is_tried_again_and_readings_use_lists(kube: KubeSite, action: FaultAction) -> None:
    rule = kube.fault(action, path="watch=1", status=503, times=None)
    kube.driver.start_watching(watch_s=60)
    reading = kube.driver.read_bulk()
    assert reading.requests >= LISTS
    assert reading.failed == {}
    kube.faults.remove(rule.id)
    until(lambda: kube.driver.read_bulk().requests == 0, "the watches")


def test_a_place_that_is_too_old_is_listed_anew(kube: KubeSite) -> None:
    kube.fault(FaultAction.STATUS, path="/clusters\\?.*watch=1", status=410, reason="too old resource version")
    watching(kube)
    lists = [call for call in kube.since(0) if "/clusters?" in call.path and "limit=" in call.path]
    assert len(lists) >= 2


@pytest.mark.parametrize(
    "event",
    [
        {"type": "ERROR", "object": {"kind": "Status", "code": 410}},
        {"type": "ERROR", "object": {"kind": "Status", "code": 500}},
        {"type": "SONG", "object": {}},
        {"type": "MODIFIED", "object": "?"},
    ],
    ids=str,
)
def test_an_event_that_is_none_begins_the_watch_anew(kube: KubeSite, event: dict[str, Any]) -> None:
    watching(kube)
    follower = kube.driver._reader._followers["clusters"]
    with pytest.raises(TransientError, match="begins anew"):
        follower._take(event)
    follower._take({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "77"}}})
    assert follower._version == "77"


def test_an_older_state_does_not_undo_a_newer_one(kube: KubeSite) -> None:
    it = resource(kube, "kube.cluster", WHO)
    kube.driver.create(it.ref, it.body, kube.context(WHO))
    older = kube.admin.get(CLUSTER)
    watching(kube)
    kube.admin.merge(CLUSTER, {"metadata": {"labels": {"tier": "gold"}}})
    until(lambda: "tier" in prod(kube.driver.read_bulk())[0].body["metadata"]["labels"])
    kube.driver._reader._followers["clusters"]._take({"type": "MODIFIED", "object": older})
    assert "tier" in prod(kube.driver.read_bulk())[0].body["metadata"]["labels"]


def test_stopping_ends_the_watches_at_once_and_readings_go_on(kube: KubeSite) -> None:
    watching(kube)
    began = time.monotonic()
    kube.driver.stop()
    assert time.monotonic() - began < DEADLINE_S
    assert kube.driver.read_bulk().requests == LISTS
    kube.driver.start_watching()
    until(lambda: kube.driver.read_bulk().requests == 0, "the watches")


def test_a_connection_that_breaks_under_a_watch_is_made_again(kube: KubeSite) -> None:
    watching(kube)
    follower = kube.driver._reader._followers["clusters"]
    assert follower._stream is not None
    follower._stream.close()
    kube.admin.apply(CLUSTER, declared("prod"))
    until(lambda: prod(kube.driver.read_bulk()))
    until(lambda: kube.driver.read_bulk().requests == 0, "the watch")


def test_a_watch_survives_what_nobody_expected(kube: KubeSite) -> None:
    """A thread that died would go on showing what was once there."""
    fill(kube, 1)
    stumbles = [ValueError("nobody expected this"), KeyError("metadata")]

    def keep(obj: Any) -> Any:
        if stumbles:
            raise stumbles.pop()
        return obj["metadata"]["name"]

    follower = Follower(kube.driver.client, Source(path=kinds.CLUSTERS.all, keep=keep))
    follower.start()
    try:
        found = until(follower.snapshot, "the watch did not recover")
        assert list(found.values.values()) == ["c0"]
        assert not stumbles
    finally:
        follower.stop()
