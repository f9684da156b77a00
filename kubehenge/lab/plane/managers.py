"""The managers of the plane: which there are, and how each is told where to listen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where a manager serves; `certificates` is a folder with tls.crt and tls.key. A port of 0 is one that it does not have."""

    webhooks: int
    health: int
    certificates: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """
    A manager: the name of its program and of its release.

    Shape: with `fixed_port` it can't be told where its webhooks are; `no_webhooks` are the flags and variables that switch them off.
    """

    name: str
    flags: Callable[[Listen], list[str]]
    fixed_port: bool = False
    has_health: bool = True
    no_webhooks: tuple[list[str], dict[str, str]] = ([], {})


def _cluster_api(*gates: str) -> Callable[[Listen], list[str]]:
    def flags(listen: Listen) -> list[str]:
        return [*_webhooks(listen), f"--health-addr=127.0.0.1:{listen.health}", "--diagnostics-address=0", *_gates(gates)]

    return flags


def _ipam(listen: Listen) -> list[str]:
    return [*_webhooks(listen), f"--health-probe-bind-address=127.0.0.1:{listen.health}", "--diagnostics-address=0"]


def _capmox(listen: Listen) -> list[str]:
    # At a verbosity of 4 it would log the bodies of requests, with secrets.
    return [f"--health-probe-bind-address=127.0.0.1:{listen.health}", "--diagnostics-address=0", "-v=2", *_gates(("ClusterTopology=true",))]


def _k3s(_listen: Listen) -> list[str]:
    return ["--metrics-addr=0"]


def _webhooks(listen: Listen) -> list[str]:
    return [f"--webhook-port={listen.webhooks}", f"--webhook-cert-dir={listen.certificates}"]


def _gates(gates: tuple[str, ...]) -> list[str]:
    return [f"--feature-gates={','.join(gates)}"] if gates else []


# Nothing is gained by waiting longer between two tries of the same object where a try costs nothing.
_EAGER = "ReconcilerRateLimiting=false"
_TOPOLOGY = "ClusterTopology=true"
_NO_K3S_WEBHOOKS: tuple[list[str], dict[str, str]] = ([], {"ENABLE_WEBHOOKS": "false"})

MANAGERS = (
    Manager(name="capi-core", flags=_cluster_api(_TOPOLOGY, "RuntimeSDK=true", _EAGER)),
    Manager(name="capi-bootstrap", flags=_cluster_api(_EAGER)),
    Manager(name="capi-controlplane", flags=_cluster_api(_TOPOLOGY, _EAGER)),
    Manager(name="ipam", flags=_ipam),
    Manager(name="capmox", flags=_capmox, fixed_port=True, no_webhooks=(["--enable-webhooks=false"], {})),
    Manager(name="k3s-bootstrap", flags=_k3s, fixed_port=True, has_health=False, no_webhooks=_NO_K3S_WEBHOOKS),
    Manager(name="k3s-controlplane", flags=_k3s, fixed_port=True, has_health=False, no_webhooks=_NO_K3S_WEBHOOKS),
    Manager(name="helm", flags=_cluster_api()),
)
# Releases whose types are served, and that have no manager here.
TYPES_ONLY = ("rke2",)
