"""How each tier was read: kept as stretches, and logged when it is another than before (MODEL 9)."""

from __future__ import annotations

from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from kubehenge.store import ticks
from kubehenge.store.rows import CoverageState

log = structlog.get_logger()


def cover(session: Session, site_id: int, tier: str, state: CoverageState, now: datetime, reason: str = "") -> None:
    """Record that a tier was read, or was not and why."""
    if not ticks.cover(session, site_id, tier, state, now, reason):
        return
    if state is CoverageState.OK:
        log.info("tier_read", tier=tier)
    else:
        log.warning("tier_not_read", tier=tier, state=state.value, reason=reason)
