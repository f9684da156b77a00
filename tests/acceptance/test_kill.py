"""
Kill -9 of the real process at every journal boundary (ACCEPTANCE 1.10; MODEL 8, 25).

How each boundary is met: before a call, the lab holds the request without carrying it out; after a call, the lab carries it out and
holds the answer; after the record, the journal says so. Then the process is killed, which also closes the request that is held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.acceptance.calls import CREATES, DELETES, Call
from tests.acceptance.corner import CLUSTERS, corner, require_one_of_each
from tests.acceptance.files import cluster
from tests.acceptance.running import Site

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(600)]

HELD_S = 300
SLOW_S = 0.3
BOUNDARIES = ("before_call", "after_call", "after_record")
RECORDED = ("pending", "done")


@pytest.fixture(scope="module")
def site(sites: Callable[..., Site]) -> Site:
    return sites()


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """One action of one cluster, and the boundary at which Kubehenge is killed; `fault` holds its call."""

    kind: str
    verb: str
    when: str
    fault: str


@dataclass(frozen=True, slots=True)
class Victim:
    """A cluster during whose action Kubehenge is killed."""

    site: Site
    name: str
    namespace: str

    @property
    def scope(self) -> str:
        return f"{self.namespace}/{self.name}"

    def aim(self, call: Call, kind: str, verb: str, when: str) -> Aim:
        """Have the lab stop, or slow down, at the action; to be said before it can come."""
        path = call.for_cluster(self.name, self.namespace)
        if "{owner}" in path:  # capmox deletes VMs meanwhile
            path = path.replace("{owner}", str(corner(self.site, self.name, self.namespace).owners[0]))
        match when:
            case "before_call":
                fault = self.site.fault(call.target, "refuse", method=call.method, path=path, delay_s=HELD_S, times=1)
            case "after_call":
                fault = self.site.fault(call.target, "late_answer", method=call.method, path=path, delay_s=HELD_S, times=1)
            case _:
                fault = ""
                self.slow_down()
        return Aim(kind=kind, verb=verb, when=when, fault=fault)

    def slow_down(self) -> None:
        """Let nothing follow a record before we have seen it."""
        for target in ("kube", "proxmox"):
            self.site.fault(target, "slow", delay_s=SLOW_S, id=f"slow-{target}")

    def has_come(self, aim: Aim) -> bool:
        """Whether the boundary is reached."""
        return self.site.has_struck(aim.fault) if aim.fault else self.state_of(aim) in RECORDED

    def kill(self, aim: Aim) -> None:
        """Kill the process there."""
        site, what = self.site, f"{aim.verb} {aim.kind}"
        site.wait(lambda: self.has_come(aim), f"{what} does not come")
        if aim.when == "after_call":
            site.wait(lambda: self.is_there(aim.kind) == (aim.verb == "create"), f"{what} is not carried out")
        site.kill()
        if aim.fault:
            assert self.state_of(aim) == "intended"
        else:
            site.no_faults()
        if aim.when == "before_call" and aim.verb != "update":
            assert self.is_there(aim.kind) == (aim.verb == "delete")

    def state_of(self, aim: Aim) -> str:
        """How the newest step for this action stands."""
        found = self.site.rows(
            "SELECT step.state FROM step JOIN action ON action.id = step.action_id JOIN plan ON plan.id = action.plan_id"
            " WHERE plan.scope IN (?, 'site:namespaces') AND action.kind = ? AND action.verb = ? AND action.name LIKE ? ORDER BY step.id DESC",
            self.scope,
            aim.kind,
            aim.verb,
            {"kube.secret": f"{self.scope}-proxmox-token", "kube.namespace": self.namespace}.get(aim.kind, "%"),
        )
        return str(found[0]["state"]) if found else ""

    def is_there(self, kind: str) -> bool:
        """Whether the world has it."""
        if kind == "kube.namespace":
            return self.site.kube("GET", f"/api/v1/namespaces/{self.namespace}", missing=True) is not None
        found = corner(self.site, self.name, self.namespace)
        match kind:
            case "kube.secret":
                return f"{self.name}-proxmox-token" in found.secrets
            case "kube.cluster":
                return found.clusters == [self.name] and not self._is_going()
            case "proxmox.volume_owner":
                return bool(found.owners)
            case _:
                return bool(getattr(found, {"proxmox.acl": "acl"}.get(kind, f"{kind.rpartition('.')[2]}s")))

    def _is_going(self) -> bool:
        path = f"{CLUSTERS}/namespaces/{self.namespace}/clusters/{self.name}"
        return "deletionTimestamp" in self.site.kube("GET", path)["metadata"]

    def start_again(self, aim: Aim) -> None:
        """Start it again: what is in doubt is settled before two ticks have passed."""
        site = self.site
        site.let_leases_expire()
        since = site.last_call()
        site.start_loops()
        site.wait(lambda: self.state_of(aim) != "intended", f"{aim.verb} {aim.kind} is not settled")
        ticks = sum(call["path"] == "/api2/json/access/permissions" for call in site.calls(since))
        assert ticks <= 2


@pytest.fixture
def victim(site: Site, net: int) -> Victim:
    site.no_faults()
    site.start_loops()
    return Victim(site, f"k{net}", f"ns{net}")


@pytest.mark.parametrize("when", BOUNDARIES)
@pytest.mark.parametrize("kind", CREATES)
def test_acceptance_1_10_killed_while_it_creates_the_run_finishes_with_one_of_each(
    site: Site, victim: Victim, net: int, kind: str, when: str
) -> None:
    aim = victim.aim(CREATES[kind], kind, "create", when)
    site.clone.push({f"{victim.name}.yaml": cluster(victim.name, net, namespace=victim.namespace)})
    victim.kill(aim)
    victim.start_again(aim)
    site.wait_until_up(victim.scope, machines=1)
    require_one_of_each(site, victim.name, victim.namespace)
    assert {plan["state"] for plan in site.plans(victim.scope)} <= {"done", "failed", "superseded"}, site.tell()
    assert not site.rows("SELECT 1 FROM step WHERE state IN ('intended', 'pending', 'unknown')")


@pytest.mark.parametrize("when", BOUNDARIES)
def test_acceptance_1_10_killed_again_and_again_while_it_deletes_nothing_is_left(site: Site, victim: Victim, net: int, when: str) -> None:
    site.clone.push({f"{victim.name}.yaml": cluster(victim.name, net, namespace=victim.namespace)})
    site.wait_until_up(victim.scope, machines=1)
    site.clone.push({f"{victim.name}.yaml": None})
    plan = site.wait_for_plan(victim.scope)["id"]
    left = {kind: victim.aim(call, kind, "delete", when) for kind, call in DELETES.items()}
    site.must("approve", str(plan), "--yes", "--name", victim.scope)
    while left:
        aim = site.wait(lambda: next(filter(victim.has_come, left.values()), None), f"{', '.join(left)} are not deleted")
        victim.kill(aim)
        del left[aim.kind]
        if when == "after_record":
            victim.slow_down()
        victim.start_again(aim)
    site.no_faults()
    site.wait(lambda: site.rows("SELECT 1 FROM cluster WHERE name = ? AND state = 'gone'", victim.name), f"{victim.scope} does not go")
    assert corner(site, victim.name, victim.namespace).everything() == []
    assert [row["state"] for row in site.plans(victim.scope)] == ["done", "done"], site.tell()


@pytest.mark.parametrize("when", BOUNDARIES)
def test_acceptance_1_10_killed_while_it_scales_the_cluster_is_scaled_once(site: Site, victim: Victim, net: int, when: str) -> None:
    site.clone.push({f"{victim.name}.yaml": cluster(victim.name, net, namespace=victim.namespace)})
    site.wait_until_up(victim.scope, machines=1)
    aim = victim.aim(CREATES["kube.cluster"], "kube.cluster", "update", when)
    site.clone.push({f"{victim.name}.yaml": cluster(victim.name, net, namespace=victim.namespace, workers=2)})
    if when == "after_call":
        site.wait(lambda: site.clusters()[victim.scope]["machines"] > 1, "it is not scaled")
        site.kill()
    else:
        victim.kill(aim)
    victim.start_again(aim)
    site.wait_until_up(victim.scope, machines=3)
    require_one_of_each(site, victim.name, victim.namespace)
    assert [plan["state"] for plan in site.plans(victim.scope)] == ["done", "done"]
