"""
Becomes a program of the plane: `launch.py PARENT CHANNEL ARGV0 PROGRAM …`, run as a file, with the standard library alone.

The program is killed should its parent vanish. With a CHANNEL (the number of an inherited Unix socket, -1 for none) its calls of
bind(2) are referred to whoever holds the other end, by a seccomp filter whose descriptor is sent there: see `binds.py`. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import socket
import struct
import sys

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38  # prctl(2)
_SET_MODE_FILTER, _NEW_LISTENER = 1, 1 << 3  # seccomp(2)
_ALLOW, _REFER = 0x7FFF0000, 0x7FC00000
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF

# By machine: its number in audit.h, and those of seccomp(2) and bind(2).
_NUMBERS = {"x86_64": (0xC000003E, 317, 49), "aarch64": (0xC00000B7, 277, 200)}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _filter(machine: int, bind: int) -> bytes:
    steps = (
        (_LOAD, 0, 0, 4),  # the machine, as one may speak for another
        (_JUMP_IF_EQUAL, 0, 3, machine),
        (_LOAD, 0, 0, 0),  # the call's number
        (_JUMP_IF_EQUAL, 0, 1, bind),
        (_RETURN, 0, 0, _REFER),
        (_RETURN, 0, 0, _ALLOW),
    )
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _refer_binds(channel: int) -> None:
    """Send the filter's descriptor through the channel; an OSError's number instead when there can be none."""
    libc = ctypes.CDLL(None, use_errno=True)
    machine, seccomp, bind = _NUMBERS[platform.machine()]
    code = _filter(machine, bind)
    program = _Program(len(code) // 8, code)
    with socket.socket(fileno=channel) as there:
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        listener = libc.syscall(seccomp, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(program))
        if listener < 0:
            there.send(struct.pack("=i", ctypes.get_errno()))
            return
        socket.send_fds(there, [struct.pack("=i", 0)], [listener])
        os.close(listener)


def main(parent: int, channel: int, argv0: str, command: list[str]) -> None:
    """Set the process up, and become the program."""
    # Not asked to end: an API server whose etcd went with it would never be done.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it vanished before we asked
        return
    if channel >= 0:
        _refer_binds(channel)
    os.execv(command[0], [argv0, *command[1:]])  # noqa: S606 - no shell


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
