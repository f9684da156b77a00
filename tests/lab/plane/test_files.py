"""A plane takes no directory that is not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubehenge.errors import UsageError
from kubehenge.lab.plane.plane import Plane
from kubehenge.lab.plane.programs import CACHE_VARIABLE, ProgramSet, cache_directory
from kubehenge.lab.plane.server import DESCRIPTION, PlaneFiles


def test_what_somebody_else_keeps_in_a_directory_stays(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all of it", encoding="utf-8")
    with pytest.raises(UsageError, match=r"holds what is not a plane's \(thesis.txt\)"):
        Plane(tmp_path, ProgramSet(tmp_path)).start()
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_what_an_earlier_plane_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "etcd").mkdir()
    (tmp_path / "etcd" / "member").touch()
    files = PlaneFiles(root=tmp_path)
    files.clear()
    assert list(files.etcd.iterdir()) == []
    files.release()


def test_a_plane_that_runs_is_left_alone(tmp_path: Path) -> None:
    first = PlaneFiles(root=tmp_path)
    first.clear()
    (tmp_path / DESCRIPTION).write_text("{}", encoding="utf-8")
    with pytest.raises(UsageError, match="A plane runs in"):
        Plane(tmp_path, ProgramSet(tmp_path)).start()
    assert (tmp_path / DESCRIPTION).exists()
    first.release()
    assert not (tmp_path / DESCRIPTION).exists()


def test_the_cache_is_where_a_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache_directory() == tmp_path / "caches" / "kubehenge" / "plane"
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "mine"))
    assert cache_directory() == tmp_path / "mine"
    with pytest.raises(UsageError, match="make plane"):
        ProgramSet.latest()
