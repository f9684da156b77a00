"""The simulated cluster goes on where it was."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time

import pytest

from kubehenge.lab.pki import CertificateAuthority
from kubehenge.lab.proxmox.seed import seed
from kubehenge.lab.proxmox.sim import ProxmoxSim
from kubehenge.lab.proxmox.tasks import UNEXPECTED
from tests.lab.proxmox.conftest import SeededProxmox
from tests.lab.proxmox.running import RunningProxmox, running, until

pytestmark = pytest.mark.lab


def test_stopped_cluster_comes_back_as_it_was_on_its_ports_and_with_its_sign_ins(tmp_path):
    with running(tmp_path, directory=tmp_path, speed=60) as proxmox:
        pve = SeededProxmox(proxmox, proxmox.within(lambda: seed(proxmox.sim, tmp_path)))
        token = pve.cluster()
        pve.must("PUT", "/pools", poolid="kubehenge/clusters.prod", comment="mark")
        assert proxmox.ended(pve.clone(200), pve.capmox) == "OK"
        upid = pve.must("POST", "/nodes/pve2/qemu/200/status/start", pve.capmox)
        who = pve.lab.viewer
        signed_in = pve.must("POST", "/access/ticket", None, username=who.userid, password=who.password.get_secret_value())
        before, urls, lab = _world(proxmox), dict(proxmox.sim.urls), pve.lab
    with running(tmp_path, directory=tmp_path, speed=60) as proxmox:
        after = _world(proxmox)
        assert after.pop("guests")[-1]["status"] == "running", "the task that ran was let end"
        before.pop("guests")
        assert after == before
        assert proxmox.sim.urls == urls
        assert seed(proxmox.sim, tmp_path) == lab
        assert proxmox.call("GET", "/nodes/pve2/qemu/200/config", token).status == 200
        assert proxmox.call("GET", "/pools", (signed_in["ticket"], "")).status == 200
        assert proxmox.ended(upid, pve.capmox) == "OK"


def _world(proxmox: RunningProxmox) -> dict:
    from kubehenge.lab.proxmox.inspect import state_of

    state = proxmox.within(lambda: state_of(proxmox.server))
    state.pop("running_tasks")
    return state


_CHILD = """
import asyncio, json, sys
from pathlib import Path
from kubehenge.lab.pki import CertificateAuthority
from kubehenge.lab.proxmox.seed import seed
from kubehenge.lab.proxmox.sim import ProxmoxSim

async def main(directory):
    sim = ProxmoxSim(ca=CertificateAuthority(directory), directory=directory, speed=1)
    await sim.start()
    seed(sim, directory)
    await sim.server.call_as_root("POST", "/pools", {"poolid": "kubehenge/clusters.prod"})
    upid = await sim.server.call_as_root("POST", "/nodes/pve1/qemu/9001/clone", {"newid": 200, "pool": "kubehenge/clusters.prod"})
    print(json.dumps({"upid": upid}), flush=True)
    await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.faults
def test_killed_cluster_has_what_was_done_and_its_running_tasks_are_over(tmp_path):
    with subprocess.Popen([sys.executable, "-c", _CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        upid = json.loads(child.stdout.readline())["upid"]
        until(lambda: (tmp_path / "proxmox.json").exists() and upid in (tmp_path / "proxmox.json").read_text(encoding="utf-8"))
        child.send_signal(signal.SIGKILL)
    with running(tmp_path, directory=tmp_path, speed=0) as proxmox:
        assert "kubehenge/clusters.prod" in proxmox.server.pools
        status = proxmox.call("GET", f"/nodes/pve1/tasks/{upid}/status").data
        assert (status["status"], status["exitstatus"]) == ("stopped", UNEXPECTED)
        assert proxmox.server.vm(200) is None, "a half-made clone is cleared away"


def test_change_is_on_disk_within_a_second_or_so(pve, tmp_path):
    pve.must("POST", "/pools", pve.engine, poolid="kubehenge/clusters.prod")
    until(lambda: "clusters.prod" in (tmp_path / "proxmox.json").read_text(encoding="utf-8"), within_s=10)


def test_state_and_credentials_are_for_their_owner_only(pve, tmp_path):
    until((tmp_path / "proxmox.json").exists)
    for name in ("proxmox.json", "proxmox-credentials.json", "ca.key", "pve1.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_nothing_is_written_while_nothing_changes(pve, tmp_path):
    pve.proxmox.do(pve.sim.save())
    before = (tmp_path / "proxmox.json").stat().st_mtime_ns
    pve.must("GET", "/cluster/resources")
    pve.must("GET", "/access/users", full=1)
    pve.proxmox.do(pve.sim.save())
    assert (tmp_path / "proxmox.json").stat().st_mtime_ns == before


def test_damaged_state_is_said_to_be_so(tmp_path):
    (tmp_path / "proxmox.json").write_text('{"format": 1,', encoding="utf-8")
    with pytest.raises(ValueError, match=r"proxmox\.json is damaged .* remove the lab's directory"):
        ProxmoxSim(ca=CertificateAuthority(tmp_path), directory=tmp_path)


def test_taken_port_is_named(tmp_path, pve):
    taken = pve.sim.urls["pve1"].rsplit(":", 1)[1]
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(OSError, match=f"the API of pve1 cannot listen on 127.0.0.1:{taken}"):
        pve.proxmox.do(_start(other, int(taken)))


async def _start(directory, port: int) -> None:
    sim = ProxmoxSim(ca=CertificateAuthority(directory), ports={"pve1": port})
    await sim.start()


def test_speed_can_change_while_something_waits(tmp_path):
    with running(tmp_path, directory=tmp_path, speed=1) as proxmox:
        pve = SeededProxmox(proxmox, proxmox.within(lambda: seed(proxmox.sim, tmp_path)))
        pve.cluster()
        upid = pve.clone(200)
        began = time.monotonic()
        proxmox.within(lambda: proxmox.sim.set_speed(0))
        assert proxmox.ended(upid, pve.capmox) == "OK"
        assert time.monotonic() - began < 15, "a clone takes twenty simulated seconds"
