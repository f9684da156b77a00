"""Plans: the inbox, one plan with all that its reader must know, and what people say of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, abort, flash, make_response, redirect, request, url_for
from flask.typing import ResponseReturnValue

from kubehenge.model.resource import ChangeClass, Verb
from kubehenge.store.reads import plans as reads
from kubehenge.store.reads.decision import Answer, AnswerKind
from kubehenge.store.reads.differences import differences
from kubehenge.store.reads.plans import ActionLine, PlanFilter, PlanView
from kubehenge.store.reads.runs import find_run, run_steps
from kubehenge.store.reads.words import OPEN_WORDS, PlanWord
from kubehenge.store.rows import ApprovalVerdict
from kubehenge.web.auth import caller, signed_in
from kubehenge.web.paths import page_number, query_of
from kubehenge.web.present import is_cluster
from kubehenge.web.shell import render
from kubehenge.web.stages import stages_of

routes = Blueprint("plans", __name__)

ROWS_ON_A_PAGE = 240
"""Fields that a plan's page shows; an action with more than are left is shown by its own page (ACCEPTANCE P12)."""
ROWS_OF_AN_ACTION = 40
LONGEST_COMMENT = 2000


@routes.get("/plans")
@signed_in
def index() -> str:
    """List the plans."""
    return render("plans/index.html", **list_context())


def list_context() -> dict[str, Any]:
    """Return what the list shows, for the page and its fragment alike."""
    who = caller()
    values = request.args
    states = {"open", "closed", *(word.value for word in PlanWord)}
    wanted = PlanFilter(
        state=values.get("state", "open") if values.get("state") in states else "open",
        text=values.get("q", "").strip()[:100],
        change_class=values.get("class", "") if values.get("class") in {one.value for one in ChangeClass} else "",
        author=values.get("who", "")[:100],
    )
    page = reads.plan_page(who.database, who.site.id, who.visible, wanted, page_number())
    counts = reads.plan_counts(who.database, who.site.id, who.visible, wanted)
    return {
        "page": page,
        "wanted": wanted,
        "counts": counts,
        "facets": [word for word in OPEN_WORDS if counts.get(word.value)],
        "classes": [one.value for one in ChangeClass],
        "authors": reads.plan_authors(who.database, who.site.id, who.visible),
        "asked": who.asked([plan for plan in page.items if plan.word is PlanWord.WAITING]),
        "query": query_of("q", "state", "class", "who"),
    }


def the_plan(plan_id: int) -> PlanView:
    """Return the plan of an address, or answer that there is nothing here that one may see."""
    who = caller()
    found = reads.find_plan(who.database, who.site.id, who.visible, plan_id)
    if found is None:
        abort(404)
    return found


@routes.get("/plans/<int:plan_id>")
@signed_in
def show(plan_id: int) -> ResponseReturnValue:
    """Show one plan."""
    return _page(the_plan(plan_id))


@routes.get("/plans/<string(minlength=12, maxlength=64):digest>")
@signed_in
def by_digest(digest: str) -> ResponseReturnValue:
    """Lead from a plan's digest, as the command line prints it, to the newest plan that has it."""
    who = caller()
    plan_id = reads.find_plan_id(who.database, who.site.id, who.visible, digest)
    if plan_id is None:
        abort(404)
    return redirect(url_for("plans.show", plan_id=plan_id), code=302)


def _page(
    found: PlanView, status: int = 200, *, note: Answer | None = None, wrong_name: str = "", comment: str = ""
) -> ResponseReturnValue:
    who = caller()
    actions = reads.plan_actions(who.database, found.line.id, page_number())
    run = find_run(who.database, who.site.id, who.visible, found.line.run_id) if found.line.run_id else None
    steps = run_steps(who.database, found.line.run_id, page_number()).items if found.line.run_id else ()
    page = render(
        "plans/show.html",
        scope=found.line.scope if is_cluster(found.line.scope) else "",
        actions=actions,
        shown=fields_shown(actions.items),
        stages=stages_of(who.database, found.line.id),
        run=run,
        words={step.position: step for step in steps},
        query=query_of(),
        note=note,
        differences=differences(who.database, found.line.id, found.replaced_by.id) if found.replaced_by else (),
        **approval_context(found, wrong_name=wrong_name, comment=comment),
    )
    return make_response(page, status)


def approval_context(found: PlanView, *, wrong_name: str = "", comment: str = "") -> dict[str, Any]:
    """Return what the approval panel shows, for the page and its fragment alike."""
    who = caller()
    asked = who.asked([found.line]).get(found.line.id)
    my_word = next((one for one in reversed(found.approvals) if one.who == who.userid), None)
    return {
        "plan": found,
        "line": found.line,
        "asked": asked,
        "wrong_name": wrong_name,
        "comment": comment,
        "may_withdraw": found.line.is_open and my_word is not None and my_word.verdict is ApprovalVerdict.REJECT,
    }


