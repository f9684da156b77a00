"""Faults that are switched on while the simulated servers run, and the log of what they were sent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from kubehenge.lab.calls import CallLog
from kubehenge.lab.faults import FaultAction, FaultRule, Faults, FaultTarget, parse_rule
from tests.lab.proxmox.running import until

pytestmark = pytest.mark.lab

PROXMOX, KUBE = FaultTarget.PROXMOX, FaultTarget.KUBE


def _rule(action: str, path: str = "", **more: object) -> FaultRule:
    return parse_rule({"target": "proxmox", "action": action, "path": path, **more})


@pytest.fixture
def faults(pve):
    return pve.sim.faults


@pytest.fixture
def calls(pve):
    return pve.sim.calls


def test_refused_call_is_not_carried_out(pve, faults):
    faults.add(_rule("refuse", "/pools", method="POST", times=1))
    with pytest.raises(requests.ConnectionError):
        pve.call("POST", "/pools", poolid="a")
    assert "a" not in pve.server.pools
    assert pve.call("POST", "/pools", poolid="a").status == 200


def test_call_with_a_late_answer_is_carried_out_at_once(pve, faults):
    faults.add(_rule("late_answer", "/pools", method="POST", delay_s=3, times=1))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(pve.call, "POST", "/pools", poolid="a")
        until(lambda: "a" in pve.server.pools)
        assert not waiting.done()
    assert waiting.result().status == 200


def test_call_with_a_lost_answer_is_carried_out(pve, faults):
    faults.add(_rule("lose_answer", "/pools", times=1))
    with pytest.raises(requests.ConnectionError):
        pve.call("POST", "/pools", poolid="a")
    assert "a" in pve.server.pools


def test_cut_answer_ends_in_the_middle(pve, faults):
    faults.add(_rule("cut", "/access/roles"))
    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        pve.call("GET", "/access/roles")


def test_status_has_its_servers_form(pve, faults):
    faults.add(_rule("status", "/pools", status=500, reason="got timeout"))
    answer = pve.call("GET", "/pools")
    assert (answer.status, answer.reason, answer.body) == (500, "got timeout", {"data": None, "message": "got timeout\n"})
    faults.add(_rule("status", "/nodes", status=595, reason="No route to host"))
    assert pve.call("GET", "/nodes").body is None


def test_html_is_a_proxys_page(pve, faults):
    faults.add(_rule("html", "/version", status=502, reason="Bad Gateway"))
    with pytest.raises(requests.exceptions.JSONDecodeError):
        pve.call("GET", "/version")


def test_slow_call_is_answered_later(pve, faults):
    faults.add(_rule("slow", "/version", delay_s=0.2))
    assert pve.call("GET", "/version").status == 200


def test_rule_meets_a_query_too_and_the_first_that_fits_acts(pve, faults):
    first = faults.add(_rule("status", r"/pools\?poolid=kubehenge$", status=503, reason="first"))
    faults.add(_rule("status", "/pools", status=500, reason="second"))
    assert pve.call("GET", "/pools", poolid="kubehenge").reason == "first"
    assert pve.call("GET", "/pools").reason == "second"
    assert faults.remove(first.id)
    assert pve.call("GET", "/pools", poolid="kubehenge").reason == "second"
    faults.clear()
    assert pve.call("GET", "/pools").status == 200


def test_rule_is_used_up_and_is_for_one_server():
    faults = Faults()
    rule = faults.add(FaultRule(target=PROXMOX, action=FaultAction.REFUSE, method="GET", path="^/a", times=2))
    assert faults.take(KUBE, "GET", "/a") is None
    assert faults.take(PROXMOX, "POST", "/a") is None
    assert faults.take(PROXMOX, "GET", "/b/a") is None
    assert faults.take(PROXMOX, "GET", "/a/b") == rule
    assert [left.times for left in faults.list()] == [1]
    assert faults.take(PROXMOX, "GET", "/a", "x=1") is not None
    assert faults.list() == ()
    assert faults.remove(rule.id) is False


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "target is missing|action is missing"),
        ({"target": "git", "action": "slow"}, "'git' is not a valid FaultTarget"),
        ({"target": "kube", "action": "explode"}, "'explode' is not a valid FaultAction"),
        ({"target": "kube", "action": "slow", "path": "("}, "path: .* is not a regular expression"),
        ({"target": "kube", "action": "status", "status": 200}, "status: 200 is not an error status"),
        ({"target": "kube", "action": "slow", "times": 0}, "times: 0 is less than 1"),
        ({"target": "kube", "action": "slow", "delay_s": -1}, "delay_s: -1.0 is negative"),
        ({"target": "kube", "action": "slow", "colour": "red"}, "unknown field colour"),
        ({"target": "kube", "action": "slow", "method": "{}"}, "method: '{}' is neither"),
        ({"target": "kube", "action": "slow", "times": []}, "wrong type"),
    ],
)
def test_rule_that_cannot_be_meant_is_refused_with_its_field(body, words):
    with pytest.raises(ValueError, match=words):
        parse_rule(body)


def test_rule_is_the_same_as_json_and_back():
    rule = FaultRule(target=KUBE, action=FaultAction.SLOW, method="PATCH", path="/api", delay_s=1.5, times=3, id="x")
    assert parse_rule(rule.to_json()) == rule


def test_calls_are_recorded_with_who_made_them_and_whether_they_write(pve, calls, faults):
    before = calls.last_n
    pve.call("GET", "/pools", pve.engine, poolid="kubehenge")
    pve.call("POST", "/pools", pve.engine, poolid="elsewhere")
    pve.call("POST", "/access/ticket", None, username="admin@pve", password="wrong")
    faults.add(_rule("refuse", "/version"))
    with pytest.raises(requests.ConnectionError):
        pve.call("GET", "/version")
    found = [(call.method, call.path, call.who, call.status, call.write) for call in calls.since(before)]
    base = "/api2/json"
    assert found == [
        ("GET", f"{base}/pools?poolid=kubehenge", "kubehenge@pve!engine", 200, False),
        ("POST", f"{base}/pools", "kubehenge@pve!engine", 403, True),
        ("POST", f"{base}/access/ticket", "", 401, False),
        ("GET", f"{base}/version", "", 0, False),
    ]
    assert calls.since(before, KUBE) == ()


def test_log_keeps_the_newest_and_counts_all():
    log = CallLog(keep=3)
    for number in range(5):
        log.record(target=KUBE, method="GET", path=f"/{number}", who="", status=200, write=number % 2 == 0)
    assert [call.n for call in log.since(0)] == [3, 4, 5]
    assert [call.n for call in log.since(4)] == [5]
    assert (log.counts[KUBE, "GET"], log.writes[KUBE]) == (5, 3)


def test_no_secret_of_a_query_is_logged(pve, calls):
    pve.call("GET", "/version", vncticket="very-secret")
    assert "very-secret" not in repr(calls.since(0))
