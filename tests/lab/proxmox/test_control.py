"""The lab's control: what scripts and tests can switch and see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from kubehenge.lab.control import Control

pytestmark = pytest.mark.lab

KEY = "the-key-of-lab.json"


class Client:
    def __init__(self, url: str) -> None:
        self.url = url
        self.key = KEY

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.key}"}
        with requests.Session() as session:
            session.trust_env = False
            answer = session.request(method, self.url + path, json=body, headers=headers, timeout=30)
        return answer.status_code, answer.json()


@pytest.fixture
def control(pve) -> Iterator[Client]:
    speeds: list[float] = []
    server = Control(
        key=KEY,
        faults=pve.sim.faults,
        calls=pve.sim.calls,
        proxmox=pve.sim,
        speed_setters=[speeds.append],
        states={"kube": lambda: {"objects": 3, "speeds": speeds}},
    )
    yield Client(pve.proxmox.do(server.start()))
    pve.proxmox.do(server.stop())


@pytest.mark.parametrize("key", ["", "wrong", KEY + "x"])
def test_nothing_is_told_without_the_key(control, key):
    control.key = key
    status, body = control.ask("GET", "/state")
    assert (status, body) == (401, {"error": "the control key is missing or wrong; it stands in lab.json"})


def test_faults_are_added_listed_and_removed(control, pve):
    status, rule = control.ask(
        "POST", "/faults", {"target": "proxmox", "action": "status", "path": "/pools", "status": 503, "reason": "busy"}
    )
    assert status == 201
    assert pve.call("GET", "/pools").reason == "busy"
    assert control.ask("GET", "/faults")[1]["faults"] == [rule]
    assert control.ask("DELETE", f"/faults/{rule['id']}")[0] == 200
    assert control.ask("DELETE", f"/faults/{rule['id']}") == (404, {"error": f"fault {rule['id']} is not there"})
    assert pve.call("GET", "/pools").status == 200
    assert control.ask("POST", "/faults", {"target": "proxmox"}) == (400, {"error": "action is missing"})
    control.ask("POST", "/faults", {"target": "proxmox", "action": "refuse"})
    assert control.ask("DELETE", "/faults")[0] == 200
    assert control.ask("GET", "/faults")[1] == {"faults": []}


def test_calls_since_a_number_are_told(control, pve):
    last_n = control.ask("GET", "/calls")[1]["last_n"]
    pve.call("GET", "/pools", pve.engine)
    found = control.ask("GET", f"/calls?since={last_n}&target=proxmox")[1]
    assert [(call["path"], call["who"]) for call in found["calls"]] == [("/api2/json/pools", "kubehenge@pve!engine")]
    assert control.ask("GET", f"/calls?since={last_n}&target=kube")[1]["calls"] == []
    assert control.ask("GET", "/calls?target=git")[0] == 400


def test_node_quorum_and_speed_are_switched(control, pve):
    assert control.ask("POST", "/nodes/pve2", {"online": False}) == (200, {"node": "pve2", "online": False})
    assert pve.call("GET", "/nodes/pve2/status").status == 595
    assert control.ask("POST", "/nodes/pve2", {"online": True})[0] == 200
    assert control.ask("POST", "/nodes/pve9", {"online": True}) == (404, {"error": "node pve9 is not there"})
    assert control.ask("POST", "/nodes/pve2", {"online": "no"}) == (400, {"error": "online: true or false"})
    assert control.ask("POST", "/quorum", {"quorate": False}) == (200, {"quorate": False})
    assert control.ask("POST", "/quorum", {"quorate": True}) == (200, {"quorate": True})
    assert control.ask("POST", "/speed", {"speed": 600}) == (200, {"speed": 600.0})
    assert control.ask("POST", "/speed", {"speed": "instant"}) == (200, {"speed": 0.0})
    assert control.ask("POST", "/speed", {"speed": "fast"})[0] == 400
    assert control.ask("POST", "/speed", {"speed": -1})[0] == 400
    assert control.ask("GET", "/state")[1]["kube"] == {"objects": 3, "speeds": [600.0, 0.0]}


def test_state_is_told_without_secrets(control, pve):
    token = pve.cluster()
    pve.clone(200)
    state = control.ask("GET", "/state")[1]["proxmox"]
    guest = next(guest for guest in state["guests"] if guest["vmid"] == 200)
    assert (guest["pool"], guest["node"], guest["status"]) == ("kubehenge/clusters.prod", "pve2", "stopped")
    assert "kh-clusters.prod@pve!k1" in {entry["id"] for entry in state["tokens"]}
    text = repr(state)
    for secret in (token, pve.engine, pve.capmox):
        assert secret.rpartition("=")[2] not in text
    assert pve.lab.administrator.password.get_secret_value() not in text


def test_drift_is_made_by_hand(control, pve):
    pve.cluster()
    pve.clone(200)
    take_out = {"method": "PUT", "path": "/pools", "params": {"poolid": "kubehenge/clusters.prod", "vms": "200", "delete": 1}}
    assert control.ask("POST", "/proxmox/call", take_out) == (200, {"data": None})
    assert pve.server.vm(200).pool is None
    edit = {"method": "put", "path": "/nodes/pve2/qemu/200/config", "params": {"description": "somebody was here"}}
    assert control.ask("POST", "/proxmox/call", edit)[0] == 200
    assert pve.must("GET", "/nodes/pve2/qemu/200/config")["description"] == "somebody was here"
    row = {"path": "/pool/kubehenge/clusters.prod", "users": "kh-clusters.prod@pve", "roles": "KubehengeCluster", "delete": 1}
    assert control.ask("POST", "/proxmox/call", {"method": "PUT", "path": "/access/acl", "params": row})[0] == 200
    assert "/pool/kubehenge/clusters.prod" not in {entry["path"] for entry in pve.must("GET", "/access/acl")}
    missing = {"method": "DELETE", "path": "/pools", "params": {"poolid": "nope"}}
    assert control.ask("POST", "/proxmox/call", missing) == (400, {"error": "delete pool failed: pool 'nope' does not exist"})
    assert control.ask("POST", "/proxmox/call", {"method": "GET", "path": "/nothing"})[0] == 404
    assert control.ask("POST", "/proxmox/call", {"method": "GET"})[0] == 404


def test_guest_is_changed_and_dropped_behind_every_back(control, pve):
    pve.cluster()
    pve.clone(200)
    changes = {"status": "running", "node": "pve3", "pool": None, "lock": "backup", "config": {"tags": "other"}, "delete": ["description"]}
    assert control.ask("POST", "/proxmox/guests/200", changes) == (200, {})
    guest = pve.server.vm(200)
    assert (guest.status, guest.node, guest.pool, guest.lock, guest.config["tags"]) == ("running", "pve3", None, "backup", "other")
    assert control.ask("POST", "/proxmox/guests/200", {"colour": "red"})[0] == 400
    assert control.ask("POST", "/proxmox/guests/200", {"pool": "nope"}) == (404, {"error": "pool nope is not there"})
    assert control.ask("DELETE", "/proxmox/guests/200") == (200, {})
    assert pve.server.vm(200) is None
    assert control.ask("DELETE", "/proxmox/guests/200") == (404, {"error": "guest 200 is not there"})


def test_coming_tasks_are_told_how_to_end(control, pve):
    pve.cluster()
    assert control.ask("POST", "/proxmox/endings", {"type": "qmclone", "exitstatus": "WARNINGS: 1"})[0] == 201
    assert pve.proxmox.ended(pve.clone(200), pve.capmox) == "WARNINGS: 1"
    assert pve.proxmox.ended(pve.clone(201), pve.capmox) == "OK"


def test_everybody_is_signed_out(control, pve):
    who = pve.lab.viewer
    signed_in = pve.must("POST", "/access/ticket", None, username=who.userid, password=who.password.get_secret_value())
    assert control.ask("POST", "/proxmox/sign-out") == (200, {})
    assert pve.call("GET", "/version", (signed_in["ticket"], "")).status == 401


def test_unknown_page_is_said_to_be_so(control):
    assert control.ask("GET", "/nothing") == (404, {"error": "Not Found"})
