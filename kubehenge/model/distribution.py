"""What differs between the distributions: names, versions, pod networks, ranges and sizes (reference: kubehenge-clusters)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

CLASS_NAMESPACE = "kubehenge-system"
CLASS_PREFIX = "kubehenge-"


class Distribution(StrEnum):
    """The Kubernetes distribution that a cluster runs."""

    KUBEADM = "kubeadm"
    RKE2 = "rke2"
    K3S = "k3s"


class Cni(StrEnum):
    """The pod network, chosen at creation and fixed for the cluster's life."""

    CALICO = "calico"
    CANAL = "canal"
    CILIUM = "cilium"
    FLANNEL = "flannel"


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionFacts:
    """
    The settled figures of one distribution.

    `version_suffix` stands before the release number in its versions, '' where there is none. `default_cni` is None where one has
    to be chosen. Ranges are in CIDR notation, memory is in MiB.
    """

    title: str
    version_suffix: str
    example_version: str
    cnis: tuple[Cni, ...]
    default_cni: Cni | None
    pods: str
    services: str
    control_plane_memory_mib: int
    brings_ingress: bool


FACTS: Mapping[Distribution, DistributionFacts] = {
    Distribution.KUBEADM: DistributionFacts(
        title="kubeadm",
        version_suffix="",
        example_version="v1.36.5",
        cnis=(Cni.CILIUM, Cni.CALICO),
        default_cni=None,
        pods="10.244.0.0/16",
        services="10.96.0.0/12",
        control_plane_memory_mib=2048,
        brings_ingress=False,
    ),
    Distribution.RKE2: DistributionFacts(
        title="RKE2",
        version_suffix="+rke2r",
        example_version="v1.36.5+rke2r1",
        cnis=(Cni.CANAL, Cni.CALICO, Cni.CILIUM),
        default_cni=Cni.CANAL,
        pods="10.42.0.0/16",
        services="10.43.0.0/16",
        control_plane_memory_mib=3072,
        brings_ingress=True,
    ),
    Distribution.K3S: DistributionFacts(
        title="k3s",
        version_suffix="+k3s",
        example_version="v1.36.5+k3s1",
        cnis=(Cni.FLANNEL, Cni.CILIUM, Cni.CALICO),
        default_cni=Cni.FLANNEL,
        pods="10.42.0.0/16",
        services="10.43.0.0/16",
        control_plane_memory_mib=2048,
        brings_ingress=True,
    ),
}

CLASS_PATTERN = r"kubehenge-(kubeadm|rke2|k3s)(-[0-9a-f]{10})?"
"""
The plain name of a class, which is an alias, or its content name (MODEL 31).

The first five digits stand for what machines are made from, the others for the whole class: so a change of class says by its two
names alone whether it replaces machines.
"""

_CLASS = re.compile(CLASS_PATTERN)


def class_alias(distribution: Distribution) -> str:
    """Return the name that files use for a distribution's class: `kubehenge-rke2`."""
    return f"{CLASS_PREFIX}{distribution}"


def find_distribution(class_name: str) -> Distribution | None:
    """Return the distribution of one of Kubehenge's classes by its plain or content name, None for any other name."""
    found = _CLASS.fullmatch(class_name)
    return Distribution(found[1]) if found else None


def machines_of(class_name: str) -> str:
    """Return the part of a class's name that stands for what its machines are made from; of a plain name, the name itself."""
    return class_name[:-5] if is_content_name(class_name) else class_name


def is_content_name(class_name: str) -> bool:
    """Tell whether a class is named by its content, `kubehenge-rke2-<10 hex>`, rather than by its alias."""
    found = _CLASS.fullmatch(class_name)
    return found is not None and found[2] is not None
