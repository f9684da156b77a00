"""Trees of files: which count, what the cache keeps, and ten broken files among a thousand (ACCEPTANCE 1.8)."""

from __future__ import annotations

import hashlib
import os

import pytest

from kubehenge.model.document import Verdict
from kubehenge.source.report import report_on
from kubehenge.source.tree import SourceFile, VerdictCache, judge_files, read_directory
from kubehenge.source.yaml_reader import SIZE_LIMIT
from tests.source.clusters import cluster, text


def numbered(index):
    first = 10 << 24 | 0x10000 | index * 16
    dotted = ".".join(str(first >> shift & 255) for shift in (24, 16, 8, 0))
    last = ".".join(str(first + 9 >> shift & 255) for shift in (24, 16, 8, 0))
    endpoint = ".".join(str(first + 10 >> shift & 255) for shift in (24, 16, 8, 0))
    network = {"bridge": "vmbr0", "addresses": [f"{dotted}-{last}"], "prefix": 9, "gateway": "10.0.0.1", "dnsServers": ["10.0.0.1"]}
    ranges = {"pods": {"cidrBlocks": ["172.16.0.0/16"]}, "services": {"cidrBlocks": ["172.17.0.0/16"]}}
    return cluster(
        metadata__name=f"c{index}", spec__clusterNetwork=ranges, variables={"network": network, "controlPlaneEndpoint": endpoint}
    )


def blob(content):
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


BROKEN = {
    "a tab": (lambda good: good.replace(b' "spec"', b'\t"spec"').replace(b"---\n", b"---\na:\n", 1), "", "syntax"),
    "a key twice": (lambda good: good.replace(b'"kind"', b'"metadata": {}, "kind"', 1), "metadata", "duplicate"),
    "an anchor bomb": (
        lambda _: b"a: &a [x, x]\n" + b"".join(b"%c: &%c [%s]\n" % (n, n, b", ".join([b"*%c" % (n - 1)] * 9)) for n in range(98, 110)),
        "",
        "aliases",
    ),
    "a wrong type": (lambda good: good.replace(b'"replicas": 3', b'"replicas": "3"', 1), "spec.topology.controlPlane.replicas", "type"),
    "an unknown class": (lambda good: good.replace(b'"kubehenge-rke2"', b'"kubehenge-rke3"'), "spec.topology.classRef.name", "unknown"),
    "overlapping addresses": (lambda good: good.replace(b"10.1.0.", b"10.1.6."), "variables.network.addresses[0]", "overlap"),
    "no UTF-8": (lambda good: good.replace(b"shared", b"sh\xe4red"), "", "encoding"),
    "too deep": (lambda good: good.replace(b'"kind"', b'"x": ' + b"[" * 60 + b"]" * 60 + b', "kind"', 1), "", "depth"),
    "a template": (lambda good: good.replace(b'"c8"', b'"${NAME}"'), "metadata.name", "template"),
    "encrypted": (lambda good: good.replace(b'"kind"', b'"sops": {"mac": "ENC[x]"}, "kind"', 1), "sops", "encrypted"),
}


def test_ten_broken_files_leave_the_other_990_alone():
    files = [SourceFile(f"clusters/c{index}.yaml", "", text(numbered(index))) for index in range(1000)]
    broken = {}
    for index, (breaking, field, kind) in enumerate(BROKEN.values()):
        content = breaking(files[index].content)
        assert content != files[index].content
        files[index] = files[index]._replace(content=content)
        broken[files[index].path] = (field, kind)
    report = report_on(files)
    refused = {document.path: document for document in report.documents if document.verdict is Verdict.REFUSED}
    assert set(refused) == set(broken), "only the broken ones are refused"
    assert sum(document.verdict is Verdict.ACCEPTED for document in report.documents) == 990
    for path, (field, kind) in broken.items():
        problems = {(problem.field, str(problem.kind)) for problem in refused[path].errors}
        assert (field, kind) in problems, path
        assert all(problem.path == path and problem.line >= 1 for problem in refused[path].errors)


