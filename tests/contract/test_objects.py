"""Create, read, replace, delete."""

from __future__ import annotations

import pytest

from tests.contract.objects import MERGE, Namespace, cluster, cluster_class, config_map, path_of, secret


def test_new_object_gets_uid_time_version_and_generation(namespace: Namespace) -> None:
    made = namespace.make(cluster("c1"))
    meta = made["metadata"]
    assert meta["uid"]
    assert meta["resourceVersion"].isdigit()
    assert meta["generation"] == 1
    assert meta["namespace"] == namespace.name
    assert meta["creationTimestamp"].endswith("Z")
    assert namespace.read("Cluster", "c1")["metadata"]["uid"] == meta["uid"]


def test_built_in_kinds_have_no_generation(namespace: Namespace) -> None:
    assert "generation" not in namespace.make(config_map("plain"))["metadata"]


def test_generate_name_makes_a_name(namespace: Namespace) -> None:
    body = config_map("")
    body["metadata"] = {"generateName": "made-"}
    first, second = namespace.make(body)["metadata"]["name"], namespace.make(body)["metadata"]["name"]
    assert first != second
    assert first.startswith("made-")
    assert len(first) == len("made-") + 5


def test_missing_object_is_not_found(namespace: Namespace) -> None:
    status, body = namespace.get("Cluster", "nobody")
    assert status == 404
    assert (body["kind"], body["status"], body["reason"], body["code"]) == ("Status", "Failure", "NotFound", 404)
    assert body["message"] == 'clusters.cluster.x-k8s.io "nobody" not found'
    assert body["details"] == {"name": "nobody", "group": "cluster.x-k8s.io", "kind": "clusters"}


def test_same_name_already_exists(namespace: Namespace) -> None:
    namespace.make(cluster("c1"))
    status, body = namespace.post(cluster("c1"))
    assert (status, body["reason"]) == (409, "AlreadyExists")
    assert body["message"] == 'clusters.cluster.x-k8s.io "c1" already exists'


def test_object_in_a_missing_namespace_is_not_found(namespace: Namespace) -> None:
    status, body = namespace.server.call("POST", path_of("nowhere", "ConfigMap"), config_map("x"))
    assert status == 404
    assert body["message"] == 'namespaces "nowhere" not found'


def test_namespace_of_the_body_must_be_the_paths(namespace: Namespace) -> None:
    status, body = namespace.post(config_map("x", namespace="default"))
    assert (status, body["reason"]) == (400, "BadRequest")
    assert body["message"] == "the namespace of the provided object does not match the namespace sent on the request"


def test_name_must_be_a_dns_name(namespace: Namespace) -> None:
    status, body = namespace.post(config_map("Not_a_name"))
    assert (status, body["reason"]) == (422, "Invalid")
    assert body["details"]["causes"][0]["field"] == "metadata.name"


def test_required_field_is_named(namespace: Namespace) -> None:
    body = cluster_class("t")[1]
    del body["spec"]["template"]["spec"]["network"]
    status, answer = namespace.post(body)
    assert (status, answer["reason"]) == (422, "Invalid")
    left_out = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
    assert answer["message"] == (
        'ProxmoxMachineTemplate.infrastructure.cluster.x-k8s.io "t" is invalid: '
        f"[spec.template.spec.network: Required value, <nil>: Invalid value: null: {left_out}]"
    )
    assert answer["details"]["causes"] == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.template.spec.network"},
        {"reason": "FieldValueInvalid", "message": f"Invalid value: null: {left_out}", "field": "<nil>"},
    ]


def test_version_of_a_cluster_is_first_filled_in_and_then_refused(namespace: Namespace) -> None:
    body = cluster("c1")
    del body["spec"]["topology"]["version"]
    status, answer = namespace.post(body)
    assert status == 422
    assert answer["message"] == (
        'admission webhook "validation.cluster.cluster.x-k8s.io" denied the request: Cluster.cluster.x-k8s.io "c1" is invalid: '
        'spec.topology.version: Invalid value: "v": version must be a valid semantic version'
    )


def test_cluster_without_a_class_is_refused(namespace: Namespace) -> None:
    body = cluster("c1")
    del body["spec"]["topology"]["classRef"]
    status, answer = namespace.post(body)
    assert status == 422
    assert answer["message"] == (
        'admission webhook "default.cluster.cluster.x-k8s.io" denied the request: Cluster.cluster.x-k8s.io "c1" is invalid: '
        "spec.topology.classRef.name: Required value: cannot be empty"
    )


def test_wrong_type_is_named(namespace: Namespace) -> None:
    status, answer = namespace.post(cluster("c1", controlPlane={"replicas": "three"}))
    assert status == 400
    assert "reason" not in answer
    assert 'admission webhook "default.cluster.cluster.x-k8s.io" denied the request: json: cannot unmarshal string' in answer["message"]
    assert answer["message"].endswith(".spec.topology.controlPlane.replicas of type int32")


def test_empty_list_is_refused(namespace: Namespace) -> None:
    status, answer = namespace.post(cluster("c1", workers={"machineDeployments": []}))
    assert status == 422
    assert "should have at least 1 items" in answer["message"]


@pytest.mark.parametrize(("check", "status"), [("Strict", 400), ("Warn", 201), ("Ignore", 201)])
def test_unknown_field_is_refused_or_dropped(namespace: Namespace, check: str, status: int) -> None:
    body = cluster("c1", surprise=1)
    got, answer = namespace.post(body, f"?fieldValidation={check}")
    assert got == status
    if status == 400:
        assert 'unknown field "spec.topology.surprise"' in answer["message"]
        assert namespace.get("Cluster", "c1")[0] == 404
    else:
        assert "surprise" not in answer["spec"]["topology"]


