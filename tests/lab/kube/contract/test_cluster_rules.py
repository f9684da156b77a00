"""What Cluster API's and capmox's webhooks fill in and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.kube.contract.objects import APPLY, Namespace, cluster, cluster_class, path_of
from tests.lab.kube.running import until

_REFUSED = 'admission webhook "{}.cluster.cluster.x-k8s.io" denied the request: Cluster.cluster.x-k8s.io "c1" is invalid: '


@pytest.fixture
def with_class(namespace: Namespace) -> Namespace:
    for body in cluster_class("plain"):
        namespace.make(body)
    until(lambda: namespace.post(_cluster([]), "?dryRun=All")[0] == 422)  # a real server reads the class a moment later
    return namespace


def _cluster(variables: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return cluster("c1", class_name="plain", variables=variables, **more)


_CORES = [{"name": "cores", "value": 4}]


def test_defaults_of_variables_are_written_into_the_cluster(with_class: Namespace) -> None:
    made = with_class.make(_cluster([*_CORES, {"name": "size", "value": {"diskGiB": 60}}]))
    values = {entry["name"]: entry["value"] for entry in made["spec"]["topology"]["variables"]}
    assert values == {"cores": 4, "mode": "off", "size": {"diskGiB": 60, "memoryMiB": 4096}}


def test_defaults_belong_to_no_manager_and_stay(with_class: Namespace) -> None:
    first = with_class.applied(_cluster(_CORES))
    again = with_class.applied(_cluster([{"name": "cores", "value": 5}]))
    for body in (first, again):
        (entry,) = body["metadata"]["managedFields"]
        assert list(entry["fieldsV1"]["f:spec"]["f:topology"]["f:variables"]) == ['k:{"name":"cores"}']
        assert {entry["name"] for entry in body["spec"]["topology"]["variables"]} == {"cores", "mode"}


def test_required_variable_must_be_set(with_class: Namespace) -> None:
    status, body = with_class.post(_cluster([]))
    assert (status, body["reason"]) == (422, "Invalid")
    assert body["message"] == _REFUSED.format("default") + 'spec.topology.variables: Required value: required variable "cores" must be set'
    assert body["details"]["causes"] == [
        {
            "reason": "FieldValueRequired",
            "message": 'Required value: required variable "cores" must be set',
            "field": "spec.topology.variables",
        }
    ]


def test_undefined_variable_is_refused(with_class: Namespace) -> None:
    status, body = with_class.post(_cluster([*_CORES, {"name": "colour", "value": "red"}]))
    assert status == 422
    (cause,) = body["details"]["causes"]
    assert cause["field"] == "spec.topology.variables[colour]"
    assert cause["message"].endswith("variable is not defined")


@pytest.mark.parametrize(
    ("name", "value", "field", "words"),
    [
        ("cores", 9, "spec.topology.variables[cores].value", "should be less than or equal to 8"),
        ("cores", "four", "spec.topology.variables[cores].value", "must be of type integer"),
        ("mode", "always", "spec.topology.variables[mode].value", 'supported values: "off", "patch"'),
        ("size", {"memoryMiB": 1}, "spec.topology.variables[size].value.memoryMiB", "should be greater than or equal to 1024"),
        ("size", {"colour": 1}, "spec.topology.variables[size]", "are not specified in the variable schema"),
    ],
)
def test_value_against_its_schema_is_refused(with_class: Namespace, name: str, value: Any, field: str, words: str) -> None:
    others = [entry for entry in _CORES if entry["name"] != name]
    status, body = with_class.post(_cluster([*others, {"name": name, "value": value}]))
    assert status == 422
    (cause,) = body["details"]["causes"]
    assert cause["field"] == field
    assert words in cause["message"]


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("v1.37.0", 'version cannot be increased from "1.35.0" to "1.37.0"'),
        ("v1.34.9", 'version cannot be decreased from "1.35.0" to "1.34.9"'),
        ("v1.36.0", "version cannot be changed: "),  # no control plane runs the old one yet
        ("v1.x", "version must be a valid semantic version"),
    ],
)
def test_version_step_is_judged(namespace: Namespace, version: str, words: str) -> None:
    namespace.make(cluster("c1"))
    status, body = namespace.patch("Cluster", "c1", {"spec": {"topology": {"version": version}}})
    assert (status, body["reason"]) == (422, "Invalid")
    assert body["message"].startswith(_REFUSED.format("validation") + f'spec.topology.version: Invalid value: "{version}": ')
    assert words in body["message"]
    assert namespace.read("Cluster", "c1")["spec"]["topology"]["version"] == "v1.35.0"


def test_version_gets_its_letter(namespace: Namespace) -> None:
    assert namespace.make(cluster("c1", version="1.35.0"))["spec"]["topology"]["version"] == "v1.35.0"


def test_topology_cannot_be_removed(namespace: Namespace) -> None:
    namespace.make(cluster("c1"))
    status, body = namespace.patch("Cluster", "c1", {"spec": {"topology": None}})
    assert status == 422
    assert "spec.topology" in [cause["field"] for cause in body["details"]["causes"]]


def test_missing_class_is_a_warning(namespace: Namespace) -> None:
    namespace.make(cluster("c1"))


def test_class_in_use_is_not_deleted(with_class: Namespace) -> None:
    with_class.make(_cluster(_CORES))
    status, body = with_class.delete("ClusterClass", "plain")
    assert (status, body["reason"]) == (403, "Forbidden")
    assert f"ClusterClass cannot be deleted because it is used by Cluster(s): {with_class.name}/c1" in body["message"]


def test_machine_template_is_immutable(with_class: Namespace) -> None:
    status, body = with_class.patch("ProxmoxMachineTemplate", "plain", {"spec": {"template": {"spec": {"numCores": 8}}}})
    assert (status, body["reason"]) == (422, "Invalid")
    assert body["message"] == (
        'admission webhook "validation.proxmoxmachinetemplate.infrastructure.cluster.x-k8s.io" denied the request: '
        'ProxmoxMachineTemplate.infrastructure.cluster.x-k8s.io "plain" is invalid: spec: Forbidden: ProxmoxMachineTemplate is immutable'
    )


def test_refused_apply_leaves_no_trace(with_class: Namespace) -> None:
    path = path_of(with_class.name, "Cluster", "c1") + "?fieldManager=tester"
    status, _ = with_class.server.call("PATCH", path, _cluster([{"name": "cores", "value": 99}]), media=APPLY)
    assert status == 422
    assert with_class.get("Cluster", "c1")[0] == 404
