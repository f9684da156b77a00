"""
What keeps a plan from finishing, and which smallest change would let it (MODEL 18; ACCEPTANCE, domain rules).

Each rule is a function from what is asked and what there is to an Obstacle or None, and leaves a Check behind that the page shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kubehenge.model.canon import MISSING, FieldChange
from kubehenge.model.distribution import Distribution, find_distribution
from kubehenge.model.facts import ClusterFacts, SiteFacts
from kubehenge.model.network import AddressBlock, Unreadable, format_address, network_of, parse_address, parse_block
from kubehenge.model.plan import Bill, Check, Obstacle, QuorumVerdict, Remedy
from kubehenge.model.versions import UpgradeAnswer, find_version, judge_upgrade
from kubehenge.plan.bill import reserved_addresses, usable_addresses
from kubehenge.plan.placement import Moment, Role
from kubehenge.resources.topology import Topology

MEMORY_STEP_MIB = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A change of one cluster's Cluster and the world it is asked in; `before` is None for a creation, `after` for a deletion."""

    before: Topology | None
    after: Topology | None
    facts: ClusterFacts
    site: SiteFacts
    moments: Sequence[Moment]
    bill: Bill
    protected: bool = False
    taken: Sequence[AddressBlock] = ()
    """Node addresses and endpoints of other clusters on the same network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A check, and the obstacle when it does not hold."""

    check: Check
    obstacle: Obstacle | None = None


def look_for_obstacles(question: Question) -> tuple[tuple[Obstacle, ...], tuple[Check, ...]]:
    """Hold a plan against every rule; returns what keeps it from finishing, and all checks in the order of the page."""
    found = tuple(_rules(question))
    return tuple(one.obstacle for one in found if one.obstacle), tuple(one.check for one in found)


def _rules(question: Question) -> Iterator[Finding]:
    if question.after is None:
        yield _protection(question)
        return
    if question.before is not None:
        yield _version(question.before, question.after)
        yield from _fixed(question.before, question.after)
        yield _disks(question.before, question.after)
    yield _template(question.after, question.site)
    yield _addresses(question, question.after)
    yield _memory(question, question.after)
    yield _quorum(question)


def _protection(question: Question) -> Finding:
    if not question.protected:
        return Finding(check=Check(text="Nothing protected is deleted", holds=True))
    return Finding(
        check=Check(text="Nothing protected is deleted", holds=False, note="kubehenge.dev/protect is true"),
        obstacle=Obstacle(
            what="protection",
            asked="the cluster is deleted",
            there_is="its annotation kubehenge.dev/protect is true",
            remedies=(
                Remedy(
                    text="Push its file again without the annotation, have that approved, then remove the file.",
                    changes=(FieldChange(path='metadata.annotations["kubehenge.dev/protect"]', before="true", after=MISSING),),
                ),
            ),
        ),
    )


def _version(before: Topology, after: Topology) -> Finding:
    text = "One minor version at a time, never back"
    running, asked = find_version(before.version), find_version(after.version)
    if running is None or asked is None or before.version == after.version:
        return Finding(check=Check(text=text, holds=True, note="unchanged"))
    judged = judge_upgrade(running, asked)
    if judged.answer is not UpgradeAnswer.REFUSED:
        return Finding(check=Check(text=text, holds=True, note=f"{before.version} to {after.version}"))
    keep = FieldChange(path="spec.topology.version", before=after.version, after=before.version)
    return Finding(
        check=Check(text=text, holds=False, note=judged.reason),
        obstacle=Obstacle(
            what="version",
            asked=after.version,
            there_is=before.version,
            remedies=(Remedy(text=f"Stay at {before.version}. {judged.reason}", changes=(keep,)),),
        ),
    )


def _fixed(before: Topology, after: Topology) -> Iterator[Finding]:
    """What is chosen at creation and stays (reference kubehenge-clusters, Pod network; kubehenge-architecture, Networking)."""
    pairs = (
        ("The distribution stays", "spec.topology.classRef.name", before.distribution, after.distribution),
        ("The pod network stays", "variables.cni", before.variables.get("cni", MISSING), after.variables.get("cni", MISSING)),
        (
            "The API address stays",
            "variables.controlPlaneEndpoint",
            before.variables.get("controlPlaneEndpoint", MISSING),
            after.variables.get("controlPlaneEndpoint", MISSING),
        ),
    )
    for text, field, old, new in pairs:
        if old == new:
            continue
        words = "the distribution's own" if old is MISSING else str(old)
        yield Finding(
            check=Check(text=text, holds=False, note=f"{field} is {words}"),
            obstacle=Obstacle(
                what="fixed field",
                asked=f"{field}: {'the default' if new is MISSING else new}",
                there_is=f"{words}, chosen when the cluster was made and fixed for its life",
                remedies=(
                    Remedy(text=f"Put {field} back.", changes=(FieldChange(path=field, before=new, after=old),)),
                    Remedy(text="Make a second cluster with the new value and move the workloads.", cost="a whole cluster beside this one"),
                ),
            ),
        )


