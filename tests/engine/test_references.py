"""References, tokens and the journal, seen in the database and in the world (MODEL 3, 5, 8, 25)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import select

from kubehenge.model.identity import ANNOTATION_TOKEN_GENERATION, ANNOTATION_TOKEN_HMAC, ANNOTATION_TOKEN_ID
from kubehenge.model.plan import PlanState, StepState
from kubehenge.model.resource import Lane, ResourceRef
from kubehenge.resources.credentials import ANNOTATION_VOLUME_OWNER
from kubehenge.store.reads.decision import AnswerKind
from kubehenge.store.rows import ActionRow, BodyRow, ResourceRow, StepRow
from tests.engine.harness import Site, cluster
from tests.fakes.world import lost_answer, unreachable

SECRET = ResourceRef(kind="kube.secret", name="clusters/prod-proxmox-token")
POOL = ResourceRef(kind="proxmox.pool", name="kubehenge/clusters.prod")


@pytest.fixture
def prod(site: Site) -> Site:
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    return site


def annotations(body: Any) -> dict[str, Any]:
    found: dict[str, Any] = body["metadata"]["annotations"]
    return found


def kept(site: Site, ref: ResourceRef) -> tuple[ResourceRow, dict[str, Any]]:
    """A resource's row and the bodies that it names, by side."""
    with site.db.read() as session:
        row = session.scalars(select(ResourceRow).where(ResourceRow.kind == ref.kind, ResourceRow.name == ref.name)).one()
        sides = {side: getattr(row, f"{side}_hash") for side in ("desired", "applied", "observed")}
        return row, {side: session.get_one(BodyRow, hashed).content for side, hashed in sides.items() if hashed}


def test_model_5_a_reference_is_kept_as_written_resolved_in_the_world_and_read_back_as_itself(prod: Site) -> None:
    owner = prod.world.all("proxmox.volume_owner")["kubehenge/clusters.prod"]
    [token] = prod.world.all("proxmox.token").values()
    written = annotations(prod.world.all(SECRET.kind)[SECRET.name].body)
    assert (written[ANNOTATION_VOLUME_OWNER], written[ANNOTATION_TOKEN_HMAC]) == (str(owner.outputs["vmid"]), token.outputs["hmac"])
    row, bodies = kept(prod, SECRET)
    assert row.desired_hash == row.applied_hash == row.observed_hash
    assert annotations(bodies["observed"])[ANNOTATION_VOLUME_OWNER] == {"$ref": f"{owner.ref}#vmid"}
    assert annotations(bodies["observed"])[ANNOTATION_TOKEN_HMAC] == {"$ref": f"{token.ref}#hmac"}
    before = prod.counts()
    for _ in range(2):
        prod.tick()
    assert prod.counts() == before


def test_model_5_another_value_than_the_reference_stands_for_is_drift_and_is_put_back(prod: Site) -> None:
    body = prod.world.all(SECRET.kind)[SECRET.name].body
    right = annotations(body)[ANNOTATION_VOLUME_OWNER]
    prod.world.edit(SECRET, metadata={**body["metadata"], "annotations": {**annotations(body), ANNOTATION_VOLUME_OWNER: 4711}})
    prod.tick()
    repair = prod.open_plan(lane=Lane.UPKEEP)
    assert repair is not None
    [drift] = prod.actions(repair)[0].drift
    assert (drift["before"], drift["after"]) == ({"$ref": f"proxmox.volume_owner/{POOL.name}#vmid"}, 4711)
    prod.settle()
    assert annotations(prod.world.all(SECRET.kind)[SECRET.name].body)[ANNOTATION_VOLUME_OWNER] == right


