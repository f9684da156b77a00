"""A program is run within its limits, and nothing of it is left behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kubehenge.source.process import STDERR_KEPT_BYTES, ProcessTimeoutError, ProcessTooMuchError, run_bounded

ENV = {"PATH": os.environ["PATH"]}
STUBBORN = "trap '' TERM; sleep 300 & echo $! > {pid}; wait; sleep 300"


def gone(pid: int, deadline_s: float = 10) -> bool:
    """Say whether a process ends (or is a zombie that its new parent has not collected) before the deadline."""
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_output_errors_and_status_come_back():
    done = run_bounded(["sh", "-c", "cat; echo bad >&2; exit 3"], env=ENV, timeout_s=20, stdin=b"in", max_stdout_bytes=100)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"in", b"bad\n")


def test_large_input_and_output_do_not_block_each_other():
    sent = os.urandom(3_000_000)
    assert run_bounded(["cat"], env=ENV, timeout_s=30, stdin=sent, max_stdout_bytes=4_000_000).stdout == sent


def test_a_program_that_does_not_want_its_input_is_no_error():
    assert run_bounded(["true"], env=ENV, timeout_s=20, stdin=b"x" * 1_000_000, max_stdout_bytes=10).returncode == 0


def test_errors_are_kept_up_to_a_bound():
    done = run_bounded(["sh", "-c", "head -c 1000000 /dev/zero >&2"], env=ENV, timeout_s=20, max_stdout_bytes=10)
    assert len(done.stderr) == STDERR_KEPT_BYTES


def test_a_program_that_gives_out_too_much_is_ended():
    with pytest.raises(ProcessTooMuchError):
        run_bounded(["yes"], env=ENV, timeout_s=30, max_stdout_bytes=100_000)


def test_a_program_that_its_watcher_stops_is_ended():
    with pytest.raises(ProcessTooMuchError):
        run_bounded(["sleep", "300"], env=ENV, timeout_s=30, max_stdout_bytes=10, watch=lambda: False)


def test_a_program_whose_time_is_up_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    """Also when it ignores the polite signal."""
    monkeypatch.setattr("kubehenge.source.process._TERM_GRACE_S", 0.1)
    pid = tmp_path / "pid"
    with pytest.raises(ProcessTimeoutError):
        run_bounded(["sh", "-c", STUBBORN.format(pid=pid)], env=ENV, timeout_s=0.5, max_stdout_bytes=10)
    assert gone(int(pid.read_text()))


def test_a_program_that_closed_its_outputs_and_stays_is_ended():
    with pytest.raises(ProcessTimeoutError):
        run_bounded(["sh", "-c", "exec >&- 2>&-; sleep 300"], env=ENV, timeout_s=0.5, max_stdout_bytes=10)


def test_a_child_that_keeps_the_output_open_is_ended_too():
    with pytest.raises(ProcessTimeoutError):
        run_bounded(["sh", "-c", "sleep 300 & exit 0"], env=ENV, timeout_s=0.5, max_stdout_bytes=10)


def test_a_program_has_no_terminal_and_only_the_given_environment():
    done = run_bounded(["sh", "-c", "env | cut -d= -f1 | sort | tr '\n' ' '; tty"], env=ENV, timeout_s=20, max_stdout_bytes=1000)
    assert set(done.stdout.decode().split()) <= {"PATH", "PWD", "OLDPWD", "SHLVL", "_", "not", "a", "tty"}
