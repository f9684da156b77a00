"""Clocks."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from kubehenge.clock import Clock, SystemClock
from tests.fakes.clock import START, FakeClock


def test_the_system_clock_is_aware_and_in_utc() -> None:
    now = SystemClock().now()
    assert now.utcoffset() == timedelta(0)
    assert abs(now - datetime.now(UTC)) < timedelta(minutes=1)


def test_the_boot_clock_counts_sleep_and_does_not_step() -> None:
    clock = SystemClock()
    first = clock.boot()
    assert first >= time.clock_gettime(time.CLOCK_MONOTONIC) - 60
    assert clock.boot() >= first


def test_a_turned_clock_moves_both_and_a_set_one_only_what_people_read() -> None:
    clock: Clock = FakeClock()
    assert isinstance(clock, FakeClock)
    before = clock.boot()
    clock.forward(60)
    assert (clock.now(), clock.boot()) == (START + timedelta(seconds=60), before + 60)
    clock.step(-3600)
    assert (clock.now(), clock.boot()) == (START - timedelta(seconds=3540), before + 60)
    with pytest.raises(ValueError, match="backwards"):
        clock.forward(-1)
