"""Git sources, their documents and verdicts, and a rewritten history that waits for someone."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, abort, flash, make_response, redirect, request, url_for
from flask.typing import ResponseReturnValue

from kubehenge.store.reads import sources as reads
from kubehenge.store.reads.decision import AnswerKind
from kubehenge.store.reads.sources import SourceView
from kubehenge.web.auth import caller, signed_in
from kubehenge.web.paths import page_number, query_of
from kubehenge.web.permissions import Act, needed
from kubehenge.web.shell import render

routes = Blueprint("sources", __name__)

FIRST_DOCUMENTS = 20


@routes.get("/sources")
@signed_in
def index() -> str:
    """Show every source with its first documents, the refused ones before the others."""
    who = caller()
    found = reads.sources(who.database, who.site.id, who.visible)
    return render("sources/index.html", sources=[source_context(one) for one in found], needs=needed(Act.CHANGE_SITE, who.workload_pool))


def source_context(source: SourceView, *, number: int = 1, size: int = FIRST_DOCUMENTS) -> dict[str, Any]:
    """Return what a source's panel shows, for the page and its fragment alike."""
    return {"source": source, "page": reads.document_page(caller().database, source.id, caller().visible, number, size=size)}


def the_source(source_id: int) -> SourceView:
    """Return the source of an address, or answer that there is nothing here that one may see."""
    who = caller()
    found = reads.find_source(who.database, who.site.id, who.visible, source_id)
    if found is None:
        abort(404)
    return found


@routes.get("/sources/<int:source_id>")
@signed_in
def show(source_id: int) -> str:
    """Show all documents of one source."""
    found = the_source(source_id)
    return render("sources/show.html", **source_context(found, number=page_number(), size=100), query=query_of())


@routes.post("/sources/<int:source_id>/accept")
@signed_in
def accept(source_id: int) -> ResponseReturnValue:
    """Accept the new head of a source whose history was rewritten."""
    found, who = the_source(source_id), caller()
    who.require(needed(Act.CHANGE_SITE, who.workload_pool))
    answer = who.services.decisions.accept_rewritten(source_id, request.form.get("sha", ""), who.person)
    if answer.kind is AnswerKind.NOT_FOUND:
        abort(404)
    good = answer.kind in {AnswerKind.ACCEPTED, AnswerKind.ALREADY, AnswerKind.COUNTED}
    if good:
        flash(answer.message, "good")
        return redirect(url_for("sources.index"), code=303)
    flash(f"{found.name}: {answer.message}", "bad")
    return make_response(index(), 409 if answer.kind is AnswerKind.CONFLICT else 403)


@routes.post("/sources/read")
@signed_in
def read_now() -> ResponseReturnValue:
    """Have the sources read now."""
    who = caller()
    who.release()
    who.services.decisions.nudge()
    flash("The sources are read now.", "good")
    return redirect(url_for("sources.index"), code=303)
