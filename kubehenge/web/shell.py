"""What stands around every page: the tree, the tasks, and what one must know of the site now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from flask import render_template

from kubehenge.store.reads import site as site_reads
from kubehenge.store.reads.plans import waiting_plans
from kubehenge.store.reads.runs import Tasks, tasks
from kubehenge.store.reads.site import Freeze, Reading, Suspicion, Tree
from kubehenge.store.rows import CoverageState
from kubehenge.web.auth import Caller, caller
from kubehenge.web.present import Times, find_zone

TIER_NAMES = {
    "fast": "Which Proxmox VE nodes are online",
    "proxmox": "Proxmox VE",
    "kube": "The management cluster",
    "site": "What is stored of the site's settings",
}
"""What people call the parts of the world that are read, each by the name of its coverage (MODEL 9, 24)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """A part of the world that was not read lately."""

    what: str
    read_at: Any
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """The context of the base template."""

    tree: Tree
    tasks: Tasks
    mine: int
    freezes: tuple[Freeze, ...]
    stale: tuple[Stale, ...]
    suspicions: tuple[Suspicion, ...]
    read_at: Any


def times(who: Caller) -> Times:
    """Return how this site writes instants."""
    return Times(find_zone(who.site_settings.time_zone), who.services.clock())


def shell_of(who: Caller, scope: str = "") -> Shell:
    """Read what stands around a page; `scope` is the cluster that it is about, or ''."""
    database, site_id = who.database, who.site.id
    now = who.services.clock()
    readings = site_reads.readings(database, site_id)
    waiting = list(waiting_plans(database, site_id, who.visible))
    asked = who.asked(waiting)
    return Shell(
        tree=site_reads.tree(database, site_id, who.visible, current=scope.partition("/")[0]),
        tasks=tasks(database, site_id, who.visible, times(who).midnight()),
        mine=sum(1 for plan in waiting if asked[plan.id].may_approve),
        freezes=site_reads.freezes_in_force(database, site_id, who.visible, now),
        stale=stale_readings(readings, now, who.settings.fresh_within),
        suspicions=site_reads.suspicions(database, site_id) if who.visible.site else (),
        read_at=max((one.read_at for one in readings if one.read_at), default=None),
    )


def stale_readings(readings: tuple[Reading, ...], now: Any, fresh_within: timedelta) -> tuple[Stale, ...]:
    """Return the tiers that were not read well lately, and why (MODEL 9)."""
    return tuple(
        Stale(what=TIER_NAMES.get(one.tier, one.tier), read_at=one.read_at, reason=one.reason)
        for one in readings
        if one.state is not CoverageState.OK or one.read_at is None or now - one.read_at > fresh_within
    )


def render(template: str, *, scope: str = "", **context: Any) -> str:
    """Render a whole page, with what stands around it."""
    who = caller()
    return render_template(
        template,
        shell=shell_of(who, scope),
        who=who,
        site=who.site,
        times=times(who),
        scope=scope,
        **context,
    )


def render_fragment(template: str, **context: Any) -> str:
    """Render a part of a page, by the template that the page includes."""
    who = caller()
    return render_template(template, who=who, site=who.site, times=times(who), fragment=True, **context)