def test_model_5_what_refers_to_a_thing_waits_for_it(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.tick()
    actions = {action.position: action for action in site.actions(site.plans("clusters/prod")[-1])}
    secret = next(action for action in actions.values() if action.name == SECRET.name)
    assert {"proxmox.token", "proxmox.volume_owner"} <= {actions[position].kind for position in secret.waits_for}


def test_model_8_the_first_generation_is_made_once_and_its_secret_is_nowhere_in_the_database(prod: Site) -> None:
    [token] = prod.world.names("proxmox.token")
    written = annotations(prod.world.all(SECRET.kind)[SECRET.name].body)
    assert token.endswith("!k1")
    assert (written[ANNOTATION_TOKEN_GENERATION], written[ANNOTATION_TOKEN_ID]) == ("1", token)
    secret = prod.world.secrets[token]
    assert prod.world.secrets[str(SECRET)] == secret
    everything = json.dumps([row for _, rows in table_rows(prod) for row in rows], default=str)
    assert token in everything
    assert secret not in everything.replace(f"hmac-of-{secret}", "")
    prod.restart()
    prod.settle()
    assert [call for call in prod.world.calls if call[1].startswith("proxmox.token/")] == [("create", f"proxmox.token/{token}")]


def table_rows(site: Site) -> list[tuple[str, list[Any]]]:
    from kubehenge.store.rows import Row

    with site.db.read() as session:
        return [(table.name, [tuple(row) for row in session.execute(select(table))]) for table in Row.metadata.sorted_tables]


def test_model_8_a_lost_token_goes_and_the_next_generation_is_the_only_one(site: Site) -> None:
    site.repo.push({"prod.yaml": cluster()})
    site.world.faults.append(lost_answer("create", "proxmox.token"))
    site.settle(passes=60)
    [token] = site.world.names("proxmox.token")
    assert token.endswith("!k2"), "k1 was made, its secret was lost, and it is never made again under that name"
    assert ("delete", f"proxmox.token/{token[:-1]}1") in site.world.calls
    written = annotations(site.world.all(SECRET.kind)[SECRET.name].body)
    assert (written[ANNOTATION_TOKEN_GENERATION], written[ANNOTATION_TOKEN_ID]) == ("2", token)
    assert site.world.secrets[str(SECRET)] == site.world.secrets[token]


def test_model_8_in_a_cluster_that_leaves_no_token_is_lost_or_made_anew(site: Site) -> None:
    site.repo.push({f"{name}.yaml": cluster(name, net=net) for name, net in (("prod", 20), ("b", 30), ("c", 31))})
    site.settle()
    site.repo.push({"prod.yaml": None})
    site.settle()
    site.world.faults.append(unreachable("delete", "proxmox.volume_owner", times=2))
    site.approve(site.waiting(), typed_name="clusters/prod")
    site.apply()
    site.world.remove(SECRET)
    site.settle(passes=60)
    mine = [call for call in site.world.calls if call[1].startswith("proxmox.token/") and call[0] == "create"]
    assert len(mine) == 3, "one a cluster, all when they were made"
    assert len(site.world.names("proxmox.token")) == 2


def test_model_25_the_intent_is_recorded_before_each_call_and_its_result_before_the_next(site: Site) -> None:
    seen: list[tuple[str, str, list[str]]] = []

    def look(verb: str, ref: ResourceRef) -> None:
        if verb in {"create", "update", "delete"}:
            with site.db.read() as session:
                rows = session.execute(
                    select(ActionRow.kind, ActionRow.name, StepRow.state).join(StepRow, StepRow.action_id == ActionRow.id)
                ).all()
            open_ones = [f"{row.kind}/{row.name}" for row in rows if row.state is StepState.INTENDED]
            seen.append((verb, str(ref), open_ones))

    site.world.hooks.append(look)
    site.repo.push({"prod.yaml": cluster()})
    site.settle()
    assert len(seen) >= 10
    assert [open_ones for _, _, open_ones in seen] == [[ref] for _, ref, _ in seen]
    with site.db.read() as session:
        assert set(session.scalars(select(StepRow.state))) == {StepState.DONE}


def test_model_3_what_was_lost_is_not_taken_from_someone_who_has_its_name_now(prod: Site) -> None:
    prod.world.remove(POOL)
    prod.world.put(POOL, {"poolid": POOL.name, "comment": "mine"}, mark="kubehenge site=other cluster=clusters/prod incarnation=1")
    for _ in range(6):
        prod.tick()
        prod.clock.forward(60)
        prod.apply()
    assert prod.world.all(POOL.kind)[POOL.name].body["comment"] == "mine"
    assert PlanState.DONE not in {plan.state for plan in prod.plans("clusters/prod") if plan.lane is Lane.UPKEEP}


def test_model_3_drift_by_hand_to_what_a_change_asks_for_is_nothing_to_do(prod: Site) -> None:
    ref = ResourceRef(kind="kube.cluster", name="clusters/prod")
    body = prod.world.all(ref.kind)[ref.name].body
    prod.world.edit(ref, spec={**body["spec"], "topology": {**body["spec"]["topology"], "version": "v1.36.6+rke2r1"}})
    prod.world.build()
    prod.tick()
    prod.repo.push({"prod.yaml": cluster(version="v1.36.6+rke2r1")})
    prod.settle()
    assert prod.open_plan() is None
    row, _ = kept(prod, ref)
    assert row.desired_hash == row.applied_hash == row.observed_hash
    assert prod.approve(prod.plans("clusters/prod")[-1]).kind is not AnswerKind.ACCEPTED