def fields_shown(actions: tuple[ActionLine, ...]) -> Mapping[int, int]:
    """Return how many fields of each action a page shows, so that a plan of any size stays readable."""
    left = ROWS_ON_A_PAGE
    shown = {}
    for action in sorted(actions, key=lambda one: one.verb is Verb.CREATE):  # what changes goes before what is new
        count = min(len(action.fields), ROWS_OF_AN_ACTION, left)
        shown[action.position] = count
        left -= count
    return shown


@routes.get("/plans/<int:plan_id>/actions/<int:position>")
@signed_in
def action(plan_id: int, position: int) -> str:
    """Show all fields of one action."""
    found = the_plan(plan_id)
    one = reads.find_action(caller().database, plan_id, position)
    if one is None:
        abort(404)
    return render(
        "plans/action.html", scope=found.line.scope if is_cluster(found.line.scope) else "", plan=found, line=found.line, action=one
    )


@routes.post("/plans/<int:plan_id>/approve")
@signed_in
def approve(plan_id: int) -> ResponseReturnValue:
    """Approve a plan as it was read."""
    found, who = the_plan(plan_id), caller()
    typed, comment = request.form.get("typed_name", "").strip()[:300], request.form.get("comment", "").strip()[:LONGEST_COMMENT]
    asked = who.asked([found.line])[found.line.id]
    if found.line.is_open and asked.typed_name and typed != asked.typed_name and asked.may_approve:
        return _page(found, 422, wrong_name=typed or " ", comment=comment)
    who.release()
    answer = who.services.decisions.approve(plan_id, request.form.get("digest", ""), who.person, typed, comment)
    return _answered(plan_id, answer)


@routes.post("/plans/<int:plan_id>/reject")
@signed_in
def reject(plan_id: int) -> ResponseReturnValue:
    """Reject a plan; blocks it until withdrawn."""
    the_plan(plan_id)
    who = caller()
    who.release()
    comment = request.form.get("comment", "").strip()[:LONGEST_COMMENT]
    return _answered(plan_id, who.services.decisions.reject(plan_id, request.form.get("digest", ""), who.person, comment))


@routes.post("/plans/<int:plan_id>/withdraw")
@signed_in
def withdraw(plan_id: int) -> ResponseReturnValue:
    """Take back one's own word."""
    the_plan(plan_id)
    who = caller()
    who.release()
    return _answered(plan_id, who.services.decisions.withdraw(plan_id, who.person))


def _answered(plan_id: int, answer: Answer) -> ResponseReturnValue:
    """Go on to what a decision led to, or show the plan again with the reason why it did not count."""
    match answer.kind:
        case AnswerKind.NOT_FOUND:
            abort(404)
        case AnswerKind.CONFLICT:
            return _page(the_plan(plan_id), 409, note=answer)
        case AnswerKind.REFUSED:
            return _page(the_plan(plan_id), 403, note=answer)
        case AnswerKind.ACCEPTED | AnswerKind.COUNTED | AnswerKind.ALREADY:
            flash(answer.message, "good" if answer.kind is not AnswerKind.ALREADY else "warn")
    if answer.run_id is not None:
        return redirect(url_for("runs.show", run_id=answer.run_id), code=303)
    return redirect(url_for("plans.show", plan_id=plan_id), code=303)


@routes.post("/plans/again")
@signed_in
def again() -> ResponseReturnValue:
    """Have everything read now and planned afresh; harmless, so anyone who signed in may."""
    who = caller()
    who.release()
    who.services.decisions.nudge()
    flash("Everything is read again now, and planned afresh. What is done is kept.", "good")
    back = request.form.get("back", "")
    return redirect(back if back.startswith("/") and not back.startswith(("//", "/\\")) else url_for("plans.index"), code=303)


@routes.get("/approvals")
@signed_in
def approvals() -> str:
    """Show what waits for oneself, for others, and what was decided lately."""
    return render("plans/approvals.html", **approvals_context())


def approvals_context() -> dict[str, Any]:
    """Return what the approvals show, for the page and its fragment alike."""
    who = caller()
    waiting = list(reads.waiting_plans(who.database, who.site.id, who.visible))
    asked = who.asked(waiting)
    return {
        "asked": asked,
        "mine": [plan for plan in waiting if asked[plan.id].may_approve],
        "others": [plan for plan in waiting if not asked[plan.id].may_approve],
        "decided": reads.decided_plans(who.database, who.site.id, who.visible),
    }
