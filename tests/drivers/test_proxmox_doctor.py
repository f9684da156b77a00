"""What `doctor` says of Proxmox VE: each thing that is wrong, and how to mend it."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from kubehenge.drivers.findings import Finding
from kubehenge.drivers.proxmox import ProxmoxClient, ProxmoxDriver
from kubehenge.lab.faults import FaultAction
from kubehenge.lab.pki import CertificateAuthority
from tests.drivers.servers import OWNER_VMIDS, POOL, SITE_KEY, TOKEN_ID, ProxmoxSite

pytestmark = pytest.mark.lab


def wrong(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if not finding.ok]


def driver_of(client: ProxmoxClient) -> ProxmoxDriver:
    return ProxmoxDriver(client, workload_pool=POOL, owner_vmids=OWNER_VMIDS, site_key=SITE_KEY)


def test_a_site_that_is_set_up_has_nothing_wrong(pve: ProxmoxSite) -> None:
    findings = pve.driver.probe()
    assert wrong(findings) == []
    assert len([finding for finding in findings if finding.what.startswith("Proxmox VE at")]) == 3


def test_every_wrong_thing_says_how_to_mend_it(pve: ProxmoxSite) -> None:
    pve.set_node("pve3", online=False)
    pve.sim.server.rights.roles["Need0"] = frozenset({"Pool.Audit"})
    pve.sim.set_quorum(quorate=False)
    pve.sim.server.rights.changed()
    found = wrong(pve.driver.probe(template_pool="templates", storages=("disks",)))
    text = "\n".join(f"{finding.what} | {finding.detail} | {finding.mend}" for finding in found)
    assert "cannot be reached" in text
    assert (
        "missing: Pool.Allocate | Give the token's user and the token a role with Pool.Allocate on /pool/kubehenge, with propagation."
        in text
    )
    assert "rights on /pool/templates to see the templates | missing: VM.Audit" in text
    assert "rights on /storage/disks to see the storage | missing: Datastore.Audit" in text
    assert "no quorum; offline: pve3" in text
    assert all(finding.mend for finding in found)


def test_a_right_that_does_not_reach_down_is_named(pve: ProxmoxSite) -> None:
    pve.admin.put("/access/acl", path=f"/pool/{POOL}", roles="Need0", users="kubehenge@pve", propagate=0)
    [finding] = wrong(pve.driver.probe())
    assert finding.detail == "not propagated: Pool.Allocate, Pool.Audit"


def test_a_missing_workload_pool_is_named(pve: ProxmoxSite) -> None:
    pve.admin.delete("/pools", poolid=POOL)
    [finding] = wrong(pve.driver.probe())
    assert finding.what == f"workload pool {POOL}"
    assert f"Make the pool {POOL}" in finding.mend


def test_a_wrong_token_and_a_wrong_ca_are_told_apart(pve: ProxmoxSite, tmp_path_factory: pytest.TempPathFactory) -> None:
    token = driver_of(pve.client(TOKEN_ID, "00000000-0000-0000-0000-000000000000")).probe()
    assert len(wrong(token)) == len(token) == 3
    assert "API token" in token[0].mend
    other = CertificateAuthority(tmp_path_factory.mktemp("other"))
    client = ProxmoxClient.with_token(pve.urls, ca_file=str(other.cert_path), token_id=TOKEN_ID, secret=SecretStr("x"))
    ca = driver_of(client).probe()
    assert len(wrong(ca)) == len(ca) == 3
    assert "CA file" in ca[0].mend


def test_a_release_without_nested_pools_is_named(pve: ProxmoxSite) -> None:
    pve.sim.server.version = "8.0.4"
    findings = pve.driver.probe()
    release = pve.driver.client.get("/version")["release"]
    if release.startswith("8.0"):
        assert "Upgrade Proxmox VE to 8.1 or newer." in {finding.mend for finding in findings}


@pytest.mark.parametrize("action", list(FaultAction))
def test_it_never_raises(pve: ProxmoxSite, action: FaultAction) -> None:
    pve.fault(action, path="/(access|cluster|pools)", times=None, status=500, reason="oops")
    assert pve.driver.probe()
