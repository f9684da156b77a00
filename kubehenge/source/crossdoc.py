"""
Judges accepted documents together: names, addresses, Rancher (ACCEPTANCE 2.3, MODEL 2), and against the site's settings.

Pure functions over declarations. Verdicts from here are never cached by blob, since they change without it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubehenge.model.cluster import ClusterDeclaration
from kubehenge.model.document import Declaration, ProblemKind
from kubehenge.model.network import AddressBlock, format_address, merge
from kubehenge.model.site import ApprovalRules, SiteSettings
from kubehenge.source.findings import Finding, variable
from kubehenge.source.shape import quoted

_ENDPOINT = variable("controlPlaneEndpoint")

SHOWN_CONFLICTS = 5
"""Other clusters that one document's findings name at most for each field."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DocumentKey:
    """Where a document is: the source's name, the path in it, and which document of the file, from 1."""

    source: str
    path: str
    number: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    A declaration that claims a name and addresses.

    `line` is the document's first line. `held` says that this document holds its name (MODEL 2), also while it is broken and the
    declaration is its last good one. `since` is the tick from which the declaration is in force, the running one for a new version; of
    two that cannot both be, the one that is not held, or came later, is refused.
    """

    key: DocumentKey
    line: int
    declaration: Declaration
    held: bool = False
    since: int = 0

    @property
    def precedence(self) -> tuple[bool, int, str, str, int]:
        """What claims are ordered by; the lower goes first. It is the same whatever order they arrive in."""
        return (not self.held, self.since, self.key.source, self.key.path, self.key.number)

    @property
    def place(self) -> str:
        """Where it is declared, for messages."""
        source = f"{self.key.source}, " if self.key.source else ""
        return f"{source}{self.key.path}, line {self.line}"

    @property
    def name(self) -> tuple[str, str]:
        """What only one document may declare: kind and name."""
        match self.declaration:
            case ClusterDeclaration():
                return "Cluster", self.declaration.scope
            case SiteSettings():
                return "Site", self.declaration.name
            case ApprovalRules():
                return "ApprovalRules", self.declaration.name


def judge_together(claims: Iterable[Claim]) -> Mapping[DocumentKey, tuple[Finding, ...]]:
    """
    Return what each refused document is refused for; the others are not in the answer.

    A refused document claims nothing, so it refuses no other, but for a holder, which keeps its name. The answer does not depend on the
    order of the claims.
    """
    names: dict[tuple[str, str], Claim] = {}
    networks: dict[tuple[str, int | None], _Network] = defaultdict(_Network)
    rancher: Claim | None = None
    refused: dict[DocumentKey, tuple[Finding, ...]] = {}
    for claim in sorted(claims, key=lambda claim: claim.precedence):
        name = claim.name
        holder = names.get(name)
        if holder is not None:
            refused[claim.key] = (_declared_twice(claim, holder),)
            continue
        if claim.held or not isinstance(claim.declaration, ClusterDeclaration):
            names[name] = claim  # a holder keeps its name, also while it is refused
        if not isinstance(claim.declaration, ClusterDeclaration):
            continue
        cluster = claim.declaration
        network = networks[cluster.network.bridge, cluster.network.vlan]
        findings = network.find_conflicts(cluster)
        if cluster.rancher.install and rancher is not None:
            message = f"Rancher is installed in {rancher.name[1]} ({rancher.place}), and only one cluster may have it. Leave `install` out."
            findings.append(Finding(path=variable("rancher", "install"), kind=ProblemKind.NOT_ALLOWED, message=message))
        if findings:
            refused[claim.key] = tuple(findings)
            continue
        names[name] = claim
        network.take(claim, cluster)
        rancher = claim if cluster.rancher.install else rancher
    return refused


def _declared_twice(claim: Claim, holder: Claim) -> Finding:
    kind, name = claim.name
    holds = "holds the name" if holder.held else "is declared"
    message = f"{kind} {name} {holds} in {holder.place}. Take one of the two out, or give this one another name."
    return Finding(path=("metadata", "name"), kind=ProblemKind.DUPLICATE, message=message)


@dataclass(slots=True)
class _Network:
    """What the clusters on one bridge and VLAN have taken: address blocks that do not meet, and virtual IPs, each in order."""

    firsts: list[int] = field(default_factory=list)
    blocks: dict[int, tuple[AddressBlock, Claim]] = field(default_factory=dict)
    endpoints: list[int] = field(default_factory=list)
    by_endpoint: dict[int, Claim] = field(default_factory=dict)

    def take(self, claim: Claim, cluster: ClusterDeclaration) -> None:
        """Take a cluster's addresses; they meet none that are taken."""
        for block in merge(cluster.network.blocks):
            insort(self.firsts, block.first)
            self.blocks[block.first] = (block, claim)
        insort(self.endpoints, cluster.endpoint)
        self.by_endpoint[cluster.endpoint] = claim

    def find_conflicts(self, cluster: ClusterDeclaration) -> list[Finding]:
        """Return what of a cluster's addresses is taken, with who has it."""
        findings: list[Finding] = []
        endpoint = AddressBlock(first=cluster.endpoint, last=cluster.endpoint)
        if cluster.endpoint in self.by_endpoint:
            other = self.by_endpoint[cluster.endpoint]
            message = f"{endpoint} is the virtual IP of {_of(other)}. Take another."
            findings.append(Finding(path=_ENDPOINT, kind=ProblemKind.OVERLAP, message=message))
        for block, other in self.meeting(endpoint):
            message = f"{endpoint} is one of the node addresses of {_of(other)}: {block}. Take one outside them."
            findings.append(Finding(path=_ENDPOINT, kind=ProblemKind.OVERLAP, message=message))
        for index, block in enumerate(cluster.network.blocks):
            findings += self._find_block_conflicts(index, block)
        return findings

    def _find_block_conflicts(self, index: int, block: AddressBlock) -> list[Finding]:
        messages: dict[DocumentKey, str] = {}
        for taken, other in self.meeting(block):
            shared = AddressBlock(first=max(taken.first, block.first), last=min(taken.last, block.last))
            messages.setdefault(other.key, f"{block} shares {shared} with {_of(other)}. Take addresses that no other cluster has.")
        inside = self.endpoints[bisect_left(self.endpoints, block.first) : bisect_right(self.endpoints, block.last)]
        for address in inside:
            other = self.by_endpoint[address]
            messages.setdefault(other.key, f"{block} holds {format_address(address)}, the virtual IP of {_of(other)}. Leave it out.")
        if not messages:
            return []
        path = variable("network", "addresses", index)
        return [Finding(path=path, kind=ProblemKind.OVERLAP, message=message) for message in list(messages.values())[:SHOWN_CONFLICTS]]

    def meeting(self, block: AddressBlock) -> list[tuple[AddressBlock, Claim]]:
        """Return the taken blocks that share an address with this one, lowest first."""
        start = bisect_right(self.firsts, block.first)
        if start and self.blocks[self.firsts[start - 1]][0].last >= block.first:
            start -= 1
        return [self.blocks[first] for first in self.firsts[start : bisect_right(self.firsts, block.last)]]


def _of(claim: Claim) -> str:
    return f"cluster {claim.name[1]} ({claim.place})"


def check_against_site(cluster: ClusterDeclaration, site: SiteSettings) -> tuple[Finding, ...]:
    """Return what the site's settings do not allow of a cluster: its storage and bridge, where the settings name any."""
    if not (site.storages or site.bridges):
        return ()
    findings: list[Finding] = []
    for what, plural, value, allowed, path in (
        ("storage", "storages", cluster.storage, site.storages, variable("storage")),
        ("bridge", "bridges", cluster.network.bridge, site.bridges, variable("network", "bridge")),
    ):
        if allowed and value not in allowed:
            message = f"{quoted(value)} is no {what} that clusters of site {site.name} may use. Its {plural}: {', '.join(allowed)}."
            findings.append(Finding(path=path, kind=ProblemKind.NOT_ALLOWED, message=message))
    return tuple(findings)
