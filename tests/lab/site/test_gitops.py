"""The example repository: every file of it is accepted, it fits the lab, and its comments mean what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubehenge.cli import main
from kubehenge.lab.proxmox.nodes import GIB, NodeSize
from kubehenge.lab.proxmox.seed import BRIDGE, DISK_STORAGES, KUBEADM_VERSIONS
from kubehenge.lab.proxmox.sim import DEFAULT_NODES
from kubehenge.lab.site import find_example
from kubehenge.lab.story import FROM_VERSION, PATH, TO_VERSION
from kubehenge.model.cluster import ClusterDeclaration, WorkerPool
from kubehenge.model.distribution import Distribution
from kubehenge.model.document import Verdict
from kubehenge.model.site import ApprovalRules, SiteSettings
from kubehenge.source.judge import judge_file

EXAMPLE = find_example() or Path("gitops")
FILES = sorted(EXAMPLE.rglob("*.yaml"))


def judged(path: Path, content: bytes | None = None):
    return judge_file(str(path.relative_to(EXAMPLE)), path.read_bytes() if content is None else content)


def declared(kind: type):
    found = [document.declaration for path in FILES for document in judged(path)]
    return [one for one in found if isinstance(one, kind)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_of_the_example_is_accepted(path: Path) -> None:
    documents = judged(path)
    assert documents
    assert [document.verdict for document in documents] == [Verdict.ACCEPTED] * len(documents)
    assert [problem for document in documents for problem in document.problems] == []


def test_the_example_declares_clusters_of_every_distribution_one_site_and_its_rules() -> None:
    assert {cluster.version.distribution for cluster in declared(ClusterDeclaration)} == set(Distribution)
    assert len(declared(SiteSettings)) == len(declared(ApprovalRules)) == 1


def test_the_rules_that_are_commented_out_are_right_once_the_marks_are_taken_away() -> None:
    path = EXAMPLE / "approvals.yaml"
    text = path.read_text()
    head, marked = text.split("spec:\n")
    rules = judged(path, (head + "spec:\n" + marked.replace("  # ", "  ")).encode())
    assert rules[0].problems == ()
    assert isinstance(rules[0].declaration, ApprovalRules)
    assert [rule.name for rule in rules[0].declaration.rules] == ["production-rollouts"]


def machines_of(pools: tuple[WorkerPool, ...]):
    return [pool.machine for pool in pools for _ in range(pool.most_replicas)]


def test_the_example_fits_the_nodes_of_the_lab_with_room_for_an_upgrade() -> None:
    machines = [
        machine
        for cluster in declared(ClusterDeclaration)
        for machine in (*[cluster.control_plane_machine] * cluster.control_plane_replicas, *machines_of(cluster.pools))
    ]
    memory = sum(machine.memory_mib for machine in machines) * 1024**2
    assert memory <= (len(DEFAULT_NODES) - 1) * (NodeSize().memory - 4 * GIB), "with one node away everything still has room"


def test_the_example_uses_what_the_lab_has() -> None:
    for cluster in declared(ClusterDeclaration):
        assert cluster.storage in DISK_STORAGES
        assert cluster.network.bridge == BRIDGE
        if cluster.version.distribution is Distribution.KUBEADM:
            assert str(cluster.version) in KUBEADM_VERSIONS


def test_the_upgrade_of_the_story_is_one_that_the_example_can_take() -> None:
    path = EXAMPLE / PATH
    before = path.read_text()
    assert before.count(f"version: {FROM_VERSION}\n") == 1
    after = judged(path, before.replace(FROM_VERSION, TO_VERSION).encode())
    assert [document.verdict for document in after] == [Verdict.ACCEPTED]


def test_every_cluster_file_is_in_the_table_of_the_readme() -> None:
    readme = (EXAMPLE / "README.md").read_text()
    assert {path.name for path in FILES} == {path.name for path in FILES if str(path.relative_to(EXAMPLE)) in readme}


def test_kubehenge_validate_accepts_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["validate", str(EXAMPLE)])
    assert ended.value.code == 0, capsys.readouterr().out
