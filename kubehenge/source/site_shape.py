"""The shapes of `Site` and `ApprovalRules` documents, and what they declare (DESIGN, Kinds; MODEL 15)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kubehenge.model.document import ProblemKind
from kubehenge.model.resource import ChangeClass
from kubehenge.model.site import (
    ApprovalNeeds,
    ApprovalRule,
    ApprovalRules,
    ClusterMatch,
    Privilege,
    SiteSettings,
    VmIdBlock,
    VmIdRange,
)
from kubehenge.source.forms import LABEL_PATTERN, BridgeName, LabelValue, Namespace, StorageName, TimeZone
from kubehenge.source.identity_shape import ProviderShape
from kubehenge.source.shape import Form, Shape, Whole, quoted, refuse
from kubehenge.source.window_shape import WindowShape

API_VERSION = "kubehenge.dev/v1alpha1"

_DEFAULTS = SiteSettings()
_POOL_STEP = r"[A-Za-z0-9._-]+"
_HIGHEST_VMID = 999_999_999
"""The highest VMID that Proxmox VE gives (MODEL 35)."""
_VmId = Annotated[int, Whole(minimum=100, maximum=_HIGHEST_VMID, both_ends=True)]


def _check_workload_pool(name: str) -> str:
    if name.count("/") > 1:
        refuse(
            ProblemKind.FORM, f"{quoted(name)} has more than two levels. Proxmox VE nests pools three deep, and clusters take the third."
        )
    return name


_PoolName = Annotated[
    str, Form(pattern=rf"{_POOL_STEP}(/{_POOL_STEP})*", wants="the name of a pool in Proxmox VE", example="kubehenge", longest=100)
]
_GroupName = Annotated[
    str, Form(pattern=r"[A-Za-z0-9._-]+", wants="the name of a group in Proxmox VE", example="kubehenge-clusters", longest=100)
]


SiteName = Annotated[str, Form(pattern=LABEL_PATTERN, wants="lower-case letters, digits and dashes", example="default", longest=40)]


class SiteMetadata(Shape):
    """`metadata` of a Site and of ApprovalRules."""

    name: SiteName = Field(description="The name of the site; the first is `default`.")
    labels: dict[str, LabelValue] = Field(default={}, description="Labels, for people.")
    annotations: dict[str, str] = Field(default={}, description="Annotations, for people.")


class ScheduleShape(Shape):
    """`schedule`."""

    poll_seconds: Annotated[int, Whole(minimum=5, maximum=3600, unit="seconds")] = Field(
        default=_DEFAULTS.poll_seconds, alias="pollSeconds", description="Seconds between two looks at Git."
    )
    observe_seconds: Annotated[int, Whole(minimum=10, maximum=3600, unit="seconds")] = Field(
        default=_DEFAULTS.observe_seconds, alias="observeSeconds", description="Seconds between two bulk readings of Proxmox VE."
    )


class VmIdBlockShape(Shape):
    """`vmIdBlock`."""

    first: _VmId = Field(default=_DEFAULTS.vm_ids.first, description="The lowest VMID of clusters' machines.")
    per_cluster: Annotated[int, Whole(minimum=100, maximum=100_000)] = Field(
        default=_DEFAULTS.vm_ids.per_cluster, alias="perCluster", description="How many VMIDs a cluster gets."
    )


class OwnerVmIdsShape(Shape):
    """`ownerVmIds`."""

    first: _VmId = Field(default=_DEFAULTS.owner_vm_ids.first, description="The lowest VMID of volume owners.")
    last: _VmId = Field(default=_DEFAULTS.owner_vm_ids.last, description="The highest VMID of volume owners.")


class SiteSpec(Shape):
    """`spec` of a Site."""

    workload_pool: Annotated[_PoolName, AfterValidator(_check_workload_pool)] = Field(
        default=_DEFAULTS.workload_pool,
        alias="workloadPool",
        description="The Proxmox VE pool that clusters' pools lie below, at most two levels.",
    )
    cluster_group: _GroupName = Field(
        default=_DEFAULTS.cluster_group, alias="clusterGroup", description="The Proxmox VE group of the clusters' users."
    )
    storages: list[StorageName] = Field(default=[], description="The storages that clusters may use; any when none is named.")
    bridges: list[BridgeName] = Field(default=[], description="The bridges that clusters may use; any when none is named.")
    template_pool: _PoolName = Field(
        default=_DEFAULTS.template_pool, alias="templatePool", description="The Proxmox VE pool of the VM templates."
    )
    identity_providers: list[ProviderShape] = Field(
        default=[], alias="identityProviders", max_length=8, description="The OpenID Connect providers of every cluster that sets no list."
    )
    schedule: ScheduleShape = Field(default=ScheduleShape(), description="How often Git and Proxmox VE are looked at.")
    concurrent_clusters: Annotated[int, Whole(minimum=1, maximum=100)] = Field(
        default=_DEFAULTS.concurrent_clusters, alias="concurrentClusters", description="How many clusters are built at once."
    )
    vm_id_block: VmIdBlockShape = Field(default=VmIdBlockShape(), alias="vmIdBlock", description="Where the VMIDs of clusters come from.")
    owner_vm_ids: OwnerVmIdsShape = Field(
        default=OwnerVmIdsShape(), alias="ownerVmIds", description="The VMIDs of the VMs that own volumes."
    )
    time_zone: TimeZone = Field(default=_DEFAULTS.time_zone, alias="timeZone", description="The time zone of times on pages.")


class SiteShape(Shape):
    """A whole `Site` document."""

    api_version: Literal["kubehenge.dev/v1alpha1"] = Field(alias="apiVersion", description="The version of Kubehenge's documents.")
    kind: Literal["Site"] = Field(description="The kind of the document.")
    metadata: SiteMetadata = Field(description="The name of the site.")
    spec: SiteSpec = Field(description="The settings of the site.")

    def declare(self) -> SiteSettings:
        """Return the settings as a model value."""
        spec = self.spec
        return SiteSettings(
            name=self.metadata.name,
            workload_pool=spec.workload_pool,
            cluster_group=spec.cluster_group,
            storages=tuple(spec.storages),
            bridges=tuple(spec.bridges),
            template_pool=spec.template_pool,
            identity_providers=tuple(provider.declare() for provider in spec.identity_providers),
            poll_seconds=spec.schedule.poll_seconds,
            observe_seconds=spec.schedule.observe_seconds,
            concurrent_clusters=spec.concurrent_clusters,
            vm_ids=VmIdBlock(first=spec.vm_id_block.first, per_cluster=spec.vm_id_block.per_cluster),
            owner_vm_ids=VmIdRange(first=spec.owner_vm_ids.first, last=spec.owner_vm_ids.last),
            time_zone=spec.time_zone,
        )


_RuleName = Annotated[
    str, Form(pattern=r"[A-Za-z0-9]([A-Za-z0-9 ._-]*[A-Za-z0-9])?", wants="a short name", example="production-rollouts", longest=63)
]
_Class = Annotated[ChangeClass, Field(strict=False)]


class NeedsShape(Shape):
    """`needs` of a rule."""

    approvers: Annotated[int, Whole(minimum=0, maximum=10, both_ends=True)] = Field(
        default=0, description="How many persons; 0 lets the rule itself approve."
    )
    privilege: Annotated[Privilege, Field(strict=False)] = Field(
        default=Privilege.VM_ALLOCATE, description="The Proxmox VE privilege that each needs on the cluster's pool."
    )
    role: Annotated[str, Form(pattern=r"([A-Za-z0-9._-]+)?", wants="the name of a group in Proxmox VE", example="platform-admins")] = Field(
        default="", description="The Proxmox VE group that each must be in; any when empty."
    )
    typed_name: bool = Field(default=False, alias="typedName", description="Whether the cluster's name is typed.")
    windows: list[WindowShape] = Field(default=[], description="When it may start; always when empty.")


class MatchShape(Shape):
    """`match` of a rule."""

    namespaces: list[Namespace] = Field(default=[], description="The namespaces it is for; all when empty.")
    labels: dict[str, LabelValue] = Field(default={}, description="The labels a cluster must have, every one of them.")


class RuleShape(Shape):
    """One rule."""

    name: _RuleName = Field(description="The name that pages and the ledger show.")
    classes: list[_Class] = Field(min_length=1, description="The classes of change that it is for.")
    needs: NeedsShape = Field(default=NeedsShape(), description="What a plan needs before it is carried out.")
    match: MatchShape = Field(default=MatchShape(), description="The clusters that it is for; all unless set.")

    def declare(self) -> ApprovalRule:
        """Return the rule as a model value."""
        needs = ApprovalNeeds(
            approvers=self.needs.approvers,
            privilege=self.needs.privilege,
            role=self.needs.role,
            typed_name=self.needs.typed_name,
            windows=tuple(window.declare() for window in self.needs.windows),
        )
        match = ClusterMatch(namespaces=tuple(self.match.namespaces), labels=tuple(sorted(self.match.labels.items())))
        return ApprovalRule(name=self.name, classes=frozenset(self.classes), needs=needs, match=match)


class RulesSpec(Shape):
    """`spec` of ApprovalRules."""

    rules: list[RuleShape] = Field(
        default=[], description="The rules; of those that fit, the first decides, else the default of the class."
    )
    four_eyes: bool = Field(
        default=False, alias="fourEyes", description="Whether no approver may have written or pressed what is approved."
    )


class RulesShape(Shape):
    """A whole `ApprovalRules` document."""

    api_version: Literal["kubehenge.dev/v1alpha1"] = Field(alias="apiVersion", description="The version of Kubehenge's documents.")
    kind: Literal["ApprovalRules"] = Field(description="The kind of the document.")
    metadata: SiteMetadata = Field(description="The name of the site.")
    spec: RulesSpec = Field(description="The rules.")

    def declare(self) -> ApprovalRules:
        """Return the rules as a model value."""
        rules = tuple(rule.declare() for rule in self.spec.rules)
        return ApprovalRules(name=self.metadata.name, rules=rules, four_eyes=self.spec.four_eyes)
