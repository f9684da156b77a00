"""The controllers of a distribution, which run only while a cluster uses it, and what a release of them needs to work (MODEL 6, 36, 37)."""

from __future__ import annotations

from dataclasses import dataclass

from kubehenge.model.canon import Body
from kubehenge.model.distribution import Distribution
from kubehenge.model.resource import DesiredResource, ResourceRef

SCALE = "kube.provider_scale"
VENDOR_PATCH = "kube.vendor_patch"
SERVING = "serving"
"""The output of a scale that tells whether the controllers answer; what requires them waits for it."""

CONTROL_PLANES = {
    "KubeadmControlPlane": Distribution.KUBEADM,
    "RKE2ControlPlane": Distribution.RKE2,
    "KThreesControlPlane": Distribution.K3S,
}
"""The distribution whose controllers look after a kind of control plane, whoever made the cluster."""


def scale_ref(distribution: str) -> ResourceRef:
    """Return the key of a distribution's controllers."""
    return ResourceRef(kind=SCALE, name=distribution)


def scale(distribution: str, *, runs: bool) -> DesiredResource:
    """Return whether a distribution's controllers are to run."""
    return DesiredResource(ref=scale_ref(distribution), body={"runs": runs})


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorPatch:
    """
    What an upstream release needs to work: fields that we add to an object of its own.

    `why` says what is broken without it and where that is reported; it goes when a release that mends it is in use.
    """

    name: str
    body: Body
    why: str


CAPMOX_735 = VendorPatch(
    name="capmox-validating-webhook-configuration",
    why=(
        "Cluster API tries a change of a machine template by a dry run, and capmox's webhook refuses that as a change of what cannot "
        "change: no change of size would ever reach a machine (cluster-api-provider-proxmox issue 735, releases up to 0.9)."
    ),
    body={
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "capmox-validating-webhook-configuration"},
        "webhooks": [
            {
                "name": "validation.proxmoxmachinetemplate.infrastructure.cluster.x-k8s.io",
                "matchConditions": [
                    {
                        "name": "not-a-topology-dry-run",
                        "expression": (
                            "!(has(request.dryRun) && request.dryRun && has(object.metadata.annotations)"
                            " && 'topology.cluster.x-k8s.io/dry-run' in object.metadata.annotations)"
                        ),
                    }
                ],
            }
        ],
    },
)
VENDOR_PATCHES = (CAPMOX_735,)


def vendor_patch(patch: VendorPatch) -> DesiredResource:
    """Return a patch as the site asks for it, where the object that it adds to is there."""
    return DesiredResource(ref=ResourceRef(kind=VENDOR_PATCH, name=patch.name), body=patch.body)
