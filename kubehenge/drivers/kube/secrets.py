"""
What is in the two Secrets of a cluster; it is put in when they are applied, and nowhere else (MODEL 8).

The Secret with the cluster's token holds manifests that the ClusterResourceSet hands over: one Secret each for the cloud controller
manager and the CSI plugin. The other holds what capmox signs in with.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import SecretStr

from kubehenge.drivers.base import ActionContext
from kubehenge.drivers.fingerprint import secret_hmac
from kubehenge.drivers.kube import kinds
from kubehenge.drivers.kube.applying import find
from kubehenge.drivers.kube.client import JSON, KubeClient
from kubehenge.drivers.kube.errors import as_mapping
from kubehenge.errors import RefusedError
from kubehenge.model.canon import Body
from kubehenge.model.identity import ANNOTATION_CLUSTER, ANNOTATION_TOKEN_GENERATION, ANNOTATION_TOKEN_HMAC, ANNOTATION_TOKEN_ID
from kubehenge.model.resource import ResourceRef

MANIFESTS = "cloud.yaml"
CCM_SECRET = "proxmox-cloud-config"  # noqa: S105 - a name
CSI_SECRET = "proxmox-csi-plugin"  # noqa: S105 - a name
VOLUME_OWNER = "kubehenge.dev/volume-owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxmoxAccess:
    """
    How clusters and capmox reach Proxmox VE.

    Shape: `url` without a path (`https://pve1:8006`); `region` returns the Proxmox VE cluster's name, which nodes are labelled
    with; `ca` PEM, '' when a public CA signs its certificate. `capmox_token_id` and `capmox_secret` are capmox's own token.
    """

    url: str
    region: Callable[[], str] = str
    ca: str = ""
    capmox_token_id: str = ""
    capmox_secret: SecretStr | None = None


class Secrets:
    """Composes the Secrets of clusters."""

    def __init__(self, client: KubeClient, access: ProxmoxAccess, site_key: bytes) -> None:
        self._client = client
        self._access = access
        self._site_key = site_key

    def compose(self, ref: ResourceRef, body: Body, context: ActionContext) -> Mapping[str, Any]:
        """Return the whole manifest of a Secret, its data included."""
        annotations = as_mapping(body["metadata"].get("annotations"))
        wanted = annotations.get(ANNOTATION_TOKEN_HMAC, "")
        if ANNOTATION_TOKEN_GENERATION in annotations:
            token_id = annotations[ANNOTATION_TOKEN_ID]
            secret = self._cluster_secret(ref, token_id, wanted, context)
            data = {MANIFESTS: self._manifests(annotations, token_id, secret)}
        else:
            data = self._credentials(ref, annotations.get(ANNOTATION_TOKEN_ID, ""), wanted)
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in sorted(data.items())}
        return {**body, "data": encoded}

    def _cluster_secret(self, ref: ResourceRef, token_id: str, wanted: str, context: ActionContext) -> SecretStr:
        """
        Return the token's secret: from the vault of the run that made it, else from the Secret that holds it already.

        Errors: RefusedError when neither has the one whose HMAC is wanted; the token is lost then.
        """
        try:
            secret = context.vault.get(token_id)
        except RefusedError:
            held = self._held(ref)
            if held is None or secret_hmac(self._site_key, held) != wanted:
                raise
            secret = held
        if secret_hmac(self._site_key, secret) != wanted:
            raise RefusedError(
                f"Secret {ref.name} is not written: the secret of token {token_id} is not the one that was planned with. The next plan looks anew."
            )
        return secret

    def _held(self, ref: ResourceRef) -> SecretStr | None:
        """Read a token's secret back out of the Secret that holds it, None when it holds none."""
        found = find(self._client, ref, accept=JSON)
        encoded = as_mapping(found.get("data")).get(MANIFESTS) if found is not None else None
        if not encoded:
            return None
        try:
            documents = list(yaml.safe_load_all(base64.b64decode(encoded)))
        except (binascii.Error, ValueError, yaml.YAMLError):
            return None
        for document in documents:
            text = as_mapping(as_mapping(document).get("stringData")).get("token_secret")
            if isinstance(text, str):
                return SecretStr(text)
        return None

    def _manifests(self, annotations: Mapping[str, str], token_id: str, secret: SecretStr) -> str:
        """The two Secrets of the workload cluster: plain keys, and the file that the charts of both programs mount."""
        scope = annotations.get(ANNOTATION_CLUSTER, "")
        owner = annotations.get(VOLUME_OWNER, "")
        api, region = f"{self._access.url}/api2/json", self._access.region()
        plain = {"url": api, "token_id": token_id, "token_secret": secret.get_secret_value(), "region": region}
        plain |= {"cluster": scope, "volume_owner": owner, **({"ca.crt": self._access.ca} if self._access.ca else {})}
        where = {"url": api, "insecure": False, "token_id": token_id, "token_secret": plain["token_secret"], "region": region}
        ccm = {"features": {"provider": "capmox"}, "clusters": [where]}
        csi = {"features": {"provider": "capmox", "controllerVmID": int(owner) if owner.isdecimal() else None}, "clusters": [where]}
        documents = [_secret(CCM_SECRET, plain, ccm), _secret(CSI_SECRET, plain, csi)]
        return yaml.safe_dump_all(documents, sort_keys=True)

    def _credentials(self, ref: ResourceRef, token_id: str, wanted: str) -> dict[str, str]:
        access = self._access
        if access.capmox_secret is None:
            raise RefusedError(
                f"Secret {ref.name} is not written: capmox's token is not set. Set its id and secret, and Kubehenge puts them in."
            )
        if token_id != access.capmox_token_id or wanted != secret_hmac(self._site_key, access.capmox_secret):
            raise RefusedError(
                f"Secret {ref.name} is not written: it was planned with another token of capmox than the one that is set now. "
                "The next plan takes the new one."
            )
        data = {"url": access.url, "token": token_id, "secret": access.capmox_secret.get_secret_value()}
        return {**data, **({"root_ca": access.ca} if access.ca else {}), "insecure": "false"}


def _secret(name: str, plain: Mapping[str, str], configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "kube-system"},
        "type": "Opaque",
        "stringData": {**plain, "config.yaml": json.dumps(configuration, sort_keys=True)},
    }


def is_capmox(body: Body) -> bool:
    """Tell whether a Secret's body is of capmox's Secret, whose readers have to be woken after a write (MODEL 36)."""
    annotations = as_mapping(body["metadata"].get("annotations"))
    return ANNOTATION_TOKEN_GENERATION not in annotations


def nudge(client: KubeClient, ref: ResourceRef, cluster: str, stamp: str) -> int:
    """
    Touch the ProxmoxClusters of a cluster, since capmox watches no Secrets and may sleep for a quarter of an hour; returns how many.

    `stamp` is the value of the annotation: a new one each time.
    """
    namespace = ref.name.partition("/")[0]
    served = kinds.PROXMOX_CLUSTERS
    listed = client.list(served.within(namespace), labels=f"{kinds.CLUSTER_LABEL}={cluster}")
    for obj in listed.items:
        patch = {"metadata": {"annotations": {"kubehenge.dev/credentials-checked": stamp}}}
        client.merge(served.one(namespace, obj["metadata"]["name"]), patch)
    return len(listed.items)
