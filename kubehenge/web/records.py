"""The ledger."""

from __future__ import annotations

from datetime import date, datetime, timedelta, tzinfo

from flask import Blueprint, request

from kubehenge.store.reads.ledger import LedgerFilter, ledger_events, ledger_page
from kubehenge.web.auth import caller, signed_in
from kubehenge.web.paths import page_number, query_of
from kubehenge.web.shell import render, times

routes = Blueprint("records", __name__)


@routes.get("/ledger")
@signed_in
def ledger() -> str:
    """List the entries, the newest first."""
    who = caller()
    zone = times(who).zone
    values = request.args
    until = _day(values.get("to", ""), zone)
    wanted = LedgerFilter(
        text=values.get("q", "").strip()[:100],
        who=values.get("who", "").strip()[:100],
        event=values.get("event", "")[:100],
        since=_day(values.get("from", ""), zone),
        until=until + timedelta(days=1) if until else None,
    )
    page = ledger_page(who.database, who.site.id, who.visible, wanted, page_number())
    return render(
        "records/ledger.html",
        page=page,
        wanted=wanted,
        events=ledger_events(who.database, who.site.id),
        query=query_of("q", "who", "event", "from", "to"),
    )


def _day(text: str, zone: tzinfo) -> datetime | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return datetime(day.year, day.month, day.day, tzinfo=zone)
