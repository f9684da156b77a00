"""Clusters: the list, and the views of one: Summary, Machines, Conditions, Plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flask import Blueprint, abort, redirect, request, url_for
from flask.typing import ResponseReturnValue

from kubehenge.plan.bill import usable_addresses
from kubehenge.resources.topology import Topology
from kubehenge.store.reads import clusters as reads
from kubehenge.store.reads.clusters import ClusterFilter, ClusterView
from kubehenge.store.reads.machines import MachineLine, losses, machines_of
from kubehenge.store.reads.nodes import room
from kubehenge.store.reads.plans import PlanFilter, plan_page, waiting_plans
from kubehenge.store.reads.sources import sources
from kubehenge.store.reads.standing import worth_a_look
from kubehenge.store.reads.words import ClusterWord, PlanWord, Tone
from kubehenge.web.auth import Caller, caller, signed_in
from kubehenge.web.paths import page_number, query_of
from kubehenge.web.permissions import cluster_path
from kubehenge.web.shell import render

routes = Blueprint("clusters", __name__)

DISTRIBUTIONS = (("kubeadm", "kubeadm"), ("rke2", "RKE2"), ("k3s", "k3s"))
PLAN_CHOICES = (
    PlanWord.WAITING,
    PlanWord.RUNNING,
    PlanWord.RUN_FAILED,
    PlanWord.CANNOT_FINISH,
    PlanWord.HELD,
    PlanWord.REJECTED,
    PlanWord.RETRY,
    PlanWord.UP_TO_DATE,
)
FACETS = tuple(word for word in ClusterWord)


@routes.get("/")
@signed_in
def home() -> ResponseReturnValue:
    """Lead to the list."""
    return redirect(url_for("clusters.index"), code=303)


@routes.get("/clusters")
@signed_in
def index() -> str:
    """List the clusters."""
    return render("clusters/index.html", **list_context(), needs=needs_someone(caller()), room=_room(caller()))


def list_context() -> dict[str, Any]:
    """Return what the list shows, for the page and its fragment alike."""
    who = caller()
    wanted = _filter()
    page = reads.cluster_page(who.database, who.site.id, who.visible, wanted, page_number())
    counts = reads.word_counts(who.database, who.site.id, who.visible, wanted)
    namespaces, minors = reads.filter_choices(who.database, who.site.id, who.visible)
    return {
        "page": page,
        "wanted": wanted,
        "counts": counts,
        "facets": [(word, counts[word]) for word in FACETS if counts.get(word)],
        "namespaces": namespaces,
        "minors": minors,
        "distributions": DISTRIBUTIONS,
        "plan_choices": [word.value for word in PLAN_CHOICES],
        "query": query_of("q", "word", "ns", "dist", "minor", "plan", "order"),
        "empty": not sum(counts.values()) and wanted == replace(ClusterFilter(), order=wanted.order),
    }


def _filter() -> ClusterFilter:
    values = request.args
    order = values.get("order", "name")
    return ClusterFilter(
        text=values.get("q", "").strip()[:100],
        word=values.get("word", "") if values.get("word") in {word.value for word in ClusterWord} else "",
        namespace=values.get("ns", "")[:253],
        distribution=values.get("dist", "") if values.get("dist") in dict(DISTRIBUTIONS) else "",
        minor=values.get("minor", "")[:10] if values.get("minor", "").replace(".", "").isdigit() else "",
        plan=values.get("plan", "") if values.get("plan") in {word.value for word in PLAN_CHOICES} else "",
        order=order if order.lstrip("-") in reads.ORDERS else "name",
    )


def needs_someone(who: Caller) -> list[dict[str, Any]]:
    """Return what waits for a person, the gravest first: failed runs, approvals of one's own, what cannot finish, what is off."""
    database, site_id, visible = who.database, who.site.id, who.visible
    found: list[dict[str, Any]] = []
    failed = reads.cluster_page(database, site_id, visible, ClusterFilter(plan=PlanWord.RUN_FAILED.value))
    found.extend(_failed(line) for line in failed.items)
    waiting = list(waiting_plans(database, site_id, visible))
    asked = who.asked(waiting)
    found.extend(
        _need(Tone.WARN, "wait", "Yours to approve", _plan_url(plan.id), plan.title, ("since", plan.opened_at, plan.author))
        for plan in waiting
        if asked[plan.id].may_approve
    )
    stuck = plan_page(database, site_id, visible, PlanFilter(state=PlanWord.CANNOT_FINISH.value))
    found.extend(_need(Tone.BAD, "bad", "Cannot finish", _plan_url(plan.id), plan.title, plan.cannot) for plan in stuck.items)
    look = reads.cluster_page(database, site_id, visible, ClusterFilter(word=ClusterWord.LOOK.value))
    for line in look.items:
        off = ", ".join(worth_a_look(line.status, established=True))
        href = url_for("clusters.machines", namespace=line.namespace, name=line.name)
        found.append(_need(Tone.WARN, "warn", "Needs a look", href, line.scope, off))
    refused = [one for one in sources(database, site_id, visible) if one.refused]
    if refused:
        count = sum(one.refused for one in refused)
        words = f"{count} document{'' if count == 1 else 's'} refused"
        found.append(
            _need(Tone.BAD, "bad", words, url_for("sources.index"), ", ".join(one.name for one in refused), "last good versions in force")
        )
    return found


def _failed(line: reads.ClusterLine) -> dict[str, Any]:
    href = url_for("runs.show", run_id=line.plan.run_id) if line.plan.run_id else _plan_url(line.plan.id)
    return _need(Tone.BAD, "bad", "Run failed", href, line.plan.title, "what is done is kept")


