"""Turns a provider's release into what the plane's API server gets: webhooks at a local address instead of a Service."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]
CRD = "CustomResourceDefinition"
HOOKS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
# What nobody reads here: certificates are ours, nothing is reached by a Service, and capmox takes no credentials of its own.
_LEFT_OUT = frozenset({"Certificate", "Issuer", "Service", "Secret", "ConfigMap"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The service account that a release's Deployment runs as."""

    namespace: str
    name: str

    @property
    def username(self) -> str:
        """Its name as the API server knows it."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """Where a manager serves its webhooks, and what its certificate is checked against (PEM in base64)."""

    port: int
    ca_bundle: str

    def client(self, before: Mapping[str, Any]) -> Body:
        """Return a clientConfig that leads there."""
        return {"url": f"https://127.0.0.1:{self.port}{before['service'].get('path', '/')}", "caBundle": self.ca_bundle}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release, sorted: `first` must be there before its manager starts, `hooks` may come once it serves."""

    first: tuple[Body, ...]
    types: tuple[Body, ...]
    hooks: tuple[Body, ...]
    deployment: Body | None
    account: Account | None

    @classmethod
    def of(cls, objects: Iterable[Body], webhooks: Webhooks | None) -> Release:
        """
        Sort a release's objects, with its webhooks at a local address.

        Shape: without `webhooks` it has none, and its types are not converted: what is stored in one version is read in another as it is.
        """
        kept = list(_localised(copy.deepcopy([one for one in objects if one["kind"] not in _LEFT_OUT]), webhooks))
        deployment = next((one for one in kept if one["kind"] == "Deployment"), None)
        special = HOOKS | {CRD, "Deployment"}
        account = _account(deployment) if deployment else None
        first = [one for one in kept if one["kind"] not in special]
        if account and account.name == "default":  # else a controller makes it, some time
            first.append(_service_account(account))
        first.sort(key=lambda one: one["kind"] != "Namespace")
        return cls(
            first=tuple(first),
            types=tuple(one for one in kept if one["kind"] == CRD),
            hooks=tuple(one for one in kept if one["kind"] in HOOKS),
            deployment=deployment,
            account=account,
        )


def _localised(objects: Iterable[Body], webhooks: Webhooks | None) -> Iterator[Body]:
    for one in objects:
        if one["kind"] == CRD:
            _localise_type(one, webhooks)
        elif one["kind"] in HOOKS:
            if webhooks is None:
                continue
            for hook in one["webhooks"]:
                hook["clientConfig"] = webhooks.client(hook["clientConfig"])
        yield one


def _localise_type(one: Body, webhooks: Webhooks | None) -> None:
    conversion = one["spec"].get("conversion", {}).get("webhook")
    if conversion and webhooks:
        conversion["clientConfig"] = webhooks.client(conversion["clientConfig"])
    elif conversion:
        one["spec"]["conversion"] = {"strategy": "None"}
    one["metadata"].get("annotations", {}).pop("cert-manager.io/inject-ca-from", None)


def _account(deployment: Mapping[str, Any]) -> Account:
    name = deployment["spec"]["template"]["spec"].get("serviceAccountName", "default")
    return Account(namespace=deployment["metadata"]["namespace"], name=name)


def _service_account(account: Account) -> Body:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": account.namespace, "name": account.name}}
