"""Random clusters as hypothesis draws them, and the states that planning sees of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kubehenge.model.canon import body_hash
from kubehenge.model.facts import ClusterFacts, MachineFact, NodeFact, SiteFacts, VmFact
from kubehenge.model.identity import Incarnation
from kubehenge.model.resource import BodyHash, DesiredResource, ResourceState
from kubehenge.model.site import SiteSettings
from kubehenge.resources.expand import ClusterInput, Expansion, expand

NODES = ("pve1", "pve2", "pve3", "pve4")
VERSIONS = ("v1.36.5+rke2r1", "v1.36.6+rke2r1", "v1.37.1+rke2r1")


def body(
    name: str, *, version: str = VERSIONS[0], control_planes: int = 3, workers: int = 2, memory: int = 4096, blocks: int = 60
) -> dict[str, Any]:
    """A judged Cluster as kubectl would send it."""
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": "clusters"},
        "spec": {
            "topology": {
                "classRef": {"name": "kubehenge-rke2", "namespace": "kubehenge-system"},
                "version": version,
                "controlPlane": {"replicas": control_planes},
                "workers": {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": workers}]},
                "variables": [
                    {"name": "controlPlaneEndpoint", "value": "192.0.2.10"},
                    {
                        "name": "network",
                        "value": {
                            "bridge": "vmbr0",
                            "addresses": [f"192.0.2.11-192.0.2.{10 + blocks}"],
                            "prefix": 24,
                            "gateway": "192.0.2.1",
                            "dnsServers": ["192.0.2.1"],
                        },
                    },
                    {"name": "storage", "value": "shared-storage"},
                    {"name": "workerMachine", "value": {"memoryMiB": memory}},
                ],
            }
        },
    }


@st.composite
def bodies(draw: st.DrawFn, name: str = "prod") -> dict[str, Any]:
    return body(
        name,
        version=draw(st.sampled_from(VERSIONS)),
        control_planes=draw(st.sampled_from([1, 3, 5])),
        workers=draw(st.integers(0, 6)),
        memory=draw(st.sampled_from([2048, 4096, 8192])),
        blocks=draw(st.integers(8, 40)),
    )


def site_facts(online: tuple[str, ...] = NODES, *, memory_mib: int = 65_536, taken: int = 0) -> SiteFacts:
    template = VmFact(
        vmid=9001,
        name="cloud",
        node="pve1",
        pool="t",
        cores=2,
        memory_mib=2048,
        running=False,
        template=True,
        tags=frozenset({"kubehenge", "cloud-image"}),
    )
    return SiteFacts(
        nodes=tuple(NodeFact(name=name, online=name in online, cores=32, memory_mib=memory_mib) for name in NODES),
        memory_taken_mib=dict.fromkeys(NODES, taken),
        templates=(template,),
        capmox_token_id="capmox@pve!capmox",
        capmox_token_hmac="hmac",
    )


def machines(declared: dict[str, Any], *, scope: str = "clusters/prod", ready: bool = True) -> ClusterFacts:
    """Machines spread over the nodes, as placement would have put them."""
    topology = declared["spec"]["topology"]
    roles = [("", number) for number in range(topology["controlPlane"]["replicas"])]
    roles += [("md-0", number) for number in range(topology["workers"]["machineDeployments"][0]["replicas"])]
    found, vms = [], []
    for position, (pool, number) in enumerate(roles):
        vmid = 10_000_000 + position
        found.append(
            MachineFact(
                name=f"m-{pool or 'cp'}-{number}",
                cluster=scope,
                control_plane=not pool,
                deployment=pool,
                version=topology["version"],
                vmid=vmid,
                ready=ready,
            )
        )
        vms.append(
            VmFact(
                vmid=vmid,
                name=f"vm{vmid}",
                node=NODES[number % len(NODES)],
                pool="kubehenge/clusters.prod",
                cores=2,
                memory_mib=4096,
                running=True,
            )
        )
    return ClusterFacts(machines=tuple(found), vms=tuple(vms), available=True)


WHO = Incarnation(site="default", namespace="clusters", name="prod", number=1)


def expanded(declared: dict[str, Any], site: SiteFacts | None = None) -> Expansion:
    return expand(
        ClusterInput(incarnation=WHO, body=declared, vm_ids=(10_000_000, 10_000_999)), SiteSettings(), site or site_facts(), ClusterFacts()
    )


def states(wanted: Expansion, applied: Expansion | None = None) -> list[ResourceState]:
    """States of a cluster that is to become `wanted`, and is `applied` (None: nothing of it is there)."""
    left = {one.ref: one.body for one in applied.resources} if applied else {}
    return [state(one, left.get(one.ref)) for one in wanted.resources]


def state(one: DesiredResource, left: Any) -> ResourceState:
    hashed = BodyHash(body_hash(left)) if left is not None else None
    return ResourceState(
        ref=one.ref,
        desired=one.body,
        applied=left,
        observed=left,
        desired_hash=BodyHash(body_hash(one.body)),
        applied_hash=hashed,
        observed_hash=hashed,
        absent=left is None,
        mark=WHO.mark if left is not None else None,
        requires=one.requires,
    )
