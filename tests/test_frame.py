"""The project's frame: packages, targets, documentation, and what a clone may and may not hold."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PIN = re.compile(r"^([a-z0-9-]+)==([^ ;\\]+)(?: ; [^\\]*)? \\$", re.MULTILINE)
LAB_ONLY = {"fakepve", "aiohttp"}


def pins(name: str) -> set[tuple[str, str]]:
    return set(PIN.findall((ROOT / "requirements" / f"{name}.txt").read_text()))


def files() -> list[Path]:
    """The files of the repository, without what tools and people leave in it."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False, timeout=30)
    if done.returncode != 0:
        pytest.skip("NOT TESTED: what the repository holds, since this is no clone")
    return [path for name in done.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def modules() -> Iterator[Path]:
    return (ROOT / "kubehenge").rglob("*.py")


# ---- packages


@pytest.mark.parametrize("name", ["run", "all"])
def test_every_package_is_pinned_with_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    lines = text.splitlines()
    assert len(pins(name)) == len([line for line in lines if not line.startswith(" ")]) > 50
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in lines if line.startswith(" "))
    for number, line in enumerate(lines):
        assert line.startswith(" ") or lines[number + 1].startswith("    --hash="), line


def test_what_runs_is_a_part_of_what_is_tested() -> None:
    assert pins("run") < pins("all")


@pytest.mark.parametrize("name", ["run", "all"])
def test_the_pins_satisfy_the_project(name: str) -> None:
    extras = ["lab"] if name == "run" else list(PROJECT["project"]["optional-dependencies"])
    wanted = [*PROJECT["project"]["dependencies"], *(one for extra in extras for one in PROJECT["project"]["optional-dependencies"][extra])]
    pinned: dict[str, list[str]] = {}
    for package, version in pins(name):
        pinned.setdefault(package, []).append(version)
    for requirement in map(Requirement, wanted):
        versions = pinned.get(canonicalize_name(requirement.name), [])
        assert versions, f"{requirement} is not in requirements/{name}.txt: run `make requirements`"
        assert all(version in requirement.specifier for version in versions), requirement


def test_the_simulated_proxmox_ve_is_in_the_extra_lab_alone() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    holders = {extra for extra, wanted in extras.items() for one in wanted if Requirement(one).name in LAB_ONLY}
    assert holders == {"lab"}
    for path in modules():
        if path.is_relative_to(ROOT / "kubehenge" / "lab"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", None) or ""]
            assert isinstance(node, ast.Import | ast.ImportFrom) is False or not {name.split(".")[0] for name in names} & LAB_ONLY, path


def test_the_command_line_and_the_page_work_without_the_extra_lab() -> None:
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in sorted(LAB_ONLY))
    program = (
        f"import sys\n{blocked}import kubehenge.commands.page, kubehenge.commands.server\nfrom kubehenge.cli import main\nmain(['--help'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_the_extra_lab_its_command_says_what_to_install() -> None:
    program = (
        "import importlib.util, sys\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'fakepve' else find(name, *rest)\n"
        "from kubehenge.cli import main\nmain(['lab', 'up'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "kubehenge[lab]" in done.stderr


def test_the_wheel_holds_migrations_templates_and_the_example(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, pattern in (
        ("migrations", "**/*.py"),
        ("gitops", "**/*.yaml"),
        ("classes", "*/*.yaml"),
        ("kubehenge/web/templates", "**/*.html"),
    ):
        for path in (ROOT / folder).glob(pattern):
            inside = path.relative_to(ROOT).as_posix().removeprefix("kubehenge/")
            assert f"kubehenge/{inside}" in names


# ---- targets


def test_make_lists_every_target_with_what_it_does() -> None:
    done = subprocess.run(["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    listed = {line.split()[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines()}
    [declared] = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(listed) == set(declared.split())
    assert {"run", "test", "lint", "bench"} <= set(listed)


@pytest.mark.parametrize("script", [".ci/run", "requirements/install.sh", "requirements/compile.sh"])
def test_scripts_can_be_run_and_read(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    shell = path.read_text().splitlines()[0].rsplit("/", 1)[1].removeprefix("env ")
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"NOT TESTED: {script}, since there is no {shell} here")
    assert subprocess.run([program, "-n", str(path)], capture_output=True, check=False, timeout=30).stderr == b""


LANES_PROGRAM = """
import pytest

@pytest.mark.postgres
def test_that_cannot_run():
    pytest.skip("PostgreSQL lane NOT RUN: not installed")

@pytest.mark.browser
def test_that_runs():
    pass

def test_of_no_lane():
    pytest.skip("only root can do that")
"""


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_lane_that_did_not_run_is_named_at_the_end(tmp_path: Path, processes: str) -> None:
    (tmp_path / "test_lanes.py").write_text(LANES_PROGRAM)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, "-n", processes, "-p", "no:cacheprovider", str(tmp_path / "test_lanes.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"^postgres +NOT RUN: ", done.stdout, re.MULTILINE)
    assert re.search(r"^browser +1 tests ran", done.stdout, re.MULTILINE)
    assert "1 × PostgreSQL lane NOT RUN: not installed" in done.stdout
    assert "SKIPPED   1 × only root can do that" in done.stdout
    assert re.search(r"^LANES THAT DID NOT RUN: .*postgres", done.stdout, re.MULTILINE)


def test_tests_reach_this_machine_only() -> None:
    import socket

    from pytest_socket import SocketConnectBlockedError

    with socket.socket() as outward, pytest.raises((SocketConnectBlockedError, UserWarning)):
        outward.connect(("192.0.2.1", 443))


# ---- what it says


DOCS = sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "gitops" / "README.md", *DOCS], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_index_names_every_page_of_the_documentation() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [path.name for path in DOCS if path.parent == ROOT / "docs" and path.name != "index.md" and f"({path.name})" not in index] == []


def test_decisions_are_numbered_once_each() -> None:
    numbers = [path.name[:4] for path in DOCS if path.parent.name == "decisions" and path.name != "README.md"]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]


def test_every_module_says_its_job_in_its_first_line() -> None:
    silent = [str(path.relative_to(ROOT)) for path in modules() if path.read_text() and not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


# Written in pieces, so that this file does not hold what it looks for.
NEVER = re.compile(
    "|".join(
        ("/" + "work/", "py" + r"pi\.org", "python" + "hosted", r"registry\.np" + "mjs", r"proxy\.go" + "lang", r"deb\.deb" + r"ian\.org")
    )
)


def test_nothing_names_a_registry_or_the_machine_that_it_was_made_on() -> None:
    found = []
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in NEVER.finditer(text)]
    assert found == []
