"""The cache of `make plane`, with stand-ins for the compiler and for kubectl that write down what they were asked for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.plane import build, recipe

GO = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$1 $2" in
"env GOVERSION") echo "$GO_VERSION"; echo linux; echo amd64 ;;
"mod download") echo '{"Dir": "/module"}' ;;
build*)
    echo half > "$5"
    [ "$6" = "$FAILS" ] && { echo "cannot find package" >&2; exit 1; }
    chmod +x "$5" ;;
esac
"""
KUBECTL = """#!/bin/sh
echo '{"kind": "Deployment", "metadata": {"name": "x"}, "args": ["--gate=${X:=true}", "--none=${Y}"]}'
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the stand-ins were asked for."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("go", GO), ("kubectl", KUBECTL)):
        (tools / name).write_text(text, encoding="utf-8")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("GO_VERSION", "go1.26.8")
    monkeypatch.setenv("FAILS", "")
    return tmp_path / "calls"


def built(calls: Path) -> list[str]:
    """The packages that were built, and forget them."""
    found = [line.split()[-1] for line in calls.read_text(encoding="utf-8").splitlines() if line.startswith("build")]
    calls.write_text("", encoding="utf-8")
    return found


def test_a_set_is_built_once(calls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.missing(tmp_path / "cache").startswith("the plane is not built")
    build.build(tmp_path / "cache")
    assert built(calls) == [program.package for program in (*recipe.PROGRAMS, *recipe.TOOLS)]
    assert (tmp_path / "cache" / "tools" / "tofu").is_file()
    found = build.find_set(tmp_path / "cache")
    assert found
    assert build.missing(tmp_path / "cache") == ""
    for program in recipe.PROGRAMS:
        assert found.program(program.name).stat().st_mode & stat.S_IXUSR
    capsys.readouterr()
    build.build(tmp_path / "cache")
    assert built(calls) == []
    assert "nothing is to be done" in capsys.readouterr().out


def test_manifests_have_the_defaults_of_their_variables(calls: Path, tmp_path: Path) -> None:
    build.build(tmp_path / "cache")
    found = build.find_set(tmp_path / "cache")
    assert found
    assert found.manifest("capmox")[0]["args"] == ["--gate=true", "--none="]
    assert {one["kind"] for one in found.manifest("rke2")} == {"CustomResourceDefinition"}


def test_another_compiler_builds_all_anew(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build.build(tmp_path / "cache")
    built(calls)
    monkeypatch.setenv("GO_VERSION", "go1.27.1")
    build.build(tmp_path / "cache")
    assert len(built(calls)) == len(recipe.PROGRAMS) + len(recipe.TOOLS)
    found = build.find_set(tmp_path / "cache")
    assert found
    assert found.about["go"] == "go1.27.1 linux amd64"


def test_a_build_that_breaks_off_leaves_no_half_program_and_goes_on_later(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = recipe.PROGRAMS[2]
    monkeypatch.setenv("FAILS", third.package)
    with pytest.raises(build.BuildError, match="cannot find package"):
        build.build(tmp_path / "cache")
    left = [path.name.rpartition("-")[0] for path in (tmp_path / "cache" / "programs").iterdir()]
    assert sorted(left) == sorted(program.name for program in recipe.PROGRAMS[:2])
    assert build.find_set(tmp_path / "cache") is None
    built(calls)
    monkeypatch.setenv("FAILS", "")
    build.build(tmp_path / "cache")
    assert built(calls) == [program.package for program in (*recipe.PROGRAMS[2:], *recipe.TOOLS)]


def test_tools_may_be_left_out(calls: Path, tmp_path: Path) -> None:
    build.build(tmp_path / "cache", tools=False)
    assert built(calls) == [program.package for program in recipe.PROGRAMS]
    assert build.find_set(tmp_path / "cache")


def test_an_old_compiler_is_refused(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GO_VERSION", "go1.24.2")
    with pytest.raises(build.BuildError, match=r"needs Go 1\.26 or newer; here is go1\.24\.2"):
        build.build(tmp_path / "cache")


def test_only_exact_versions_are_pinned_and_no_registry_is_named() -> None:
    for wrapper in recipe.MODULES.iterdir():
        text = (wrapper / "go.mod").read_text(encoding="utf-8")
        assert "latest" not in text
        assert "://" not in text
        assert (wrapper / "go.sum").stat().st_size


def test_a_programs_digest_depends_on_all_that_it_is_made_from() -> None:
    first = recipe.PROGRAMS[0]
    others = [
        recipe.Program(name="other", wrapper=first.wrapper, package=first.package),
        recipe.Program(name=first.name, wrapper="capmox", package=first.package),
        recipe.Program(name=first.name, wrapper=first.wrapper, package=first.package, flags=("-X a=b",)),
    ]
    digests = {first.digest("go1"), first.digest("go2"), *(other.digest("go1") for other in others)}
    assert len(digests) == 5