def _disks(before: Topology, after: Topology) -> Finding:
    text = "Disks only grow"
    for field, old, new in (
        ("variables.controlPlaneMachine.diskGiB", before.control_plane.disk_gib, after.control_plane.disk_gib),
        ("variables.workerMachine.diskGiB", before.worker.disk_gib, after.worker.disk_gib),
    ):
        if new < old:
            return Finding(
                check=Check(text=text, holds=False, note=f"{field} from {old} to {new}"),
                obstacle=Obstacle(
                    what="disk",
                    asked=f"{new} GiB",
                    there_is=f"{old} GiB",
                    remedies=(Remedy(text=f"Keep {field} at {old} or more.", changes=(FieldChange(path=field, before=new, after=old),)),),
                ),
            )
    return Finding(check=Check(text=text, holds=True, note="unchanged" if before == after else ""))


def template_tag(topology: Topology) -> str:
    """Return the tag that the template for a cluster's VMs bears: of its exact version for kubeadm, the shared image's for others."""
    if find_distribution(topology.class_name) is Distribution.KUBEADM:
        return f"kubeadm-{topology.version}"
    return "cloud-image"


def _template(after: Topology, site: SiteFacts) -> Finding:
    text = "There is a VM template for it"
    tag = template_tag(after)
    found = [vm for vm in site.templates if tag in vm.tags and "kubehenge" in vm.tags]
    if found:
        return Finding(check=Check(text=text, holds=True, note=found[0].name))
    versions = sorted(tag.removeprefix("kubeadm-") for vm in site.templates for tag in vm.tags if tag.startswith("kubeadm-"))
    remedies = [Remedy(text=f"Build the template for {after.version}: an administrator does it under Templates.")]
    if after.distribution == Distribution.KUBEADM and versions:
        change = FieldChange(path="spec.topology.version", before=after.version, after=versions[-1])
        remedies.append(Remedy(text=f"Ask for {versions[-1]}, which has one.", changes=(change,)))
    return Finding(
        check=Check(text=text, holds=False, note=f"none tagged kubehenge and {tag}"),
        obstacle=Obstacle(
            what="template",
            asked=f"a template tagged kubehenge and {tag}",
            there_is=f"templates for {', '.join(versions)}" if versions else "no template",
            remedies=tuple(remedies),
        ),
    )


def _addresses(question: Question, after: Topology) -> Finding:
    text = "Addresses for every node, and one more while nodes are replaced"
    most = max(len(moment.vms) for moment in question.moments)
    usable = usable_addresses(after)
    short = most - usable
    if short <= 0:
        return Finding(check=Check(text=text, holds=True, note=f"{usable - most} spare at the peak"))
    remedies = [*_more_addresses(question, after, short), *_fewer_nodes(question, after, short)]
    return Finding(
        check=Check(text=text, holds=False, note=f"{short} short"),
        obstacle=Obstacle(
            what="addresses",
            asked=f"{most} node addresses at the peak",
            there_is=f"{usable}",
            short_by=f"{short} short",
            remedies=tuple(remedies),
        ),
    )


def _more_addresses(question: Question, after: Topology, short: int) -> Iterator[Remedy]:
    """Name the lowest free stretch that is long enough: behind the last block first, since that is one number to change."""
    gateway = parse_address(str(after.network.get("gateway", "")))
    if isinstance(gateway, Unreadable):
        return
    network = network_of(gateway, int(after.network.get("prefix", 32)))
    blocks = [block for text in after.addresses if not isinstance(block := parse_block(str(text)), Unreadable)]
    endpoint = parse_address(str(after.variables.get("controlPlaneEndpoint", "")))
    busy = set(reserved_addresses(after)) | ({int(endpoint)} if not isinstance(endpoint, Unreadable) else set())
    taken = [*blocks, *question.taken]

    def free(address: int) -> bool:
        return address in network and address not in busy and not any(address in block for block in taken)

    index, last = len(blocks) - 1, blocks[-1] if blocks else None
    if last and all(free(last.last + step) for step in range(1, short + 1)):
        new = f"{format_address(last.first)}-{format_address(last.last + short)}"
        yield Remedy(
            text=f"Give the cluster {short} more address{'es' if short > 1 else ''}.",
            changes=(FieldChange(path=f"variables.network.addresses[{index}]", before=str(after.addresses[index]), after=new),),
        )
        return
    for first in range(network.first, min(network.last, network.first + 65_536)):
        if all(free(first + step) for step in range(short)):
            end = f"-{format_address(first + short - 1)}" if short > 1 else ""
            yield Remedy(
                text=f"Give the cluster {short} more address{'es' if short > 1 else ''}.",
                changes=(
                    FieldChange(path=f"variables.network.addresses[{len(blocks)}]", before=MISSING, after=f"{format_address(first)}{end}"),
                ),
            )
            return


