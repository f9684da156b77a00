"""How things of a cluster are named and marked (MODEL 21, 34; reference: kubehenge-architecture, kubehenge-clusters)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

LABEL_PREFIX = "kubehenge.dev/"
ANNOTATION_SITE = "kubehenge.dev/site"
ANNOTATION_CLUSTER = "kubehenge.dev/cluster"
ANNOTATION_INCARNATION = "kubehenge.dev/incarnation"
ANNOTATION_ONLINE_NODES = "kubehenge.dev/online-nodes"
ANNOTATION_VM_ID_RANGE = "kubehenge.dev/vm-id-range"
ANNOTATION_POOL = "kubehenge.dev/pool"
ANNOTATION_TOKEN_GENERATION = "kubehenge.dev/token-generation"
ANNOTATION_TOKEN_ID = "kubehenge.dev/token-id"
ANNOTATION_TOKEN_HMAC = "kubehenge.dev/token-hmac"
ANNOTATION_PROTECT = "kubehenge.dev/protect"
OWNER_TAGS = ("kubehenge", "volumes")

_MARK = re.compile(r"kubehenge site=(?P<site>\S+) cluster=(?P<namespace>[^/\s]+)/(?P<name>\S+) incarnation=(?P<incarnation>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One life of a cluster's name on a site."""

    site: str
    namespace: str
    name: str
    number: int

    @property
    def scope(self) -> str:
        """`<namespace>/<name>`, as plans and pages name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def mark(self) -> str:
        """The text that stands in comments and descriptions of everything made for it (MODEL 21)."""
        return f"kubehenge site={self.site} cluster={self.namespace}/{self.name} incarnation={self.number}"

    @property
    def key(self) -> str:
        """Twelve hex digits that stand for it where names are short (MODEL 34)."""
        return hashlib.sha256(f"{self.site}\n{self.namespace}\n{self.name}\n{self.number}".encode()).hexdigest()[:12]

    @property
    def user(self) -> str:
        """Its Proxmox VE user."""
        return f"kh-{self.key}@pve"

    @property
    def owner_vm(self) -> str:
        """The name of the VM that owns its volumes: `<name>-<hash>-volumes`."""
        return f"{self.name}-{self.key[:8]}-volumes"

    def pool(self, workload_pool: str) -> str:
        """Its pool: `<workload pool>/<namespace>.<name>`."""
        return f"{workload_pool}/{self.namespace}.{self.name}"


def parse_mark(text: str | None) -> Incarnation | None:
    """Find our mark in a comment or description; None when there is none."""
    found = _MARK.search(text or "")
    if found is None:
        return None
    return Incarnation(
        site=found["site"],
        namespace=found["namespace"],
        name=found["name"],
        number=int(found["incarnation"]),
    )


def mark_annotations(incarnation: Incarnation) -> dict[str, str]:
    """Return the mark as annotations of a Kubernetes object."""
    return {
        ANNOTATION_SITE: incarnation.site,
        ANNOTATION_CLUSTER: incarnation.scope,
        ANNOTATION_INCARNATION: str(incarnation.number),
    }


def token_id(user: str, generation: int) -> str:
    """Return the full id of a cluster's token of one generation: `kh-…@pve!k1` (MODEL 8)."""
    return f"{user}!k{generation}"


def token_generation(full_id: str) -> int | None:
    """Read the generation out of a token's id; None for a token that is not named by us."""
    found = re.fullmatch(r"[^!]+!k([1-9]\d*)", full_id)
    return int(found[1]) if found else None
