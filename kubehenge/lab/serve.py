"""Running a lab as a process of its own: from start to a signal, with its log."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import structlog

from kubehenge.lab.site import LabSite

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

log = structlog.get_logger()


async def serve(directory: Path, *, speed: float | None, gitops: Path | None, story: bool) -> None:
    """Run a lab until a signal ends it. Errors: UsageError when it cannot start."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, ended.set)
    site = LabSite(directory, speed=speed, gitops=gitops, story=story)
    await site.start()
    log.info("lab_started", directory=str(site.places.root), page=site.page_url)
    await ended.wait()
    await site.stop()
    log.info("lab_stopped", directory=str(site.places.root))
