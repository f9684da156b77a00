"""
The server: gunicorn with one worker process that has threads, and the loops as threads beside them.

The first process holds the lock of the state directory and starts the worker again should it die; the worker opens the database,
since connections must not cross a fork.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import structlog
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger

from kubehenge import log, wiring
from kubehenge.commands.opening import open_settings, prepare_state_dir
from kubehenge.commands.page import make_page
from kubehenge.engine.loops import Loops
from kubehenge.errors import SettingsError
from kubehenge.settings import Settings
from kubehenge.wiring import Core

GRACE_S = 30
"""How long requests and passes may take to end when the server is told to stop."""

ORPHAN_ENDS_WITHIN_S = 15.0

STUCK_S = 120
"""A worker that gives no sign of life for so long is started again."""


def run_server(*, with_loops: bool, with_page: bool) -> None:
    """Serve until told to stop. Errors: SettingsError and DatabaseError, before anything is served."""
    settings = open_settings()
    log.configure(level=settings.log_level, form=settings.log_format)
    prepare_state_dir(settings)
    with ExitStack() as stack:
        core = wiring.open_core(settings)
        with closing(core.db):
            if with_loops:
                stack.enter_context(_lock(settings))
                wiring.drivers(core)  # what is not set is said now, not by a worker
        if with_page:
            gc.collect()
            gc.freeze()  # what was imported stays shared by both processes
            _Server(settings, _listen(settings), with_loops=with_loops).run()
        else:
            _run_loops(settings)


def _lock(settings: Settings) -> ExitStack:
    """
    Take the lock of the loops.

    A first process that was killed leaves its worker behind, which holds the lock for the moment until it notices.
    """
    deadline = time.monotonic() + ORPHAN_ENDS_WITHIN_S
    while True:
        lock = wiring.engine_lock(settings)
        stack = ExitStack()
        try:
            stack.enter_context(lock)
        except SettingsError:
            if time.monotonic() > deadline or _is_alive(settings.state_dir / wiring.LOCK_FILE):
                raise
            time.sleep(0.2)
        else:
            return stack


def _is_alive(lock_file: Path) -> bool:
    """Tell whether the process that a lock file names is there."""
    try:
        os.kill(int(lock_file.read_text(encoding="utf-8")), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def _listen(settings: Settings) -> socket.socket:
    """Open the page's socket, so that a port that is taken is one message and no traceback."""
    family = socket.AF_INET6 if ":" in settings.listen_address else socket.AF_INET
    try:
        return socket.create_server((settings.listen_address, settings.listen_port), family=family, backlog=512)
    except OSError as error:
        raise SettingsError(
            f"The page cannot listen on {settings.listen_address}, port {settings.listen_port}: {error.strerror}. "
            "Set KUBEHENGE_LISTEN_ADDRESS and KUBEHENGE_LISTEN_PORT to a free one."
        ) from None


def _run_loops(settings: Settings) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    core = wiring.open_core(settings)
    loops = wiring.make_loops(core)
    loops.start()
    structlog.get_logger().info("loops_started", site=settings.site)
    stop.wait()
    loops.stop(GRACE_S)
    core.db.close()


class _QuietLogger(Logger):  # type: ignore[misc]  # gunicorn carries no types
    """Gunicorn's own lines go where all others go; requests are not logged, since addresses say who looked at what."""

    def setup(self, cfg: Any) -> None:
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)
        self.error_log.handlers.clear()
        self.access_log.handlers.clear()
        self.access_log.propagate = False
        self.cfg = cfg

    def access(self, *_arguments: Any, **_more: Any) -> None:
        """Log nothing of a request."""


class _Server(BaseApplication):  # type: ignore[misc]  # gunicorn carries no types
    """Gunicorn, set up from our settings alone."""

    def __init__(self, settings: Settings, listener: socket.socket, *, with_loops: bool) -> None:
        self._settings = settings
        self._address, self._port = listener.getsockname()[:2]
        self._descriptor = listener.detach()  # gunicorn makes it its own, and closes it
        self._with_loops = with_loops
        self._core: Core | None = None
        self._loops: Loops | None = None
        super().__init__()

    def load_config(self) -> None:
        settings = self._settings
        given = {
            "bind": f"fd://{self._descriptor}",
            "worker_class": "gthread",
            "workers": 1,
            "threads": settings.threads,
            "timeout": STUCK_S,
            "graceful_timeout": GRACE_S,
            "logger_class": _QuietLogger,
            "loglevel": "warning",
            "certfile": str(settings.tls_cert_file) if settings.tls_cert_file else None,
            "keyfile": str(settings.tls_key_file) if settings.tls_key_file else None,
            "control_socket_disable": True,
            "when_ready": self._ready,
            "worker_exit": self._end_worker,
        }
        for name, value in given.items():
            if name in self.cfg.settings and value is not None:
                self.cfg.set(name, value)

    def load(self) -> Any:
        """Make the page and start the loops, in the worker."""
        self._core = wiring.open_core(self._settings)
        if self._with_loops:
            self._loops = wiring.make_loops(self._core)
            self._loops.start()
        return make_page(self._core, with_loops=self._with_loops)

    def _ready(self, _arbiter: Arbiter) -> None:
        settings = self._settings
        url = settings.page_url if settings.listen_port or settings.public_url else settings.page_url.replace(":0", f":{self._port}")
        structlog.get_logger().info("page_ready", url=url, address=self._address, port=self._port, loops=self._with_loops)

    def _end_worker(self, _arbiter: Arbiter, _worker: Any) -> None:
        if self._loops is not None:
            self._loops.stop(GRACE_S)
        if self._core is not None:
            self._core.db.close()
