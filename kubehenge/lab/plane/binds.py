"""
Decides where programs listen that cannot be told.

capmox and the k3s managers serve their webhooks on port 9443 of every address, and have no flag for it. So that all of them can run
beside each other, and beside another plane, and nothing listens beyond loopback, bind(2) of each manager is referred to us by the kernel
(seccomp's user notification, made by `launch.py`), and we bind the very socket to where we want it. A network namespace for each would
need root, and would cut the managers off from the servers on our loopback: workload clusters, the simulated Proxmox VE.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launch.py")
_RECEIVE, _ANSWER, _STILL_VALID = 0xC0502100, 0xC0182101, 0x40082102  # ioctls of seccomp's descriptor
_LET_IT = 1  # the call goes on as it was
_PIDFD_GETFD = 438  # on every machine
_ANSWER_WITHIN_S = 10
_PROBE = "import socket; s = socket.socket(socket.AF_INET6); s.bind(('::', 9443)); print(*s.getsockname()[:2])"
FIXED_PORT = 9443


@dataclass(frozen=True, slots=True)
class _Call:
    """A bind(2) that waits for us: of which thread, on which descriptor, with the address at `where`."""

    id: int
    thread: int
    descriptor: int
    where: int
    length: int


class BindKeeper:
    """
    Answers the bind(2) of the processes that were started with one of its channels, in a thread of its own.

    Shape: an address that stands for all becomes 127.0.0.1, ports are changed as `channel()` was told, and all else is let through.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[int, Mapping[int, int]]] = {}  # descriptor -> process, ports
        self._poll = select.poll()
        self._wake_end, wake = os.pipe()
        self._wake = os.fdopen(wake, "wb", buffering=0)
        self._poll.register(self._wake_end, select.POLLIN)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="binds", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def channel(self) -> Iterator[tuple[socket.socket, socket.socket]]:
        """Both ends of a channel: ours, and the one that the process inherits."""
        ours, theirs = socket.socketpair()
        ours.settimeout(_ANSWER_WITHIN_S)
        with ours, theirs:
            yield ours, theirs

    def keep(self, ours: socket.socket, pid: int, ports: Mapping[int, int]) -> None:
        """Take the descriptor that the process sends us. Errors: OSError when its kernel makes none."""
        data, descriptors, _, _ = socket.recv_fds(ours, 4, 1)
        code = struct.unpack("=i", data)[0] if data else errno.ECHILD
        if code or not descriptors:
            raise OSError(code, os.strerror(code))
        with self._lock:
            self._kept[descriptors[0]] = (pid, dict(ports))
        self._poll.register(descriptors[0], select.POLLIN)
        self._wake.write(b".")  # a poll that runs knows nothing of it

    def close(self) -> None:
        """End the thread; processes that still run may bind no more."""
        self._wake.close()
        self._thread.join(_ANSWER_WITHIN_S)

    # ---- in the thread

    def _run(self) -> None:
        while True:
            for descriptor, event in self._poll.poll():
                if descriptor == self._wake_end:
                    if not os.read(descriptor, 64):
                        self._end()
                        return
                elif event & select.POLLIN:
                    self._answer(descriptor)
                else:  # the process is gone
                    self._drop(descriptor)

    def _end(self) -> None:
        for descriptor in list(self._kept):
            self._drop(descriptor)
        os.close(self._wake_end)

    def _drop(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        with self._lock:
            del self._kept[descriptor]
        os.close(descriptor)

    def _answer(self, descriptor: int) -> None:
        call = _receive(descriptor)
        if call is None:
            return
        pid, ports = self._kept[descriptor]
        code, flags = 0, _LET_IT
        try:
            address = _read(call)
            fcntl.ioctl(descriptor, _STILL_VALID, struct.pack("=Q", call.id))  # or the memory was another process's
            place = _place(address, ports)
            if place is not None:
                _bind(pid, call.descriptor, *place)
                flags = 0
        except OSError as error:
            code, flags = -(error.errno or errno.EINVAL), 0
        with contextlib.suppress(OSError):  # it was killed meanwhile
            fcntl.ioctl(descriptor, _ANSWER, struct.pack("=QqiI", call.id, 0, code, flags))


def _receive(descriptor: int) -> _Call | None:
    notice = bytearray(80)
    try:
        fcntl.ioctl(descriptor, _RECEIVE, notice)
    except OSError:  # it was killed meanwhile
        return None
    number, thread, _, _, _, _, *arguments = struct.unpack("=QIIiIQ6Q", notice)
    return _Call(id=number, thread=thread, descriptor=arguments[0], where=arguments[1], length=arguments[2])


def _read(call: _Call) -> bytes:
    with Path(f"/proc/{call.thread}/mem").open("rb", buffering=0) as memory:
        memory.seek(call.where)
        return memory.read(min(call.length, 128))


def _place(address: bytes, ports: Mapping[int, int]) -> tuple[int, str, int] | None:
    """Return the family, the address and the port to bind to instead, None for leaving it as it is."""
    family = struct.unpack_from("=H", address)[0]
    if family == socket.AF_INET:
        port, host = struct.unpack_from("!H4s", address, 2)
    elif family == socket.AF_INET6:
        port, _, host = struct.unpack_from("!HI16s", address, 2)
    else:
        return None
    if any(host) and port not in ports:
        return None
    return family, "127.0.0.1" if family == socket.AF_INET else "::ffff:127.0.0.1", ports.get(port, port)


def _bind(pid: int, descriptor: int, family: int, host: str, port: int) -> None:
    """Bind another process's socket."""
    process = os.pidfd_open(pid)
    try:
        ours = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, process, descriptor, 0)
        if ours < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(process)
    with socket.socket(family, socket.SOCK_STREAM, fileno=ours) as theirs:
        theirs.bind((host, port))


def can_keep() -> bool:
    """Whether this system lets us: tried on a process that binds a port which is then another."""
    if sys.platform != "linux" or platform.machine() not in {"x86_64", "aarch64"}:
        return False
    keeper = BindKeeper()
    try:
        return _tries(keeper, free_ports(1)[0])
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        keeper.close()


def _tries(keeper: BindKeeper, wanted: int) -> bool:
    python = [sys.executable, "-I", "-S"]
    with keeper.channel() as (ours, theirs):
        process = subprocess.Popen(
            [*python, str(LAUNCHER), str(os.getpid()), str(theirs.fileno()), "python", *python, "-c", _PROBE],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        try:
            theirs.close()
            keeper.keep(ours, process.pid, {FIXED_PORT: wanted})
            return process.communicate(timeout=_ANSWER_WITHIN_S)[0] == f"::ffff:127.0.0.1 {wanted}\n".encode()
        finally:
            process.kill()
            process.communicate()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now, each another."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
