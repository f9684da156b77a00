"""Death at every journal boundary, lost answers, and failures that block their own branch only (ACCEPTANCE 1.10, 1.11; MODEL 8, 13, 14, 25)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml
from sqlalchemy import select

from kubehenge.model.plan import PlanState, StepState
from kubehenge.model.resource import ResourceRef
from kubehenge.store.rows import StepRow
from tests.engine.harness import Site, cluster
from tests.fakes.world import lost_answer, refused, unreachable

KINDS = (
    "proxmox.pool",
    "proxmox.user",
    "proxmox.token",
    "proxmox.acl",
    "proxmox.volume_owner",
    "kube.secret",
    "kube.resource_set",
    "kube.cluster",
)
WHEN = ("before_call", "after_call", "after_record")


class Killed(BaseException):
    """Stands for kill -9: nothing of the process runs after it."""


def one_of_each(site: Site) -> None:
    """One pool, user, live token, owner VM and Cluster; the Secret holds the token that works."""
    world = site.world
    assert len(world.names("proxmox.pool")) == 1
    assert len(world.names("proxmox.user")) == 1
    tokens = world.names("proxmox.token")
    assert len(tokens) == 1, tokens
    assert len(world.names("proxmox.volume_owner")) == 1
    assert world.names("kube.cluster") == ["clusters/prod"]
    assert world.secrets["kube.secret/clusters/prod-proxmox-token"] == world.secrets[tokens[0]]
    annotations = world.all("kube.secret")["clusters/prod-proxmox-token"].body["metadata"]["annotations"]
    assert annotations["kubehenge.dev/token-id"] == tokens[0]


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("kind", KINDS)
def test_acceptance_1_10_killed_at_a_boundary_the_run_finishes_after_a_restart(site: Site, kind: str, when: str) -> None:
    site.repo.push({"prod.yaml": cluster()})
    kill_once(site, kind, when)
    with pytest.raises(Killed):
        site.settle()
    site.world.hooks.clear()
    site.restart()
    site.clock.forward(120)
    site.settle(passes=60)
    one_of_each(site)
    assert all(plan.state in {PlanState.DONE, PlanState.FAILED, PlanState.SUPERSEDED} for plan in site.plans())


def kill_once(site: Site, kind: str, when: str) -> None:
    """Die in the first creation of this kind: before its call, after it, or at the next thing that happens after its record."""
    state = {"armed": when == "before_call", "seen": False}

    def hook(verb: str, ref: ResourceRef) -> None:
        if when == "before_call" and verb == "create" and ref.kind == kind:
            raise Killed
        if when == "after_record" and state["seen"] and verb != "read_bulk":
            raise Killed
        if when == "after_record" and verb == "create" and ref.kind == kind:
            state["seen"] = True

    site.world.hooks.append(hook)
    if when == "after_call":
        after: Callable[[str, ResourceRef], None] = site.world.after

        def killed_after(verb: str, ref: ResourceRef) -> None:
            after(verb, ref)
            if verb == "create" and ref.kind == kind and not state["seen"]:
                state["seen"] = True
                raise Killed

        site.world.after = killed_after


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_answer_is_settled_by_looking(site: Site, kind: str) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.world.faults.append(lost_answer("create", kind))
    site.settle(passes=60)
    one_of_each(site)


@pytest.mark.parametrize("kind", KINDS)
def test_what_may_pass_is_tried_again(site: Site, kind: str) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.world.faults.append(unreachable("create", kind, times=2))
    site.settle(passes=60)
    one_of_each(site)
    assert [plan.state for plan in site.plans("clusters/prod")] == [PlanState.DONE]


def test_acceptance_1_11_a_failure_blocks_its_dependants_only(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.world.faults.append(refused("create", "proxmox.acl", "403 Permission check failed (/pool/kubehenge/clusters.prod, Pool.Allocate)"))
    site.settle()
    failed = next(plan for plan in site.plans("clusters/prod") if plan.state is PlanState.FAILED)
    with site.db.read() as session:
        steps = {f"{action.kind}": step for step, action in _steps(session, failed.id)}
    assert steps["proxmox.acl"].state is StepState.FAILED
    assert "Pool.Allocate" in steps["proxmox.acl"].error
    assert steps["proxmox.volume_owner"].state is StepState.DONE
    assert steps["kube.cluster"].state is StepState.BLOCKED
    assert not site.world.names("kube.cluster")
    waiting = site.open_plan()
    assert waiting is not None
    assert waiting.retry_at is not None


def test_a_refused_plan_is_retried_by_a_person_at_once(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.world.faults.append(refused("create", "proxmox.acl"))
    site.settle()
    site.world.faults.clear()
    plan = site.open_plan()
    assert plan is not None
    site.approve(plan)
    site.settle()
    one_of_each(site)


def test_model_8_a_token_whose_secret_is_lost_is_replaced_by_the_next_generation(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    first = site.world.names("proxmox.token")
    site.world.remove(ResourceRef(kind="kube.secret", name="clusters/prod-proxmox-token"))
    site.settle()
    assert [name.partition("!")[2] for name in first] == ["k1"]
    assert [name.partition("!")[2] for name in site.world.names("proxmox.token")] == ["k2"]
    one_of_each(site)


def test_model_14_what_is_left_of_an_approved_run_keeps_its_approval(site: Site) -> None:
    site.repo.push({"a.yaml": cluster(), "b.yaml": cluster("b", net=30), "c.yaml": cluster("c", net=31)})
    site.settle()
    site.repo.push({"a.yaml": None})
    site.settle()
    site.world.faults.append(unreachable("delete", "proxmox.volume_owner", times=5))
    site.approve(site.waiting(), typed_name="clusters/prod")
    site.settle(passes=60)
    assert "kubehenge/clusters.prod" not in site.world.names("proxmox.pool")


def test_model_14_a_newer_declaration_stops_a_run_at_its_next_boundary(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    site.repo.push({"prod.yaml": cluster(workers=3)})
    site.tick()
    site.apply()
    site.repo.push({"prod.yaml": cluster(workers=4)})
    site.settle()
    states = [plan.state for plan in site.plans("clusters/prod")]
    assert states == [PlanState.DONE, PlanState.SUPERSEDED, PlanState.DONE]
    assert len([name for name in site.world.names("kube.machine") if "md-0" in name]) == 4


def test_acceptance_1_2_moving_the_world_between_two_steps_stops_the_run_there(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})

    def move(verb: str, ref: ResourceRef) -> None:
        if verb == "create" and ref.kind == "proxmox.acl":
            body = yaml.safe_load(cluster())
            site.world.put(ResourceRef(kind="kube.cluster", name="clusters/prod"), body, mark="someone")

    site.world.hooks.append(move)
    site.settle()
    assert site.world.all("kube.cluster")["clusters/prod"].mark == "someone"
    assert PlanState.STALE in {plan.state for plan in site.plans("clusters/prod")}


def _steps(session: object, plan_id: int) -> list[tuple[StepRow, object]]:
    from kubehenge.store.rows import ActionRow, RunRow

    return list(
        session.execute(
            select(StepRow, ActionRow)
            .join(ActionRow, ActionRow.id == StepRow.action_id)
            .join(RunRow, RunRow.id == StepRow.run_id)
            .where(RunRow.plan_id == plan_id)
        )
    )


def test_model_20_a_reading_older_than_our_own_write_makes_no_token_lost(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.tick()
    for _ in range(20):
        if not site.apply():
            break
        site.world.build()
    assert [run.outcome for run in site.runs()][-1] is PlanState.DONE
    site.world.hidden = {ResourceRef(kind="kube.secret", name="clusters/prod-proxmox-token")}
    site.tick()
    site.world.hidden = set()
    site.settle()
    assert [name.partition("!")[2] for name in site.world.names("proxmox.token")] == ["k1"]
    assert not [plan for plan in site.plans("clusters/prod") if "credential" in plan.classes]
