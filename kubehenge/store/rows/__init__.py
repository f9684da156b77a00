"""All tables; importing this module makes them known to the metadata."""

from kubehenge.store.rows.base import Row
from kubehenge.store.rows.cluster import BodyRow, ClassAliasRow, ClassPinRow, ClusterRow, ResourceRow, VersionRow, VersionSide
from kubehenge.store.rows.plan import (
    ActionRow,
    ApprovalRow,
    ApprovalVerdict,
    EditRow,
    EditState,
    LedgerRow,
    PlanRow,
    RunRow,
    StepRow,
)
from kubehenge.store.rows.site import (
    CoverageRow,
    CoverageState,
    FreezeRow,
    LeaseRow,
    SettingOrigin,
    SettingRow,
    SiteMode,
    SiteRow,
    SuspicionRow,
    TickRow,
)
from kubehenge.store.rows.source import DocumentRow, SourceRow, SourceState, Verdict

__all__ = [
    "ActionRow",
    "ApprovalRow",
    "ApprovalVerdict",
    "BodyRow",
    "ClassAliasRow",
    "ClassPinRow",
    "ClusterRow",
    "CoverageRow",
    "CoverageState",
    "DocumentRow",
    "EditRow",
    "EditState",
    "FreezeRow",
    "LeaseRow",
    "LedgerRow",
    "PlanRow",
    "ResourceRow",
    "Row",
    "RunRow",
    "SettingOrigin",
    "SettingRow",
    "SiteMode",
    "SiteRow",
    "SourceRow",
    "SourceState",
    "StepRow",
    "SuspicionRow",
    "TickRow",
    "Verdict",
    "VersionRow",
    "VersionSide",
]
