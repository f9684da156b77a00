"""`python -m kubehenge.lab.child PROGRAM …`: becomes that program, which is told to end should its parent vanish (Linux)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # prctl(2)


def main(command: list[str], parent: int) -> None:
    """Ask the kernel for the signal, and become the program. Elsewhere than on Linux it only becomes the program."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it vanished before we asked
            return
    os.execv(command[0], command)  # noqa: S606 - no shell


if __name__ == "__main__":
    main(sys.argv[2:], int(sys.argv[1]))
