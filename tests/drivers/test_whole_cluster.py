"""A whole cluster by the two drivers alone: its corner, its Secrets, its Cluster, until it runs; then all of it away again."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kubehenge.drivers.base import ActionContext, Done, Driver, Vault
from kubehenge.drivers.fingerprint import secret_hmac
from kubehenge.drivers.kube.driver import KubeDriver
from kubehenge.drivers.proxmox import ProxmoxClient, ProxmoxDriver
from kubehenge.lab.calls import CallLog
from kubehenge.lab.faults import Faults
from kubehenge.lab.kube.sim import KubeSim
from kubehenge.lab.pki import CertificateAuthority
from kubehenge.lab.proxmox.seed import LabProxmox, seed
from kubehenge.lab.proxmox.sim import ProxmoxSim
from kubehenge.model.resource import DesiredResource
from kubehenge.resources import access, clusters, credentials, volumes
from tests.drivers.kube_resources import declared
from tests.drivers.servers import GROUP, OWNER_VMIDS, POOL, SITE_KEY, Loop, incarnation, unhurried

pytestmark = pytest.mark.lab

WHO = incarnation()
DEADLINE_S = 60


class Site:
    def __init__(self, loop: Loop, ca: CertificateAuthority, directory: Path) -> None:
        self._loop = loop
        faults, calls = Faults(), CallLog()
        self.proxmox = ProxmoxSim(ca=ca, speed=0, faults=faults, calls=calls)
        loop.run(self.proxmox.start())
        self.lab: LabProxmox = seed(self.proxmox, directory)
        urls = list(self.proxmox.urls.values())
        self.kube = KubeSim(directory, ca, faults, calls, speed=0, proxmox_urls=urls)
        loop.run(self.kube.start())
        client = ProxmoxClient.with_token(
            urls, ca_file=str(ca.cert_path), token_id=self.lab.engine.id, secret=self.lab.engine.value, politeness=unhurried()
        )
        proxmox = ProxmoxDriver(client, workload_pool=POOL, owner_vmids=OWNER_VMIDS, site_key=SITE_KEY)
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(self.kube.kubeconfig("kubehenge"))
        kube = KubeDriver.from_kubeconfig(
            kubeconfig,
            site_key=SITE_KEY,
            proxmox_url=urls[0],
            proxmox_ca=ca.pem,
            region=proxmox.region,
            capmox_token_id=self.lab.capmox.id,
            capmox_secret=self.lab.capmox.value,
            politeness=unhurried(),
        )
        self.drivers: dict[str, Driver] = {kind: driver for driver in (proxmox, kube) for kind in driver.kinds}
        self.proxmox_driver, self.kube_driver = proxmox, kube
        self.outputs: dict[str, dict[str, object]] = {}
        self.vault = Vault()

    def context(self) -> ActionContext:
        return ActionContext(mark=WHO.mark, vault=self.vault, outputs=self.outputs)

    def carry_out(self, verb: str, it: DesiredResource) -> None:
        driver, deadline = self.drivers[it.ref.kind], time.monotonic() + DEADLINE_S
        outcome = getattr(driver, verb)(it.ref, it.body, self.context())
        while not isinstance(outcome, Done):
            assert time.monotonic() < deadline, outcome.waits_on
            time.sleep(0.05)
            outcome = driver.look(it.ref, outcome.handle, self.context())
        if outcome.left is not None:
            self.outputs[str(it.ref)] = dict(outcome.left.outputs)

    def close(self) -> None:
        self.kube_driver.stop()
        self.proxmox_driver.client.close()
        self._loop.run(self.kube.stop())
        self._loop.run(self.proxmox.stop())


@pytest.fixture
def site(loop: Loop, ca: CertificateAuthority, tmp_path: Path) -> Iterator[Site]:
    site = Site(loop, ca, tmp_path)
    yield site
    site.close()


def test_a_cluster_is_made_runs_and_goes_without_a_trace(site: Site) -> None:
    pool = WHO.pool(POOL)
    before = {kind: len(found) for kind, found in site.proxmox_driver.read_bulk().items.items()}
    corner = [
        access.pool(WHO, pool),
        access.user(WHO, GROUP),
        access.token(WHO, 1),
        access.acl(WHO, pool),
        volumes.owner(WHO, pool, OWNER_VMIDS),
        credentials.cluster_token(WHO, pool, 1),
        credentials.capmox(WHO, site.lab.capmox.id, secret_hmac(SITE_KEY, site.lab.capmox.value)),
        credentials.resource_set(WHO),
    ]
    cluster = clusters.cluster(
        WHO, declared("prod", workers=2), poolid=pool, vm_ids=(10_000_000, 10_000_999), nodes=("pve1", "pve2"), fixed={}
    )
    for it in (*corner, cluster):
        site.carry_out("create", it)

    secret = site.kube_driver.client.get("/api/v1/namespaces/clusters/secrets/prod-proxmox-token")
    held = next(iter(yaml.safe_load_all(base64.b64decode(secret["data"]["cloud.yaml"]))))["stringData"]
    own = ProxmoxClient.with_token(
        site.proxmox_driver.endpoints,
        ca_file=str(site.lab.ca_file),
        token_id=held["token_id"],
        secret=site.vault.get(held["token_id"]),
        politeness=unhurried(),
    )
    with own:
        assert site.vault.get(held["token_id"]).get_secret_value() == held["token_secret"]
        assert own.get("/access/permissions", path=f"/pool/{pool}") == {f"/pool/{pool}": {"VM.Audit": 1, "VM.Config.Disk": 1}}
    assert held["region"] == "lab"

    reading = site.kube_driver.read_bulk()
    machines = [found.body for found in reading.items["kube.machine"]]
    assert len(machines) == 3
    assert sum(machine["control_plane"] for machine in machines) == 1
    vms = {found.ref.name: found.body for found in site.proxmox_driver.read_bulk().items["proxmox.vm"] if found.body["pool"] == pool}
    assert {str(machine["vmid"]) for machine in machines} < vms.keys()
    assert sum(vm["running"] for vm in vms.values()) == 3
    [status] = reading.items["kube.cluster_status"]
    assert status.body["available"]

    site.carry_out("delete", cluster)
    for index in (7, 5, 6, 4, 3, 2, 1, 0):
        site.carry_out("delete", corner[index])
    assert {kind: len(found) for kind, found in site.proxmox_driver.read_bulk().items.items()} == before
    after = site.kube_driver.read_bulk()
    assert not after.items["kube.secret"]
    assert not after.items["kube.cluster"]
    assert not after.items["kube.machine"]
