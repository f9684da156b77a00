"""Upgrade windows: the table of the cases, nights when the clock changes, and what always holds."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubehenge.model.window import UpgradeWindow, Weekday, find_opening, is_open, minutes_left, next_opening
from tests.source.cases import rows

CASES = rows("windows.tsv")


def window_of(case):
    settings = {}
    if case["weekdays"]:
        settings["weekdays"] = frozenset(Weekday(day) for day in case["weekdays"].split(","))
    if case["monthDays"]:
        settings["month_days"] = frozenset(int(day) for day in case["monthDays"].split(","))
    if case["start"]:
        settings["start"] = time.fromisoformat(case["start"])
    if case["durationMinutes"]:
        settings["duration_minutes"] = int(case["durationMinutes"])
    if case["timeZone"]:
        settings["time_zone"] = case["timeZone"]
    return UpgradeWindow(**settings)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_window_is_open_as_the_table_says(case):
    assert is_open(window_of(case), datetime.fromisoformat(case["instant"])) == (case["open"] == "yes"), case["why"]


def test_table_of_windows_is_complete():
    assert len(CASES) == 18


def at(text):
    return datetime.fromisoformat(text)


BERLIN = UpgradeWindow(start=time(2, 30), duration_minutes=60, time_zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("window", "day", "opens", "closes"),
    [
        pytest.param(
            BERLIN,
            "2026-03-29T00:00:00Z",
            "2026-03-29T01:30:00Z",
            "2026-03-29T02:30:00Z",
            id="a start that the clock skips: 03:30, by the offset before",
        ),
        pytest.param(
            BERLIN,
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:30:00Z",
            id="a start that comes twice: the first, and once only",
        ),
        pytest.param(
            UpgradeWindow(start=time(1, 0), duration_minutes=240, time_zone="Europe/Berlin"),
            "2026-03-28T12:00:00Z",
            "2026-03-29T00:00:00Z",
            "2026-03-29T04:00:00Z",
            id="four hours across the skipped hour are four hours, until 06:00 on the clock",
        ),
        pytest.param(
            UpgradeWindow(start=time(1, 0), duration_minutes=240, time_zone="Europe/Berlin"),
            "2026-10-24T12:00:00Z",
            "2026-10-24T23:00:00Z",
            "2026-10-25T03:00:00Z",
            id="four hours across the doubled hour are four hours, until 04:00 on the clock",
        ),
        pytest.param(
            UpgradeWindow(start=time(2, 0), duration_minutes=30, time_zone="Australia/Lord_Howe"),
            "2026-10-03T12:00:00Z",
            "2026-10-03T15:30:00Z",
            "2026-10-03T16:00:00Z",
            id="a clock that skips half an hour",
        ),
    ],
)
def test_on_nights_when_the_clock_changes(window, day, opens, closes):
    opening = next_opening(window, at(day))
    assert (opening.opens_at, opening.closes_at) == (at(opens), at(closes))


def test_a_doubled_start_opens_the_window_once():
    first, second = at("2026-10-25T00:30:00Z"), at("2026-10-25T01:30:00Z")
    assert is_open(BERLIN, first)
    assert not is_open(BERLIN, second)


def test_a_day_long_window_reaches_into_the_second_day_when_the_clock_goes_forward():
    window = UpgradeWindow(weekdays=frozenset({Weekday.SAT}), start=time(23, 30), duration_minutes=1440, time_zone="Europe/Berlin")
    assert is_open(window, at("2026-03-30T00:15:00+02:00"))
    assert not is_open(window, at("2026-03-30T00:30:00+02:00"))


def test_next_opening_of_the_31st_skips_short_months():
    window = UpgradeWindow(month_days=frozenset({31}))
    assert next_opening(window, at("2026-08-31T03:00:00Z")).opens_at == at("2026-10-31T02:00:00Z")


def test_minutes_left_counts_down_to_the_end():
    window = UpgradeWindow(start=time(23, 0), duration_minutes=120)
    assert minutes_left(window, at("2026-10-01T23:00:00Z")) == 120
    assert minutes_left(window, at("2026-10-02T00:29:30Z")) == 30
    assert minutes_left(window, at("2026-10-02T01:00:00Z")) == 0


windows = st.builds(
    UpgradeWindow,
    weekdays=st.frozensets(st.sampled_from(Weekday)),
    month_days=st.frozensets(st.integers(1, 31)),
    start=st.builds(time, st.integers(0, 23), st.integers(0, 59)),
    duration_minutes=st.integers(1, 48).map(lambda halves: halves * 30),
    time_zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"]),
)
instants = st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis wants naive bounds


@given(windows, instants)
def test_a_window_is_open_exactly_inside_an_opening(window, instant):
    opening = find_opening(window, instant)
    assert is_open(window, instant) == (opening is not None)
    if opening is not None:
        assert opening.opens_at <= instant < opening.closes_at
        assert opening.closes_at - opening.opens_at == timedelta(minutes=window.duration_minutes)


@given(windows, instants)
def test_the_next_opening_comes_after_and_none_lies_between(window, instant):
    following = next_opening(window, instant)
    assert following.opens_at > instant
    assert is_open(window, following.opens_at)
    if find_opening(window, instant) is None:
        assert not is_open(window, instant + (following.opens_at - instant) / 2)
