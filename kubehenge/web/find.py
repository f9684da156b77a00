"""Finding a cluster, plan, machine or address by what one types above."""

from __future__ import annotations

from flask import Blueprint, redirect, request, url_for
from flask.typing import ResponseReturnValue

from kubehenge.store.reads.clusters import ClusterFilter, cluster_page
from kubehenge.store.reads.machines import find_machines
from kubehenge.store.reads.plans import PlanFilter, find_plan_id, plan_page
from kubehenge.web.auth import caller, signed_in
from kubehenge.web.shell import render

routes = Blueprint("find", __name__)


@routes.get("/find")
@signed_in
def find() -> ResponseReturnValue:
    """Lead to the one thing that fits, or show all that do."""
    who = caller()
    text = request.args.get("q", "").strip()[:100]
    if not text:
        return redirect(url_for("clusters.index"), code=302)
    plan_id = find_plan_id(who.database, who.site.id, who.visible, text)
    if plan_id is not None:
        return redirect(url_for("plans.show", plan_id=plan_id), code=302)
    clusters = cluster_page(who.database, who.site.id, who.visible, ClusterFilter(text=text))
    machines = find_machines(who.database, who.site.id, who.visible, text)
    plans = plan_page(who.database, who.site.id, who.visible, PlanFilter(text=text))
    if clusters.total == 1 and not machines:
        line = clusters.items[0]
        return redirect(url_for("clusters.summary", namespace=line.namespace, name=line.name), code=302)
    return render("find.html", text=text, clusters=clusters, machines=machines, plans=plans)