def test_a_thousand_files_are_read_once_and_known_again_without_content():
    cache = VerdictCache()
    files = [SourceFile(f"c{index}.yaml", blob(text(numbered(index))), text(numbered(index))) for index in range(50)]
    first = cache.judge_files(files)
    assert cache.missing([file.blob_id for file in files]) == []
    assert cache.judge_files(file._replace(content=None) for file in files) == first


def test_a_known_blob_at_another_path_is_judged_there():
    cache = VerdictCache()
    content = text(cluster(metadata__name="X"))
    cache.judge_files([SourceFile("a.yaml", "1", content)])
    (moved,) = cache.judge_files([SourceFile("b/c.yaml", "1", None)])
    assert moved.path == "b/c.yaml"
    assert {problem.path for problem in moved.problems} == {"b/c.yaml"}


def test_the_cache_forgets_what_is_not_used_any_more():
    cache = VerdictCache()
    cache.judge_files([SourceFile("a.yaml", "1", text(cluster()))])
    cache.judge_files([SourceFile("a.yaml", "2", text(cluster()))])
    assert cache.missing(["1", "2"]) == ["1"]


def test_a_file_that_could_not_be_had_is_refused_and_not_gone():
    (document,) = judge_files([SourceFile("a.yaml", "1", None, "It is kept in Git LFS.")])
    assert document.verdict is Verdict.REFUSED
    assert [(problem.kind, problem.message) for problem in document.problems] == [("unreadable", "It is kept in Git LFS.")]


def test_documents_come_in_the_order_of_paths():
    files = [SourceFile(path, "", text(cluster())) for path in ("b.yaml", "a/z.yaml", "a.yaml")]
    assert [document.path for document in judge_files(files)] == ["a.yaml", "a/z.yaml", "b.yaml"]


@pytest.fixture
def tree(tmp_path):
    for path in ("a.yaml", "b.yml", "sub/c.yaml", ".hidden.yaml", ".git/d.yaml", "README.md", "e.yaml.bak", "UPPER.YAML"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text(cluster()))
    return tmp_path


def test_yaml_files_count_and_hidden_ones_do_not(tree):
    found = read_directory(tree)
    assert [file.path for file in found.files] == ["a.yaml", "b.yml", "sub/c.yaml"]
    assert {item.path for item in found.ignored} == {".hidden.yaml", ".git", "README.md", "e.yaml.bak", "UPPER.YAML"}
    assert all(item.reason.endswith(".") for item in found.ignored)


def test_links_are_not_followed(tree):
    (tree / "link.yaml").symlink_to(tree / "a.yaml")
    (tree / "loop").symlink_to(tree)
    found = read_directory(tree)
    assert {item.path for item in found.ignored if "link" in item.reason} == {"link.yaml", "loop"}
    assert len(found.files) == 3


def test_a_pipe_does_not_hold_the_reader(tree):
    os.mkfifo(tree / "pipe.yaml")
    assert "pipe.yaml" in {item.path for item in read_directory(tree).ignored}


def test_a_file_of_50_megabytes_is_refused_unread(tree):
    with (tree / "large.yaml").open("wb") as file:
        file.truncate(50 * SIZE_LIMIT)
    (large,) = [file for file in read_directory(tree).files if file.path == "large.yaml"]
    assert large.content is None
    assert "50.0 MiB" in large.unread
    (document,) = judge_files([large])
    assert [problem.kind for problem in document.errors] == ["size"]


def test_a_name_that_is_no_utf_8_can_be_shown(tree):
    (tree / os.fsdecode(b"caf\xe9.yaml")).write_bytes(text(cluster()))
    assert "caf\\udce9.yaml" in {file.path for file in read_directory(tree).files}


def test_one_file_counts_whatever_its_name(tree):
    assert [file.path for file in read_directory(tree / "README.md").files] == ["README.md"]
