"""
From one cluster's declaration to everything it needs (DESIGN, Planning is a join).

`expand` reads settings and facts through a `Recorder`, so the plan's digest covers what this expansion read and nothing else, and
it runs again only when one of these changes (MODEL 12).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kubehenge.model.canon import Body, digest
from kubehenge.model.facts import ClusterFacts, SiteFacts, TokenFact
from kubehenge.model.identity import Incarnation
from kubehenge.model.resource import DesiredResource, Lane
from kubehenge.model.site import SiteSettings
from kubehenge.resources import access, clusters, credentials, volumes
from kubehenge.resources.topology import Topology

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInput:
    """
    One cluster as it is expanded.

    `vm_ids` is its own range of VM ids (MODEL 35); `fixed` what was copied onto its row when it was first planned; `pinned` the
    content name of the class that it runs, '' for none (MODEL 31).
    """

    incarnation: Incarnation
    body: Body
    vm_ids: tuple[int, int]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    pinned: str = ""


class Recorder:
    """Hands out settings and facts, and remembers each, for the lane whose fields it shapes."""

    def __init__(self) -> None:
        self._read: dict[Lane, dict[str, Any]] = {Lane.ASKED: {}, Lane.UPKEEP: {}}

    def read(self, name: str, value: T, *, lane: Lane = Lane.ASKED) -> T:
        """Return the value, remembered under its name."""
        self._read[lane][name] = value
        return value

    def inputs(self, lane: Lane) -> str:
        """Return one digest of all that was read for a lane."""
        return digest(self._read[lane])


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """All that one cluster needs, and the digests of what was read for it, by lane."""

    resources: tuple[DesiredResource, ...]
    inputs: Mapping[Lane, str]


def expand(cluster: ClusterInput, settings: SiteSettings, site: SiteFacts, facts: ClusterFacts) -> Expansion:
    """
    Return everything that a declared cluster needs, in no particular order.

    Shape: one DesiredResource a thing; references between them stand in their bodies (MODEL 5).
    Errors: none; a judged declaration always expands.
    Source: reference kubehenge-architecture, "Each cluster's own corner of Proxmox VE".
    """
    record = Recorder()
    who = cluster.incarnation
    pool = who.pool(record.read("setting.workload_pool", settings.workload_pool))
    group = record.read("setting.cluster_group", settings.cluster_group)
    owner_ids = record.read("setting.owner_vm_ids", (settings.owner_vm_ids.first, settings.owner_vm_ids.last))
    generation = record.read("fact.token_generation", generation_for(facts.token))
    topology = Topology.of(cluster.body)
    nodes = record.read("fact.online_nodes", online_nodes(topology, site), lane=Lane.UPKEEP)
    pinned = record.read("row.class", cluster.pinned)
    resources = (
        access.pool(who, pool),
        access.user(who, group),
        access.token(who, generation),
        access.acl(who, pool),
        volumes.owner(who, pool, owner_ids),
        credentials.cluster_token(who, pool, generation),
        credentials.capmox(
            who,
            record.read("fact.capmox_token", site.capmox_token_id),
            record.read("fact.capmox_hmac", site.capmox_token_hmac),
        ),
        credentials.resource_set(who),
        clusters.cluster(who, cluster.body, poolid=pool, vm_ids=cluster.vm_ids, nodes=nodes, fixed=cluster.fixed, pinned=pinned),
    )
    return Expansion(resources=resources, inputs={lane: record.inputs(lane) for lane in Lane})


def generation_for(token: TokenFact) -> int:
    """
    Return the generation that is wanted: the one that the Secret holds while it exists, else the next one (MODEL 8).

    A token that no Secret names is lost: its secret was shown once, and nobody has it.
    """
    if token.held is not None and token.held in token.existing:
        return token.held
    return max((*token.existing, token.last, token.held or 0)) + 1


def online_nodes(topology: Topology, site: SiteFacts) -> tuple[str, ...]:
    """
    Return the Proxmox VE nodes that new VMs may go to: those chosen that are online, or all online ones.

    While every chosen node is down the chosen ones stay, so that nothing is placed elsewhere (reference kubehenge-clusters,
    Machines; MODEL 30).
    """
    online = site.online_nodes
    if not topology.allowed_nodes:
        return online
    chosen = tuple(sorted(set(topology.allowed_nodes)))
    return tuple(node for node in chosen if node in online) or chosen
