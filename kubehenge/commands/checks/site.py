"""What `doctor` finds in the state database: its tables, who runs the loops, what was not read."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import text
from sqlalchemy.orm import Session

from kubehenge.clock import SystemClock
from kubehenge.drivers.findings import Finding
from kubehenge.settings import Settings
from kubehenge.store import migrate, versions
from kubehenge.store.database import Database
from kubehenge.store.reads import site as site_reads
from kubehenge.store.reads.sources import sources
from kubehenge.store.reads.standing import troubled
from kubehenge.store.reads.visible import EVERYTHING
from kubehenge.store.rows import CoverageState, SourceState
from kubehenge.store.ticks import last_tick
from kubehenge.wiring import LOCK_FILE

CLOCKS_MAY_DIFFER = timedelta(seconds=5)
MOST_CLUSTERS = 10
LOOPS = ("watch", "tick", "apply")


def database_state(database: Database) -> Iterator[Finding]:
    """Look at the tables, and at the clocks of both sides."""
    differences = migrate.check(database)
    yield Finding(
        what=f"database {database.where}",
        ok=not differences,
        detail="; ".join(differences) or f"version {versions.head()}, the newest, and its tables are as they should be",
        mend="Put back a backup, or make a new database: someone changed its tables." if differences else "",
    )
    if not database.is_sqlite:
        with database.read() as session:
            theirs: datetime = session.execute(text("SELECT clock_timestamp()")).scalar_one()
        away = abs(SystemClock().now() - theirs)
        ok = away <= CLOCKS_MAY_DIFFER
        mend = "" if ok else "Keep both machines' clocks by NTP: leases are judged by them."
        yield Finding(what="clock of the database", ok=ok, detail=f"{away.total_seconds():.1f} s from this machine's", mend=mend)


def loops(settings: Settings, database: Database) -> Iterator[Finding]:
    """Say who runs the loops, and whether they still do."""
    now = SystemClock().now()
    with database.read() as session:
        leases = {one.name: one for one in site_reads.leases(session)}
    held = {name: leases[f"{settings.site}/{name}"] for name in LOOPS if f"{settings.site}/{name}" in leases}
    alive = {name: one for name, one in held.items() if one.holder and one.expires_at > now}
    who = ", ".join(sorted({one.holder for one in alive.values()}))
    pid = _lock_holder(settings)
    if len(alive) == len(LOOPS):
        yield Finding(what="loops", ok=True, detail=f"run by {who}")
    else:
        idle = ", ".join(name for name in LOOPS if name not in alive)
        holder = f"; process {pid} holds {settings.state_dir / LOCK_FILE}" if pid else ""
        yield Finding(what="loops", ok=False, detail=f"not running: {idle}{holder}", mend="Start them with `kubehenge serve`.")


def _lock_holder(settings: Settings) -> str:
    """Return the process that holds the engine's lock, '' when none does."""
    path = settings.state_dir / LOCK_FILE
    try:
        with path.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return file.read().strip() or "unknown"
    except OSError:
        return ""
    return ""


def readings(settings: Settings, database: Database) -> Iterator[Finding]:
    """Say what the site did not read, keeps aside, or waits for a person to confirm."""
    with database.read() as session:
        found = site_reads.find_site(session, settings.site)
        if found is None:
            yield Finding(what=f"site {settings.site}", ok=False, detail="never read yet", mend="Start Kubehenge: `kubehenge serve`.")
            return
        if found.observing:
            yield Finding(
                what=f"site {found.name}", ok=False, detail=f"only observes: {found.mode_reason}", mend="Read why, then confirm it."
            )
        else:
            yield Finding(what=f"site {found.name}", ok=True, detail=f"acts; tick {last_tick(session, found.id)}")
        yield from _of_site(session, found.id)


def _of_site(session: Session, site_id: int) -> Iterator[Finding]:
    for tier in site_reads.readings(session, site_id):
        ok = tier.state is CoverageState.OK
        since = f"; read last {tier.read_at:%Y-%m-%d %H:%M:%S} UTC" if tier.read_at else "; never read"
        yield Finding(what=f"reading of {tier.tier}", ok=ok, detail="read" if ok else f"{tier.state}: {tier.reason}{since}")
    for one in site_reads.suspicions(session, site_id):
        yield Finding(
            what=f"reading of {one.kind}",
            ok=False,
            detail=f"{one.missing} things vanished at once and are kept aside since {one.opened_at:%Y-%m-%d %H:%M:%S} UTC",
            mend=f"If they are really gone, say so: kubehenge missing {one.kind}. If not, look at the token's rights.",
        )
    yield from _troubles(session, site_id)
    for source in sources(session, site_id, EVERYTHING):
        ok = source.state is SourceState.READ
        detail = (
            f"at {source.accepted_sha[:12]}, {source.documents} documents, {source.refused} refused"
            if ok
            else f"{source.state}: {source.reason}"
        )
        mend = f"kubehenge source accept {source.name}" if source.rewritten else ""
        yield Finding(what=f"source {source.name}", ok=ok, detail=detail, mend=mend)


def _troubles(session: Session, site_id: int) -> Iterator[Finding]:
    """Name the clusters that Cluster API cannot go on with; the first ones, since one cause may hit them all."""
    found = troubled(session, site_id, SystemClock().now())
    for scope, texts in found[:MOST_CLUSTERS]:
        yield Finding(what=f"cluster {scope}", ok=False, detail=" ".join(texts))
    if len(found) > MOST_CLUSTERS:
        yield Finding(what="clusters", ok=False, detail=f"{len(found) - MOST_CLUSTERS} more that Cluster API cannot go on with")
