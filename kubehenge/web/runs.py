"""Runs: what is being carried out, or was."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, abort, request

from kubehenge.store.reads import runs as reads
from kubehenge.store.reads.clusters import find_cluster
from kubehenge.store.reads.machines import machines_of
from kubehenge.store.reads.runs import RunView, StepWord
from kubehenge.web.auth import caller, signed_in
from kubehenge.web.paths import page_number, query_of
from kubehenge.web.present import is_cluster
from kubehenge.web.shell import render
from kubehenge.web.stages import stages

routes = Blueprint("runs", __name__)

ALWAYS_SHOWN = (StepWord.DONE, StepWord.RUNNING, StepWord.FAILED, StepWord.BLOCKED, StepWord.NOT_STARTED)
GRAVEST_FIRST = (StepWord.FAILED, StepWord.UNKNOWN, StepWord.BLOCKED, StepWord.NOT_STARTED, StepWord.RUNNING, StepWord.DONE)


def the_run(run_id: int) -> RunView:
    """Return the run of an address, or answer that there is nothing here that one may see."""
    who = caller()
    found = reads.find_run(who.database, who.site.id, who.visible, run_id)
    if found is None:
        abort(404)
    return found


@routes.get("/runs")
@signed_in
def index() -> str:
    """List the runs, the newest first."""
    who = caller()
    return render("runs/index.html", page=reads.run_page(who.database, who.site.id, who.visible, page_number()), query=query_of())


@routes.get("/runs/<int:run_id>")
@signed_in
def show(run_id: int) -> str:
    """Show one run."""
    found = the_run(run_id)
    return render("runs/show.html", scope=found.line.scope if is_cluster(found.line.scope) else "", **run_context(found))


def run_context(found: RunView) -> dict[str, Any]:
    """Return what a run's page shows, for the page and its fragment alike."""
    who = caller()
    word = next((one for one in StepWord if one.value == request.args.get("word")), None)
    steps = reads.run_steps(who.database, found.line.id, page_number(), word=word)
    counts = found.line.counts
    rows = [(kind, sum(words.values()), 0, words) for kind, words in found.family_counts.items()]
    namespace, _slash, name = found.line.scope.partition("/")
    cluster = (
        find_cluster(who.database, who.site.id, who.visible, namespace, name)
        if is_cluster(found.line.scope) and found.line.is_open
        else None
    )
    return {
        "run": found,
        "line": found.line,
        "steps": steps,
        "word": word,
        "counts": [(one, counts.get(one, 0)) for one in StepWord if one in ALWAYS_SHOWN or counts.get(one)],
        "stages": stages(_in_order(rows, steps.items)),
        "log": reads.run_log(who.database, found.line.id, limit=60),
        "machines": machines_of(who.database, who.site.id, cluster.line.id) if cluster else (),
        "cluster": cluster,
        "query": query_of("word"),
        "done": progress(found)[0],
        "all": progress(found)[1],
        "said": progress(found)[2],
    }


def _in_order(rows: list[Any], steps: Any) -> list[Any]:
    first: dict[str, int] = {}
    for step in steps:
        first.setdefault(step.kind, step.position)
    return [(kind, count, first.get(kind, 10_000), words) for kind, count, _zero, words in rows]


def progress(found: RunView) -> tuple[int, int, str]:
    """Return how far a run is, of how much, and the same in words: nodes while a rollout waits on them, else actions."""
    line = found.line
    done = line.counts.get(StepWord.DONE, 0)
    actions = f"{done} of {line.actions} action{'' if line.actions == 1 else 's'} done"
    if not line.is_open or not line.waits_on:
        return done, line.actions, actions
    if not line.progress_all:
        return done, line.actions, f"{actions}, waits on {line.waits_on}"
    return line.progress_done, line.progress_all, line.waits_on


@routes.get("/runs/<int:run_id>/log")
@signed_in
def log(run_id: int) -> str:
    """Show the whole log of a run."""
    found = the_run(run_id)
    lines = reads.run_log(caller().database, run_id, limit=2000)
    return render("runs/log.html", scope=found.line.scope if is_cluster(found.line.scope) else "", run=found, line=found.line, log=lines)
