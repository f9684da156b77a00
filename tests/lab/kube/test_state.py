"""What the management cluster keeps over a restart, and what it says of requests and faults."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import yaml

from kubehenge.lab.faults import FaultAction, FaultRule, FaultTarget
from kubehenge.lab.kube import kinds, snapshot
from kubehenge.lab.kube.sim import STATE_FILE, KubeSim
from tests.contract.objects import config_map, path_of
from tests.lab.kube.fleet import Cluster
from tests.lab.kube.running import RunningKube, running, until

_MAPS = path_of("default", "ConfigMap")


@pytest.fixture
def kube(tmp_path: Path) -> Iterator[RunningKube]:
    with running(tmp_path, model=False) as made:
        yield made


def test_objects_tokens_and_versions_survive_a_restart(kube: RunningKube) -> None:
    _, made = kube.server.call("POST", _MAPS, config_map("x", {"a": "ä\n1"}))
    token = kube.server.token
    kube.restart()
    assert kube.server.token == token
    status, found = kube.server.call("GET", f"{_MAPS}/x")
    assert (status, found) == (200, made)
    _, later = kube.server.call("POST", _MAPS, config_map("y"))
    assert int(later["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def test_what_was_written_a_second_ago_survives_a_kill(kube: RunningKube) -> None:
    kube.server.call("POST", _MAPS, config_map("x"))
    until(lambda: b'"name":"x"' in (kube.directory / STATE_FILE).read_bytes() if (kube.directory / STATE_FILE).exists() else False)
    killed = kube.sim
    kube.restart(stop=False)
    assert kube.server.call("GET", f"{_MAPS}/x")[0] == 200
    kube.loop.do(killed.stop())


def test_watch_from_before_a_restart_is_told_to_list_again(kube: RunningKube) -> None:
    _, made = kube.server.call("POST", _MAPS, config_map("x"))
    kube.server.call("POST", _MAPS, config_map("y"))
    kube.restart()
    version = made["metadata"]["resourceVersion"]
    status, event = kube.server.call("GET", f"{_MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=5")
    assert (status, event["type"], event["object"]["code"], event["object"]["reason"]) == (200, "ERROR", 410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {version} (")


def test_page_from_before_a_compaction_is_told_to_list_again(kube: RunningKube) -> None:
    for name in "xyz":
        kube.server.call("POST", _MAPS, config_map(name))
    _, page = kube.server.call("GET", f"{_MAPS}?limit=1")
    kube.server.call("POST", _MAPS, config_map("later"))
    kube.loop.within(kube.sim.registry.store.forget, kinds.CONFIG_MAP)
    status, body = kube.server.call("GET", f"{_MAPS}?limit=1&continue={page['metadata']['continue']}")
    assert (status, body["reason"]) == (410, "Expired")


def test_state_is_for_its_owner_only(kube: RunningKube) -> None:
    kube.restart()
    assert stat.S_IMODE((kube.directory / STATE_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"nonsense\n", b'{"format": 99, "version": 1, "memory": {}}\n', b'{"format":1}\n'])
def test_damaged_state_is_named(tmp_path: Path, kube: RunningKube, content: bytes) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / STATE_FILE).write_bytes(content)
    with pytest.raises(ValueError, match=f"{STATE_FILE} .*remove it to start with an empty one"):
        KubeSim(other, kube.ca, kube.faults, kube.calls)


def test_unknown_kind_in_the_state_is_named(tmp_path: Path, kube: RunningKube) -> None:
    other = tmp_path / "other"
    other.mkdir()
    snapshot.save(other / STATE_FILE, version=3, memory={}, bodies=[b'{"apiVersion":"v9","kind":"Nonsense","metadata":{}}'])
    with pytest.raises(ValueError, match="v9 Nonsense is no kind"):
        KubeSim(other, kube.ca, kube.faults, kube.calls)


def test_both_accounts_have_a_kubeconfig(kube: RunningKube) -> None:
    for account in ("admin", "kubehenge"):
        body = yaml.safe_load(kube.sim.kubeconfig(account))
        assert body["clusters"][0]["cluster"]["server"] == kube.sim.url
        token = body["users"][0]["user"]["token"]
        assert kube.server.call("GET", "/api/v1/namespaces", token=token)[0] == 200
    with pytest.raises(ValueError, match="no account 'nobody'"):
        kube.sim.kubeconfig("nobody")


def test_requests_are_logged_with_who_asked(kube: RunningKube) -> None:
    kube.server.call("POST", f"{_MAPS}?fieldManager=tester", config_map("x"))
    kube.server.call("GET", f"{_MAPS}/x", token=kube.sim.token("kubehenge"))
    kube.server.call("GET", f"{_MAPS}/x", token="wrong")
    found = [(call.method, call.who, call.status, call.write) for call in kube.calls.since(target=FaultTarget.KUBE)]
    assert found == [
        ("POST", "tester", 201, True),
        ("GET", "system:serviceaccount:kubehenge-system:kubehenge", 200, False),
        ("GET", "", 401, False),
    ]


def test_faults_meet_requests(kube: RunningKube) -> None:
    kube.faults.add(
        FaultRule(target=FaultTarget.KUBE, action=FaultAction.STATUS, path="configmaps", status=503, reason="etcd is away", times=1)
    )
    status, body = kube.server.call("GET", _MAPS)
    assert (status, body["message"]) == (503, "etcd is away")
    assert kube.server.call("GET", _MAPS)[0] == 200
    kube.faults.add(FaultRule(target=FaultTarget.KUBE, action=FaultAction.LOSE_ANSWER, method="POST", times=1))
    with pytest.raises(requests.ConnectionError):
        kube.server.call("POST", _MAPS, config_map("lost"))
    assert kube.server.call("GET", f"{_MAPS}/lost")[0] == 200


def test_stopping_ends_open_watches(kube: RunningKube) -> None:
    with kube.server.session.get(
        f"{kube.server.url}{_MAPS}?watch=true",
        headers={"Authorization": f"Bearer {kube.server.token}"},
        verify=str(kube.server.ca_file),
        stream=True,
        timeout=30,
    ) as answer:
        kube.loop.do(kube.sim.stop())
        assert answer.content == b""
    kube.loop.do(kube.sim.start())


@pytest.mark.lab
def test_half_built_cluster_is_finished_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path, proxmox=True, speed=20) as kube:
        cluster = Cluster(kube=kube, name="halfway")
        cluster.corner()
        cluster.credentials()
        cluster.create(control_planes=1, workers=2)
        until(cluster.vms)
        kube.restart()
        until(lambda: len(cluster.vms()) > 1)
        kube.restart()
        cluster.settled()
        names = {machine["metadata"]["name"] for machine in cluster.machines()}
        assert set(cluster.vms()) == names
        cluster.delete()
        until(lambda: len(cluster.vms()) < 3)
        kube.restart()
        cluster.gone()
        assert cluster.vms() == {}


@pytest.mark.lab
def test_vm_made_without_having_been_noted_is_taken_over(tmp_path: Path) -> None:
    with running(tmp_path, proxmox=True, speed=0) as kube:
        cluster = Cluster(kube=kube, name="orphan")
        cluster.build(workers=0)
        (machine,) = cluster.objects("proxmoxmachines")
        path = f"/apis/infrastructure.cluster.x-k8s.io/v1alpha2/namespaces/clusters/proxmoxmachines/{machine['metadata']['name']}"
        cluster.change({"spec": {"paused": True}})
        cluster.condition("Paused", "True")
        kube.server.call("PATCH", path, {"spec": {"virtualMachineID": None}}, media="application/merge-patch+json")
        kube.server.call("PATCH", f"{path}/status", {"status": None}, media="application/merge-patch+json")
        cluster.change({"spec": {"paused": False}})
        again = until(
            lambda: (
                (cluster.objects("proxmoxmachines")[0].get("status") or {}).get("initialization") and cluster.objects("proxmoxmachines")[0]
            )
        )
        assert again["spec"]["virtualMachineID"] == machine["spec"]["virtualMachineID"]
        assert len(cluster.vms()) == 1
