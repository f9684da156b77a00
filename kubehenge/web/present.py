"""How values look to people: words to icons, instants to times, and numbers with their units."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from markupsafe import Markup, escape

from kubehenge.model.canon import MISSING, REF, is_ref
from kubehenge.model.plan import Bill
from kubehenge.store.reads.decision import Mark
from kubehenge.store.reads.runs import StepWord
from kubehenge.store.reads.visible import is_shared
from kubehenge.store.reads.words import ClusterWord, PlanWord, Tone
from kubehenge.store.rows import Verdict

LOOKS: Mapping[StrEnum, tuple[Tone, str]] = {
    ClusterWord.AVAILABLE: (Tone.GOOD, "ok"),
    ClusterWord.PROVISIONING: (Tone.INFO, "run"),
    ClusterWord.UPGRADING: (Tone.INFO, "run"),
    ClusterWord.RECONCILING: (Tone.INFO, "run"),
    ClusterWord.DELETING: (Tone.INFO, "run"),
    ClusterWord.FAILED: (Tone.BAD, "bad"),
    ClusterWord.LOOK: (Tone.WARN, "warn"),
    PlanWord.WAITING: (Tone.WARN, "wait"),
    PlanWord.APPROVED: (Tone.INFO, "approve"),
    PlanWord.RUNNING: (Tone.INFO, "run"),
    PlanWord.DONE: (Tone.GOOD, "ok"),
    PlanWord.FAILED: (Tone.BAD, "bad"),
    PlanWord.CANNOT_FINISH: (Tone.BAD, "bad"),
    PlanWord.HELD: (Tone.WARN, "wait"),
    PlanWord.SUPERSEDED: (Tone.OFF, "replaced"),
    PlanWord.STALE: (Tone.OFF, "replaced"),
    PlanWord.REJECTED: (Tone.WARN, "blocked"),
    PlanWord.RETRY: (Tone.WARN, "retry"),
    PlanWord.INTERRUPTED: (Tone.WARN, "stop"),
    PlanWord.UP_TO_DATE: (Tone.GOOD, "ok"),
    PlanWord.RUN_FAILED: (Tone.BAD, "bad"),
    StepWord.DONE: (Tone.GOOD, "ok"),
    StepWord.RUNNING: (Tone.INFO, "run"),
    StepWord.FAILED: (Tone.BAD, "bad"),
    StepWord.BLOCKED: (Tone.WARN, "blocked"),
    StepWord.NOT_STARTED: (Tone.OFF, "todo"),
    StepWord.UNKNOWN: (Tone.WARN, "unknown"),
    Verdict.ACCEPTED: (Tone.GOOD, "ok"),
    Verdict.REFUSED: (Tone.BAD, "bad"),
    Verdict.SKIPPED: (Tone.OFF, "off"),
    Mark.HOLDS: (Tone.GOOD, "ok"),
    Mark.WAITS: (Tone.WARN, "wait"),
    Mark.MISSING: (Tone.BAD, "blocked"),
}
"""The tone and the icon of each word; state is never colour alone."""

TONE_ICONS: Mapping[Tone, str] = {Tone.GOOD: "ok", Tone.INFO: "run", Tone.WARN: "warn", Tone.BAD: "bad", Tone.OFF: "off"}

LONGEST_VALUE = 300
"""Characters of a value that a page shows; its JSON has all of it."""


@dataclass(frozen=True, slots=True)
class Times:
    """Instants as people of one time zone read them, against one moment taken as now."""

    zone: tzinfo
    now: datetime

    def when(self, instant: datetime | None) -> str:
        """Return `14:06` for today and `2026-11-24 14:00` otherwise."""
        if instant is None:
            return "–"
        local = instant.astimezone(self.zone)
        return f"{local:%H:%M}" if local.date() == self.now.astimezone(self.zone).date() else f"{local:%Y-%m-%d %H:%M}"

    def exactly(self, instant: datetime | None) -> str:
        """Return the same with seconds."""
        if instant is None:
            return "–"
        local = instant.astimezone(self.zone)
        return f"{local:%H:%M:%S}" if local.date() == self.now.astimezone(self.zone).date() else f"{local:%Y-%m-%d %H:%M:%S}"

    def text(self, text: str) -> str:
        """Return an instant that is kept as text like one that is not; what is none stays as it is."""
        try:
            instant = datetime.fromisoformat(text)
        except ValueError:
            return text or "–"
        return self.exactly(instant) if instant.tzinfo else text

    def age(self, text: str) -> str:
        """Return how long ago an instant kept as text was: `19 d`, `3 h`, `12 min`."""
        try:
            return span(self.now - datetime.fromisoformat(text))
        except (ValueError, TypeError):
            return "–"

    def ago(self, instant: datetime) -> str:
        """Return how long ago an instant was."""
        return f"{span(self.now - instant)} ago"

    def span(self, start: datetime, end: datetime) -> str:
        """Return how long something took."""
        return span(end - start)

    def midnight(self) -> datetime:
        """Return when today began."""
        return self.now.astimezone(self.zone).replace(hour=0, minute=0, second=0, microsecond=0)


def find_zone(name: str) -> tzinfo:
    """Return a time zone; UTC for a name that this machine does not know."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError):
        return ZoneInfo("UTC")


