"""What the server says about itself, and who may ask."""

from __future__ import annotations

import pytest

from tests.contract.objects import Namespace, cluster, config_map
from tests.lab.kube.running import Server


def test_version_is_told(server: Server) -> None:
    status, body = server.call("GET", "/version")
    assert status == 200
    assert body["gitVersion"].startswith("v1.")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_server_says_that_it_is_well(server: Server, path: str) -> None:
    assert server.call("GET", path) == (200, "ok")


def test_groups_and_resources_are_listed(server: Server) -> None:
    _, groups = server.call("GET", "/apis")
    versions = {group["name"]: group["preferredVersion"]["version"] for group in groups["groups"]}
    assert versions["cluster.x-k8s.io"] == "v1beta2"
    assert versions["infrastructure.cluster.x-k8s.io"] == "v1alpha2"
    _, body = server.call("GET", "/apis/cluster.x-k8s.io/v1beta2")
    resources = {entry["name"]: entry for entry in body["resources"]}
    assert resources["clusters"]["kind"] == "Cluster"
    assert resources["clusters"]["namespaced"] is True
    assert resources["clusters"]["shortNames"] == ["cl"]
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(resources["clusters"]["verbs"])
    assert "clusters/status" in resources
    _, core = server.call("GET", "/api/v1")
    assert {"namespaces", "secrets", "configmaps", "events"} <= {entry["name"] for entry in core["resources"]}


def test_unknown_group_is_not_found(server: Server) -> None:
    assert server.call("GET", "/apis/nonsense.example")[0] == 404


def test_dynamic_client_finds_and_uses_kinds(namespace: Namespace) -> None:
    client = namespace.server.dynamic()
    clusters = client.resources.get(api_version="cluster.x-k8s.io/v1beta2", kind="Cluster")
    made = clusters.create(body=cluster("c1"), namespace=namespace.name)
    assert made.metadata.uid
    applied = client.server_side_apply(
        client.resources.get(api_version="v1", kind="ConfigMap"),
        body=config_map("x", {"a": "1"}),
        namespace=namespace.name,
        field_manager="tester",
    )
    assert applied.data.a == "1"
    assert [item.metadata.name for item in clusters.get(namespace=namespace.name).items] == ["c1"]
    clusters.patch(
        name="c1", namespace=namespace.name, body={"metadata": {"labels": {"a": "b"}}}, content_type="application/merge-patch+json"
    )
    assert clusters.get(name="c1", namespace=namespace.name).metadata.labels.a == "b"


def test_wrong_token_is_unauthorized(server: Server) -> None:
    status, body = server.call("GET", "/api/v1/namespaces", token="wrong")
    assert status == 401
    assert body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


def test_nobody_reads_nothing(server: Server) -> None:
    status, body = server.call("GET", "/api/v1/namespaces", token="")
    assert status in {401, 403}
    assert body["kind"] == "Status"


def test_one_may_ask_what_one_may_do(server: Server) -> None:
    spec = {"resourceAttributes": {"verb": "patch", "group": "cluster.x-k8s.io", "resource": "clusters", "namespace": "default"}}
    status, body = server.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": spec})
    assert status == 201
    assert body["status"]["allowed"] is True
