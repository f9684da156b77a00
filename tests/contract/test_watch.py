"""Lists, selectors, pages, watches, and the forms of answers."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes import watch
from urllib3.exceptions import ProtocolError

from tests.contract.objects import Namespace, cluster, config_map

_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
def colours(namespace: Namespace) -> Namespace:
    for name, labels in (("a", {"colour": "red"}), ("b", {"colour": "blue", "big": ""}), ("c", {}), ("d", {"colour": "green"})):
        namespace.make(config_map(name, labels=labels))
    return namespace


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", ["a", "b", "c", "d"]),
        ("colour=red", ["a"]),
        ("colour==red", ["a"]),
        ("colour!=red", ["b", "c", "d"]),
        ("colour", ["a", "b", "d"]),
        ("!colour", ["c"]),
        ("colour in (red, blue)", ["a", "b"]),
        ("colour notin (red,blue)", ["c", "d"]),
        ("colour,big", ["b"]),
        ("colour in (red,blue),!big", ["a"]),
    ],
)
def test_labels_select(colours: Namespace, selector: str, expected: list[str]) -> None:
    quoted = selector.replace(" ", "%20").replace("=", "%3D").replace("!", "%21").replace(",", "%2C")
    assert colours.names("ConfigMap", f"?labelSelector={quoted}") == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [("metadata.name%3Da", ["a"]), ("metadata.name!%3Da", ["b", "c", "d"]), ("metadata.namespace%3Dnowhere", [])],
)
def test_fields_select_by_name_and_namespace(colours: Namespace, selector: str, expected: list[str]) -> None:
    assert colours.names("ConfigMap", f"?fieldSelector={selector}") == expected


def test_other_fields_cannot_be_selected_by(namespace: Namespace) -> None:
    status, body = namespace.list("Cluster", "?fieldSelector=spec.paused%3Dtrue")
    assert status == 400
    assert "field label not supported: spec.paused" in body["message"]


def test_selector_that_cannot_be_read_is_refused(namespace: Namespace) -> None:
    assert namespace.list("ConfigMap", "?labelSelector=a%3D%3D%3Db%20c")[0] == 400


def test_list_names_its_kind_and_version(namespace: Namespace) -> None:
    namespace.make(cluster("c1"))
    status, body = namespace.list("Cluster")
    assert status == 200
    assert (body["kind"], body["apiVersion"]) == ("ClusterList", "cluster.x-k8s.io/v1beta2")
    assert int(body["metadata"]["resourceVersion"]) >= int(body["items"][0]["metadata"]["resourceVersion"])


def test_list_comes_in_pages(colours: Namespace) -> None:
    seen: list[str] = []
    query, pages = "?limit=2", 0
    while query:
        _, body = colours.list("ConfigMap", query)
        seen += [item["metadata"]["name"] for item in body["items"]]
        assert len(body["items"]) <= 2
        pages += 1
        token = body["metadata"].get("continue")
        query = f"?limit=2&continue={token}" if token else ""
    assert [name for name in seen if name != "kube-root-ca.crt"] == ["a", "b", "c", "d"]
    assert pages >= 2


def test_first_page_says_how_many_remain(colours: Namespace) -> None:
    _, body = colours.list("ConfigMap", "?limit=1")
    assert body["metadata"]["remainingItemCount"] >= 3


def test_token_that_cannot_be_read_is_refused(namespace: Namespace) -> None:
    assert namespace.list("ConfigMap", "?limit=1&continue=nonsense")[0] == 400


def test_list_over_all_namespaces(namespace: Namespace) -> None:
    namespace.make(config_map("x", labels={"mine": namespace.name}))
    status, body = namespace.server.call("GET", f"/api/v1/configmaps?labelSelector=mine%3D{namespace.name}")
    assert status == 200
    assert [item["metadata"]["namespace"] for item in body["items"]] == [namespace.name]


def test_metadata_alone_can_be_asked_for(namespace: Namespace) -> None:
    namespace.make(cluster("c1"))
    status, body = namespace.list("Cluster", accept=_METADATA)
    assert status == 200
    assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    (item,) = body["items"]
    assert item["metadata"]["name"] == "c1"
    assert "spec" not in item
    assert item["kind"] == "PartialObjectMetadata"


def test_table_can_be_asked_for(namespace: Namespace) -> None:
    namespace.make(config_map("x"))
    _, body = namespace.list("ConfigMap", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert body["kind"] == "Table"
    assert "x" in [row["cells"][0] for row in body["rows"]]


# ---- watches


@contextmanager
def _watching(namespace: Namespace, **options: Any) -> Iterator[queue.Queue[tuple[str, str, Any]]]:
    """Events of ConfigMaps as (type, name, object), read by a thread."""
    seen: queue.Queue[tuple[str, str, Any]] = queue.Queue()
    resource = namespace.server.dynamic().resources.get(api_version="v1", kind="ConfigMap")
    stopper = watch.Watch()

    def read() -> None:
        with contextlib.suppress(ProtocolError):  # how the client ends a watch that it was told to stop
            for event in resource.watch(namespace=namespace.name, watcher=stopper, timeout=20, **options):
                name = event["raw_object"].get("metadata", {}).get("name", "")
                if name != "kube-root-ca.crt":
                    seen.put((event["type"], name, event["raw_object"]))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stopper.stop()
        thread.join(30)


def _next(seen: queue.Queue[tuple[str, str, Any]]) -> tuple[str, str]:
    kind, name, _ = seen.get(timeout=20)
    return kind, name


def test_watch_tells_what_happens(namespace: Namespace) -> None:
    namespace.make(config_map("x"))
    with _watching(namespace) as seen:
        assert _next(seen) == ("ADDED", "x")
        namespace.make(config_map("y"))
        assert _next(seen) == ("ADDED", "y")
        namespace.patch("ConfigMap", "y", {"data": {"a": "1"}})
        assert _next(seen) == ("MODIFIED", "y")
        namespace.delete("ConfigMap", "x")
        kind, name, last = seen.get(timeout=20)
        assert (kind, name) == ("DELETED", "x")
        assert int(last["metadata"]["resourceVersion"]) > 0


def test_watch_goes_on_from_a_version(namespace: Namespace) -> None:
    first = namespace.make(config_map("x"))
    namespace.make(config_map("y"))
    with _watching(namespace, resource_version=first["metadata"]["resourceVersion"]) as seen:
        assert _next(seen) == ("ADDED", "y")


def test_object_that_leaves_the_selection_is_deleted_for_the_watch(namespace: Namespace) -> None:
    namespace.make(config_map("x", labels={"colour": "red"}))
    with _watching(namespace, label_selector="colour=red") as seen:
        assert _next(seen) == ("ADDED", "x")
        namespace.make(config_map("y", labels={"colour": "blue"}))
        namespace.patch("ConfigMap", "x", {"metadata": {"labels": {"colour": "blue"}}})
        assert _next(seen) == ("DELETED", "x")
        namespace.patch("ConfigMap", "x", {"metadata": {"labels": {"colour": "red"}}})
        assert _next(seen) == ("ADDED", "x")


def test_watch_from_before_what_is_kept_is_told_to_list_again(namespace: Namespace) -> None:
    status, event = namespace.list("Cluster", "?watch=true&resourceVersion=1&timeoutSeconds=1")
    assert status == 200
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"].startswith("too old resource version: 1 (")


def test_watch_from_nowhere_is_refused(namespace: Namespace) -> None:
    status, body = namespace.list("ConfigMap", "?watch=true&resourceVersion=abc&timeoutSeconds=1")
    assert status == 500
    assert body["message"] == 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'


def test_watch_ends_when_its_time_is_over(namespace: Namespace) -> None:
    status, _ = namespace.list("ConfigMap", "?watch=true&timeoutSeconds=1&labelSelector=none")
    assert status == 200
