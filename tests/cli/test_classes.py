"""`kubehenge class`: which class each cluster runs, and moving one."""

from __future__ import annotations

import json
from collections.abc import Callable

from kubehenge.model.distribution import CLASS_NAMESPACE
from kubehenge.source.class_files import load_classes
from kubehenge.store.database import Database
from kubehenge.store.pins import aliases, pins_of
from tests.cli.conftest import Ended

Kh = Callable[..., Ended]

NEWEST = load_classes(CLASS_NAMESPACE)["rke2"].name
OLD = "kubehenge-rke2-0123456789"


def test_the_list_says_what_each_stands_on_and_whether_there_is_a_newer_one(kh: Kh, filled: Database) -> None:
    listed = json.loads(kh("class", "list", "-o", "json").out)
    assert listed == [
        {"on": "clusters/prod", "class": OLD, "newer": "yes"},
        {"on": "kubehenge-rke2", "class": OLD, "newer": "yes"},
    ]
    assert filled.where


def test_a_cluster_is_moved_by_its_name_and_a_plain_name_by_its_own(kh: Kh, filled: Database) -> None:
    moved = kh("class", "move", "prod")
    assert (moved.code, "replaces nodes and waits for approval" in moved.out) == (0, True)
    assert NEWEST in moved.out
    assert kh("class", "move", "kubehenge-rke2").code == 0
    with filled.read() as session:
        assert set(pins_of(session, [1]).values()) == {NEWEST}
        assert aliases(session, 1) == {"kubehenge-rke2": NEWEST}
    again = kh("class", "move", "clusters/prod")
    assert (again.code, "already" in again.out) == (0, True)
    assert "class_moved" in kh("get", "ledger", "-o", "json").out


def test_what_cannot_be_moved_is_said(kh: Kh, filled: Database) -> None:
    assert filled.where
    ended = kh("class", "move", "clusters/none")
    assert ended.code == 1
    assert "no declared cluster" in ended.err
    assert "There is no class" in kh("class", "move", "kubehenge-k3s-0000000000").err
