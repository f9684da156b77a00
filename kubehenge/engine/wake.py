"""Waking loops, across threads and processes: a datagram on a local socket, which may be lost without harm (MODEL 23)."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

NAMES = ("watch", "tick", "apply")


class Bell:
    """Wakes loops of this process; `rung` waits for one."""

    def __init__(self) -> None:
        self._events = {name: threading.Event() for name in NAMES}
        self._rung = {name: threading.Event() for name in NAMES}

    def ring(self, name: str) -> None:
        """Wake a loop now."""
        self._rung[name].set()
        self._events[name].set()

    def nudge(self, name: str) -> None:
        """Wake a loop that finds out itself what is new; for it nobody has rung."""
        self._events[name].set()

    def rung(self, name: str, timeout_s: float) -> bool:
        """Wait until a loop is woken or the time is over; tells whether somebody has rung."""
        self._events[name].wait(timeout_s)
        self._events[name].clear()
        rung = self._rung[name].is_set()
        self._rung[name].clear()
        return rung


def socket_path(state_dir: Path) -> Path:
    """Return the socket of the process that runs the loops."""
    return state_dir / "wake.sock"


@contextlib.contextmanager
def _address(path: Path) -> Iterator[str]:
    """Give a socket's path a form that is short enough for the kernel (107 bytes) however deep the state directory lies."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def wake(state_dir: Path, name: str) -> None:
    """Wake a loop of whichever process runs it; silent when none does, since every loop looks by itself soon."""
    with (
        contextlib.suppress(OSError),
        _address(socket_path(state_dir)) as address,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
    ):
        sender.setblocking(False)
        sender.sendto(name.encode(), address)


class Doorbell:
    """Listens on the socket and rings the bell."""

    def __init__(self, state_dir: Path, bell: Bell) -> None:
        self._path = socket_path(state_dir)
        self._bell = bell
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._path.unlink(missing_ok=True)
        with _address(self._path) as address:
            self._socket.bind(address)
        self._path.chmod(0o600)
        self._thread = threading.Thread(target=self._listen, name="doorbell", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            try:
                name = self._socket.recv(64).decode(errors="replace")
            except OSError:
                return
            if name == "":
                return
            if name in NAMES:
                self._bell.ring(name)

    def close(self) -> None:
        """Stop listening and take the socket away."""
        with (
            contextlib.suppress(OSError),
            _address(self._path) as address,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
        ):
            sender.sendto(b"", address)
        self._thread.join(timeout=2)
        self._socket.close()
        self._path.unlink(missing_ok=True)
