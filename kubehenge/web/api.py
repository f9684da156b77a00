"""
The JSON API, for programs: with the person's own Proxmox VE API token, or with a session.

A token is passed on for the check and never stored. Lists come in pages of 100; `next` is the address of the following one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime
from typing import Any, TypeVar

from flask import Blueprint, abort, make_response, request, url_for
from flask.typing import ResponseReturnValue

from kubehenge.model.canon import MISSING, FieldChange
from kubehenge.store.reads import clusters as cluster_reads
from kubehenge.store.reads import plans as plan_reads
from kubehenge.store.reads import runs as run_reads
from kubehenge.store.reads.clusters import ClusterFilter
from kubehenge.store.reads.decision import Answer, AnswerKind
from kubehenge.store.reads.machines import machines_of
from kubehenge.store.reads.paging import Page
from kubehenge.store.reads.plans import PlanFilter
from kubehenge.web.auth import api_caller, caller
from kubehenge.web.clusters import the_cluster
from kubehenge.web.paths import page_number, query_of
from kubehenge.web.plans import the_plan
from kubehenge.web.runs import the_run

routes = Blueprint("api", __name__, url_prefix="/api/v1")
T = TypeVar("T")

STATUS_OF: dict[AnswerKind, int] = {
    AnswerKind.ACCEPTED: 200,
    AnswerKind.COUNTED: 200,
    AnswerKind.ALREADY: 200,
    AnswerKind.CONFLICT: 409,
    AnswerKind.REFUSED: 403,
    AnswerKind.NOT_FOUND: 404,
}


def plain(value: Any) -> Any:
    """Return a value as JSON: instants in ISO 8601, words as text, a field's side that is not there left out."""
    match value:
        case FieldChange():
            sides = {"before": value.before, "after": value.after}
            return {"path": value.path, **{side: one for side, one in sides.items() if one is not MISSING}}
        case datetime():
            return value.isoformat()
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple() | frozenset():
            return [plain(one) for one in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
        case _:
            return value


def _list(endpoint: str, page: Page[T], make: Callable[[T], Any], *kept: str) -> ResponseReturnValue:
    following = url_for(endpoint, **query_of(*kept), page=page.number + 1) if page.number < page.pages else None  # type: ignore[arg-type]
    return make_response({"items": [make(one) for one in page.items], "total": page.total, "page": page.number, "next": following})


def _cluster(line: cluster_reads.ClusterLine) -> dict[str, Any]:
    status = line.status
    return {
        "namespace": line.namespace,
        "name": line.name,
        "status": line.word.value,
        "distribution": line.distribution,
        "version": line.version,
        "control_plane": asdict(status.control_plane),
        "workers": asdict(status.workers),
        "read_only": line.read_only,
        "revision": line.revision,
        "plan": {"id": line.plan.id, "status": line.plan.word.value, "classes": list(line.plan.classes)},
        "url": url_for("clusters.summary", namespace=line.namespace, name=line.name),
    }


def _plan(line: plan_reads.PlanLine) -> dict[str, Any]:
    return {
        "id": line.id,
        "digest": line.digest,
        "cluster": line.scope,
        "lane": line.lane.value,
        "status": line.word.value,
        "title": line.title,
        "summary": line.summary,
        "classes": [one.value for one in line.classes],
        "author": line.author,
        "revision": line.revision,
        "opened_at": plain(line.opened_at),
        "closed_at": plain(line.closed_at),
        "run_id": line.run_id,
        "url": url_for("plans.show", plan_id=line.id),
    }


def _run(line: run_reads.RunLine) -> dict[str, Any]:
    return {
        "id": line.id,
        "plan_id": line.plan_id,
        "cluster": line.scope,
        "lane": line.lane.value,
        "title": line.title,
        "started_at": plain(line.started_at),
        "ended_at": plain(line.ended_at),
        "outcome": line.outcome.value if line.outcome else None,
        "counts": {word.value: count for word, count in line.counts.items()},
        "waits_on": line.waits_on,
        "url": url_for("runs.show", run_id=line.id),
    }


@routes.get("/clusters")
@api_caller
def clusters() -> ResponseReturnValue:
    """List clusters; `q` and `ns` narrow."""
    who = caller()
    wanted = ClusterFilter(text=request.args.get("q", "")[:100], namespace=request.args.get("ns", "")[:253])
    page = cluster_reads.cluster_page(who.database, who.site.id, who.visible, wanted, page_number())
    return _list("api.clusters", page, _cluster, "q", "ns")


@routes.get("/clusters/<namespace>/<name>")
@api_caller
def cluster(namespace: str, name: str) -> ResponseReturnValue:
    """Return one cluster with its conditions and machines."""
    found, who = the_cluster(namespace, name), caller()
    machines = machines_of(who.database, who.site.id, found.line.id)
    return make_response(
        {
            **_cluster(found.line),
            "worth_a_look": list(found.look),
            "endpoint": found.status.endpoint,
            "conditions": plain(found.status.conditions),
            "troubles": plain(found.status.troubles),
            "machines": plain(machines),
            "declared": plain(found.declared),
        }
    )


@routes.get("/plans")
@api_caller
def plans() -> ResponseReturnValue:
    """List plans; `state` is open (usual), closed, all or a word, `q` narrows."""
    who = caller()
    wanted = PlanFilter(state=request.args.get("state", "open"), text=request.args.get("q", "")[:100])
    page = plan_reads.plan_page(who.database, who.site.id, who.visible, wanted, page_number())
    return _list("api.plans", page, _plan, "state", "q")


@routes.get("/plans/<int:plan_id>")
@api_caller
def plan(plan_id: int) -> ResponseReturnValue:
    """Return one plan with a page of its actions, its approvals, and what the rules ask."""
    found, who = the_plan(plan_id), caller()
    actions = plan_reads.plan_actions(who.database, plan_id, page_number())
    asked = who.asked([found.line])[plan_id]
    following = url_for("api.plan", plan_id=plan_id, page=actions.number + 1) if actions.number < actions.pages else None
    return make_response(
        {
            **_plan(found.line),
            "bill": plain(found.line.bill),
            "obstacles": plain(found.obstacles),
            "checks": plain(found.checks),
            "held": found.line.held,
            "closed_reason": found.closed_reason,
            "replaced_by": found.replaced_by.id if found.replaced_by else None,
            "approvals": plain(found.approvals),
            "asked": {"short": asked.short, "typed_name": asked.typed_name, "may_approve": asked.may_approve, "why_not": asked.why_not},
            "actions": {"items": plain(actions.items), "total": actions.total, "page": actions.number, "next": following},
        }
    )


def _body() -> dict[str, str]:
    if not request.is_json:
        abort(415)
    body = request.get_json()
    if not isinstance(body, dict) or not all(isinstance(value, str) for value in body.values()):
        abort(400)
    return body


def _answer(answer: Answer) -> ResponseReturnValue:
    if answer.kind is AnswerKind.NOT_FOUND:
        abort(404)
    return make_response(
        {
            "answer": answer.kind.value,
            "message": answer.message,
            "plan_id": answer.plan_id,
            "run_id": answer.run_id,
            "replacement_id": answer.replacement_id,
        },
        STATUS_OF[answer.kind],
    )


@routes.post("/plans/<int:plan_id>/approve")
@api_caller
def approve(plan_id: int) -> ResponseReturnValue:
    """Approve a plan: `digest` as it was read, `typed_name` where it is asked for, `comment`."""
    body, who = _body(), caller()
    the_plan(plan_id)
    who.release()
    return _answer(
        who.services.decisions.approve(
            plan_id, body.get("digest", ""), who.person, body.get("typed_name", ""), body.get("comment", "")[:2000]
        )
    )


@routes.post("/plans/<int:plan_id>/reject")
@api_caller
def reject(plan_id: int) -> ResponseReturnValue:
    """Reject a plan: `digest` as it was read, `comment`."""
    body, who = _body(), caller()
    the_plan(plan_id)
    who.release()
    return _answer(who.services.decisions.reject(plan_id, body.get("digest", ""), who.person, body.get("comment", "")[:2000]))


@routes.post("/plans/<int:plan_id>/withdraw")
@api_caller
def withdraw(plan_id: int) -> ResponseReturnValue:
    """Take back one's own word."""
    _body()
    the_plan(plan_id)
    who = caller()
    who.release()
    return _answer(who.services.decisions.withdraw(plan_id, who.person))


@routes.get("/runs")
@api_caller
def runs() -> ResponseReturnValue:
    """List runs, the newest first."""
    who = caller()
    return _list("api.runs", run_reads.run_page(who.database, who.site.id, who.visible, page_number()), _run)


@routes.get("/runs/<int:run_id>")
@api_caller
def run(run_id: int) -> ResponseReturnValue:
    """Return one run with a page of its steps."""
    found = the_run(run_id)
    steps = run_reads.run_steps(caller().database, run_id, page_number())
    following = url_for("api.run", run_id=run_id, page=steps.number + 1) if steps.number < steps.pages else None
    return make_response(
        {
            **_run(found.line),
            "approved_by": found.approved_by,
            "steps": {"items": plain(steps.items), "total": steps.total, "page": steps.number, "next": following},
        }
    )
