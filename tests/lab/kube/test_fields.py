"""Field sets, merges and patches, as properties."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubehenge.lab.kube import apply, fieldset, kinds
from kubehenge.lab.kube.apply import Manager
from kubehenge.lab.kube.errors import ApiError
from kubehenge.lab.kube.patch import merge_patch

_NOW = "2026-11-30T12:00:00Z"
_names = st.sampled_from(["a", "b", "c"])
# A variable keeps its type, as its schema asks for.
_values = {
    "a": st.integers(0, 3),
    "b": st.sampled_from(["x", "y"]),
    "c": st.dictionaries(_names, st.integers(0, 3), min_size=1, max_size=2),
}


@st.composite
def topologies(draw: st.DrawFn) -> dict[str, Any]:
    """A part of a Cluster that one manager might apply."""
    topology: dict[str, Any] = {"classRef": {"name": "k"}, "version": draw(st.sampled_from(["v1", "v2"]))}
    variables = draw(st.lists(_names, unique=True))
    if variables:
        topology["variables"] = [{"name": name, "value": draw(_values[name])} for name in variables]
    pools = draw(st.dictionaries(_names, st.integers(0, 3), max_size=2))
    if pools:
        topology["workers"] = {"machineDeployments": [{"class": "w", "name": name, "replicas": count} for name, count in pools.items()]}
    labels = draw(st.dictionaries(_names, st.sampled_from(["1", "2"]), max_size=2))
    meta: dict[str, Any] = {"name": "c", "namespace": "n", **({"labels": labels} if labels else {})}
    return {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": meta, "spec": {"topology": topology}}


def _manager(name: str) -> Manager:
    return Manager(name=name, operation="Apply", api_version="cluster.x-k8s.io/v1beta2")


def _apply(live: dict[str, Any], config: dict[str, Any], name: str, *, force: bool = True) -> dict[str, Any]:
    return apply.apply(kinds.CLUSTER, live, copy.deepcopy(config), _manager(name), _NOW, force=force)


_EMPTY: dict[str, Any] = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {}}


def _content(obj: dict[str, Any]) -> Any:
    """An object without its ownership, lists by their keys."""
    meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    topology = dict(obj.get("spec", {}).get("topology", {}))
    topology["variables"] = {entry["name"]: entry for entry in topology.get("variables", [])}
    topology["workers"] = {entry["name"]: entry for entry in topology.get("workers", {}).get("machineDeployments", [])}
    return {"metadata": meta, "topology": topology}


@given(topologies())
def test_field_sets_survive_their_notation(config: dict[str, Any]) -> None:
    paths = fieldset.fields_of(kinds.CLUSTER.schema, config)
    assert frozenset(fieldset.from_fields_v1(fieldset.to_fields_v1(paths))) == paths


@given(topologies())
def test_applied_object_is_what_was_applied(config: dict[str, Any]) -> None:
    assert _content(_apply(_EMPTY, config, "one")) == _content(config)


@given(topologies(), topologies())
def test_sole_manager_gets_exactly_what_it_applied_last(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = _apply(_apply(_EMPTY, first, "one"), second, "one", force=False)
    assert _content(live) == _content(second)


@given(topologies(), topologies())
def test_applying_again_changes_nothing(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = _apply(_apply(_EMPTY, first, "one"), second, "two")
    assert _apply(live, second, "two", force=False) == live


@given(topologies(), topologies(), topologies())
def test_what_another_manager_applied_survives(first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]) -> None:
    live = _apply(_apply(_EMPTY, first, "one"), second, "two")
    before = _owned(live, "two")
    try:
        live = _apply(live, third, "one", force=False)
    except ApiError:
        return  # a conflict: nothing has changed
    assert _owned(live, "two") == before
    again = _apply(live, second, "two", force=False)
    assert _content(again) == _content(live)


def _owned(obj: dict[str, Any], name: str) -> Any:
    return next((entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", []) if entry["manager"] == name), None)


@given(topologies(), topologies())
def test_difference_is_empty_exactly_for_equal_objects(first: dict[str, Any], second: dict[str, Any]) -> None:
    difference = fieldset.compare(kinds.CLUSTER.schema, first, second)
    changed = bool(difference.added | difference.modified | difference.removed)
    assert changed == (_content(first) != _content(second))


@given(topologies(), topologies())
def test_update_owns_what_it_changed(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = _apply(_EMPTY, first, "one")
    manager = Manager(name="editor", operation="Update", api_version="cluster.x-k8s.io/v1beta2")
    new = {**copy.deepcopy(second), "metadata": {**second["metadata"], "managedFields": live["metadata"]["managedFields"]}}
    changed = apply.track_update(kinds.CLUSTER, live, new, manager, _NOW)
    assert (_owned(changed, "editor") is not None) == bool(
        {path for path in _added_or_modified(first, second) if path not in {("f:metadata",), ("f:metadata", "f:name")}}
    )


def _added_or_modified(first: dict[str, Any], second: dict[str, Any]) -> frozenset[tuple[str, ...]]:
    difference = fieldset.compare(kinds.CLUSTER.schema, first, second)
    return difference.added | difference.modified


_json = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=8,
)
_objects = st.dictionaries(_names, _json, max_size=3)


@given(_objects, _objects)
def test_merge_patch_is_idempotent(value: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch(value, patch)
    assert merge_patch(once, patch) == once


@given(_objects)
def test_empty_merge_patch_changes_nothing(value: dict[str, Any]) -> None:
    assert merge_patch(value, {}) == value
