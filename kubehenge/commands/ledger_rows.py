"""The ledger as rows, and the check of its chain, for `get ledger`."""

from __future__ import annotations

from typing import Any

import click

from kubehenge.commands.opening import Reading
from kubehenge.errors import KubehengeError
from kubehenge.store.ledger import head, verify
from kubehenge.store.reads.ledger import LedgerFilter, ledger_page
from kubehenge.store.reads.visible import EVERYTHING


def ledger_rows(reading: Reading, *, who: str, about: str, limit: int) -> list[dict[str, Any]]:
    """Return entries that fit, the newest first."""
    found: list[dict[str, Any]] = []
    number = 1
    while True:
        page = ledger_page(reading.session, reading.site_id, EVERYTHING, LedgerFilter(who=who, text=about), number)
        found += [
            {
                "position": one.position,
                "at": one.at,
                "who": one.who,
                "event": one.event,
                "subject": one.subject,
                "facts": one.facts,
                "hash": one.hash,
            }
            for one in page.items
        ]
        if number >= page.pages or len(found) >= limit:
            return found[:limit]
        number += 1


def verify_ledger(reading: Reading) -> None:
    """Say that the chain holds. Errors: KubehengeError naming the first position at which it does not."""
    broken = verify(reading.session, reading.site_id)
    if broken is not None:
        raise KubehengeError(
            f"The ledger does not hold from position {broken.position} on: {broken.reason}. "
            "Someone wrote to the database beside Kubehenge; compare it with a backup."
        )
    newest = head(reading.session, reading.site_id)
    click.echo(f"The ledger holds: {newest.position} entries, the newest has hash {newest.hash}.")
