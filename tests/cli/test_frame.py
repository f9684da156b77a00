"""Every command: help that is quick, exit codes that are written down, errors as one message, output for people and programs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import yaml

from kubehenge.cli import kubehenge
from kubehenge.commands import reference
from kubehenge.commands.frame import Command, Group
from kubehenge.store.database import Database
from tests.cli.conftest import Ended

DOCS = Path(__file__).parents[2] / "docs" / "commands.md"
LEAVES = dict(reference.leaves(kubehenge))

Kh = Callable[..., Ended]


def test_the_documentation_holds_every_command_as_it_is() -> None:
    """To write the table anew: print(kubehenge.commands.reference.as_markdown(kubehenge.cli.kubehenge))."""
    assert reference.as_markdown(kubehenge) in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_explains_itself(kh: Kh, name: str) -> None:
    ended = kh(*name.split(), "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: kubehenge {name}")
    command = LEAVES[name]
    assert isinstance(command, Command)
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option) and not option.hidden)


def test_help_imports_nothing_that_is_slow() -> None:
    heavy = (
        "sqlalchemy",
        "pydantic",
        "rich",
        "flask",
        "kubernetes",
        "proxmoxer",
        "yaml",
        "alembic",
        "gunicorn",
        "structlog",
        "cryptography",
        "aiohttp",
    )
    program = (
        "import sys\nfrom kubehenge.cli import kubehenge\nfrom kubehenge.commands.frame import run\n"
        f"assert run(kubehenge, ['--help']) == 0\nprint(sorted(set({heavy!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.strip() == "[]"


def test_the_installed_command_ends_with_the_exit_code() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kubehenge.cli", "plan", "--nonsense"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "No such option" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"), [(["plan", "--nonsense"], 1), (["validate", "--nonsense"], 2), (["nonsense"], 1), (["get"], 1)]
)
def test_a_command_line_that_cannot_be_read_has_its_own_exit_code(kh: Kh, arguments: list[str], code: int) -> None:
    ended = kh(*arguments)
    assert ended.code == code
    assert "Usage: kubehenge" in ended.err


def test_an_error_of_ours_is_one_message_on_the_error_stream(kh: Kh) -> None:
    ended = kh("get", "clusters")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("kubehenge: There is no state database at ")
    assert "Traceback" not in ended.err


def test_a_wrong_setting_is_named(kh: Kh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEHENGE_LISTEN_PORT", "https")
    ended = kh("plans")
    assert ended.code == 1
    assert "KUBEHENGE_LISTEN_PORT" in ended.err


def test_a_mistake_of_ours_is_told_without_secrets(kh: Kh, filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError("with PVEAPIToken=kubehenge@pve!k=11111111-2222-3333-4444-555555555555")

    monkeypatch.setattr("kubehenge.store.reads.plans.plan_page", fail)
    ended = kh("plans")
    assert ended.code == 1
    assert "mistake of Kubehenge's own" in ended.err
    assert "ZeroDivisionError" in ended.err
    assert "11111111" not in ended.err


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_form_of_output_is_chosen_before_or_after_the_name(kh: Kh, filled: Database, place: str) -> None:
    ended = kh("-o", "json", "get", "clusters") if place == "before" else kh("get", "clusters", "-o", "json")
    assert json.loads(ended.out)[0]["scope"] == "clusters/prod"


@pytest.mark.parametrize(
    "arguments",
    [
        ["get", "clusters"],
        ["get", "resources"],
        ["get", "documents"],
        ["get", "sources"],
        ["get", "ledger"],
        ["plans", "--all"],
        ["plan"],
        ["show", "1"],
        ["runs"],
        ["runs", "1"],
        ["history", "clusters/prod"],
        ["history", "prod", "--at", "2025-03-10T09:00:00Z"],
        ["thaw"],
        ["settings"],
        ["settings", "--process"],
        ["source", "list"],
        ["sql", "SELECT * FROM v_plan"],
        ["sql", "--views"],
        ["doctor", "--local"],
    ],
    ids=" ".join,
)
def test_what_people_read_programs_can_read_too(kh: Kh, filled: Database, arguments: list[str]) -> None:
    as_json, as_yaml, as_table = kh(*arguments, "-o", "json"), kh(*arguments, "-o", "yaml"), kh(*arguments)
    assert as_json.code == as_yaml.code == as_table.code
    assert json.loads(as_json.out) == yaml.safe_load(as_yaml.out.replace("!!timestamp", "")) or arguments[0] == "doctor"
    assert as_table.out.strip()
    assert "\x1b" not in as_table.out
    assert not as_json.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["get", "clusters"],
        ["get", "documents"],
        ["get", "ledger"],
        ["plans"],
        ["plan"],
        ["runs"],
        ["source", "list"],
        ["thaw"],
        ["class", "list"],
    ],
)
def test_nothing_is_said_in_words_and_is_an_empty_list_for_programs(kh: Kh, filled: Database, arguments: list[str]) -> None:
    with filled.connect() as connection:
        for table in (
            "step",
            "run",
            "approval",
            "action",
            "plan",
            "version",
            "resource",
            "class_pin",
            "class_alias",
            "cluster",
            "document",
            "source",
            "ledger",
            "freeze",
        ):
            connection.exec_driver_sql(f'DELETE FROM "{table}"')
    ended = kh(*arguments)
    assert ended.code == 0
    assert ended.out.strip().endswith(".")
    assert json.loads(kh(*arguments, "-o", "json").out) == []


def test_colours_are_used_on_a_terminal_only_and_can_be_turned_off(filled: Database, tmp_path: Path) -> None:
    def on_terminal(*more: str) -> str:
        program = (
            "import os, pty, sys\n"
            f"os.environ['KUBEHENGE_STATE_DIR'] = {str(tmp_path / 'state')!r}\nos.environ['TERM'] = 'xterm-256color'\n"
            f"status = pty.spawn([sys.executable, '-m', 'kubehenge.cli', *{list(more)!r}, 'plans'])\nsys.exit(os.waitstatus_to_exitcode(status))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, stdin=subprocess.DEVNULL
        )
        return done.stdout

    assert "\x1b[" in on_terminal()
    plain = on_terminal("--no-color")
    assert "clusters/prod" in plain
    assert "\x1b[3" not in plain
    assert "\x1b[9" not in plain


def test_a_reader_who_has_had_enough_is_no_error(filled: Database, tmp_path: Path) -> None:
    program = f"KUBEHENGE_STATE_DIR={tmp_path / 'state'} {sys.executable} -m kubehenge.cli settings --process -o json | head -c 1"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_groups_list_their_commands_in_the_order_of_subjects() -> None:
    assert isinstance(kubehenge, Group)
    names = kubehenge.list_commands(click.Context(kubehenge))
    assert names.index("serve") < names.index("plan") < names.index("approve") < names.index("doctor")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_a_shell(kh: Kh, shell: str) -> None:
    assert "_KUBEHENGE_COMPLETE" in kh("completion", shell).out


def test_completion_completes_commands() -> None:
    environment = {"_KUBEHENGE_COMPLETE": "bash_complete", "COMP_WORDS": "kubehenge get cl", "COMP_CWORD": "2"}
    program = "from kubehenge.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert "clusters" in done.stdout
