"""The stored settings of a site and its approval rules, as typed values (DESIGN, Kinds; MODEL 15, 24, 34, 35)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kubehenge.model.cluster import IdentityProvider
from kubehenge.model.resource import ChangeClass
from kubehenge.model.window import UpgradeWindow

DEFAULT_SITE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class VmIdBlock:
    """
    Where the VM ids of clusters come from (MODEL 35).

    `first`: the lowest VMID of the block; 10,000,000, so that it lies above the datacenter's `next-id` bounds, which end at 1,000,000.
    `per_cluster`: how many VMIDs a cluster gets; 1,000, ten times the workers of a full pool, since an id is not used again soon.
    """

    first: int = 10_000_000
    per_cluster: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class VmIdRange:
    """The VMIDs from `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """
    What a `Site` document sets; every field has a default, so a site without one works.

    `workload_pool`: Proxmox VE pool, at most two levels; `kubehenge`, the name that the reference uses. Clusters' pools lie below it.
    `cluster_group`: Proxmox VE group of the clusters' users; `kubehenge-clusters`. It holds the rights that they share.
    `storages`, `bridges`: those that clusters may use; none named means any that Proxmox VE allows, for a first start.
    `template_pool`: Proxmox VE pool of the VM templates; `kubehenge-templates`, apart from the clusters, whose tokens may not change them.
    `identity_providers`: OpenID Connect providers of every cluster that sets no list; none.
    `poll_seconds`: seconds between two looks at Git; 30, one `ls-remote` each, and a webhook is faster anyway.
    `observe_seconds`: seconds between two bulk readings; 30 (MODEL 24).
    `concurrent_clusters`: clusters built at once; 5, since clones of one template wait for each other on its storage.
    `vm_ids`, `owner_vm_ids`: VMIDs of machines and of volume owners, kept apart (MODEL 34, 35); 9,000,000 to 9,999,999 for owners.
    `time_zone`: IANA name, for times on pages; UTC, which is never ambiguous.
    """

    name: str = DEFAULT_SITE
    workload_pool: str = "kubehenge"
    cluster_group: str = "kubehenge-clusters"
    storages: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    template_pool: str = "kubehenge-templates"
    identity_providers: tuple[IdentityProvider, ...] = ()
    poll_seconds: int = 30
    observe_seconds: int = 30
    concurrent_clusters: int = 5
    vm_ids: VmIdBlock = field(default_factory=VmIdBlock)
    owner_vm_ids: VmIdRange = field(default_factory=lambda: VmIdRange(first=9_000_000, last=9_999_999))
    time_zone: str = "UTC"


class Privilege(StrEnum):
    """The Proxmox VE privilege that an approver needs on the cluster's pool."""

    VM_ALLOCATE = "VM.Allocate"
    SYS_MODIFY = "Sys.Modify"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalNeeds:
    """
    What a plan needs before it is carried out.

    `approvers`: persons; 0 lets the rule itself approve. `privilege`: what each must hold on the cluster's pool. `role`: the Proxmox VE
    group that each must be in, '' for any. `typed_name`: whether the cluster's name is typed. `windows`: when it may start, always when
    empty.
    """

    approvers: int = 0
    privilege: Privilege = Privilege.VM_ALLOCATE
    role: str = ""
    typed_name: bool = False
    windows: tuple[UpgradeWindow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMatch:
    """Which clusters a rule is for: any of the namespaces, every one of the labels (sorted pairs); all clusters when both are empty."""

    namespaces: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    def fits(self, namespace: str, labels: tuple[tuple[str, str], ...]) -> bool:
        """Tell whether a cluster with this namespace and these labels is meant."""
        return (not self.namespaces or namespace in self.namespaces) and set(self.labels) <= set(labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRule:
    """What plans with actions of these change classes need, for the clusters that match."""

    name: str
    classes: frozenset[ChangeClass]
    needs: ApprovalNeeds = field(default_factory=ApprovalNeeds)
    match: ClusterMatch = field(default_factory=ClusterMatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRules:
    """
    What an `ApprovalRules` document sets, for the site of its name.

    Of the rules that name an action's class and match its cluster, the first decides; where none does, the default of that class
    applies. `four_eyes` (off unless set, MODEL 15): no approver is author, committer or presser of what is approved.
    """

    name: str = DEFAULT_SITE
    rules: tuple[ApprovalRule, ...] = ()
    four_eyes: bool = False

    @property
    def by_labels(self) -> bool:
        """Whether any rule asks for labels of clusters."""
        return any(rule.match.labels for rule in self.rules)

    def rule_for(self, change_class: ChangeClass, *, namespace: str, labels: tuple[tuple[str, str], ...]) -> ApprovalRule:
        """Return the rule that decides about an action of this class on this cluster."""
        rules = (*self.rules, *DEFAULT_RULES)
        return next(rule for rule in rules if change_class in rule.classes and rule.match.fits(namespace, labels))


DEFAULT_RULES: tuple[ApprovalRule, ...] = (
    ApprovalRule(
        name="by-rule",
        classes=frozenset({ChangeClass.CREATE, ChangeClass.CHANGE, ChangeClass.REPAIR, ChangeClass.DUTY, ChangeClass.CREDENTIAL}),
    ),
    ApprovalRule(
        name="one-person",
        classes=frozenset({ChangeClass.ROLLOUT, ChangeClass.SHRINK, ChangeClass.ADOPT}),
        needs=ApprovalNeeds(approvers=1),
    ),
    ApprovalRule(
        name="deletion",
        classes=frozenset({ChangeClass.DELETE}),
        needs=ApprovalNeeds(approvers=1, typed_name=True),
    ),
    ApprovalRule(
        name="trust",
        classes=frozenset({ChangeClass.TRUST}),
        needs=ApprovalNeeds(approvers=1, privilege=Privilege.SYS_MODIFY),
    ),
)
"""Who approves what where no document says otherwise (MODEL 15); together they name every class."""