def span(length: timedelta) -> str:
    """Return a length of time in its two largest units: `1 h 12 min`, `34 s`."""
    seconds = max(0, int(length.total_seconds()))
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days} d" if days > 1 or not hours else f"1 d {hours} h"
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    if minutes:
        return f"{minutes} min"
    return f"{left} s" if left or not length else "under 1 s"


def gib(mib: float) -> str:
    """Return memory in GiB with at most one decimal."""
    text = f"{mib / 1024:,.1f}"
    return text.removesuffix(".0")


def value_text(value: Any) -> str:
    """Return a field's value as one line; a reference says what it comes from."""
    if value is MISSING:
        return ""
    if is_ref(value):
        target, _hash, field = str(value[REF]).rpartition("#")
        return f"{field} of {target}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def number(value: int) -> str:
    """Return a number with its thousands apart."""
    return f"{value:,}"


def counted(value: int, word: str, plural: str = "") -> str:
    """Return `1 node` or `3 nodes`."""
    return f"{value:,} {word if value == 1 else plural or word + 's'}"


def listed(items: Iterable[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    found = list(items)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}" if found else ""


def bill_text(bill: Bill) -> str:
    """Return a bill in a few words, for lists."""
    parts = []
    replaced = bill.control_planes_replaced + bill.workers_replaced
    if replaced:
        parts.append(counted(replaced, "node"))
    if bill.machines_added:
        parts.append(f"{counted(bill.machines_added, 'new VM')}")
    if bill.machines_removed:
        parts.append(f"{counted(bill.machines_removed, 'VM')} {'goes' if bill.machines_removed == 1 else 'go'}")
    if bill.addresses_needed:
        parts.append(counted(bill.addresses_needed, "address", "addresses"))
    if bill.memory_peak_mib > bill.memory_now_mib:
        parts.append(f"+{gib(bill.memory_peak_mib - bill.memory_now_mib)} GiB")
    return ", ".join(parts) or "in place"


def coded(text: str) -> Markup:
    """Return a text with what stands between backticks as code; everything is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts))


def author_name(author: str) -> str:
    """Return the name of a commit's author line without its address, as lists have room for; 'Kubehenge' for none."""
    return author.partition(" <")[0] or "Kubehenge"


_SHARED = {
    "site:settings": "site settings",
    "site:rules": "approval rules",
    "site:namespaces": "namespaces",
    "site:classes": "classes",
    "site:class-names": "class names",
    "site:providers": "providers",
    "site:vendor-patches": "vendor patches",
}


def scope_name(scope: str) -> str:
    """Return what people call a scope: a cluster by its name, what clusters share by what it is."""
    return _SHARED.get(scope, scope.replace(":", " "))


def has_bill(bill: Bill) -> bool:
    """Tell whether a plan needs or frees anything that its bill counts."""
    return bool(
        bill.addresses_needed
        or bill.memory_peak_mib != bill.memory_now_mib
        or bill.memory_after_mib != bill.memory_now_mib
        or bill.control_planes_replaced
        or bill.workers_replaced
        or bill.machines_added
        or bill.machines_removed
        or bill.quorum_steps
    )


def is_cluster(scope: str) -> bool:
    """Tell whether a scope names a cluster, and not what clusters share."""
    return "/" in scope and not is_shared(scope)


def percent(part: float, whole: float) -> int:
    """Return a share in whole percent, 0 to 100."""
    return 0 if whole <= 0 else max(0, min(100, round(100 * part / whole)))


FILTERS: Mapping[str, Callable[..., Any]] = {
    "gib": gib,
    "value": value_text,
    "number": number,
    "counted": counted,
    "listed": listed,
    "bill": bill_text,
    "has_bill": has_bill,
    "coded": coded,
    "author": author_name,
    "scope": scope_name,
}
