"""Freezes: nothing of a cluster, or of the site, is carried out for now (MODEL 28)."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, abort, flash, make_response, redirect, request, url_for
from flask.typing import ResponseReturnValue

from kubehenge.store.reads import site as reads
from kubehenge.store.reads.decision import Answer, AnswerKind
from kubehenge.web.auth import PrivilegeMissing, caller, signed_in
from kubehenge.web.permissions import Act, Needed, needed
from kubehenge.web.shell import render

routes = Blueprint("freezes", __name__)

MOST_HOURS = 24 * 31
MOST_HOURS_WITH_DUTIES = 4
"""Duties keep running clusters alive (MODEL 28)."""


@routes.get("/freezes")
@signed_in
def index() -> str:
    """Show the freezes in force, past ones, and a form for a new one."""
    return _page()


def _page(**form: Any) -> str:
    who = caller()
    now = who.services.clock()
    scope = form.get("scope", request.args.get("scope", ""))
    return render(
        "freezes/index.html",
        in_force=[
            (one, who.rights.hold(_needs(one.scope, duties=one.duties)))
            for one in reads.freezes_in_force(who.database, who.site.id, who.visible, now)
        ],
        past=reads.past_freezes(who.database, who.site.id, who.visible, now),
        form={"scope": scope, "reason": "", "hours": "", "duties": False, "error": "", **form},
        needs=_needs(""),
    )


def _needs(scope: str, *, duties: bool = False) -> Needed:
    return needed(Act.FREEZE_ALL if duties else Act.FREEZE, caller().workload_pool, scope)


@routes.post("/freezes")
@signed_in
def freeze() -> ResponseReturnValue:
    """Hold a cluster's plans, or the site's."""
    who = caller()
    scope, reason = request.form.get("scope", "").strip()[:300], request.form.get("reason", "").strip()[:500]
    duties, hours = request.form.get("duties") == "yes", request.form.get("hours", "").strip()
    form = {"scope": scope, "reason": reason, "hours": hours, "duties": duties}
    error, length = _judge(scope, reason, hours, duties=duties)
    if error:
        return make_response(_page(**form, error=error), 422)
    try:
        who.require(_needs(scope, duties=duties))
    except PrivilegeMissing as missing:
        return make_response(_page(**form, error=str(missing)), 403)
    return _answered(who.services.decisions.freeze(scope, who.person, reason, duties=duties, hours=length), form)


def _judge(scope: str, reason: str, hours: str, *, duties: bool) -> tuple[str, float | None]:
    who = caller()
    if scope and not (scope.count("/") == 1 and who.visible.sees(scope)):
        return f"There is no cluster {scope} that you may see. Write namespace/name, or leave it empty for the whole site.", None
    if not reason:
        return "Say why: everyone sees it while the freeze lasts.", None
    most = MOST_HOURS_WITH_DUTIES if duties else MOST_HOURS
    try:
        length = float(hours) if hours else None
    except ValueError:
        return f"{hours} is no number of hours.", None
    if duties and length is None:
        return f"Duties may be held for at most {MOST_HOURS_WITH_DUTIES} hours: say for how many.", None
    if length is not None and not 0 < length <= most:
        return f"Hold it for more than 0 and at most {most} hours.", None
    return "", length


@routes.post("/freezes/<int:freeze_id>/end")
@signed_in
def thaw(freeze_id: int) -> ResponseReturnValue:
    """End a freeze."""
    who = caller()
    found = reads.find_freeze(who.database, who.site.id, freeze_id)
    if found is None or (found.scope and not who.visible.sees(found.scope)):
        abort(404)
    who.require(_needs(found.scope, duties=found.duties))
    return _answered(who.services.decisions.thaw(freeze_id, who.person), {})


def _answered(answer: Answer, form: dict[str, Any]) -> ResponseReturnValue:
    if answer.kind is AnswerKind.NOT_FOUND:
        abort(404)
    if answer.kind in {AnswerKind.REFUSED, AnswerKind.CONFLICT}:
        return make_response(_page(**form, error=answer.message), 409 if answer.kind is AnswerKind.CONFLICT else 403)
    flash(answer.message, "good")
    return redirect(url_for("freezes.index"), code=303)
