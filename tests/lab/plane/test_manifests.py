"""A release as the plane installs it: webhooks at a local address, and the account that its manager signs in as."""

from __future__ import annotations

from typing import Any

from kubehenge.lab.plane.manifests import Account, Release, Webhooks

LOCAL = Webhooks(port=4711, ca_bundle="Q0E=")
SERVICE = {"service": {"name": "hooks", "namespace": "some-system", "path": "/validate"}}


def release(account: str | None = "manager") -> list[dict[str, Any]]:
    pod: dict[str, Any] = {"containers": []} | ({"serviceAccountName": account} if account else {})
    return [
        {"kind": "ClusterRole", "metadata": {"name": "role"}},
        {"kind": "Namespace", "metadata": {"name": "some-system"}},
        {
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.x", "annotations": {"cert-manager.io/inject-ca-from": "x"}, "labels": {"x/v1beta2": "v1"}},
            "spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"path": "/convert"}}}}},
        },
        {"kind": "CustomResourceDefinition", "metadata": {"name": "plain.x"}, "spec": {}},
        {"kind": "Deployment", "metadata": {"name": "m", "namespace": "some-system"}, "spec": {"template": {"spec": pod}}},
        {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "v"}, "webhooks": [{"clientConfig": SERVICE}]},
        {"kind": "Certificate", "metadata": {"name": "c"}},
        {"kind": "Secret", "metadata": {"name": "credentials"}},
    ]


def test_webhooks_and_conversions_lead_to_the_local_port() -> None:
    sorted_ = Release.of(release(), LOCAL)
    assert sorted_.hooks[0]["webhooks"][0]["clientConfig"] == {"url": "https://127.0.0.1:4711/validate", "caBundle": "Q0E="}
    conversion = sorted_.types[0]["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"] == {"url": "https://127.0.0.1:4711/convert", "caBundle": "Q0E="}
    assert sorted_.types[0]["metadata"] == {"name": "things.x", "annotations": {}, "labels": {"x/v1beta2": "v1"}}


def test_without_webhooks_nothing_is_converted() -> None:
    sorted_ = Release.of(release(), None)
    assert sorted_.hooks == ()
    assert sorted_.types[0]["spec"]["conversion"] == {"strategy": "None"}
    assert sorted_.types[1]["spec"] == {}


def test_the_namespace_comes_first_and_what_nobody_reads_is_left_out() -> None:
    assert [one["kind"] for one in Release.of(release(), LOCAL).first] == ["Namespace", "ClusterRole"]


def test_the_account_is_that_of_the_deployment() -> None:
    account = Release.of(release(), LOCAL).account
    assert account == Account(namespace="some-system", name="manager")
    assert account.username == "system:serviceaccount:some-system:manager"


def test_a_namespaces_own_account_is_made_where_a_release_relies_on_it() -> None:
    sorted_ = Release.of(release(account=None), LOCAL)
    assert sorted_.account == Account(namespace="some-system", name="default")
    assert sorted_.first[-1]["metadata"] == {"namespace": "some-system", "name": "default"}


def test_what_is_given_stays_as_it_was() -> None:
    before = release()
    Release.of(before, LOCAL)
    assert before == release()
