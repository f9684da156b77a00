"""Server-side apply: ownership, conflicts, removal."""

from __future__ import annotations

from typing import Any

from tests.contract.objects import APPLY, Namespace, cluster, cluster_class, config_map, owners_of, path_of, secret


def test_apply_makes_the_object_and_owns_what_it_names(namespace: Namespace) -> None:
    status, body = namespace.apply(config_map("x", {"a": "1"}, labels={"l": "v"}))
    assert status == 201
    (entry,) = body["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"], entry["fieldsType"]) == ("tester", "Apply", "v1", "FieldsV1")
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}


def test_same_apply_again_writes_nothing(namespace: Namespace) -> None:
    body = cluster_class("t")[1]  # a custom kind that no controller touches
    first = namespace.applied(body)
    again = namespace.applied(body)
    assert again["metadata"] == first["metadata"]


def test_fields_no_longer_applied_are_removed(namespace: Namespace) -> None:
    namespace.applied(config_map("x", {"a": "1", "b": "2"}))
    assert namespace.applied(config_map("x", {"b": "2"}))["data"] == {"b": "2"}


def test_field_of_another_manager_is_kept(namespace: Namespace) -> None:
    namespace.applied(config_map("x", {"a": "1", "b": "2"}), "one")
    namespace.applied(config_map("x", {"b": "2", "c": "3"}), "two")
    body = namespace.applied(config_map("x", {"a": "1"}), "one")
    assert body["data"] == {"a": "1", "b": "2", "c": "3"}
    assert owners_of(body)["one"] == {"f:data": {"f:a": {}}}


