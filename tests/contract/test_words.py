"""Requests that are refused before anything is done, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.objects import APPLY, MERGE, STRATEGIC, Namespace, cluster_class, config_map, path_of

MAP = "configmaps/x"
TEMPLATE = "apis/infrastructure.cluster.x-k8s.io/v1alpha2/namespaces/{}/proxmoxmachinetemplates/plain"


@pytest.fixture
def filled(namespace: Namespace) -> Namespace:
    namespace.make(config_map("x"))
    namespace.make(cluster_class("plain")[1])
    return namespace


def _call(namespace: Namespace, method: str, path: str, body: Any = None, media: str = "application/json") -> tuple[int, Any]:
    where = f"/{path.format(namespace.name)}" if path.startswith("apis") else f"/api/v1/namespaces/{namespace.name}/{path}"
    return namespace.server.call(method, where, body, media=media)


_FORM = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
_FORM += "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
_NAME = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
_NAME += "alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
REFUSED: dict[str, tuple[tuple[Any, ...], int, str, str]] = {
    "unknown-dry-run": (
        ("POST", "configmaps?dryRun=Some", config_map("y")),
        422,
        "Invalid",
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
    ),
    "unknown-validation": (
        ("POST", "configmaps?fieldValidation=Some", config_map("y")),
        422,
        "Invalid",
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Some": supported values: "", "Ignore", "Strict", "Warn"',
    ),
    "unknown-propagation": (
        ("DELETE", MAP, {"propagationPolicy": "Some"}),
        422,
        "Invalid",
        (
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Some": '
            'supported values: "Foreground", "Background", "Orphan", "nil"'
        ),
    ),
    "force-without-apply": (
        ("PATCH", f"{MAP}?force=true", {}, MERGE),
        422,
        "Invalid",
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
    ),
    "apply-of-no-kind": (
        ("PATCH", f"{MAP}?fieldManager=a", {"metadata": {"name": "x"}}, APPLY),
        400,
        "BadRequest",
        "invalid object type: /, Kind=",
    ),
    "apply-of-another-name": (
        ("PATCH", f"{MAP}?fieldManager=a", config_map("other"), APPLY),
        400,
        "BadRequest",
        "the name of the object (other) does not match the name on the URL (x)",
    ),
    "put-of-another-name": (
        ("PUT", MAP, config_map("other")),
        400,
        "BadRequest",
        "the name of the object (other) does not match the name on the URL (x)",
    ),
    "unknown-patch": (("PATCH", MAP, {}, "text/plain"), 415, "UnsupportedMediaType", "415: Unsupported Media Type"),
    "strategic-patch-of-a-custom-kind": (
        ("PATCH", TEMPLATE, {}, STRATEGIC),
        415,
        "UnsupportedMediaType",
        (
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        ),
    ),
    "post-to-an-object": (
        ("POST", MAP, config_map("x")),
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    ),
    "limit-that-is-no-number": (("GET", "configmaps?limit=x"), 400, "BadRequest", 'strconv.ParseInt: parsing "x": invalid syntax'),
    "field-that-does-not-select": (
        ("GET", "apis/cluster.x-k8s.io/v1beta2/namespaces/{}/clusters?fieldSelector=spec.paused%3Dtrue"),
        400,
        "BadRequest",
        "field label not supported: spec.paused",
    ),
    "bad-name": (
        ("POST", "configmaps", config_map("Not_a_name")),
        422,
        "Invalid",
        f'ConfigMap "Not_a_name" is invalid: metadata.name: Invalid value: "Not_a_name": {_NAME}',
    ),
    "bad-label": (
        ("POST", "configmaps", config_map("y", labels={"a": "c d"})),
        422,
        "Invalid",
        f'ConfigMap "y" is invalid: metadata.labels: Invalid value: "c d": {_FORM}',
    ),
    "nothing-to-replace": (("PUT", "configmaps/nothing", config_map("nothing")), 404, "NotFound", 'configmaps "nothing" not found'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_request_is_refused_in_these_words(filled: Namespace, case: str) -> None:
    request, status, reason, message = REFUSED[case]
    got, body = _call(filled, *request)
    assert (got, body["reason"], body["message"]) == (status, reason, message)
    assert (body["kind"], body["status"], body["code"]) == ("Status", "Failure", status)


@pytest.mark.parametrize(
    ("kind", "name", "qualified"), [("ConfigMap", "x", ""), ("ProxmoxMachineTemplate", "plain", "infrastructure.cluster.x-k8s.io")]
)
def test_deletion_of_something_else_is_a_conflict(filled: Namespace, kind: str, name: str, qualified: str) -> None:
    meta = filled.read(kind, name)["metadata"]
    full = f"{kind}.{qualified}" if qualified else kind
    for condition, words in (
        (
            {"uid": "ha"},
            f"the UID in the precondition (ha) does not match the UID in record ({meta['uid']}). The object might have been deleted and then recreated",
        ),
        (
            {"resourceVersion": "1"},
            (
                f"the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({meta['resourceVersion']}). "
                "The object might have been modified"
            ),
        ),
    ):
        status, body = filled.delete(kind, name, {"preconditions": condition})
        assert (status, body["reason"]) == (409, "Conflict")
        assert body["message"] == f'Operation cannot be fulfilled on {full} "{name}": {words}'


def test_status_of_a_kind_without_one_is_not_found(filled: Namespace) -> None:
    status, body = filled.server.call("PUT", path_of(filled.name, "ConfigMap", "x") + "/status", config_map("x"))
    assert status == 404
    assert body["message"] == "the server could not find the requested resource"
