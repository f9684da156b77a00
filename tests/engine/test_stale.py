"""Between every two steps the world may move: the run stops there, writes nothing more, and is planned afresh (ACCEPTANCE 1.2; MODEL 13)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from kubehenge.model.plan import PlanState
from kubehenge.model.resource import ResourceRef
from kubehenge.store.rows import PlanRow
from tests.engine.harness import Site, cluster

CREATED = (
    "proxmox.pool",
    "proxmox.user",
    "proxmox.token",
    "proxmox.acl",
    "proxmox.volume_owner",
    "kube.secret",
    "kube.resource_set",
    "kube.cluster",
)
DELETED = ("kube.cluster", "proxmox.volume_owner", "kube.resource_set", "proxmox.token", "proxmox.acl", "proxmox.pool", "proxmox.user")
SOMEONE = "kubehenge: site=other cluster=clusters/prod incarnation=1"


@dataclasses.dataclass
class Mover:
    """Moves what the next step of its kind is about, just before that step's precondition is read; notes how many calls there were by then."""

    site: Site
    kind: str
    move: Callable[[ResourceRef], None]
    moved: ResourceRef | None = None
    calls: int = 0

    def __call__(self, verb: str, ref: ResourceRef) -> None:
        if verb == "read" and ref.kind == self.kind and self.moved is None and "other" not in ref.name:
            self.moved, self.calls = ref, len(self.site.world.calls)
            self.move(ref)

    def calls_since(self) -> list[tuple[str, str]]:
        """Changing calls after it moved; the namespace is the site's, and a plan of its own."""
        return [call for call in self.site.world.calls[self.calls :] if not call[1].startswith("kube.namespace/")]


def moved_at(site: Site, kind: str, move: Callable[[ResourceRef], None]) -> Mover:
    mover = Mover(site, kind, move)
    site.world.hooks.append(mover)
    return mover


def carry_out(site: Site, mover: Mover) -> None:
    for _ in range(40):
        if not site.apply() or mover.moved is not None:
            break
        site.world.build()
    assert mover.moved is not None, f"no step about {mover.kind} was taken up"


def require_stale(site: Site, plan: PlanRow, mover: Mover) -> PlanRow:
    """The run stopped without a further call, and one tick later there is a fresh plan."""
    assert mover.calls_since() == []
    ended = next(row for row in site.plans("clusters/prod") if row.id == plan.id)
    assert ended.state is PlanState.STALE, ended.state
    assert str(mover.moved) in ended.closed_reason
    site.tick()
    fresh = site.plans("clusters/prod")[-1]
    assert fresh.id != plan.id
    assert fresh.state in {PlanState.OPEN, PlanState.APPROVED}
    assert mover.calls_since() == []
    return fresh


@pytest.mark.parametrize("kind", CREATED)
def test_acceptance_1_2_what_appears_before_a_step_makes_the_creation_stale_there(site: Site, kind: str) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.tick()
    plan = site.plans("clusters/prod")[-1]

    def appear(ref: ResourceRef) -> None:
        site.world.put(ref, {"made": "by someone"}, mark=SOMEONE if kind != "proxmox.acl" else None)

    mover = moved_at(site, kind, appear)
    carry_out(site, mover)
    require_stale(site, plan, mover)
    assert site.world.all(kind)[mover.moved.name].body == {"made": "by someone"}  # type: ignore[union-attr]


def edited(body: Any, kind: str) -> dict[str, Any]:
    """A field that we wrote, changed."""
    match kind:
        case "kube.cluster":
            return {"spec": {**body["spec"], "topology": {**body["spec"]["topology"], "version": "v1.36.6+rke2r1"}}}
        case "kube.resource_set":
            return {"spec": {**body["spec"], "strategy": "Never"}}
        case "proxmox.acl":
            return {"propagate": 7}
        case "proxmox.volume_owner":
            return {"name": "renamed"}
        case _:
            return {"comment": "by hand"}


@pytest.mark.parametrize("kind", DELETED)
def test_acceptance_1_2_what_is_edited_before_a_step_makes_the_deletion_stale_there(site: Site, kind: str) -> None:
    site.repo.push({"prod.yaml": cluster(), "other.yaml": cluster("other", net=30), "third.yaml": cluster("third", net=31)})
    site.settle()
    site.repo.push({"prod.yaml": None})
    site.settle()
    plan = site.waiting()
    mine = {action.name for action in site.actions(plan)}

    def edit(ref: ResourceRef) -> None:
        assert ref.name in mine
        site.world.edit(ref, **edited(site.world.all(ref.kind)[ref.name].body, kind))

    site.approve(plan, typed_name="clusters/prod")
    mover = moved_at(site, kind, edit)
    carry_out(site, mover)
    fresh = require_stale(site, plan, mover)
    assert fresh.state is PlanState.OPEN, "what moved was never approved: a person is asked again"
    assert mover.moved.name in site.world.all(kind)  # type: ignore[union-attr]


def test_acceptance_1_2_a_plan_binds_what_it_touches_and_nothing_else(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    site.repo.push({"prod.yaml": cluster(version="v1.37.1+rke2r1")})
    site.settle()
    plan = site.waiting()
    pool = ResourceRef(kind="proxmox.pool", name="kubehenge/clusters.prod")
    site.world.edit(pool, comment="by hand")  # the upgrade does not touch it
    site.approve(plan)
    site.settle()
    assert next(row for row in site.plans("clusters/prod") if row.id == plan.id).state is PlanState.DONE