def test_one_conflict_names_manager_and_field(namespace: Namespace) -> None:
    namespace.applied(config_map("x", {"a": "1"}), "one")
    status, body = namespace.apply(config_map("x", {"a": "2"}), "two")
    assert (status, body["reason"]) == (409, "Conflict")
    assert body["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert body["details"]["causes"] == [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}]
    assert namespace.read("ConfigMap", "x")["data"] == {"a": "1"}


def test_several_conflicts_are_listed_by_manager(namespace: Namespace) -> None:
    pools = [{"class": "worker", "name": "md-0", "replicas": 1}]
    namespace.applied(cluster("c1", workers={"machineDeployments": pools}), "one")
    other = cluster("c1", version="v1.35.1", workers={"machineDeployments": [{**pools[0], "replicas": 2}]})
    status, body = namespace.apply(other, "two")
    assert status == 409
    assert body["message"] == (
        'Apply failed with 2 conflicts: conflicts with "one":\n'
        "- .spec.topology.version\n"
        '- .spec.topology.workers.machineDeployments[name="md-0"].replicas'
    )


def test_conflict_with_an_update_names_its_version(namespace: Namespace) -> None:
    namespace.make(config_map("x", {"a": "1"}))
    status, body = namespace.apply(config_map("x", {"a": "2"}))
    assert status == 409
    assert body["message"] == 'Apply failed with 1 conflict: conflict with "contract" using v1: .data.a'


def test_force_takes_the_field(namespace: Namespace) -> None:
    namespace.applied(config_map("x", {"a": "1", "b": "1"}), "one")
    body = namespace.applied(config_map("x", {"a": "2"}), "two", force=True)
    assert body["data"] == {"a": "2", "b": "1"}
    assert owners_of(body) == {"one": {"f:data": {"f:b": {}}}, "two": {"f:data": {"f:a": {}}}}


def test_equal_values_are_owned_together(namespace: Namespace) -> None:
    namespace.applied(config_map("x", {"a": "1"}), "one")
    body = namespace.applied(config_map("x", {"a": "1"}), "two")
    assert set(owners_of(body)) == {"one", "two"}
    body = namespace.applied(config_map("x"), "one")
    assert body["data"] == {"a": "1"}
    body = namespace.applied(config_map("x"), "two")
    assert not body.get("data")


def test_update_takes_the_fields_it_changes(namespace: Namespace) -> None:
    namespace.applied(config_map("x", {"a": "1", "b": "2"}))
    _, body = namespace.patch("ConfigMap", "x", {"data": {"a": "9"}}, query="?fieldManager=editor")
    assert owners_of(body) == {"tester": {"f:data": {"f:b": {}}}, "editor": {"f:data": {"f:a": {}}}}
    status, answer = namespace.apply(config_map("x", {"a": "1", "b": "2"}))
    assert status == 409
    assert answer["message"] == 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.a'


def test_variables_belong_to_managers_by_name(namespace: Namespace) -> None:
    namespace.applied(cluster("c1", variables=[{"name": "a", "value": 1}, {"name": "b", "value": {"x": 1}}]), "one")
    mine = {"apiVersion": cluster("c1")["apiVersion"], "kind": "Cluster", "metadata": {"name": "c1"}}
    topology: dict[str, Any] = {
        "classRef": cluster("c1")["spec"]["topology"]["classRef"],
        "version": "v1.35.0",
        "variables": [{"name": "online", "value": ["pve1"]}],
    }
    body = namespace.applied({**mine, "spec": {"topology": topology}}, "two")
    assert [entry["name"] for entry in body["spec"]["topology"]["variables"]] == ["a", "b", "online"]
    body = namespace.applied(cluster("c1", variables=[{"name": "b", "value": {"x": 1}}]), "one")
    assert [entry["name"] for entry in body["spec"]["topology"]["variables"]] == ["b", "online"]


def test_part_of_a_variable_can_be_removed(namespace: Namespace) -> None:
    namespace.applied(cluster("c1", variables=[{"name": "size", "value": {"cores": 2, "disk": 40}}]))
    body = namespace.applied(cluster("c1", variables=[{"name": "size", "value": {"cores": 2}}]))
    assert body["spec"]["topology"]["variables"] == [{"name": "size", "value": {"cores": 2}}]


def test_pool_no_longer_applied_goes_with_all_it_holds(namespace: Namespace) -> None:
    pools = [{"class": "worker", "name": name, "replicas": 1} for name in ("a", "b")]
    namespace.applied(cluster("c1", workers={"machineDeployments": pools}))
    body = namespace.applied(cluster("c1", workers={"machineDeployments": pools[:1]}))
    assert [pool["name"] for pool in body["spec"]["topology"]["workers"]["machineDeployments"]] == ["a"]
    body = namespace.applied(cluster("c1"))
    assert "workers" not in body["spec"]["topology"]


def test_atomic_list_is_owned_whole(namespace: Namespace) -> None:
    body = cluster("c1")
    body["spec"]["clusterNetwork"] = {"pods": {"cidrBlocks": ["10.42.0.0/16"]}}
    applied = namespace.applied(body)
    assert owners_of(applied)["tester"]["f:spec"]["f:clusterNetwork"] == {"f:pods": {"f:cidrBlocks": {}}}
    body["spec"]["clusterNetwork"]["pods"]["cidrBlocks"] = ["10.43.0.0/16"]
    assert namespace.applied(body)["spec"]["clusterNetwork"]["pods"]["cidrBlocks"] == ["10.43.0.0/16"]


def test_owner_references_merge_by_uid(namespace: Namespace) -> None:
    owners = [namespace.make(config_map(name)) for name in ("one", "two")]
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]} for owner in owners
    ]
    namespace.applied(config_map("x", ownerReferences=references[:1]), "one")
    body = namespace.applied(config_map("x", ownerReferences=references[1:]), "two")
    assert body["metadata"]["ownerReferences"] == references
    body = namespace.applied(config_map("x"), "one")
    assert body["metadata"]["ownerReferences"] == references[1:]


