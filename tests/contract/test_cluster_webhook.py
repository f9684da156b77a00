"""What Cluster API's and capmox's webhooks fill in and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.objects import APPLY, Namespace, cluster, cluster_class, owners_of, path_of
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
        assert list(owners_of(body)["tester"]["f:spec"]["f:topology"]["f:variables"]) == ['k:{"name":"cores"}']
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
    causes = body["details"]["causes"]
    assert [cause["field"] for cause in causes] == [
        "spec.topology.variables[colour]"
    ] * 2  # told when it is filled in, and when it is checked
    assert causes[0]["message"] == 'Invalid value: "\\"red\\"": variable is not defined'


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
    assert f'spec.topology.version: Invalid value: "{version}": ' in body["message"]
    assert body["message"].startswith(_REFUSED.format("validation"))
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
    warnings: list[str] = []
    path = path_of(namespace.name, "Cluster")
    status, _ = namespace.server.call("POST", path, cluster("c1", class_name="nowhere"), warnings=warnings)
    assert status == 201
    (warning,) = warnings
    assert warning == (
        f'299 - "Cluster refers to ClusterClass {namespace.name}/nowhere, but this ClusterClass does not exist. '
        'Cluster topology has not been fully validated. The ClusterClass must be created to reconcile the Cluster"'
    )


def test_cluster_of_a_missing_class_cannot_be_changed(namespace: Namespace) -> None:
    namespace.make(cluster("c1", class_name="nowhere"))
    status, body = namespace.patch("Cluster", "c1", {"spec": {"topology": {"controlPlane": {"replicas": 3}}}})
    assert (status, body["reason"]) == (422, "Invalid")
    assert f"spec.topology.class: Internal error: ClusterClass {namespace.name}/nowhere not found" in body["message"]
    assert body["details"]["causes"][0]["reason"] == "InternalError"


def test_class_can_be_changed_to_a_compatible_one(with_class: Namespace) -> None:
    with_class.make(cluster("c1"))
    status, body = with_class.patch(
        "Cluster", "c1", {"spec": {"topology": {"classRef": {"name": "plain", "namespace": None}, "variables": _CORES}}}
    )
    assert status == 200, body
    assert body["spec"]["topology"]["classRef"] == {"name": "plain"}


def test_class_cannot_be_changed_to_a_missing_one(with_class: Namespace) -> None:
    with_class.make(_cluster(_CORES))
    status, body = with_class.patch("Cluster", "c1", {"spec": {"topology": {"classRef": {"name": "nowhere"}}}})
    assert status == 422
    assert f"spec.topology.class: Internal error: ClusterClass {with_class.name}/nowhere not found" in body["message"]


def test_pool_of_a_class_that_is_not_there_is_refused(with_class: Namespace) -> None:
    workers = {"machineDeployments": [{"class": "gpu", "name": "md-0", "replicas": 1}]}
    status, body = with_class.post(_cluster(_CORES, workers=workers))
    assert (status, body["reason"]) == (422, "Invalid")
    assert body["message"] == (
        _REFUSED.format("validation") + 'spec.topology.workers.machineDeployments[0].class: Invalid value: "gpu": '
        'MachineDeploymentClass with name "gpu" does not exist in ClusterClass "plain"'
    )


def test_pools_need_names_of_their_own(with_class: Namespace) -> None:
    pool = {"class": "worker", "name": "md-0", "replicas": 1}
    status, body = with_class.post(_cluster(_CORES, workers={"machineDeployments": [pool, pool]}))
    assert status == 422
    assert 'spec.topology.workers.machineDeployments[1]: Duplicate value: {"name":"md-0"}' in body["message"]


def test_name_must_be_a_label_value(with_class: Namespace) -> None:
    body = _cluster(_CORES)
    body["metadata"]["name"] = "c" * 64
    status, answer = with_class.post(body)
    assert status == 422
    assert answer["details"]["causes"][0]["field"] == "metadata.name"
    assert "must be a valid label value must be no more than 63" in answer["message"]


@pytest.mark.parametrize(
    ("network", "field", "words"),
    [
        ({"pods": {"cidrBlocks": ["10.244.0.0"]}}, "spec.clusterNetwork.pods.cidrBlocks[0]", "invalid CIDR address: 10.244.0.0"),
        ({"services": {"cidrBlocks": ["10.0.0.0/40"]}}, "spec.clusterNetwork.services.cidrBlocks[0]", "invalid CIDR address: 10.0.0.0/40"),
    ],
)
def test_network_must_be_one(with_class: Namespace, network: dict[str, Any], field: str, words: str) -> None:
    body = _cluster(_CORES)
    body["spec"]["clusterNetwork"] = network
    status, answer = with_class.post(body)
    assert status == 422
    assert [cause["field"] for cause in answer["details"]["causes"]] == [field]
    assert words in answer["message"]


def test_cluster_needs_something_to_be_built_from(namespace: Namespace) -> None:
    body = cluster("c1")
    del body["spec"]["topology"]
    status, answer = namespace.post(body)
    assert status == 422
    assert answer["message"] == (
        _REFUSED.format("validation") + "spec: Forbidden: one of spec.controlPlaneRef, spec.infrastructureRef or spec.topology must be set"
    )


def test_override_of_a_pool_is_judged_by_the_same_schema(with_class: Namespace) -> None:
    pool = {"class": "worker", "name": "md-0", "replicas": 1, "variables": {"overrides": [{"name": "cores", "value": 9}]}}
    status, body = with_class.post(_cluster(_CORES, workers={"machineDeployments": [pool]}))
    assert status == 422
    (cause,) = body["details"]["causes"]
    assert cause["field"] == "spec.topology.workers.machineDeployments[md-0].variables.overrides[cores].value"
    assert "should be less than or equal to 8" in cause["message"]


def test_autoscaled_pool_has_no_number(with_class: Namespace) -> None:
    annotations = {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "1"}
    pool = {"class": "worker", "name": "md-0", "replicas": 1, "metadata": {"annotations": annotations}}
    status, body = with_class.post(_cluster(_CORES, workers={"machineDeployments": [pool]}))
    assert status == 422
    assert "if the same MachineDeploymentTopology has autoscaler annotations" in body["message"]


def test_version_may_be_anything_where_the_check_is_switched_off(namespace: Namespace) -> None:
    namespace.make(cluster("c1"))
    change = {
        "metadata": {"annotations": {"unsafe.topology.cluster.x-k8s.io/disable-update-version-check": ""}},
        "spec": {"topology": {"version": "v1.30.0"}},
    }
    assert namespace.patch("Cluster", "c1", change)[0] == 200


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
