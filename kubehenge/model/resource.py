"""Resources: what Kubehenge keeps, with the three bodies that planning compares (MODEL 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType, Self

from kubehenge.model.canon import Body

BodyHash = NewType("BodyHash", str)
"""A body's SHA-256 in hex; see `canon.body_hash`."""

Tick = NewType("Tick", int)
"""The number of a pass; rises by one, drawn from the database (MODEL 9)."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ResourceRef:
    """The key of a resource within its site: `proxmox.pool/kubehenge/clusters.prod` is kind `proxmox.pool` and the rest its name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `<kind>/<name>`; a name may hold slashes. Raises ValueError without one."""
        kind, slash, name = text.partition("/")
        if not (kind and slash and name):
            raise ValueError(f"{text!r} is no resource: write <kind>/<name>")
        return cls(kind=kind, name=name)


class Verb(StrEnum):
    """What an action does to its resource."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class ChangeClass(StrEnum):
    """What an action means to people; approval rules name these (DESIGN, Plans)."""

    CREATE = "create"
    CHANGE = "change"
    ROLLOUT = "rollout"
    SHRINK = "shrink"
    DELETE = "delete"
    TRUST = "trust"
    CREDENTIAL = "credential"
    ADOPT = "adopt"
    REPAIR = "repair"
    DUTY = "duty"


SERIOUSNESS: tuple[ChangeClass, ...] = (
    ChangeClass.DUTY,
    ChangeClass.REPAIR,
    ChangeClass.CREATE,
    ChangeClass.CREDENTIAL,
    ChangeClass.CHANGE,
    ChangeClass.ADOPT,
    ChangeClass.ROLLOUT,
    ChangeClass.SHRINK,
    ChangeClass.TRUST,
    ChangeClass.DELETE,
)
"""From the mildest to the most serious."""


class Lane(StrEnum):
    """What may be planned and carried out side by side for one cluster (MODEL 11)."""

    ASKED = "asked"
    UPKEEP = "upkeep"


LANE_OF: Mapping[ChangeClass, Lane] = {
    cls: Lane.UPKEEP if cls in {ChangeClass.REPAIR, ChangeClass.DUTY} else Lane.ASKED for cls in ChangeClass
}


class ClusterState(StrEnum):
    """Where one incarnation of a cluster is in its life (MODEL 2)."""

    DECLARED = "declared"
    FOREIGN = "foreign"
    LEAVING = "leaving"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredResource:
    """One thing that `expand` asks for: its key, its body (references unresolved), and the requirements of MODEL 6."""

    ref: ResourceRef
    body: Body
    requires: tuple[ResourceRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """
    One thing that a driver read.

    Shape: `body` holds what the driver reads of the object, reduced to stable fields, without any secret. `mark` is the text
    of our mark on it or None (MODEL 21). `outputs` are values that others refer to (MODEL 5), such as a VMID.
    """

    ref: ResourceRef
    body: Body
    mark: str | None = None
    outputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceState:
    """
    A resource as planning sees it: the desired, applied and observed body, None where there is none.

    `observed` is already projected (MODEL 4). `absent` says that its absence is confirmed (MODEL 20); an observed body of None
    with `absent` False means that it is not known yet whether it is gone.
    """

    ref: ResourceRef
    desired: Body | None
    applied: Body | None
    observed: Body | None
    desired_hash: BodyHash | None
    applied_hash: BodyHash | None
    observed_hash: BodyHash | None
    absent: bool = True
    mark: str | None = None
    requires: tuple[ResourceRef, ...] = ()
