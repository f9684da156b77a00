"""The parts of pages that renew themselves, by the templates that the pages include; each stops polling at its end."""

from __future__ import annotations

from flask import Blueprint, abort, request

from kubehenge.store.reads.runs import tasks
from kubehenge.store.reads.site import branch_clusters
from kubehenge.web import clusters, plans, runs, sources
from kubehenge.web.auth import caller, signed_in
from kubehenge.web.shell import render_fragment, times

routes = Blueprint("fragments", __name__, url_prefix="/fragments")


@routes.get("/cluster-table")
@signed_in
def cluster_table() -> str:
    """Return the list of clusters; filter, order and page come in the address."""
    return render_fragment("clusters/table.html", **clusters.list_context())


@routes.get("/clusters/<namespace>/<name>/summary")
@signed_in
def cluster_summary(namespace: str, name: str) -> str:
    """Return the panels of Summary."""
    return render_fragment("clusters/summary_panels.html", **clusters.summary_context(clusters.the_cluster(namespace, name)))


@routes.get("/clusters/<namespace>/<name>/machines")
@signed_in
def machines(namespace: str, name: str) -> str:
    """Return the machines of a cluster."""
    return render_fragment("clusters/machine_table.html", **clusters.machines_context(clusters.the_cluster(namespace, name)))


@routes.get("/plan-table")
@signed_in
def plan_table() -> str:
    """Return the list of plans; filter and page come in the address."""
    return render_fragment("plans/table.html", **plans.list_context())


@routes.get("/plans/<int:plan_id>/approval")
@signed_in
def approval(plan_id: int) -> str:
    """Return the approval panel, so that an approval by someone else or a replaced plan shows at once."""
    return render_fragment("plans/approval.html", **plans.approval_context(plans.the_plan(plan_id)))


@routes.get("/approvals")
@signed_in
def approvals() -> str:
    """Return what waits for oneself."""
    return render_fragment("plans/mine.html", **plans.approvals_context())


@routes.get("/runs/<int:run_id>")
@signed_in
def run(run_id: int) -> str:
    """Return the progress of a run; without a poll once it has ended."""
    return render_fragment("runs/progress.html", **runs.run_context(runs.the_run(run_id)))


@routes.get("/runs/<int:run_id>/log")
@signed_in
def run_log(run_id: int) -> str:
    """Return the end of a run's log."""
    return render_fragment("runs/log_panel.html", **runs.run_context(runs.the_run(run_id)))


@routes.get("/sources/<int:source_id>")
@signed_in
def source(source_id: int) -> str:
    """Return the panel of a source."""
    return render_fragment("sources/panel.html", **sources.source_context(sources.the_source(source_id)))


@routes.get("/tasks")
@signed_in
def task_line() -> str:
    """Return the line along the bottom."""
    who = caller()
    return render_fragment("parts/tasks.html", tasks=tasks(who.database, who.site.id, who.visible, times(who).midnight()))


@routes.get("/tree/<namespace>")
@signed_in
def branch(namespace: str) -> str:
    """Return one namespace's clusters, when its branch is opened."""
    who = caller()
    found = branch_clusters(who.database, who.site.id, who.visible, namespace)
    if namespace not in found:
        abort(404)
    return render_fragment("parts/branch.html", clusters=found[namespace], namespace=namespace, current=request.args.get("current", ""))
