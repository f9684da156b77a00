"""What people do with kubectl."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.objects import Namespace, cluster, config_map

pytestmark = pytest.mark.kubectl


@pytest.fixture
def here(namespace: Namespace, kubectl: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: str, **options: Any) -> Any:
        return kubectl("-n", namespace.name, *args, **options)

    return run


def test_apply_makes_changes_and_leaves_alone(here: Callable[..., Any]) -> None:
    assert "created" in here("apply", "-f", "-", stdin=cluster("c1")).stdout
    assert "unchanged" in here("apply", "-f", "-", stdin=cluster("c1")).stdout
    assert "configured" in here("apply", "-f", "-", stdin=cluster("c1", controlPlane={"replicas": 3})).stdout
    found = json.loads(here("get", "cluster", "c1", "-o", "json").stdout)
    assert found["spec"]["topology"]["controlPlane"]["replicas"] == 3


def test_apply_of_built_in_kinds(here: Callable[..., Any]) -> None:
    here("apply", "-f", "-", stdin=config_map("x", {"a": "1", "b": "2"}))
    here("apply", "-f", "-", stdin=config_map("x", {"a": "1"}))
    assert json.loads(here("get", "cm", "x", "-o", "json").stdout)["data"] == {"a": "1"}


def test_server_side_apply_says_what_conflicts(here: Callable[..., Any]) -> None:
    assert "serverside-applied" in here("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=cluster("c1")).stdout
    other = cluster("c1", controlPlane={"replicas": 3})
    refused = here("apply", "--server-side", "--field-manager=two", "-f", "-", stdin=other, check=False)
    assert refused.returncode == 1
    assert 'conflict with "one": .spec.topology.controlPlane.replicas' in refused.stderr
    here("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-", stdin=other)


def test_apply_moves_from_the_client_to_the_server(here: Callable[..., Any]) -> None:
    here("apply", "-f", "-", stdin=cluster("c1"))
    here("apply", "--server-side", "-f", "-", stdin=cluster("c1", controlPlane={"replicas": 3}))
    found = json.loads(here("get", "cluster", "c1", "-o", "json", "--show-managed-fields").stdout)
    people = {entry["manager"]: entry["operation"] for entry in found["metadata"]["managedFields"] if entry["manager"] != "manager"}
    assert people["kubectl"] == "Apply"
    assert set(people.values()) == {"Apply"}


def test_misspelt_field_is_refused(here: Callable[..., Any]) -> None:
    refused = here("apply", "-f", "-", stdin=cluster("c1", repliacs=1), check=False)
    assert refused.returncode == 1
    assert 'unknown field "spec.topology.repliacs"' in refused.stderr


def test_missing_class_is_shown_as_a_warning(here: Callable[..., Any]) -> None:
    done = here("apply", "-f", "-", stdin=cluster("c1", class_name="nowhere"))
    assert "Warning: Cluster refers to ClusterClass" in done.stderr


def test_patch_and_get_as_yaml(here: Callable[..., Any]) -> None:
    here("apply", "-f", "-", stdin=cluster("c1"))
    here("patch", "cluster", "c1", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]')
    here("patch", "cluster", "c1", "--type=merge", "-p", '{"spec":{"topology":{"controlPlane":{"replicas":5}}}}')
    text = here("get", "cluster", "c1", "-o", "yaml").stdout
    assert "replicas: 5" in text
    assert "a: b" in text


def test_label_annotate_and_edit_by_subresource(here: Callable[..., Any]) -> None:
    here("apply", "-f", "-", stdin=cluster("c1"))
    here("label", "cluster", "c1", "team=red")
    here("annotate", "cluster", "c1", "kubehenge.dev/note=yes")
    here("patch", "cluster", "c1", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Provisioned"}}')
    assert here("get", "cluster", "-l", "team=red", "-o", "jsonpath={.items[*].status.phase}").stdout == "Provisioned"


def test_wait_for_a_condition(here: Callable[..., Any]) -> None:
    here("apply", "-f", "-", stdin=cluster("c1"))
    condition = {"type": "Available", "status": "True", "reason": "Available", "message": "", "lastTransitionTime": "2026-11-30T12:00:00Z"}
    here("patch", "cluster", "c1", "--subresource=status", "--type=merge", "-p", json.dumps({"status": {"conditions": [condition]}}))
    assert "condition met" in here("wait", "--for=condition=Available", "cluster/c1", "--timeout=20s").stdout


def test_delete_waits_until_it_is_gone(here: Callable[..., Any]) -> None:
    here("apply", "-f", "-", stdin=config_map("x"))
    assert "deleted" in here("delete", "cm", "x").stdout
    assert here("get", "cm", "x", check=False).returncode == 1


def test_people_make_secrets_and_configmaps(here: Callable[..., Any]) -> None:
    here("create", "secret", "generic", "s", "--from-literal=token=geheim")
    here("create", "configmap", "m", "--from-literal=a=ä\n1")
    assert here("get", "secret", "s", "-o", "jsonpath={.data.token}").stdout == "Z2VoZWlt"
    assert json.loads(here("get", "cm", "m", "-o", "json").stdout)["data"] == {"a": "ä\n1"}


def test_namespaces_are_made_and_removed(kubectl: Callable[..., Any]) -> None:
    kubectl("create", "namespace", "by-hand")
    assert "Active" in kubectl("get", "ns", "by-hand").stdout
    kubectl("delete", "namespace", "by-hand")
    assert kubectl("get", "ns", "by-hand", check=False).returncode == 1


def test_resources_are_listed(kubectl: Callable[..., Any]) -> None:
    listed = kubectl("api-resources", "--api-group=cluster.x-k8s.io", "-o", "name").stdout
    assert "clusters.cluster.x-k8s.io" in listed


def test_may_i_is_answered(kubectl: Callable[..., Any]) -> None:
    assert kubectl("auth", "can-i", "create", "clusters.cluster.x-k8s.io").stdout.strip() == "yes"


def test_describe_shows_an_object(here: Callable[..., Any]) -> None:
    here("apply", "-f", "-", stdin=cluster("c1"))
    assert "v1.35.0" in here("describe", "cluster", "c1").stdout
