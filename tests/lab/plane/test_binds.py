"""Programs listen where we want, whatever they ask for; programs here are Python, started as the plane starts its managers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kubehenge.lab.plane.binds import BindKeeper, can_keep, free_ports
from kubehenge.lab.plane.processes import PlaneError, Processes
from tests.fakes.lab import until

pytestmark = pytest.mark.skipif(not can_keep(), reason="this system does not let a process decide on another's bind(2)")

LISTEN = """
import socket, sys
family, host, port = getattr(socket, sys.argv[1]), sys.argv[2], int(sys.argv[3])
listener = socket.socket(family)
listener.bind((host, port))
listener.listen()
print(*listener.getsockname()[:2], flush=True)
listener.accept()
"""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    made.keeper = BindKeeper()
    try:
        yield made
    finally:
        made.stop_all(last=())
        made.keeper.close()


def listen(processes: Processes, name: str, family: str, host: str, port: int, moved: Mapping[int, int] | None) -> None:
    processes.start(
        name, Path(sys.executable), ["-I", "-S", "-c", LISTEN, family, host, str(port)], environment=dict(os.environ), moved=moved
    )


def said(tmp_path: Path, name: str) -> str:
    return until(lambda: (tmp_path / f"{name}.log").read_text(encoding="utf-8").strip())


def test_several_programs_with_the_same_fixed_port_listen_beside_each_other(processes: Processes, tmp_path: Path) -> None:
    ports = free_ports(3)
    for number, port in enumerate(ports):
        listen(processes, f"p{number}", "AF_INET6", "::", 9443, {9443: port})
    assert [said(tmp_path, f"p{number}") for number in range(3)] == [f"::ffff:127.0.0.1 {port}" for port in ports]
    for port in ports:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


@pytest.mark.parametrize(("family", "host"), [("AF_INET", "0.0.0.0"), ("AF_INET6", "::")])
def test_an_address_that_stands_for_all_becomes_loopback(processes: Processes, tmp_path: Path, family: str, host: str) -> None:
    port = free_ports(1)[0]
    listen(processes, "p", family, host, port, {})
    assert said(tmp_path, "p") == f"{'::ffff:' if family == 'AF_INET6' else ''}127.0.0.1 {port}"


def test_other_addresses_stay(processes: Processes, tmp_path: Path) -> None:
    port = free_ports(1)[0]
    listen(processes, "p", "AF_INET", "127.0.0.2", port, {9443: 1})
    assert said(tmp_path, "p") == f"127.0.0.2 {port}"


def test_a_port_that_is_taken_is_refused_as_ever(processes: Processes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen(processes, "p", "AF_INET", "0.0.0.0", 9443, {9443: taken.getsockname()[1]})
        with pytest.raises(PlaneError, match="Address already in use"):
            processes.wait("It never is", bool, within_s=20)


def test_a_program_that_ends_early_is_named_with_the_end_of_its_log(processes: Processes, tmp_path: Path) -> None:
    code = "print('no database'); raise SystemExit(3)"
    processes.start("etcd", Path(sys.executable), ["-I", "-S", "-c", code], environment=dict(os.environ))
    with pytest.raises(PlaneError, match=r"(?s)etcd ended with exit code 3.*no database"):
        processes.wait("It never is", bool, within_s=20)


def test_programs_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    code = f"""
import os, sys, time
from pathlib import Path
from kubehenge.lab.plane.processes import Processes
made = Processes(Path({str(tmp_path)!r}))
made.start("sleep", Path("/bin/sleep"), ["600"], environment=dict(os.environ))
print(made.pids["sleep"], flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout
    pid = int(parent.stdout.readline())
    until(lambda: Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip() == "sleep")
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    until(lambda: not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z")
