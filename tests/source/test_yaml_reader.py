"""Reading files: limits, positions, faults, and any bytes at all (ACCEPTANCE 2.2)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubehenge.model.document import Verdict
from kubehenge.source import yaml_values
from kubehenge.source.judge import judge_file
from kubehenge.source.yaml_reader import SIZE_LIMIT, read_documents
from tests.source.cases import CASES, content
from tests.source.clusters import cluster, text

CASE_BYTES = [path.read_bytes() for path in sorted(CASES.glob("*.yaml"))]


def faults(data):
    return [(fault.line, fault.column, str(fault.kind)) for document in read_documents(data) for fault in document.faults]


def bomb(levels, width=10):
    lines = ["a0: &a0 [x, x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines).encode() + b"\n"


@pytest.mark.parametrize("parser", ["libyaml", "pure Python"])
@pytest.mark.parametrize(
    ("data", "place"),
    [
        pytest.param(b"a: \xff\n", (1, 4, "encoding"), id="a byte that is no UTF-8"),
        pytest.param(b"a: 1\nb: caf\xe9\n", (2, 7, "encoding"), id="Latin-1"),
        pytest.param("a: 1\n".encode("utf-16"), (1, 1, "encoding"), id="UTF-16"),
        pytest.param(b"a: 1\nb: \x00\n", (2, 4, "encoding"), id="NUL"),
        pytest.param(b"\x7fELF\x02\x01", (1, 1, "encoding"), id="a program"),
        pytest.param(b"a: 1\n# \x07\n", (2, 3, "encoding"), id="a bell in a comment"),
        pytest.param(b"a:\n\tb: 1\n", (2, 1, "syntax"), id="a tab"),
        pytest.param(b"a:\n  b: 1\n  \tc: 2\n", (3, 3, "syntax"), id="a tab behind spaces"),
        pytest.param(b"a: {{ .Values.x }}\n", (1, 4, "syntax"), id="a template where a value belongs"),
        pytest.param(b"{{- if .Values.x }}\na: 1\n{{- end }}\n", (1, 2, "syntax"), id="a file that begins with a template"),
        pytest.param(b"# c\n{{- if .Values.x }}\na: 1\n{{- end }}\n", (2, 1, "syntax"), id="a template that is a line"),
        pytest.param(b"a: b: c\n", (1, 5, "syntax"), id="two colons"),
        pytest.param(b"a: 1\na: 2\n", (2, 1, "duplicate"), id="a key twice"),
        pytest.param(b"a: {b: 1, c: 2, b: 3}\n", (1, 17, "duplicate"), id="a key twice between braces"),
        pytest.param(b'1: a\n"1": b\n', (2, 1, "duplicate"), id="two keys that become one"),
        pytest.param(b"yes: a\ntrue: b\n", (2, 1, "duplicate"), id="two booleans that become one key"),
        pytest.param(b"a: *b\n", (1, 4, "syntax"), id="an alias without an anchor"),
        pytest.param(b"a: &b {c: *b}\n", (1, 11, "aliases"), id="an anchor that holds itself"),
        pytest.param(bomb(9), (5, 15, "aliases"), id="aliases that explode"),
        pytest.param(b"a: " + b"[" * 51 + b"]" * 51, (1, 53, "depth"), id="too deep between brackets"),
        pytest.param(b"".join(b" " * n + b"a:\n" for n in range(60)), (51, 51, "depth"), id="too deep by indentation"),
        pytest.param(b"a: .inf\n", (1, 4, "type"), id="infinity"),
        pytest.param(b"a: 1\n...\nb: 2\n", (3, 1, "syntax"), id="what follows the end of a document"),
        pytest.param(b"a: 1\n--- b: 2\n", (2, 4, "syntax"), id="text behind a separator"),
        pytest.param(b'{"a": 1,}', (1, 9, "syntax"), id="JSON with a comma too many"),
        pytest.param(b"? [a]\n: b\n", (1, 3, "syntax"), id="a list as a key"),
        pytest.param(b"1.5: b\n", (1, 1, "syntax"), id="a key with a point"),
    ],
)
def test_fault_stands_where_it_is(data, place, parser, monkeypatch):
    if parser == "pure Python":
        monkeypatch.setattr(yaml_values, "_Parser", yaml_values.PythonParser)
    assert place in faults(data)


def test_aliases_count_by_what_they_repeat():
    assert faults(bomb(4)) == []
    assert [kind for _, _, kind in faults(bomb(5))] == ["aliases"]


def test_depth_counts_through_aliases():
    def nested(depth):
        return b"a: &a " + b"[" * 30 + b"]" * 30 + b"\nb: " + b"[" * depth + b"*a" + b"]" * depth + b"\n"

    assert faults(nested(19)) == []
    assert [kind for _, _, kind in faults(nested(20))] == ["depth"]


def test_a_file_may_have_one_mebibyte_and_no_more():
    filler = b"# " + b"x" * (SIZE_LIMIT - len(text(cluster())) - 3) + b"\n"
    (fits,) = judge_file("a.yaml", filler + text(cluster()))
    (too_large,) = judge_file("a.yaml", b"#" + filler + text(cluster()))
    assert fits.verdict is Verdict.ACCEPTED
    assert [(problem.kind, problem.line) for problem in too_large.problems] == [("size", 1)]


HOSTILE = {
    "aliases of aliases": bomb(40),
    "brackets": b"a: " + b"[" * 500_000,
    "braces": b"{" * 500_000,
    "anchors": b"&a " * 100_000,
    "dashes": b"- " * 300_000,
    "question marks": b"? " * 300_000,
    "one long word": b"a" * 1_000_000,
    "backslashes": b'"' + b"\\" * 500_000,
    "keys": b"".join(b"k%d: v\n" % n for n in range(30_000)),
    "duplicates": b"k: v\n" * 40_000,
    "variables": text(cluster(spec__topology__variables=[{"name": f"v{n}", "value": 1} for n in range(4_000)])),
    "the same variable": text(cluster(spec__topology__variables=[{"name": "v", "value": 1}] * 4_000)),
    "addresses": text(cluster(variables={"network__addresses": ["192.0.2.51"] * 20_000, "network__dnsServers": ["192.0.2.51"] * 4_000})),
    "worker pools": text(cluster(spec__topology__workers={"machineDeployments": [{"class": "worker", "name": "a"}] * 4_000})),
    "annotations": text(cluster(metadata__annotations={f"kubehenge.dev/a{n}": "x" for n in range(5_000)})),
    "nulls": text(cluster(metadata__annotations={f"a{n}": None for n in range(8_000)})),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_answered(data):
    assert judge_file("hostile.yaml", data)[0].verdict is not Verdict.ACCEPTED


def test_lines_are_counted_in_the_file():
    first, second = read_documents(b"# c\n---\na: 1\n---\n\nb: 1\nb: 2\n")
    assert (first.number, first.line, second.number, second.line) == (1, 3, 2, 5)
    assert [(fault.line, fault.path) for fault in second.faults] == [(7, ("b",))]


def test_a_broken_document_leaves_its_neighbours_alone():
    good, broken, other = read_documents(b"a: 1\n---\nb: [\n---\nc: 3\n")
    assert (good.value, broken.value, other.value) == ({"a": 1}, None, {"c": 3})
    assert broken.faults[0].line in {3, 4}


def test_empty_documents_are_left_out():
    assert read_documents(b"") == ()
    assert read_documents(b"# nothing\n---\n---\nnull\n---\n~\n") == ()


def test_a_merge_below_a_key_is_read_as_kubectl_reads_it_and_said():
    (document,) = read_documents(b"a: 1\n<<: {a: 2, b: 3}\n")
    assert document.value == {"a": 2, "b": 3}
    assert [(fault.line, str(fault.severity)) for fault in document.faults] == [(2, "warning")]


def test_marks_say_where_values_and_keys_stand_and_how_they_are_written():
    (document,) = read_documents(b"---\na:\n  - b: 1.30\n    c: *x\n".replace(b"*x", b"off"))
    marks = document.find_marks()
    number = marks["a", 0, "b"]
    assert (number.line, number.column, number.key_line, number.key_column, number.written) == (3, 8, 3, 5, "1.30")
    assert marks["a", 0, "c"].written == "off"


@given(st.binary(max_size=400))
@example(b"\xef\xbb\xbf")
@example(b"---\r\n---")
@example(b"\r")
@example(b"!!binary x: y")
@example(b"&a : *a")
@example(b"<<: <<\n")
@example(b"? - <<\n")
@example(b"- !\n- !!\n")
def test_no_bytes_break_the_reader(data):
    for document in judge_file("any.yaml", data):
        assert document.number >= 1
        assert all(problem.line >= 1 and problem.column >= 1 for problem in document.problems)


@given(
    st.sampled_from(CASE_BYTES),
    st.lists(st.tuples(st.integers(0, 1500), st.binary(max_size=6), st.integers(0, 30)), min_size=1, max_size=4),
)
def test_no_damage_to_a_real_file_breaks_the_judge(data, damages):
    for position, inserted, cut in damages:
        data = data[:position] + inserted + data[position + cut :]
    for document in judge_file("damaged.yaml", data):
        assert (document.verdict is Verdict.REFUSED) == bool(document.errors)
        assert (document.declaration is not None) == (document.verdict is Verdict.ACCEPTED)


@given(st.text(alphabet=" \n-:[]{},&*!|>'\"?#%@`\t\\a1", max_size=60))
def test_both_parsers_build_the_same(text):
    def read(parser):
        original = yaml_values._Parser
        yaml_values._Parser = parser
        try:
            return [(document.value, bool(document.faults)) for document in read_documents(text.encode())]
        finally:
            yaml_values._Parser = original

    ours, pure = read(yaml_values._Parser), read(yaml_values.PythonParser)
    if not any(faulty for _, faulty in ours + pure):
        assert ours == pure


def test_carriage_returns_of_the_case_are_still_there():
    assert b"\r\n" in content("03")
