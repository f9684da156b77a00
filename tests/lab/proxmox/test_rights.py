"""How Proxmox VE's privileges follow from users, groups, tokens, roles and ACL rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubehenge.lab.proxmox.rights import PRIVILEGES, AclRow, Group, Rights, SubjectKind, Token, User, is_acl_path

ALICE = "alice@pve"
POOLS = {"/vms/100": ("kubehenge/a",), "/vms/101": ("kubehenge/b",)}


def make_rights() -> Rights:
    rights = Rights(lambda path: POOLS.get(path, ()))
    rights.users[ALICE] = User(tokens={"sep": Token(value="x"), "full": Token(value="x", privsep=False)})
    rights.groups["staff"] = Group(members={ALICE})
    rights.roles |= {"Look": frozenset({"VM.Audit"}), "Power": frozenset({"VM.PowerMgmt"})}
    return rights


def give(rights: Rights, path: str, role: str, subject: str = ALICE, *, propagate: bool = True) -> None:
    kind = SubjectKind.TOKEN if "!" in subject else SubjectKind.USER if "@" in subject else SubjectKind.GROUP
    rights.put_row(AclRow(path=path, kind=kind, subject=subject, role=role, propagate=propagate))


def test_nobody_has_anything_without_rows():
    rights = make_rights()
    assert rights.privileges(ALICE, "/") == {}
    assert rights.privileges("nobody@pve", "/vms/100") == {}


def test_root_has_everything_everywhere():
    assert set(make_rights().privileges("root@pam", "/pool/x")) == PRIVILEGES


def test_nested_pool_inherits_and_reaches_its_members_without_propagation():
    rights = make_rights()
    give(rights, "/pool/kubehenge", "Look")
    assert rights.privileges(ALICE, "/pool/kubehenge/a") == {"VM.Audit": True}
    assert rights.privileges(ALICE, "/vms/100") == {"VM.Audit": False}
    assert rights.privileges(ALICE, "/vms/999") == {}


def test_role_on_a_nested_pool_replaces_the_inherited_one():
    rights = make_rights()
    give(rights, "/pool/kubehenge", "Look")
    give(rights, "/pool/kubehenge/a", "Power")
    assert rights.privileges(ALICE, "/pool/kubehenge/a") == {"VM.PowerMgmt": True}
    assert rights.privileges(ALICE, "/pool/kubehenge/b") == {"VM.Audit": True}


def test_group_row_on_a_nested_pool_replaces_a_user_row_from_above():
    rights = make_rights()
    give(rights, "/pool/kubehenge", "Look")
    give(rights, "/pool/kubehenge/a", "Power", "staff")
    assert rights.privileges(ALICE, "/pool/kubehenge/a") == {"VM.PowerMgmt": True}


def test_own_row_stands_before_the_groups_on_the_same_path():
    rights = make_rights()
    give(rights, "/pool/kubehenge", "Look")
    give(rights, "/pool/kubehenge", "Power", "staff")
    assert rights.privileges(ALICE, "/pool/kubehenge") == {"VM.Audit": True}


def test_row_without_propagation_counts_on_its_own_path_only():
    rights = make_rights()
    give(rights, "/pool/kubehenge", "Look", propagate=False)
    assert rights.privileges(ALICE, "/pool/kubehenge") == {"VM.Audit": False}
    assert rights.privileges(ALICE, "/pool/kubehenge/a") == {}


def test_no_access_wins_over_every_other_role():
    rights = make_rights()
    give(rights, "/pool/kubehenge/a", "Look")
    give(rights, "/pool/kubehenge/a", "NoAccess")
    assert rights.privileges(ALICE, "/pool/kubehenge/a") == {}
    assert rights.privileges(ALICE, "/vms/100") == {}


def test_separated_token_has_nothing_of_its_own_and_the_other_has_the_users_and_groups_rights():
    rights = make_rights()
    give(rights, "/pool/kubehenge", "Look", "staff")
    assert rights.privileges(f"{ALICE}!sep", "/pool/kubehenge") == {}
    assert rights.privileges(f"{ALICE}!full", "/pool/kubehenge") == {"VM.Audit": True}


def test_separated_token_never_has_more_than_its_user():
    rights = make_rights()
    give(rights, "/pool/kubehenge", "Look")
    give(rights, "/", "Administrator", f"{ALICE}!sep")
    assert rights.privileges(f"{ALICE}!sep", "/pool/kubehenge") == {"VM.Audit": True}
    assert rights.privileges(f"{ALICE}!sep", "/nodes") == {}


def test_deleting_a_user_takes_its_rows_tokens_and_memberships_along():
    rights = make_rights()
    give(rights, "/pool/kubehenge", "Look")
    give(rights, "/", "Administrator", f"{ALICE}!sep")
    rights.delete_user(ALICE)
    assert list(rights.rows()) == []
    assert rights.groups["staff"].members == set()


@pytest.mark.parametrize(
    ("path", "valid"),
    [
        ("/", True),
        ("/pool/a/b/c", True),
        ("/pool/a/b/c/d", False),
        ("/vms/100", True),
        ("/vms/99", False),
        ("/storage/shared-storage", True),
        ("/access/groups/kubehenge-clusters", True),
        ("/sdn/zones/localnetwork/vmbr0/77", True),
        ("/nodes/pve1/qemu", False),
        ("/nothing", False),
    ],
)
def test_acl_paths(path, valid):
    assert is_acl_path(path) is valid


_PATHS = st.sampled_from(
    ["/", "/pool", "/pool/kubehenge", "/pool/kubehenge/a", "/pool/kubehenge/b", "/vms", "/vms/100", "/nodes", "/nodes/pve1"]
)
_SUBJECTS = st.sampled_from([ALICE, "staff", f"{ALICE}!sep", f"{ALICE}!full"])
_ROLES = st.sampled_from(["Look", "Power", "PVEAuditor", "PVEVMAdmin", "NoAccess"])
_ROWS = st.lists(st.tuples(_PATHS, _ROLES, _SUBJECTS, st.booleans()), max_size=8)


@given(rows=_ROWS, path=_PATHS)
def test_tokens_stay_within_their_user_and_answers_do_not_depend_on_what_was_asked_before(rows, path):
    rights, asked = make_rights(), make_rights()
    for row_path, role, subject, propagate in rows:
        asked.privileges(f"{ALICE}!sep", path)
        asked.privileges(ALICE, row_path)
        for each in (rights, asked):
            give(each, row_path, role, subject, propagate=propagate)
    own = rights.privileges(ALICE, path)
    assert rights.privileges(f"{ALICE}!full", path) == own
    assert set(rights.privileges(f"{ALICE}!sep", path)) <= set(own)
    assert asked.privileges(ALICE, path) == own


@given(rows=_ROWS)
def test_saved_rights_are_the_same_when_loaded(rows):
    rights, again = make_rights(), make_rights()
    for path, role, subject, propagate in rows:
        give(rights, path, role, subject, propagate=propagate)
    again.load_json(rights.to_json())
    assert again.to_json() == rights.to_json()
    assert set(again.rows()) == set(rights.rows())
