"""Runs one program with a time limit and an output limit, and leaves nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

STDERR_KEPT_BYTES = 64 * 1024
_CHUNK = 64 * 1024
_TERM_GRACE_S = 2.0
_KILL_GRACE_S = 1.0
_TERM_PAUSE_S = 0.02
_WATCH_INTERVAL_S = 0.2


class ProcessTimeoutError(Exception):
    """The program was ended since its time was up."""


class ProcessTooMuchError(Exception):
    """The program was ended since it gave out, or wrote, more than it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a program that ended by itself left: exit status (negative: the signal), output, and the first 64 KiB of its errors."""

    returncode: int
    stdout: bytes
    stderr: bytes


def run_bounded(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    timeout_s: float,
    cwd: Path | None = None,
    stdin: bytes = b"",
    max_stdout_bytes: int,
    pass_fds: Sequence[int] = (),
    watch: Callable[[], bool] | None = None,
) -> Finished:
    """
    Run a program in a session of its own and return what it left.

    `watch` is asked every 0.2 s whether the program may go on; False ends it.
    Errors: ProcessTimeoutError and ProcessTooMuchError, after the whole group has been ended; OSError when it cannot be started.
    """
    proc = start(argv, env=env, cwd=cwd, pass_fds=pass_fds)
    try:
        stdout, stderr = _exchange(proc, stdin, deadline=time.monotonic() + timeout_s, max_stdout_bytes=max_stdout_bytes, watch=watch)
    except BaseException:
        end_group(proc)
        raise
    finally:
        for stream in (proc.stdin, proc.stdout, proc.stderr):
            if stream is not None:
                stream.close()
    return Finished(returncode=proc.returncode, stdout=stdout, stderr=stderr)


def start(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None, pass_fds: Sequence[int] = (), stderr: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, so that it has no terminal and its whole group can be ended."""
    return subprocess.Popen(
        argv,
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        pass_fds=tuple(pass_fds),
        start_new_session=True,
    )


def end_group(proc: subprocess.Popen[bytes]) -> None:
    """
    End a program and all that it started: first by SIGTERM, so that it removes its own lock files, then by SIGKILL.

    The program is collected last: until then its id cannot become another group's. A killed process still stands for a moment
    after the signal; none of the group does any more on return, unless the kernel holds it for longer than a second.
    """
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.killpg(proc.pid, signal.SIGTERM)
        deadline = time.monotonic() + _TERM_GRACE_S
        while os.waitid(os.P_PID, proc.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None and time.monotonic() < deadline:
            time.sleep(_TERM_PAUSE_S)
        os.killpg(proc.pid, signal.SIGKILL)
    proc.wait()
    deadline = time.monotonic() + _KILL_GRACE_S
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(proc.pid, 0)  # only asks whether anyone of the group is there
            time.sleep(_TERM_PAUSE_S / 10)


def _exchange(
    proc: subprocess.Popen[bytes], stdin: bytes, *, deadline: float, max_stdout_bytes: int, watch: Callable[[], bool] | None
) -> tuple[bytes, bytes]:
    """Feed and drain a program until it has closed its outputs and ended."""
    assert proc.stdin is not None and proc.stdout is not None and proc.stderr is not None  # noqa: S101, PT018  (all are pipes)
    out, err, fed = bytearray(), bytearray(), memoryview(stdin)
    with selectors.DefaultSelector() as selector:
        selector.register(proc.stdout, selectors.EVENT_READ)
        selector.register(proc.stderr, selectors.EVENT_READ)
        if fed:
            os.set_blocking(proc.stdin.fileno(), False)
            selector.register(proc.stdin, selectors.EVENT_WRITE)
        else:
            proc.stdin.close()
        while selector.get_map():
            for key, _ in selector.select(_pause(deadline, watch)):
                if key.fileobj is proc.stdin:
                    fed = _feed(key.fd, fed)
                    if not fed:
                        selector.unregister(proc.stdin)
                        proc.stdin.close()
                    continue
                chunk = os.read(key.fd, _CHUNK)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is proc.stdout:
                    out += chunk
                else:
                    err += chunk[: STDERR_KEPT_BYTES - len(err)]
            if len(out) > max_stdout_bytes:
                raise ProcessTooMuchError
            _check(deadline, watch)
    _wait(proc, deadline)
    return bytes(out), bytes(err)


def _feed(fd: int, rest: memoryview) -> memoryview:
    try:
        return rest[os.write(fd, rest[:_CHUNK]) :]
    except BlockingIOError:
        return rest
    except BrokenPipeError:  # it does not want the rest; its exit status says why
        return rest[len(rest) :]


def _pause(deadline: float, watch: Callable[[], bool] | None) -> float:
    left = max(0.0, deadline - time.monotonic())
    return left if watch is None else min(left, _WATCH_INTERVAL_S)


def _check(deadline: float, watch: Callable[[], bool] | None) -> None:
    if time.monotonic() >= deadline:
        raise ProcessTimeoutError
    if watch is not None and not watch():
        raise ProcessTooMuchError


def _wait(proc: subprocess.Popen[bytes], deadline: float) -> None:
    """Wait for the end by a descriptor where the system has them: Popen.wait with a time limit sleeps for milliseconds at a time."""
    left = max(0.1, deadline - time.monotonic())
    try:
        end = os.pidfd_open(proc.pid)
    except (AttributeError, OSError):
        end = None
    if end is not None:
        try:
            if not select.select([end], [], [], left)[0]:
                raise ProcessTimeoutError
        finally:
            os.close(end)
    try:
        proc.wait(timeout=left)
    except subprocess.TimeoutExpired:
        raise ProcessTimeoutError from None
