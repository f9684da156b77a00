"""How it is seen that a plane is ready: types that are served, managers that listen, webhooks that are asked."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from kubehenge.lab.plane.client import Api, ApiError, ask, collection
from kubehenge.lab.plane.manifests import Body

_CLOSED = "https://127.0.0.1:1/"
_KINDS = {"MutatingWebhookConfiguration": "mutating", "ValidatingWebhookConfiguration": "validating"}


def are_served(api: Api, types: Iterable[Mapping[str, Any]]) -> bool:
    """
    Whether all these types are established and found by discovery.

    Reading objects of each would tell as well, and would have the API server set up every type at once, one after the other.
    """
    wanted: dict[str, set[str]] = {}
    for one in types:
        spec = one["spec"]
        for version in spec["versions"]:
            if version["served"]:
                wanted.setdefault(f"/apis/{spec['group']}/{version['name']}", set()).add(spec["names"]["plural"])
    try:
        return all(names <= {found["name"] for found in api.get(path)["resources"]} for path, names in wanted.items())
    except ApiError:
        return False


def is_aggregated(api: Api, role: Mapping[str, Any]) -> bool:
    """Whether the rules of a ClusterRole that others make up are there."""
    return bool(api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role['metadata']['name']}").get("rules"))


def is_healthy(port: int) -> bool:
    """Whether a manager says that it is ready."""
    return ask(f"http://127.0.0.1:{port}/readyz") == HTTPStatus.OK


def serves_tls(port: int, ca_file: Path) -> bool:
    """Whether something answers there with a certificate of ours, whatever it answers."""
    return ask(f"https://127.0.0.1:{port}/", ca_file) is not None


class Marker:
    """
    Tells when the API server heeds all webhooks that were written before: one more of each kind, written last, then refuses what bears a label.

    The API server learns of webhooks a moment after they are written, in the order in which they were.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._label = f"plane-marker-{secrets.token_hex(4)}"
        self._waiting = dict(_KINDS)

    def place(self) -> None:
        """Write them."""
        for kind in _KINDS:
            self._api.apply(self._configuration(kind))

    def is_heeded(self) -> bool:
        """Whether both are asked; each is taken away once it was."""
        probe = {"metadata": {"name": "plane-marker", "namespace": "default", "labels": {self._label: ""}}}
        for kind, name in list(self._waiting.items()):
            try:
                self._api.apply({"apiVersion": "v1", "kind": "ConfigMap", **probe}, dry_run=True)
            except ApiError as error:
                if self._name(name) in str(error):
                    del self._waiting[kind]
                    self._api.delete(f"{collection('admissionregistration.k8s.io/v1', kind)}/{self._label}")
            else:
                return False
        return not self._waiting

    def _name(self, kind: str) -> str:
        return f"{kind}.{self._label}.lab.kubehenge.dev"

    def _configuration(self, kind: str) -> Body:
        hook = {
            "name": self._name(_KINDS[kind]),
            "clientConfig": {"url": _CLOSED},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "objectSelector": {"matchLabels": {self._label: ""}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": self._label},
            "webhooks": [hook],
        }


def refuses_bad_cluster(api: Api) -> bool:
    """Whether Cluster API's own webhook refuses a Cluster that its schema lets through."""
    bad = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["no range"]}}},
    }
    try:
        api.apply(bad, dry_run=True)
    except ApiError as error:
        return "admission webhook" in str(error)
    return False
