"""The reference's table of privileges, and rights as Proxmox VE lists them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubehenge.store.reads.visible import SITE, Visible
from kubehenge.web.permissions import Act, Needed, Rights, cluster_path, needed, to_approve

TABLE = [
    (Act.SEE, "clusters/prod", "VM.Audit", "/pool/kubehenge/clusters.prod"),
    (Act.CREATE, "", "VM.Allocate", "/pool/kubehenge"),
    (Act.USE_STORAGE, "shared-storage", "Datastore.AllocateSpace", "/storage/shared-storage"),
    (Act.USE_BRIDGE, "localnetwork/vmbr0", "SDN.Use", "/sdn/zones/localnetwork/vmbr0"),
    (Act.USE_BRIDGE, "localnetwork/vmbr0/12", "SDN.Use", "/sdn/zones/localnetwork/vmbr0/12"),
    (Act.PLACE_BY_HA_RULE, "", "Sys.Audit", "/"),
    (Act.INSTALL_RANCHER, "", "Sys.Modify", "/pool/kubehenge"),
    (Act.CHANGE, "clusters/prod", "VM.Allocate", "/pool/kubehenge/clusters.prod"),
    (Act.KUBECONFIG, "clusters/prod", "Sys.Modify", "/pool/kubehenge/clusters.prod"),
    (Act.TRUST_NEW, "", "Sys.Modify", "/pool/kubehenge"),
    (Act.TRUST, "clusters/prod", "Sys.Modify", "/pool/kubehenge/clusters.prod"),
    (Act.SEE_SITE, "", "VM.Audit", "/pool/kubehenge"),
    (Act.FREEZE, "clusters/prod", "VM.Allocate", "/pool/kubehenge/clusters.prod"),
    (Act.FREEZE, "", "VM.Allocate", "/pool/kubehenge"),
    (Act.FREEZE_ALL, "", "Sys.Modify", "/pool/kubehenge"),
    (Act.CHANGE_SITE, "", "Sys.Modify", "/pool/kubehenge"),
    (Act.ADMINISTER, "", "Sys.Modify", "/"),
]


@pytest.mark.parametrize(("act", "on", "privilege", "path"), TABLE)
def test_an_act_needs_what_the_table_says(act: Act, on: str, privilege: str, path: str) -> None:
    assert needed(act, "kubehenge", on) == Needed(privilege=privilege, path=path)


def test_the_table_here_has_every_act() -> None:
    assert {row[0] for row in TABLE} == set(Act)


def test_a_workload_pool_may_have_two_levels() -> None:
    assert cluster_path("teams/kube", "prod/shop") == "/pool/teams/kube/prod.shop"


def test_approving_asks_on_the_clusters_pool_and_for_shared_things_on_the_workload_pool() -> None:
    assert str(to_approve("VM.Allocate", "kubehenge", "prod/shop")) == "VM.Allocate on /pool/kubehenge/prod.shop"
    assert str(to_approve("VM.Allocate", "kubehenge", SITE)) == "VM.Allocate on /pool/kubehenge"
    assert str(to_approve("Sys.Modify", "kubehenge", "site:settings")) == "Sys.Modify on /pool/kubehenge"


def test_a_role_on_the_clusters_own_pool_replaces_what_comes_from_above() -> None:
    rights = Rights(listed={"/": {}, "/pool/kubehenge": {"VM.Audit": True}, "/pool/kubehenge/prod.shop": {"Pool.Audit": True}})
    assert rights.on("/pool/kubehenge/prod.media") == {"VM.Audit"}
    assert rights.on("/pool/kubehenge/prod.shop") == {"Pool.Audit"}
    assert rights.visible("kubehenge") == Visible(all_clusters=True, exceptions=frozenset({"prod/shop"}), site=True)


def test_what_does_not_propagate_counts_on_its_own_path_only() -> None:
    rights = Rights(listed={"/pool/kubehenge": {"VM.Audit": False, "VM.Allocate": True}})
    assert rights.on("/pool/kubehenge") == {"VM.Audit", "VM.Allocate"}
    assert rights.on("/pool/kubehenge/prod.shop") == {"VM.Allocate"}
    assert rights.visible("kubehenge") == Visible(all_clusters=False, site=True)


def test_someone_who_may_everything_on_the_root_sees_everything() -> None:
    assert Rights(listed={"/": {"VM.Audit": True}}).visible("kubehenge") == Visible(all_clusters=True, site=True)


def test_someone_without_any_right_sees_nothing() -> None:
    for listed in (
        {},
        {"/": {}},
        {"/nodes/pve1": {"VM.Audit": True}},
        {"/pool/other": {"VM.Audit": True}},
        {"/vms/101": {"VM.Audit": True}},
    ):
        assert Rights(listed=listed).visible("kubehenge") == Visible(all_clusters=False)


def test_a_pool_whose_name_only_begins_alike_is_another_pool() -> None:
    rights = Rights(listed={"/": {}, "/pool/kubehenge2": {"VM.Audit": True}, "/pool/kubehenge2/prod.shop": {"VM.Audit": True}})
    assert rights.visible("kubehenge") == Visible(all_clusters=False)


SCOPES = [f"{namespace}/{name}" for namespace in ("prod", "lab", "a-b") for name in ("shop", "ml", "x")]
PATHS = ["/", "/pool", "/pool/kubehenge", *(cluster_path("kubehenge", scope) for scope in SCOPES)]
PRIVILEGES = st.dictionaries(st.sampled_from(["VM.Audit", "VM.Allocate", "Sys.Modify"]), st.booleans())


@given(st.dictionaries(st.sampled_from(PATHS), PRIVILEGES))
def test_what_a_list_shows_is_what_each_page_shows(listed: dict[str, dict[str, bool]]) -> None:
    rights = Rights(listed=listed)
    visible = rights.visible("kubehenge")
    for scope in SCOPES:
        assert visible.sees(scope) == rights.hold(needed(Act.SEE, "kubehenge", scope)), scope
    assert visible.sees(SITE) == rights.hold(needed(Act.SEE_SITE, "kubehenge"))


@given(st.dictionaries(st.sampled_from(PATHS), PRIVILEGES), st.sampled_from(PATHS))
def test_rights_on_a_path_never_exceed_what_is_listed_on_it_or_above(listed: dict[str, dict[str, bool]], path: str) -> None:
    known = {one for above, privileges in listed.items() if path == above or path.startswith(above.rstrip("/") + "/") for one in privileges}
    assert Rights(listed=listed).on(path) <= known
