"""The contract of each kind's verbs, over HTTP, with a token that holds what `doctor` asks for and nothing more."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from kubehenge.drivers.base import Done, Vault
from kubehenge.errors import KubehengeError, RefusedError, TransientError, UncertainError
from kubehenge.lab.faults import FaultAction
from tests.drivers.resources import KINDS, MARKED, count, followed, foreign, made, resource, stand
from tests.drivers.servers import POOL, ProxmoxSite, context, incarnation

pytestmark = pytest.mark.lab

WHO = incarnation()
NEXT = incarnation(number=2)
OTHER = incarnation("staging")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_reads_as_its_body(pve: ProxmoxSite, kind: str) -> None:
    it = resource(kind, WHO)
    stand(pve, it, WHO)
    assert pve.driver.read(it.ref, it.body) is None
    ctx = context(WHO)
    left = followed(pve.driver, it.ref, pve.driver.create(it.ref, it.body, ctx), ctx)
    alone = pve.driver.read(it.ref, it.body)
    assert left is not None
    assert alone is not None
    assert left.body == alone.body == it.body
    assert alone.mark == (WHO.mark if kind in MARKED else None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_bulk_reading_shows_what_reading_one_shows(pve: ProxmoxSite, kind: str) -> None:
    it = made(pve, kind, WHO)
    made(pve, kind, OTHER)
    reading = pve.driver.read_bulk()
    assert {found.ref for found in reading.items[kind]} == {it.ref, resource(kind, OTHER).ref}
    found = next(found for found in reading.items[kind] if found.ref == it.ref)
    alone = pve.driver.read(it.ref, it.body)
    assert alone is not None
    assert found.body == alone.body == it.body
    assert found.outputs == alone.outputs


@pytest.mark.parametrize("kind", KINDS)
def test_making_it_twice_leaves_one(pve: ProxmoxSite, kind: str) -> None:
    vault = Vault()
    it = made(pve, kind, WHO, vault=vault)
    ctx = context(WHO, vault)
    left = followed(pve.driver, it.ref, pve.driver.create(it.ref, it.body, ctx), ctx)
    assert left is not None
    assert left.body == it.body
    assert count(pve, kind, WHO) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_updating_what_is_right_writes_nothing_new(pve: ProxmoxSite, kind: str) -> None:
    it = made(pve, kind, WHO)
    before = pve.calls.last_n
    for _ in range(2):
        outcome = pve.driver.update(it.ref, it.body, context(WHO))
        assert isinstance(outcome, Done)
        assert outcome.left is not None
        assert outcome.left.body == it.body
    # Giving a role again is how its propagation is changed, and harmless.
    assert [call for call in pve.writes_since(before) if "/access/acl" not in call] == []
    assert count(pve, kind, WHO) == 1


def _drift(pve: ProxmoxSite, kind: str) -> None:
    admin, pool = pve.admin, WHO.pool(POOL)
    match kind:
        case "proxmox.pool":
            admin.put("/pools", poolid=pool, comment="mine now")
        case "proxmox.user":
            admin.put(f"/access/users/{WHO.user}", comment=f"{WHO.mark} and more", enable=0, groups="kubehenge-clusters")
        case "proxmox.token":
            admin.put(f"/access/users/{WHO.user}/token/k1", comment="", privsep=1)
        case "proxmox.acl":
            admin.put("/access/acl", path=f"/pool/{pool}", roles="KubehengeCluster", users=WHO.user, propagate=0)
        case "proxmox.volume_owner":
            found = next(row for row in admin.get("/cluster/resources", type="vm") if row.get("pool") == pool)
            admin.put(f"/nodes/{found['node']}/qemu/{found['vmid']}/config", name="renamed", tags="theirs;volumes")


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_puts_back_what_somebody_changed(pve: ProxmoxSite, kind: str) -> None:
    it = made(pve, kind, WHO)
    _drift(pve, kind)
    changed = pve.driver.read(it.ref, it.body)
    assert changed is None or changed.body != it.body
    for _ in range(2):
        outcome = pve.driver.update(it.ref, it.body, context(WHO))
        assert isinstance(outcome, Done)
    after = pve.driver.read(it.ref, it.body)
    assert after is not None
    assert after.body == it.body


def test_others_tags_stay_on_the_volume_owner(pve: ProxmoxSite) -> None:
    it = made(pve, "proxmox.volume_owner", WHO)
    _drift(pve, "proxmox.volume_owner")
    pve.driver.update(it.ref, it.body, context(WHO))
    found = next(row for row in pve.admin.get("/cluster/resources", type="vm") if row.get("pool") == WHO.pool(POOL))
    assert found["tags"] == "kubehenge;theirs;volumes"


@pytest.mark.parametrize("kind", KINDS)
def test_deleting_it_twice_is_done(pve: ProxmoxSite, kind: str) -> None:
    it = made(pve, kind, WHO)
    ctx = context(WHO)
    for _ in range(2):
        assert followed(pve.driver, it.ref, pve.driver.delete(it.ref, it.body, ctx), ctx) is None
    assert count(pve, kind, WHO) == 0
    assert pve.driver.read(it.ref, it.body) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "comment", ["", "by hand", NEXT.mark, OTHER.mark], ids=["unmarked", "other words", "next incarnation", "other cluster"]
)
def test_what_is_not_marked_as_ours_is_neither_taken_nor_deleted(pve: ProxmoxSite, kind: str, comment: str) -> None:
    is_there = foreign(pve, kind, WHO, comment)
    it = resource(kind, WHO)
    ctx = context(WHO)
    before = pve.calls.last_n
    with pytest.raises(RefusedError) as refused:
        pve.driver.create(it.ref, it.body, ctx)
    if kind != "proxmox.token":  # an existing token is lost, whoever made it
        assert (comment or "bears no mark") in str(refused.value) or "bears no mark" in str(refused.value)
    with pytest.raises(RefusedError):
        pve.driver.delete(it.ref, it.body, ctx)
    assert is_there()
    assert [call for call in pve.writes_since(before) if not call.startswith("POST")] == []


@pytest.mark.parametrize("kind", MARKED)
def test_an_update_refuses_what_bears_another_mark(pve: ProxmoxSite, kind: str) -> None:
    is_there = foreign(pve, kind, WHO, NEXT.mark)
    it = resource(kind, WHO)
    before = pve.calls.last_n
    with pytest.raises(RefusedError, match="incarnation=2"):
        pve.driver.update(it.ref, it.body, context(WHO))
    assert is_there()
    assert pve.writes_since(before) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "proxmox.token"])
@pytest.mark.parametrize("action", [FaultAction.LOSE_ANSWER, FaultAction.CUT, FaultAction.HTML])
def test_a_lost_answer_is_uncertain_and_trying_again_leaves_one(pve: ProxmoxSite, kind: str, action: FaultAction) -> None:
    it = resource(kind, WHO)
    stand(pve, it, WHO)
    ctx = context(WHO)
    pve.fault(action, method="PUT" if kind == "proxmox.acl" else "POST", status=502)
    with pytest.raises(UncertainError, match=r"what is there is looked at|Is a proxy in between"):
        followed(pve.driver, it.ref, pve.driver.create(it.ref, it.body, ctx), ctx)
    pve.restart()
    left = followed(pve.driver, it.ref, pve.driver.create(it.ref, it.body, ctx), ctx)
    assert left is not None
    assert left.body == it.body
    assert count(pve, kind, WHO) == 1


def test_a_token_whose_answer_was_lost_is_lost_and_not_regenerated(pve: ProxmoxSite) -> None:
    it = resource("proxmox.token", WHO)
    stand(pve, it, WHO)
    pve.fault(FaultAction.LOSE_ANSWER, method="POST", path="/token/")
    with pytest.raises(UncertainError):
        pve.driver.create(it.ref, it.body, context(WHO))
    value = pve.sim.server.rights.users[WHO.user].tokens["k1"].value
    with pytest.raises(RefusedError, match="is lost"):
        pve.driver.create(it.ref, it.body, context(WHO))
    assert pve.sim.server.rights.users[WHO.user].tokens["k1"].value == value
    assert pve.driver.read(it.ref, it.body) is not None


def test_a_tokens_secret_goes_to_the_vault_and_its_hmac_out(pve: ProxmoxSite) -> None:
    vault = Vault()
    it = resource("proxmox.token", WHO)
    stand(pve, it, WHO)
    first = pve.driver.create(it.ref, it.body, context(WHO, vault))
    again = pve.driver.create(it.ref, it.body, context(WHO, vault))
    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert first.left is not None
    assert first.left == again.left
    assert len(first.left.outputs["hmac"]) == 64
    secret = pve.sim.server.rights.users[WHO.user].tokens["k1"].value
    assert vault.get(f"{WHO.user}!k1").get_secret_value() == secret
    assert secret not in repr(first)
    signed_in = pve.client(f"{WHO.user}!k1", secret)
    assert signed_in.get("/version")["release"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("action", [FaultAction.LOSE_ANSWER, FaultAction.CUT, FaultAction.REFUSE, FaultAction.HTML, FaultAction.STATUS])
def test_a_deletion_in_trouble_is_done_when_tried_again(pve: ProxmoxSite, kind: str, action: FaultAction) -> None:
    it = made(pve, kind, WHO)
    ctx = context(WHO)
    method = "PUT" if kind == "proxmox.acl" else "DELETE"
    pve.fault(action, method=method, status=503)
    with pytest.raises(TransientError):
        followed(pve.driver, it.ref, pve.driver.delete(it.ref, it.body, ctx), ctx)
    pve.restart()
    assert followed(pve.driver, it.ref, pve.driver.delete(it.ref, it.body, ctx), ctx) is None
    assert count(pve, kind, WHO) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_lost_quorum_passes(pve: ProxmoxSite, kind: str) -> None:
    it = resource(kind, WHO)
    stand(pve, it, WHO)
    pve.sim.set_quorum(quorate=False)
    with pytest.raises(TransientError, match="quorum"):
        pve.driver.create(it.ref, it.body, context(WHO))
    pve.sim.set_quorum(quorate=True)
    ctx = context(WHO)
    assert followed(pve.driver, it.ref, pve.driver.create(it.ref, it.body, ctx), ctx) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_what_vanished_is_not_updated(pve: ProxmoxSite, kind: str) -> None:
    it = resource(kind, WHO)
    before = pve.calls.last_n
    with pytest.raises(RefusedError, match=r"The next plan|first"):
        pve.driver.update(it.ref, it.body, context(WHO))
    assert pve.writes_since(before) == []


@pytest.mark.parametrize(
    ("kind", "privilege", "path"),
    [
        ("proxmox.pool", "Pool.Allocate", f"/pool/{WHO.pool(POOL)}"),
        ("proxmox.user", "Realm.AllocateUser", "/access/realm/pve"),
        ("proxmox.volume_owner", "VM.Config.Memory", "/vms/"),
    ],
)
def test_acceptance_3_5_a_missing_right_is_shown_with_privilege_and_path(pve: ProxmoxSite, kind: str, privilege: str, path: str) -> None:
    it = resource(kind, WHO)
    stand(pve, it, WHO)
    for role, held in list(pve.sim.server.rights.roles.items()):
        if role.startswith("Need") and privilege in held:
            pve.admin.put(f"/access/roles/{role}", privs=",".join(sorted(held - {privilege})))
    with pytest.raises(RefusedError) as refused:
        pve.driver.create(it.ref, it.body, context(WHO))
    assert privilege in str(refused.value)
    assert path in str(refused.value)
    assert "Give Kubehenge's token" in str(refused.value)


def test_acceptance_3_4_a_pool_with_anothers_vm_is_kept_and_the_vm_is_named(pve: ProxmoxSite) -> None:
    it = made(pve, "proxmox.pool", WHO)
    pve.admin.post("/nodes/pve1/qemu", vmid=777, name="precious", pool=WHO.pool(POOL))
    with pytest.raises(RefusedError, match=r"VM 777 \(precious\) is still in it"):
        pve.driver.delete(it.ref, it.body, context(WHO))
    assert count(pve, "proxmox.pool", WHO) == 1


def test_acceptance_3_4_a_pool_in_a_pool_never_stands_in_a_path(pve: ProxmoxSite) -> None:
    before = pve.calls.last_n
    for kind in KINDS:
        it = made(pve, kind, WHO)
        pve.driver.read(it.ref, it.body)
        pve.driver.update(it.ref, it.body, context(WHO))
    pve.driver.read_bulk()
    pve.driver.probe()
    for kind in reversed(KINDS):
        it, ctx = resource(kind, WHO), context(WHO)
        followed(pve.driver, it.ref, pve.driver.delete(it.ref, it.body, ctx), ctx)
    paths = [urlsplit(call.path).path for call in pve.since(before)]
    assert "/api2/json/pools" in paths
    assert not [path for path in paths if "clusters.prod" in path or path.startswith("/api2/json/pools/")]
    assert count(pve, "proxmox.pool", WHO) == 0


def test_acceptance_3_4_a_pool_with_a_pool_in_it_is_kept(pve: ProxmoxSite) -> None:
    it = made(pve, "proxmox.pool", WHO)
    pve.admin.post("/pools", poolid=f"{WHO.pool(POOL)}/theirs")
    with pytest.raises(RefusedError, match=r"contains pool 'kubehenge/clusters.prod/theirs'"):
        pve.driver.delete(it.ref, it.body, context(WHO))


def test_rights_on_a_deleted_pool_are_taken_away_all_the_same(pve: ProxmoxSite) -> None:
    it = made(pve, "proxmox.acl", WHO)
    pve.admin.delete("/pools", poolid=WHO.pool(POOL))
    assert pve.driver.read(it.ref, it.body) is not None
    pve.driver.delete(it.ref, it.body, context(WHO))
    assert count(pve, "proxmox.acl", WHO) == 0


def test_a_user_who_left_the_group_is_not_taken_for_gone(pve: ProxmoxSite) -> None:
    it = made(pve, "proxmox.user", WHO)
    pve.admin.post("/access/groups", groupid="others")
    pve.admin.put(f"/access/users/{WHO.user}", groups="others")
    with pytest.raises(RefusedError, match="exists already, but in no group"):
        pve.driver.create(it.ref, it.body, context(WHO))


def test_rights_are_not_given_on_a_pool_of_another_incarnation(pve: ProxmoxSite) -> None:
    pve.admin.post("/pools", poolid=WHO.pool(POOL), comment=NEXT.mark)
    made(pve, "proxmox.user", WHO)
    it = resource("proxmox.acl", WHO)
    with pytest.raises(RefusedError, match="incarnation=2"):
        pve.driver.create(it.ref, it.body, context(WHO))
    assert count(pve, "proxmox.acl", WHO) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_no_verb_ends_in_an_error_that_is_not_ours(pve: ProxmoxSite, kind: str) -> None:
    it = resource(kind, WHO)
    pve.fault(FaultAction.STATUS, times=None, status=500, reason="oops")
    for verb in ("create", "update", "delete"):
        with pytest.raises(KubehengeError, match="oops"):
            getattr(pve.driver, verb)(it.ref, it.body, context(WHO))
    with pytest.raises(KubehengeError, match="oops"):
        pve.driver.read(it.ref, it.body)
