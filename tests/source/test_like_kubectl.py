"""
A file means to Kubehenge what it means to `kubectl` (ACCEPTANCE 2.1).

Where the two differ it is because we refuse: duplicate keys, documents behind `...`, excessive aliases and depth.
"""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kubehenge.model.document import Severity
from kubehenge.source.yaml_reader import read_documents
from tests.source import kubectl

pytestmark = kubectl.needs_kubectl

WORDS = [
    "y",
    "Y",
    "n",
    "N",
    "yes",
    "Yes",
    "YES",
    "yEs",
    "no",
    "on",
    "On",
    "ON",
    "off",
    "OFF",
    "true",
    "True",
    "tRue",
    "null",
    "Null",
    "~",
    "",
]
NUMBERS = ["010", "0o10", "0O7", "0x10", "0b1", "-0b11", "1_000", "1__0", "_1", "08", "0_8", "1e3", "1.0", ".5", "-.5", "1_0.5", "1e400"]
TEXTS = ["02:00", "22:00", "1:30:00", "190:20:30", "2024-01-01", "2024-01-01T00:00:00Z", "0o9", "0b2", "0x", "1.2.3", "1e", "<<", "="]
LARGE = ["9223372036854775807", "9223372036854775808", "18446744073709551616", "-9223372036854775809", "0x8000000000000000", "1e20", "1e21"]
TAGGED = [
    "!!str 1",
    '!!int "1"',
    "!!float 1",
    "!!bool yes",
    "!!binary aGk=",
    "!foo 1",
    "! 1",
    "!!str ~",
    "!!str",
    "!foo",
    "!!timestamp 2024-01-01",
]
QUOTED = ['"off"', "'22:00'", '"010"', "'~'", '"a\\tb\\u00e9"', "'it''s'", '""']

known = st.sampled_from(WORDS + NUMBERS + TEXTS + LARGE + TAGGED + QUOTED)
numeric = st.text(alphabet="0123456789+-._eExXoObBaf", min_size=1, max_size=10).filter(
    lambda text: not text.startswith("-") or len(text) > 1
)
wordlike = st.text(alphabet="yYnNtTfFoOeErRuUlLaAsS", min_size=1, max_size=5)
plain = st.one_of(known, numeric.filter(lambda text: not text.startswith(("---", "..."))), wordlike)


def ours(text):
    documents = read_documents(text.encode())
    faults = [fault for document in documents for fault in document.faults if fault.severity is Severity.ERROR]
    return [document.value.get("data") for document in documents if document.value is not None], faults


def assert_same_reading(text):
    data, faults = ours(text)
    theirs = kubectl.read(text)
    assert bool(faults) == bool(theirs.refused), (faults, theirs)
    if not faults:
        assert kubectl.same(data, theirs.data), (data, theirs.data)


@settings(max_examples=10, deadline=None)
@given(st.lists(plain, min_size=40, max_size=40))
def test_scalars_mean_what_they_mean_to_kubectl(scalars):
    lines = "".join(f"  k{index}: {scalar}\n" for index, scalar in enumerate(scalars))
    items = "".join(f"    - {scalar}\n" for scalar in scalars)
    assert_same_reading(f"{kubectl.HEAD}data:\n{lines}  list:\n{items}")


@pytest.mark.parametrize(
    "scalar", [".inf", "-.INF", "+.inf", ".nan", "!!float .inf", "!!int abc", "!!bool 1", "!!null 5", '!!binary "x"', "!!int"]
)
def test_what_json_cannot_hold_is_refused_by_both(scalar):
    assert_same_reading(f"{kubectl.HEAD}data: {scalar}\n")


@settings(max_examples=8, deadline=None)
@given(st.lists(st.one_of(known, st.integers(-(2**63), 2**63 - 1).map(str)), min_size=20, max_size=20))
def test_keys_become_the_same_text(keys):
    texts = [key for key in keys if ours(f"{kubectl.HEAD}data:\n  {key}: x\n")[1] == []]
    distinct = {next(iter(ours(f"{kubectl.HEAD}data:\n  {key}: x\n")[0][0])): key for key in texts if key != "<<"}
    if distinct:
        assert_same_reading(f"{kubectl.HEAD}data:\n" + "".join(f"  {key}: x\n" for key in distinct.values()))


values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=12)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)),
    max_leaves=25,
)


@settings(max_examples=15, deadline=None)
@given(values, st.booleans(), st.sampled_from(["", '"', "'", "|", ">"]), st.integers(20, 120))
def test_generated_yaml_means_the_same_in_every_style(value, flow, style, width):
    text = kubectl.HEAD + yaml.safe_dump(
        {"data": value}, default_flow_style=flow, default_style=style or None, width=width, allow_unicode=True
    )
    if any(fault.kind == "encoding" for fault in ours(text)[1]):
        return  # the emitter leaves some characters raw that neither reader takes
    assert_same_reading(text)


