"""Signing in through Proxmox VE, second factors, and what someone may do (ACCEPTANCE 4.3; facts: 2 Sign-in)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, quote

import pytest
from pydantic import SecretStr

from kubehenge.drivers.proxmox.connections import TimeLimits
from kubehenge.drivers.proxmox.errors import NotSignedInError
from kubehenge.drivers.proxmox.people import Challenge, SecondFactor, SignIn, Ticket, token_user
from kubehenge.errors import RefusedError, TransientError, UncertainError
from kubehenge.lab.faults import FaultAction
from kubehenge.lab.pki import CertificateAuthority
from tests.drivers.raw_server import RawServer, json_answer
from tests.drivers.servers import GROUP, POOL, ProxmoxSite

pytestmark = pytest.mark.lab

PASSWORD = SecretStr("correct horse")
LIMITS = TimeLimits(connect_s=10, read_s=20, change_s=20)


def people_of(pve: ProxmoxSite) -> SignIn:
    return SignIn(pve.urls, ca_file=str(pve.ca.cert_path), limits=LIMITS)


@pytest.fixture
def people(pve: ProxmoxSite) -> SignIn:
    pve.admin.post("/access/users", userid="alice@pve", groups=GROUP, password=PASSWORD.get_secret_value())
    pve.admin.put("/access/acl", path=f"/pool/{POOL}", roles="PVEVMUser", users="alice@pve")
    return people_of(pve)


def signed_in(people: SignIn) -> Ticket:
    ticket = people.sign_in("alice", "pve", PASSWORD)
    assert isinstance(ticket, Ticket)
    return ticket


def test_realms_are_readable_without_a_sign_in(people: SignIn) -> None:
    assert {realm.name: realm.kind for realm in people.realms()} == {"pam": "pam", "pve": "pve"}


def test_a_password_gives_a_ticket_that_shows_neither_itself_nor_the_password(people: SignIn, pve: ProxmoxSite) -> None:
    ticket = signed_in(people)
    assert ticket.username == "alice@pve"
    assert ticket.endpoint in pve.urls
    assert ticket.ticket.get_secret_value().startswith("PVE:alice@pve:")
    assert "PVE:alice@pve:" not in repr(ticket)


@pytest.mark.parametrize(
    ("username", "realm", "password"),
    [
        ("alice", "pve", "wrong"),
        ("nobody", "pve", "correct horse"),
        ("alice", "pam", "correct horse"),
        ("alice", "nope", "correct horse"),
        ("", "pve", "correct horse"),
        ("alice", "pve", ""),
        ("a" * 70, "pve", "correct horse"),
        ("alice/..", "pve", "correct horse"),
        ("ali ce", "pve", "correct horse"),
    ],
)
def test_every_wrong_sign_in_is_refused_in_the_same_words(people: SignIn, username: str, realm: str, password: str) -> None:
    with pytest.raises(RefusedError) as refused:
        people.sign_in(username, realm, SecretStr(password))
    assert str(refused.value) == "Proxmox VE does not accept this user name, realm and password."


def test_a_ticket_is_no_password(people: SignIn, pve: ProxmoxSite) -> None:
    root = pve.sim.server.signin.issue_ticket("root@pam")
    with pytest.raises(RefusedError):
        people.sign_in("alice", "pve", SecretStr(root))


def test_privileges_are_those_of_one_path(people: SignIn) -> None:
    ticket = signed_in(people)
    assert "VM.Audit" in people.permissions(ticket, f"/pool/{POOL}/clusters.prod")
    assert people.permissions(ticket, "/pool/other") == frozenset()
    rights = people.rights(ticket)
    assert rights[f"/pool/{POOL}"]["VM.Audit"] is True


def test_a_renewed_ticket_goes_on(people: SignIn) -> None:
    renewed = people.renew(signed_in(people))
    assert renewed.username == "alice@pve"
    assert "VM.Audit" in people.permissions(renewed, f"/pool/{POOL}")


def test_a_disabled_user_is_signed_out_at_once(people: SignIn, pve: ProxmoxSite) -> None:
    ticket = signed_in(people)
    pve.admin.put("/access/users/alice@pve", enable=0)
    with pytest.raises(NotSignedInError):
        people.permissions(ticket, f"/pool/{POOL}")
    with pytest.raises(NotSignedInError, match="Sign in again"):
        people.renew(ticket)


def test_an_api_token_is_asked_for_itself(people: SignIn, pve: ProxmoxSite) -> None:
    value = pve.admin.post("/access/users/alice@pve/token/cli", privsep=0)["value"]
    header = SecretStr(f"PVEAPIToken=alice@pve!cli={value}")
    assert token_user(header) == "alice@pve!cli"
    assert "VM.Audit" in people.permissions_of_token(header, f"/pool/{POOL}")
    assert people.rights_of_token(header)[f"/pool/{POOL}"]["VM.Audit"] is True
    with pytest.raises(NotSignedInError):
        people.permissions_of_token(SecretStr("PVEAPIToken=alice@pve!cli=00000000-0000-0000-0000-000000000000"), "/")


@pytest.mark.parametrize(
    "header", ["", "Bearer x", "PVEAPIToken=alice@pve=x", "PVEAPIToken=alice@pve!cli=a b", "PVEAPIToken=a@pve!cli=x\r\nX: y"]
)
def test_another_header_is_no_token_and_is_not_passed_on(people: SignIn, pve: ProxmoxSite, header: str) -> None:
    before = pve.calls.last_n
    assert token_user(SecretStr(header)) is None
    with pytest.raises(NotSignedInError):
        people.permissions_of_token(SecretStr(header), "/")
    assert pve.since(before) == ()


def test_groups_are_known_as_far_as_they_are_shown(people: SignIn, pve: ProxmoxSite) -> None:
    ticket = signed_in(people)
    assert people.groups(ticket) == frozenset()
    pve.admin.put("/access/acl", path=f"/access/groups/{GROUP}", roles="PVEUserAdmin", users="alice@pve")
    assert people.groups(ticket) == {GROUP}


def test_a_dead_node_costs_its_time_once(people: SignIn, pve: ProxmoxSite) -> None:
    pve.set_node("pve1", online=False)
    first = signed_in(people)
    assert first.endpoint == pve.urls[1]
    assert people._endpoints[0] == pve.urls[1]
    pve.set_node("pve2", online=False)
    pve.set_node("pve1", online=True)
    assert "VM.Audit" in people.permissions(first, f"/pool/{POOL}")  # a ticket is good at every node


@pytest.mark.parametrize("action", [FaultAction.REFUSE, FaultAction.LOSE_ANSWER, FaultAction.HTML])
def test_a_sign_in_without_an_answer_may_be_tried_again(people: SignIn, pve: ProxmoxSite, action: FaultAction) -> None:
    pve.fault(action, path="/access/ticket", times=None, status=502)
    with pytest.raises(TransientError) as failed:
        people.sign_in("alice", "pve", PASSWORD)
    assert not isinstance(failed.value, UncertainError)
    assert PASSWORD.get_secret_value() not in str(failed.value)


# ---- second factors, answered as recorded from Proxmox VE 9.2


class TwoFactors:
    """Answers /access/ticket as Proxmox VE does for a user with second factors."""

    def __init__(self, ca: CertificateAuthority, offered: dict[str, Any]) -> None:
        challenge = quote(json.dumps(offered), safe='{}", []')
        self.challenge = f"PVE:!tfa!{challenge}:6B0D7124::c2lnbmF0dXJl"
        self.asked: list[dict[str, str]] = []
        self.server = RawServer(ca, self.answer)

    def answer(self, conn: Any, head: bytes) -> bool:
        body = head.partition(b"\r\n\r\n")[2]
        sent = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        self.asked.append(sent)
        if "tfa-challenge" not in sent:
            data = {"NeedTFA": 1, "username": "bob@pve", "ticket": self.challenge, "CSRFPreventionToken": "6B0D:x"}
        elif sent == {"username": "bob@pve", "tfa-challenge": self.challenge, "password": "totp:012345"}:
            data = {"username": "bob@pve", "ticket": "PVE:bob@pve:6B0D7124::c2ln", "CSRFPreventionToken": "6B0D:y", "cap": {}}
        else:
            conn.sendall(json_answer('{"data":null,"message":"authentication failure\\n"}', status="401 authentication failure"))
            return False
        conn.sendall(json_answer(json.dumps({"data": data})))
        return True


@pytest.fixture
def two(ca: CertificateAuthority) -> Iterator[TwoFactors]:
    two = TwoFactors(ca, {"totp": True, "recovery": [0, 2], "webauthn": {"challenge": "a:b%c"}})
    yield two
    two.server.close()


def test_a_second_factor_is_asked_for_and_answered_with_a_code_as_text(two: TwoFactors, ca: CertificateAuthority) -> None:
    people = SignIn([two.server.url, "https://127.0.0.1:1"], ca_file=str(ca.cert_path), limits=LIMITS)
    challenge = people.sign_in("bob", "pve", SecretStr("x"))
    assert isinstance(challenge, Challenge)
    assert challenge.factors == {SecondFactor.TOTP, SecondFactor.RECOVERY, SecondFactor.WEBAUTHN}
    assert challenge.answerable == {SecondFactor.TOTP, SecondFactor.RECOVERY}
    assert "tfa" not in repr(challenge)
    with pytest.raises(RefusedError, match="does not accept this code"):
        people.answer_challenge(challenge, SecondFactor.TOTP, "12345")
    ticket = people.answer_challenge(challenge, SecondFactor.TOTP, " 012345 ")
    assert ticket.username == "bob@pve"
    assert ticket.endpoint == challenge.endpoint == two.server.url


@pytest.mark.parametrize(
    ("factor", "code"), [(SecondFactor.WEBAUTHN, "{}"), (SecondFactor.YUBICO, "cccc"), (SecondFactor.U2F, "x"), (SecondFactor.TOTP, " ")]
)
def test_a_factor_that_is_not_offered_or_has_no_code_is_not_sent(
    two: TwoFactors, ca: CertificateAuthority, factor: SecondFactor, code: str
) -> None:
    people = SignIn([two.server.url], ca_file=str(ca.cert_path), limits=LIMITS)
    challenge = people.sign_in("bob", "pve", SecretStr("x"))
    assert isinstance(challenge, Challenge)
    with pytest.raises(RefusedError):
        people.answer_challenge(challenge, factor, code)
    assert len(two.asked) == 1


def test_a_challenge_that_cannot_be_read_offers_nothing(ca: CertificateAuthority) -> None:
    two = TwoFactors(ca, {})
    two.challenge = "PVE:!tfa!{broken:6B0D7124::c2ln"
    challenge = SignIn([two.server.url], ca_file=str(ca.cert_path), limits=LIMITS).sign_in("bob", "pve", SecretStr("x"))
    assert isinstance(challenge, Challenge)
    assert challenge.factors == frozenset()
    two.server.close()
