"""Finalizers, owners, namespaces."""

from __future__ import annotations

from typing import Any

from tests.contract.objects import Namespace, config_map
from tests.lab.kube.running import until

_HELD = "kubehenge.dev/held"


def _owned_by(owner: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], **more}]


def test_finalizer_holds_a_deleted_object(namespace: Namespace) -> None:
    namespace.make(config_map("x", finalizers=[_HELD]))
    status, body = namespace.delete("ConfigMap", "x")
    assert status == 200
    assert body["metadata"]["deletionTimestamp"]
    assert body["metadata"]["deletionGracePeriodSeconds"] == 0
    first = namespace.read("ConfigMap", "x")["metadata"]["deletionTimestamp"]
    namespace.delete("ConfigMap", "x")
    assert namespace.read("ConfigMap", "x")["metadata"]["deletionTimestamp"] == first
    status, _ = namespace.patch("ConfigMap", "x", {"metadata": {"finalizers": None}})
    assert status == 200
    assert namespace.get("ConfigMap", "x")[0] == 404


def test_deleted_object_takes_no_new_finalizer(namespace: Namespace) -> None:
    namespace.make(config_map("x", finalizers=[_HELD]))
    namespace.delete("ConfigMap", "x")
    status, body = namespace.patch("ConfigMap", "x", {"metadata": {"finalizers": [_HELD, "kubehenge.dev/other"]}})
    assert (status, body["reason"]) == (422, "Invalid")
    assert "no new finalizers can be added if the object is being deleted" in body["message"]
    namespace.patch("ConfigMap", "x", {"metadata": {"finalizers": None}})


def test_deletion_time_cannot_be_set_by_hand(namespace: Namespace) -> None:
    namespace.make(config_map("x"))
    _, body = namespace.patch("ConfigMap", "x", {"metadata": {"deletionTimestamp": "2026-11-30T12:00:00Z"}})
    assert "deletionTimestamp" not in body["metadata"]


def test_dependants_go_with_their_owner(namespace: Namespace) -> None:
    owner = namespace.make(config_map("owner"))
    child = namespace.make(config_map("child", ownerReferences=_owned_by(owner)))
    namespace.make(config_map("grandchild", ownerReferences=_owned_by(child)))
    namespace.delete("ConfigMap", "owner")
    namespace.gone("ConfigMap", "grandchild")
    assert namespace.get("ConfigMap", "child")[0] == 404


def test_dependant_with_another_owner_stays(namespace: Namespace) -> None:
    owners = [namespace.make(config_map(name)) for name in ("one", "two")]
    namespace.make(config_map("child", ownerReferences=[*_owned_by(owners[0]), *_owned_by(owners[1])]))
    namespace.delete("ConfigMap", "one")
    left = until(lambda: len(refs := namespace.read("ConfigMap", "child")["metadata"]["ownerReferences"]) == 1 and refs)
    assert left[0]["name"] == "two"


def test_dependant_of_nobody_is_collected(namespace: Namespace) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "11111111-2222-3333-4444-555555555555"}
    namespace.make(config_map("child", ownerReferences=[reference]))
    namespace.gone("ConfigMap", "child")


def test_orphaned_dependants_stay(namespace: Namespace) -> None:
    owner = namespace.make(config_map("owner"))
    namespace.make(config_map("child", ownerReferences=_owned_by(owner)))
    namespace.delete("ConfigMap", "owner", {"propagationPolicy": "Orphan"})
    namespace.gone("ConfigMap", "owner")
    assert not namespace.read("ConfigMap", "child")["metadata"].get("ownerReferences")


def test_foreground_deletion_waits_for_dependants(namespace: Namespace) -> None:
    owner = namespace.make(config_map("owner"))
    namespace.make(config_map("child", finalizers=[_HELD], ownerReferences=_owned_by(owner, blockOwnerDeletion=True)))
    status, body = namespace.delete("ConfigMap", "owner", {"propagationPolicy": "Foreground"})
    assert status in {200, 202}
    assert "foregroundDeletion" in body["metadata"]["finalizers"]
    until(lambda: namespace.read("ConfigMap", "child")["metadata"].get("deletionTimestamp"))
    assert namespace.get("ConfigMap", "owner")[0] == 200
    namespace.patch("ConfigMap", "child", {"metadata": {"finalizers": None}})
    namespace.gone("ConfigMap", "owner")


def test_namespace_takes_its_contents_along(namespace: Namespace) -> None:
    namespace.make(config_map("x", finalizers=[_HELD]))
    path = f"/api/v1/namespaces/{namespace.name}"
    status, body = namespace.server.call("DELETE", path)
    assert status == 200
    assert body["status"]["phase"] == "Terminating"
    until(lambda: namespace.read("ConfigMap", "x")["metadata"].get("deletionTimestamp"))
    status, answer = namespace.post(config_map("late"))
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert "because it is being terminated" in answer["message"]
    namespace.patch("ConfigMap", "x", {"metadata": {"finalizers": None}})
    until(lambda: namespace.server.call("GET", path)[0] == 404)


def test_namespace_has_its_name_as_a_label(namespace: Namespace) -> None:
    _, body = namespace.server.call("GET", f"/api/v1/namespaces/{namespace.name}")
    assert body["metadata"]["labels"]["kubernetes.io/metadata.name"] == namespace.name
    assert body["status"]["phase"] == "Active"