def _plan_url(plan_id: int | None) -> str:
    return url_for("plans.show", plan_id=plan_id)


def _need(tone: Tone, icon: str, word: str, href: str, what: str, note: Any) -> dict[str, Any]:
    return {"tone": tone.value, "icon": icon, "word": word, "href": href, "what": what, "note": note}


def _room(who: Caller) -> Any:
    return room(who.database, who.site.id, who.workload_pool)


def the_cluster(namespace: str, name: str) -> ClusterView:
    """Return the cluster of an address, or answer that there is nothing here that one may see."""
    who = caller()
    found = reads.find_cluster(who.database, who.site.id, who.visible, namespace, name)
    if found is None:
        abort(404)
    return found


@routes.get("/clusters/<namespace>/<name>")
@signed_in
def summary(namespace: str, name: str) -> str:
    """Show how a cluster stands, where it is declared, and what it uses."""
    found = the_cluster(namespace, name)
    return render("clusters/summary.html", scope=found.line.scope, view="summary", **summary_context(found))


def summary_context(found: ClusterView) -> dict[str, Any]:
    """Return what Summary shows, for the page and its fragment alike."""
    who = caller()
    machines = machines_of(who.database, who.site.id, found.line.id)
    latest = plan_page(who.database, who.site.id, who.visible, PlanFilter(state="all", cluster_id=found.line.id))
    carried_out = next((one for one in latest.items if one.word is PlanWord.DONE and one.lane.value == "asked"), None)
    topology = _topology(found)
    return {
        **head_context(found, machines),
        "machines": machines,
        "losses": losses(machines),
        "topology": topology,
        "ranges": _ranges(found),
        "addresses": usable_addresses(topology) if topology else 0,
        "latest": latest.items[:5],
        "carried_out": carried_out,
        "protected": _annotation(found, "kubehenge.dev/protect") == "true",
    }


def head_context(found: ClusterView, machines: Sequence[MachineLine] | None = None) -> dict[str, Any]:
    """Return what stands above every view of a cluster: its state, its open plans, and what one may do."""
    who = caller()
    known = machines_of(who.database, who.site.id, found.line.id) if machines is None else machines
    pool = cluster_path(who.workload_pool, found.line.scope)
    open_plans = plan_page(who.database, who.site.id, who.visible, PlanFilter(state="open", cluster_id=found.line.id)).items
    waiting = [plan for plan in open_plans if plan.word is PlanWord.WAITING]
    asked = who.asked(waiting)
    return {
        "cluster": found,
        "pool": pool.removeprefix("/pool/"),
        "pool_path": pool,
        "held": who.rights.on(pool),
        "open_plans": open_plans,
        "waiting": [(plan, asked[plan.id]) for plan in waiting],
        "machine_count": len(known),
        "condition_count": sum(1 for one in found.status.conditions if one.tone in {Tone.WARN, Tone.BAD}),
    }


def _topology(found: ClusterView) -> Topology | None:
    try:
        return Topology.of(found.declaration) if found.declaration else None
    except (KeyError, TypeError, AttributeError):  # a body of an earlier release, or of a cluster made elsewhere
        return None


def _ranges(found: ClusterView) -> dict[str, str]:
    network = ((found.declaration or {}).get("spec") or {}).get("clusterNetwork") or {}
    return {key: ", ".join((network.get(key) or {}).get("cidrBlocks") or ()) for key in ("pods", "services")}


def _annotation(found: ClusterView, name: str) -> str:
    annotations = ((found.declaration or {}).get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(name, ""))


@routes.get("/clusters/<namespace>/<name>/machines")
@signed_in
def machines(namespace: str, name: str) -> str:
    """Show a cluster's machines and what losing a Proxmox VE node would cost."""
    found = the_cluster(namespace, name)
    shown = machines_context(found)
    return render("clusters/machines.html", scope=found.line.scope, view="machines", **{**head_context(found, shown["machines"]), **shown})


def machines_context(found: ClusterView) -> dict[str, Any]:
    """Return what Machines shows, for the page and its fragment alike."""
    who = caller()
    lines = machines_of(who.database, who.site.id, found.line.id)
    lost = losses(lines)
    return {"cluster": found, "machines": lines, "losses": lost, "crowded": [one for one in lost if one.control_planes > 1]}


@routes.get("/clusters/<namespace>/<name>/conditions")
@signed_in
def conditions(namespace: str, name: str) -> str:
    """Show Cluster API's conditions."""
    found = the_cluster(namespace, name)
    which = "all" if request.args.get("which") == "all" else "look"
    look = [one for one in found.status.conditions if one.tone in {Tone.WARN, Tone.BAD}]
    shown = found.status.conditions if which == "all" or not look else look
    return render(
        "clusters/conditions.html", scope=found.line.scope, view="conditions", which=which, shown=shown, look=look, **head_context(found)
    )


@routes.get("/clusters/<namespace>/<name>/plans")
@signed_in
def plans(namespace: str, name: str) -> str:
    """Show a cluster's plans, of both lanes, the newest first."""
    found = the_cluster(namespace, name)
    who = caller()
    page = plan_page(who.database, who.site.id, who.visible, PlanFilter(state="all", cluster_id=found.line.id), page_number())
    asked = who.asked([plan for plan in page.items if plan.word is PlanWord.WAITING])
    return render(
        "clusters/plans.html", scope=found.line.scope, view="plans", page=page, asked=asked, query=query_of(), **head_context(found)
    )