def test_generation_counts_changes_of_the_spec_only(namespace: Namespace) -> None:
    made = namespace.make(cluster("c1"))
    _, labelled = namespace.patch("Cluster", "c1", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    assert labelled["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    _, scaled = namespace.patch("Cluster", "c1", {"spec": {"topology": {"controlPlane": {"replicas": 3}}}})
    assert scaled["metadata"]["generation"] == 2


def test_change_that_changes_nothing_is_not_written(namespace: Namespace) -> None:
    made = namespace.make(config_map("x", {"a": "b"}))
    status, again = namespace.patch("ConfigMap", "x", {"data": {"a": "b"}})
    assert status == 200
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_replace_with_an_old_version_is_a_conflict(namespace: Namespace) -> None:
    old = namespace.make(cluster("c1"))
    namespace.patch("Cluster", "c1", {"metadata": {"labels": {"a": "b"}}})
    status, body = namespace.put(old)
    assert (status, body["reason"]) == (409, "Conflict")
    assert body["message"].startswith('Operation cannot be fulfilled on clusters.cluster.x-k8s.io "c1": the object has been modified')


def test_replace_of_a_custom_object_needs_its_version(namespace: Namespace) -> None:
    namespace.make(cluster("c1"))
    status, body = namespace.put(cluster("c1"))
    assert status == 422
    assert body["details"]["causes"][0]["field"] == "metadata.resourceVersion"


def test_replace_keeps_what_the_server_keeps(namespace: Namespace) -> None:
    made = namespace.make(config_map("x"))
    changed = config_map("x", {"a": "b"}, resourceVersion=made["metadata"]["resourceVersion"])
    status, body = namespace.put(changed)
    assert status == 200
    assert body["metadata"]["uid"] == made["metadata"]["uid"]
    assert body["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert body["data"] == {"a": "b"}


def test_status_is_written_through_its_own_path_only(namespace: Namespace) -> None:
    namespace.make({**cluster("c1"), "status": {"phase": "Provisioned"}})
    assert "phase" not in namespace.read("Cluster", "c1").get("status", {})
    namespace.patch("Cluster", "c1", {"status": {"phase": "Provisioned"}})
    assert "phase" not in namespace.read("Cluster", "c1").get("status", {})
    path = path_of(namespace.name, "Cluster", "c1") + "/status"
    status, body = namespace.server.call(
        "PATCH", path, {"status": {"phase": "Provisioned"}, "spec": {"topology": {"version": "v1.36.0"}}}, media=MERGE
    )
    assert status == 200
    assert body["status"]["phase"] == "Provisioned"
    assert body["spec"]["topology"]["version"] == "v1.35.0"
    assert body["metadata"]["generation"] == 1


def test_dry_run_writes_nothing(namespace: Namespace) -> None:
    status, body = namespace.post(config_map("x"), "?dryRun=All")
    assert (status, body["metadata"]["name"]) == (201, "x")
    assert namespace.get("ConfigMap", "x")[0] == 404
    namespace.make(config_map("x"))
    status, body = namespace.patch("ConfigMap", "x", {"data": {"a": "b"}}, query="?dryRun=All")
    assert (status, body["data"]) == (200, {"a": "b"})
    assert "data" not in namespace.read("ConfigMap", "x")
    namespace.server.call("DELETE", path_of(namespace.name, "ConfigMap", "x") + "?dryRun=All")
    assert namespace.get("ConfigMap", "x")[0] == 200


def test_deletion_answers_success_and_the_object_is_gone(namespace: Namespace) -> None:
    made = namespace.make(cluster("c1"))
    status, body = namespace.delete("Cluster", "c1")
    assert status == 200
    if body["kind"] == "Status":  # a real controller may hold it by a finalizer
        assert body["status"] == "Success"
        assert body["details"]["uid"] == made["metadata"]["uid"]
        assert namespace.get("Cluster", "c1")[0] == 404


def test_deletion_with_another_uid_is_a_conflict(namespace: Namespace) -> None:
    namespace.make(config_map("x"))
    status, body = namespace.delete("ConfigMap", "x", {"preconditions": {"uid": "somebody-else"}})
    assert (status, body["reason"]) == (409, "Conflict")
    assert namespace.get("ConfigMap", "x")[0] == 200


def test_collection_is_deleted_by_its_labels(namespace: Namespace) -> None:
    for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
        namespace.make(config_map(name, labels={"colour": colour}))
    status, _ = namespace.server.call("DELETE", path_of(namespace.name, "ConfigMap") + "?labelSelector=colour%3Dred")
    assert status == 200
    assert namespace.names("ConfigMap", "?labelSelector=colour") == ["c"]


def test_secret_takes_plain_text_and_keeps_base64(namespace: Namespace) -> None:
    made = namespace.make(secret("s", stringData={"token": "geheim"}))
    assert made["data"] == {"token": "Z2VoZWlt"}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


def test_type_of_a_secret_cannot_change(namespace: Namespace) -> None:
    namespace.make(secret("s"))
    status, body = namespace.patch("Secret", "s", {"type": "other"})
    assert status == 422
    assert body["details"]["causes"][0]["field"] == "type"


def test_unknown_path_is_not_found(namespace: Namespace) -> None:
    assert namespace.server.call("GET", "/apis/cluster.x-k8s.io/v1beta2/nonsense")[0] == 404


def test_collection_cannot_be_patched(namespace: Namespace) -> None:
    status, body = namespace.server.call("PATCH", path_of(namespace.name, "ConfigMap"), {}, media=MERGE)
    assert (status, body["reason"]) == (405, "MethodNotAllowed")
