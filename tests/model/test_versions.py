"""Versions: their forms, and which step from one to another is allowed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubehenge.model.distribution import FACTS, Distribution
from kubehenge.model.versions import UpgradeAnswer, Version, find_version, judge_upgrade
from tests.source.cases import rows

CASES = rows("versions.tsv")
small = st.integers(0, 30)
versions = st.builds(
    lambda distribution, minor, patch, release: Version(
        distribution=distribution,
        major=1,
        minor=minor,
        patch=patch,
        release=release if FACTS[distribution].version_suffix else 0,
    ),
    st.sampled_from(Distribution),
    small,
    small,
    small,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_step_has_the_verdict_of_the_table(case):
    running, asked = find_version(case["running"]), find_version(case["asked"])
    assert running is not None
    assert asked is not None
    judgement = judge_upgrade(running, asked)
    assert judgement.answer == case["verdict"], judgement.reason
    assert case["asked"] in judgement.reason


def test_table_of_steps_is_complete():
    assert len(CASES) == 12


@pytest.mark.parametrize(
    "text",
    [
        "1.36.5",
        "v1.36",
        "v1.36.5-rc1",
        "v1.36.5+rke2",
        "v1.36.5+k3s",
        "v1.36.5+rke2r1 ",
        "v01.36.5",
        "v1.36.05",
        "v1.36.5+foo1",
        "",
        "v1.36.5\n",
    ],
)
def test_what_is_no_released_version_is_not_read(text):
    assert find_version(text) is None


@given(versions)
def test_a_version_is_written_as_it_is_read(version):
    assert find_version(str(version)) == version


@given(versions, versions)
def test_no_allowed_step_goes_back_skips_a_minor_version_or_changes_the_distribution(running, asked):
    if judge_upgrade(running, asked).answer is UpgradeAnswer.ALLOWED:
        assert asked.distribution is running.distribution
        assert asked.order > running.order
        assert asked.minor - running.minor in {0, 1}


@given(versions, versions)
def test_at_most_one_of_two_opposite_steps_is_allowed(one, other):
    answers = {judge_upgrade(one, other).answer, judge_upgrade(other, one).answer}
    assert answers in ({UpgradeAnswer.NOTHING_TO_DO}, {UpgradeAnswer.REFUSED}, {UpgradeAnswer.ALLOWED, UpgradeAnswer.REFUSED})
