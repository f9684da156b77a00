"""No secret in any error, log or result, whatever the servers do; and every verb converges afterwards (ACCEPTANCE 1.13, 4.4; MODEL 8)."""

from __future__ import annotations

import base64
import logging
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from kubehenge.drivers.base import Done, Pending, Vault
from kubehenge.drivers.proxmox.people import SignIn
from kubehenge.errors import KubehengeError
from kubehenge.lab.faults import FaultAction
from kubehenge.lab.pki import CertificateAuthority
from tests.drivers import kube_resources
from tests.drivers.resources import KINDS, count, resource
from tests.drivers.servers import KubeSite, Loop, ProxmoxSite, context, incarnation

pytestmark = pytest.mark.lab

TROUBLE = [FaultAction.REFUSE, FaultAction.STATUS, FaultAction.HTML, FaultAction.LOSE_ANSWER, FaultAction.CUT]
FAULTS = st.lists(
    st.tuples(
        st.sampled_from(TROUBLE),
        st.sampled_from(["*", "GET", "POST", "PUT", "PATCH", "DELETE"]),
        st.sampled_from([400, 401, 403, 404, 409, 422, 429, 500, 502, 503, 595, 596]),
        st.integers(1, 4),
    ),
    max_size=4,
)
FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Watcher(logging.Handler):
    """Every word that is logged or raised."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())

    def tried(self, call: Callable[[], Any]) -> Any:
        """Call, keep what it shows, and let only our own errors pass."""
        try:
            result = call()
        except KubehengeError as exc:
            self.words.append("".join(traceback.format_exception(exc)))
            error: BaseException | None = exc
            while error is not None:
                self.words.append(f"{error!r} {vars(error)}")
                error = error.__cause__ or error.__context__
            return None
        self.words.append(repr(result))
        return result

    def assert_without(self, *secrets: str) -> None:
        text = "\n".join(self.words)
        for secret in secrets:
            assert secret not in text
            assert base64.b64encode(secret.encode()).decode() not in text


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    watcher = Watcher()
    root = logging.getLogger()
    level = root.level
    root.addHandler(watcher)
    root.setLevel(logging.DEBUG)
    yield watcher
    root.removeHandler(watcher)
    root.setLevel(level)


@pytest.fixture(scope="module")
def shared_pve(loop: Loop, ca: CertificateAuthority) -> Iterator[ProxmoxSite]:
    site = ProxmoxSite(loop, ca)
    yield site
    site.close()


def _until_done(watcher: Watcher, driver: Any, verb: str, it: Any, ctx: Any) -> Any:
    outcome = watcher.tried(lambda: getattr(driver, verb)(it.ref, it.body, ctx))
    for _ in range(6):
        if not isinstance(outcome, Pending):
            break
        handle = outcome.handle
        outcome = watcher.tried(lambda handle=handle: driver.look(it.ref, handle, ctx)) or outcome
    return outcome


_numbers = iter(range(10_000))


@given(faults=FAULTS)
@FEW
def test_proxmox_ve_in_trouble_shows_no_secret_and_every_verb_converges(shared_pve: ProxmoxSite, watcher: Watcher, faults: Any) -> None:
    pve, who = shared_pve, incarnation(f"c{next(_numbers)}")
    vault = Vault()
    ctx = context(who, vault)
    for action, method, status, times in faults:
        # What a server says may hold what it was sent.
        pve.fault(action, method=method, status=status, times=times, reason=f"bad {pve.secret} Permission check failed")
    for kind in KINDS:
        for verb in ("create", "update"):
            _until_done(watcher, pve.driver, verb, resource(kind, who), ctx)
    watcher.tried(pve.driver.read_bulk)
    watcher.tried(pve.driver.read_fast)
    watcher.tried(pve.driver.probe)
    pve.faults.clear()
    pve.restart()
    for kind in KINDS:
        it = resource(kind, who)
        if kind != "proxmox.token" or pve.driver.read(it.ref, it.body) is None:
            assert isinstance(_until_done(watcher, pve.driver, "create", it, ctx), Done)
        assert count(pve, kind, who) == 1
    values = [token.value for token in pve.sim.server.rights.users[who.user].tokens.values()]
    for kind in reversed(KINDS):
        assert _until_done(watcher, pve.driver, "delete", resource(kind, who), ctx) == Done(left=None)
        assert count(pve, kind, who) == 0
    watcher.assert_without(pve.secret, *values)


@given(faults=FAULTS)
@FEW
def test_the_management_cluster_in_trouble_shows_no_secret_and_every_verb_converges(kube: KubeSite, watcher: Watcher, faults: Any) -> None:
    who = incarnation(f"k{next(_numbers)}")
    bearer = kube.sim.token("kubehenge")
    ctx = kube.context(who)
    for action, method, status, times in faults:
        kube.fault(
            action,
            method=method,
            status=min(status, 599),
            times=times,
            reason=f"bad {bearer} {kube.capmox.get_secret_value()} {kube.token.get_secret_value()}",
        )
    items = [kube_resources.resource(kube, kind, who) for kind in kube_resources.MARKED]
    for it in items:
        for verb in ("create", "update"):
            _until_done(watcher, kube.driver, verb, it, ctx)
    watcher.tried(kube.driver.read_bulk)
    watcher.tried(kube.driver.probe)
    kube.faults.clear()
    kube.restart()
    for it in items:
        assert isinstance(_until_done(watcher, kube.driver, "create", it, ctx), Done | Pending)
        found = kube.driver.read(it.ref, it.body)
        assert found is not None
        assert kube_resources.contains(found.body, kube_resources.written(kube, it, who))
    for it in reversed(items):
        assert _until_done(watcher, kube.driver, "delete", it, ctx) == Done(left=None)
    watcher.assert_without(bearer, kube.capmox.get_secret_value(), kube.token.get_secret_value())


@given(faults=FAULTS)
@FEW
def test_signing_in_in_trouble_shows_neither_password_nor_ticket(shared_pve: ProxmoxSite, watcher: Watcher, faults: Any) -> None:
    pve = shared_pve
    name = f"person{next(_numbers)}"
    password = f"correct horse {name}"
    pve.admin.post("/access/users", userid=f"{name}@pve", password=password)
    for action, method, status, times in faults:
        pve.fault(action, path="/access/ticket", method=method, status=status, times=times, reason=f"wrong {password}")
        pve.fault(action, path="/access/permissions", method=method, status=status, times=times, reason="wrong")
    people = SignIn(pve.urls, ca_file=str(pve.ca.cert_path))
    ticket = watcher.tried(lambda: people.sign_in(name, "pve", SecretStr(password)))
    if ticket is not None:
        watcher.tried(lambda: people.permissions(ticket, "/"))
        watcher.tried(lambda: people.renew(ticket))
        watcher.assert_without(ticket.ticket.get_secret_value(), ticket.csrf.get_secret_value())
    pve.faults.clear()
    watcher.assert_without(password)