def test_unknown_field_cannot_be_typed(namespace: Namespace) -> None:
    body = cluster("c1", variables=[{"name": "a", "value": 1, "surprise": 2}])
    status, answer = namespace.apply(body)
    assert status == 500
    assert "reason" not in answer
    assert answer["message"] == (
        "failed to create typed patch object (/c1; cluster.x-k8s.io/v1beta2, Kind=Cluster): "
        '.spec.topology.variables[name="a"].surprise: field not declared in schema'
    )


def test_two_items_with_one_key_cannot_be_typed(namespace: Namespace) -> None:
    status, answer = namespace.apply(cluster("c1", variables=[{"name": "a", "value": 1}, {"name": "a", "value": 2}]))
    assert status == 500
    assert 'duplicate entries for key [name="a"]' in answer["message"]


def test_apply_needs_a_field_manager(namespace: Namespace) -> None:
    path = path_of(namespace.name, "ConfigMap", "x")
    status, answer = namespace.server.call("PATCH", path, config_map("x"), media=APPLY)
    assert status == 422
    assert answer["message"] == 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'


def test_applied_managed_fields_are_refused(namespace: Namespace) -> None:
    status, answer = namespace.apply(config_map("x", managedFields=[{"manager": "tester", "operation": "Apply"}]))
    assert (status, answer["message"]) == (400, "metadata.managedFields must be nil")


def test_apply_with_an_old_version_is_a_conflict(namespace: Namespace) -> None:
    old = namespace.applied(config_map("x"))["metadata"]["resourceVersion"]
    namespace.applied(config_map("x", {"a": "1"}))
    status, answer = namespace.apply(config_map("x", {"a": "2"}, resourceVersion=old))
    assert (status, answer["reason"]) == (409, "Conflict")


def test_apply_can_be_yaml(namespace: Namespace) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x, namespace: {namespace.name}}}\ndata: {{a: '1'}}\n"
    path = path_of(namespace.name, "ConfigMap", "x")
    status, body = namespace.server.call("PATCH", f"{path}?fieldManager=tester", text.encode(), media=APPLY)
    assert (status, body["data"]) == (201, {"a": "1"})


def test_dry_run_of_an_apply_writes_nothing(namespace: Namespace) -> None:
    status, body = namespace.apply(config_map("x", {"a": "1"}), query="&dryRun=All")
    assert (status, body["data"]) == (201, {"a": "1"})
    assert namespace.get("ConfigMap", "x")[0] == 404


def test_status_is_applied_through_its_path_only(namespace: Namespace) -> None:
    namespace.applied({**cluster("c1"), "status": {"phase": "Provisioned"}})
    assert "phase" not in namespace.read("Cluster", "c1").get("status", {})
    body = {"apiVersion": cluster("c1")["apiVersion"], "kind": "Cluster", "metadata": {"name": "c1"}, "status": {"phase": "Provisioned"}}
    status, answer = namespace.apply(body, "other", subresource="/status")
    assert status == 200
    assert answer["status"]["phase"] == "Provisioned"
    entry = next(entry for entry in answer["metadata"]["managedFields"] if entry["manager"] == "other")
    assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {"f:phase": {}}})
    assert namespace.applied(cluster("c1", controlPlane={"replicas": 3}))["status"]["phase"] == "Provisioned"


def test_all_ownership_can_be_dropped(namespace: Namespace) -> None:
    namespace.applied(config_map("x", {"a": "1"}), "one")
    _, body = namespace.patch("ConfigMap", "x", {"metadata": {"managedFields": [{}]}})
    assert "managedFields" not in body["metadata"]
    status, body = namespace.apply(config_map("x", {"a": "2"}), "two")
    assert status == 409
    assert body["message"] == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'


def test_applied_plain_text_of_a_secret_replaces_what_it_was(namespace: Namespace) -> None:
    namespace.applied(secret("s", stringData={"token": "one"}))
    body = namespace.applied(secret("s", stringData={"token": "two"}))
    assert body["data"] == {"token": "dHdv"}
    assert "stringData" not in body