@settings(max_examples=8, deadline=None)
@given(values)
def test_json_means_the_same(value):
    text = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": value}, ensure_ascii=False, indent=1)
    if any(fault.kind == "encoding" for fault in ours(text)[1]):
        return  # control characters in the clear: kubectl lets them pass in JSON, and we in neither
    assert_same_reading(text)


SNIPPETS = [
    'data:\n  a: 1\n  b: [x, "y", z]\n',
    "data:\n  - &a {k: v}\n  - *a\n  - <<: *a\n    c: 2\n",
    "data: |\n  text\n   more\n",
    "data: >-\n  a\n  b\n\n  c\n",
    'data: {a: b, "c": d, e: [f, {g: h}]}\n',
    "data:\n  ? x\n  : y\n",
    "data:\n- a\n- - b\n  - c\n-\n  d: e\n",
    'data: # c\n  a: b # d\n  c: "#no"\n',
    "data:\n  k: !!str 1\n  l: ! 2\n  m: !x 3\n",
]
INSERTED = [*" \n:-[]{},\"'#&*!|>?%@`~01axe_\t\\", "\r\n", "é", "  ", "- ", ": ", "\n  ", "---\n", "<<: ", "&a ", "*a "]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SNIPPETS), st.lists(st.tuples(st.integers(0, 60), st.sampled_from(INSERTED)), min_size=1, max_size=3))
def test_broken_yaml_is_never_read_otherwise_than_kubectl_reads_it(snippet, insertions):
    for position, inserted in insertions:
        snippet = snippet[:position] + inserted + snippet[position:]
    data, faults = ours(kubectl.HEAD + snippet)
    theirs = kubectl.read(kubectl.HEAD + snippet)
    if faults:
        assert theirs.refused or any(fault.kind in {"duplicate", "syntax"} for fault in faults)
    elif not theirs.refused:
        assert kubectl.same(data, theirs.data), (data, theirs.data)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{kubectl.HEAD}data: a\n---\n{kubectl.HEAD}data: b\n", id="two documents"),
        pytest.param(f"---\n---\n# nothing\n---\n{kubectl.HEAD}data: a\n---\n---\n", id="empty documents"),
        pytest.param(f"{kubectl.HEAD}data: a\n--- # comment\n{kubectl.HEAD}data: b\n", id="separator with a comment"),
        pytest.param(f"{kubectl.HEAD}data: a\n---   \r\n{kubectl.HEAD}data: b\n", id="separator with spaces and a carriage return"),
        pytest.param(f"{kubectl.HEAD}data: a\n--- x\n{kubectl.HEAD}data: b\n", id="text behind a separator"),
        pytest.param(f"{kubectl.HEAD}data: a\n----\n", id="four dashes"),
        pytest.param(f"\ufeff{kubectl.HEAD}data: a\n---\n\ufeff{kubectl.HEAD}data: b\n", id="byte order marks"),
        pytest.param(f"{kubectl.HEAD}data: |\n  a\n  b", id="block of text without a last line end"),
        pytest.param(f"{kubectl.HEAD}data: |\n  a\n---\n{kubectl.HEAD}data: b\n", id="block of text before a separator"),
        pytest.param((f"{kubectl.HEAD}data: |\n  a\n  b\n").replace("\n", "\r\n"), id="carriage returns in a block of text"),
        pytest.param(f"%YAML 1.1\n---\n{kubectl.HEAD}data: a\n", id="a directive"),
        pytest.param("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", id="a file that begins with a brace and is no JSON"),
        pytest.param(
            '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}\n{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}',
            id="two JSON objects",
        ),
        pytest.param("# c\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", id="braces behind a comment"),
        pytest.param(f"{kubectl.HEAD}data:\n  a: 1\n  <<: {{a: 2}}\n", id="a merge below the key it overrides"),
        pytest.param(f"{kubectl.HEAD}data:\n  <<: [{{a: 1}}, {{a: 2, b: 3}}]\n", id="a merge of a list"),
        pytest.param(f"{kubectl.HEAD}data:\n  <<: 1\n", id="a merge of what is no mapping"),
        pytest.param(f"{kubectl.HEAD}data: &x {{b: *x}}\n", id="an anchor that holds itself"),
        pytest.param(f"{kubectl.HEAD}data: [&x 1, &x 2, *x]\n", id="an anchor that is set anew"),
        pytest.param(f"{kubectl.HEAD}data:\n  ? [a]\n  : b\n", id="a list as a key"),
        pytest.param(f"{kubectl.HEAD}data:\n  ~: b\n", id="null as a key"),
        pytest.param(f"{kubectl.HEAD}data:\n  a:\tb\n  c: [1,\t2]\t# d\n", id="tabs between things"),
        pytest.param(f"{kubectl.HEAD}data:\n\ta: b\n", id="a tab in the indentation"),
    ],
)
def test_both_read_or_both_refuse(text):
    assert_same_reading(text)
