"""Merge, JSON and strategic merge patches."""

from __future__ import annotations

import pytest

from tests.contract.objects import JSON_PATCH, STRATEGIC, Namespace, cluster, config_map


def test_merge_patch_sets_and_removes_fields(namespace: Namespace) -> None:
    namespace.make(config_map("x", {"a": "1", "b": "2"}))
    status, body = namespace.patch("ConfigMap", "x", {"data": {"a": None, "c": "3"}})
    assert status == 200
    assert body["data"] == {"b": "2", "c": "3"}


def test_merge_patch_replaces_lists(namespace: Namespace) -> None:
    pools = [{"class": "worker", "name": name, "replicas": 1} for name in ("a", "b")]
    namespace.make(cluster("c1", workers={"machineDeployments": pools}))
    change = {"spec": {"topology": {"workers": {"machineDeployments": pools[1:]}}}}
    _, body = namespace.patch("Cluster", "c1", change)
    assert [pool["name"] for pool in body["spec"]["topology"]["workers"]["machineDeployments"]] == ["b"]


def test_json_patch_changes_an_item_of_a_list(namespace: Namespace) -> None:
    namespace.make(cluster("c1", workers={"machineDeployments": [{"class": "worker", "name": "a", "replicas": 1}]}))
    change = [{"op": "replace", "path": "/spec/topology/workers/machineDeployments/0/replicas", "value": 5}]
    status, body = namespace.patch("Cluster", "c1", change, JSON_PATCH)
    assert status == 200
    assert body["spec"]["topology"]["workers"]["machineDeployments"][0]["replicas"] == 5


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/data/c", "value": "3"}, {"a": "1", "b/x": "2", "c": "3"}),
        ({"op": "remove", "path": "/data/a"}, {"b/x": "2"}),
        ({"op": "remove", "path": "/data/b~1x"}, {"a": "1"}),
        ({"op": "move", "from": "/data/a", "path": "/data/c"}, {"b/x": "2", "c": "1"}),
        ({"op": "copy", "from": "/data/a", "path": "/data/c"}, {"a": "1", "b/x": "2", "c": "1"}),
        ({"op": "test", "path": "/data/a", "value": "1"}, {"a": "1", "b/x": "2"}),
    ],
    ids=lambda value: value["op"] if isinstance(value, dict) and "op" in value else "",
)
def test_json_patch_operation(namespace: Namespace, operation: dict[str, str], expected: dict[str, str]) -> None:
    made = config_map("x")
    made["binaryData"] = {}
    made["data"] = {"a": "1", "b/x": "2"}
    if "b/x" in made["data"]:  # a ConfigMap's keys hold no slash: annotations do
        made["data"], made["metadata"]["annotations"] = {}, {"a": "1", "b/x": "2"}
    namespace.make(made)
    text = {
        name: value.replace("/data/", "/metadata/annotations/") if name in {"path", "from"} else value for name, value in operation.items()
    }
    status, body = namespace.patch("ConfigMap", "x", [text], JSON_PATCH)
    assert status == 200
    assert body["metadata"]["annotations"] == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/a", "value": "other"},
        {"op": "remove", "path": "/data/nothing"},
        {"op": "add", "path": "/nowhere/nothing", "value": "x"},
    ],
    ids=lambda operation: operation["op"],
)
def test_json_patch_that_does_not_hold_changes_nothing(namespace: Namespace, operation: dict[str, str]) -> None:
    namespace.make(config_map("x", {"a": "1"}))
    status, body = namespace.patch("ConfigMap", "x", [{"op": "add", "path": "/data/z", "value": "9"}, operation], JSON_PATCH)
    assert (status, body["reason"]) == (422, "Invalid")
    assert body["message"] == "the server rejected our request due to an error in our request"
    assert namespace.read("ConfigMap", "x")["data"] == {"a": "1"}


def test_json_patch_replaces_what_is_not_there(namespace: Namespace) -> None:
    namespace.make(config_map("x", {"a": "1"}))
    status, body = namespace.patch("ConfigMap", "x", [{"op": "replace", "path": "/data/b", "value": "2"}], JSON_PATCH)
    assert (status, body["data"]) == (200, {"a": "1", "b": "2"})


def test_strategic_patch_merges_owners_by_uid(namespace: Namespace) -> None:
    owner = namespace.make(config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    namespace.make(config_map("x", ownerReferences=[reference], finalizers=["kubehenge.dev/a"]))
    change = {"metadata": {"ownerReferences": [{**reference, "controller": True}], "finalizers": ["kubehenge.dev/b"]}}
    status, body = namespace.patch("ConfigMap", "x", change, STRATEGIC)
    assert status == 200
    assert body["metadata"]["ownerReferences"] == [{**reference, "controller": True}]
    assert sorted(body["metadata"]["finalizers"]) == ["kubehenge.dev/a", "kubehenge.dev/b"]
    change = {
        "metadata": {
            "ownerReferences": [{"uid": owner["metadata"]["uid"], "$patch": "delete"}],
            "$deleteFromPrimitiveList/finalizers": ["kubehenge.dev/a", "kubehenge.dev/b"],
        }
    }
    _, body = namespace.patch("ConfigMap", "x", change, STRATEGIC)
    assert not body["metadata"].get("ownerReferences")
    assert not body["metadata"].get("finalizers")


def test_custom_kinds_take_no_strategic_patch(namespace: Namespace) -> None:
    namespace.make(cluster("c1"))
    status, body = namespace.patch("Cluster", "c1", {"spec": {"paused": False}}, STRATEGIC)
    assert (status, body["reason"]) == (415, "UnsupportedMediaType")


def test_patch_with_an_old_version_is_a_conflict(namespace: Namespace) -> None:
    old = namespace.make(config_map("x"))["metadata"]["resourceVersion"]
    namespace.patch("ConfigMap", "x", {"data": {"a": "1"}})
    status, _ = namespace.patch("ConfigMap", "x", {"metadata": {"resourceVersion": old}, "data": {"a": "2"}})
    assert status == 409