def _fewer_nodes(question: Question, after: Topology, short: int) -> Iterator[Remedy]:
    """Take the nodes from the largest worker pool; a change that only rolls can't be helped that way unless nodes go first."""
    if not after.pools:
        return
    pool = max(sorted(after.pools), key=lambda name: after.pools[name])
    replicas = after.pools[pool]
    if replicas >= short:
        yield Remedy(
            text=f"Ask for {short} worker{'s' if short > 1 else ''} fewer.",
            changes=(
                FieldChange(path=f"spec.topology.workers.machineDeployments[{pool}].replicas", before=replicas, after=replicas - short),
            ),
            cost=f"{replicas - short} of {replicas} workers" if question.before is None else "workloads move to the others",
        )


def _memory(question: Question, after: Topology) -> Finding:
    text = "Memory for every new node on a Proxmox VE node that may run it"
    missing = [moment for moment in question.moments if moment.short_mib > 0]
    if not missing:
        return Finding(check=Check(text=text, holds=True, note=f"{_gib(question.bill.memory_free_mib)} GiB free"))
    worst = max(missing, key=lambda moment: moment.short_mib)
    role = worst.move.role if worst.move else Role.WORKER
    size = after.control_plane if role is Role.CONTROL_PLANE else after.worker
    field = "controlPlaneMachine" if role is Role.CONTROL_PLANE else "workerMachine"
    fits = max(worst.largest_free_mib, 0) // MEMORY_STEP_MIB * MEMORY_STEP_MIB
    remedies = []
    if after.allowed_nodes and set(question.site.online_nodes) - set(after.allowed_nodes):
        more = sorted(set(question.site.online_nodes) - set(after.allowed_nodes))
        change = FieldChange(path="variables.allowedNodes", before=list(after.allowed_nodes), after=sorted({*after.allowed_nodes, *more}))
        remedies.append(Remedy(text=f"Let it use {', '.join(more)} too.", changes=(change,)))
    fewer = len(missing)
    if role is Role.WORKER and after.workers >= fewer:
        remedies.extend(_fewer_nodes(question, after, fewer))
    if fits >= _least_memory(after, role):
        change = FieldChange(path=f"variables.{field}.memoryMiB", before=size.memory_mib, after=fits)
        remedies.append(Remedy(text=f"Make each {role} smaller.", changes=(change,), cost="every node of that role is replaced"))
    remedies.append(Remedy(text=f"Free {_gib(worst.short_mib)} GiB on one Proxmox VE node, or add one."))
    where = ", ".join(after.allowed_nodes) or "all online nodes"
    return Finding(
        check=Check(text=text, holds=False, note=f"{fewer} VM{'s' if fewer > 1 else ''} without room"),
        obstacle=Obstacle(
            what="memory",
            asked=f"{_gib(size.memory_mib)} GiB on one node for each {role}, {fewer} without room",
            there_is=f"{_gib(max(worst.largest_free_mib, 0))} GiB at most, on {where}",
            short_by=f"{_gib(worst.short_mib)} GiB short",
            remedies=tuple(remedies),
        ),
    )


def _least_memory(topology: Topology, role: Role) -> int:
    if role is Role.WORKER:
        return 1024
    return 3072 if topology.distribution == Distribution.RKE2 else 2048


def _quorum(question: Question) -> Finding:
    text = "etcd keeps its quorum"
    control_planes = [machine for machine in question.facts.machines if machine.control_plane]
    ready = sum(1 for machine in control_planes if machine.ready)
    needs = len(control_planes) // 2 + 1
    touched = question.bill.quorum is not QuorumVerdict.NOT_TOUCHED and question.before is not None
    if touched and control_planes and ready < needs:
        return Finding(
            check=Check(text=text, holds=False, note=f"{ready} of {len(control_planes)} control planes are ready"),
            obstacle=Obstacle(
                what="quorum",
                asked="control-plane nodes replaced one at a time",
                there_is=f"{ready} ready of {len(control_planes)}, {needs} needed",
                short_by=f"{needs - ready} short",
                remedies=(Remedy(text="Bring the control-plane nodes back first; Cluster API waits for a quorum, too."),),
            ),
        )
    note = {
        QuorumVerdict.KEPT: "certificate above",
        QuorumVerdict.AT_RISK: "while no Proxmox VE node fails: see the certificate",
        QuorumVerdict.SINGLE: "a single member before or after",
        QuorumVerdict.NOT_TOUCHED: "no control-plane node is added or removed",
    }[question.bill.quorum]
    return Finding(check=Check(text=text, holds=True, note=note))


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f}".removesuffix(".0")
