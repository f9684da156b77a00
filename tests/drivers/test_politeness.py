"""The limiter of one target, on a clock that stands still until it is told to go (ACCEPTANCE 1.15)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubehenge.drivers.politeness import FORGOTTEN_TASK_S, LONGEST_ASKED_REST_S, Limits, Politeness
from kubehenge.errors import TransientError


class Time:
    """A clock that moves when it sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def sleep(self, secs: float) -> None:
        self.now += secs


def limiter(time: Time, limits: Limits | None = None, chance: Callable[[], float] = lambda: 0.5) -> Politeness:
    return Politeness("Proxmox VE", limits, clock=lambda: time.now, sleep=time.sleep, chance=chance)


@given(
    rate=st.floats(0.5, 200),
    burst=st.integers(1, 40),
    pauses=st.lists(st.floats(0, 5), max_size=120),
    window=st.floats(0.01, 20),
    troubles=st.sets(st.integers(0, 120)),
)
def test_no_window_holds_more_requests_than_the_rate_and_the_burst(
    rate: float, burst: int, pauses: list[float], window: float, troubles: set[int]
) -> None:
    time = Time()
    polite = limiter(time, Limits(requests_per_s=rate, burst=burst))
    sent = []
    for number, pause in enumerate(pauses):
        time.now += pause
        polite.turn(within_s=1e9)
        sent.append(time.now)
        if number in troubles:
            polite.troubled(too_many=True)
    for start in sent:
        inside = sum(start <= at < start + window for at in sent)
        assert inside <= burst + rate * window + 1e-6 + 1


def test_a_request_that_would_wait_too_long_is_not_sent_and_takes_no_turn() -> None:
    time = Time()
    polite = limiter(time, Limits(requests_per_s=1, burst=1))
    polite.turn(within_s=0)
    with pytest.raises(TransientError, match="the next request may go out in 1 s"):
        polite.turn(within_s=0.5)
    time.now += 1
    polite.turn(within_s=0)


def test_a_burst_of_trouble_makes_the_target_rest_and_single_trouble_does_not() -> None:
    time = Time()
    polite = limiter(time)
    polite.troubled()
    time.now += 30
    polite.troubled()
    polite.troubled()
    assert polite.resting_s == 0
    polite.troubled()
    assert polite.resting_s == pytest.approx(2.0)


def test_too_many_requests_is_enough_and_a_server_may_ask_for_more() -> None:
    time = Time()
    polite = limiter(time)
    polite.troubled(too_many=True, retry_after_s=20)
    assert polite.resting_s == pytest.approx(20)
    time.now += 1000
    polite.troubled(too_many=True, retry_after_s=86400)
    assert polite.resting_s == LONGEST_ASKED_REST_S


def test_rests_grow_with_each_burst_and_differ_by_chance() -> None:
    time = Time()
    polite = limiter(time)
    rests = []
    for _ in range(6):
        polite.troubled(too_many=True)
        rests.append(polite.resting_s)
        time.now += polite.resting_s + 1
    assert rests == sorted(rests)
    assert rests[0] < rests[2] < rests[-1] <= 30
    low, high = limiter(Time(), chance=lambda: 0.0), limiter(Time(), chance=lambda: 0.99)
    for polite in (low, high):
        polite.troubled(too_many=True)
    assert low.resting_s < high.resting_s


@given(
    troubles=st.lists(st.tuples(st.floats(0, 40), st.booleans(), st.floats(0, 1e6)), min_size=1, max_size=40), chance=st.floats(0, 0.999)
)
def test_it_is_back_at_full_rate_within_two_minutes(troubles: list[tuple[float, bool, float]], chance: float) -> None:
    time = Time()
    polite = limiter(time, Limits(requests_per_s=100, burst=5), chance=lambda: chance)
    for pause, too_many, asked in troubles:
        time.now += pause
        polite.troubled(too_many=too_many, retry_after_s=asked)
    time.now += 120
    start = time.now
    for _ in range(105):
        polite.turn(within_s=10)
    assert time.now - start <= 1.0 + 1e-6


def test_it_is_taken_up_again_slowly() -> None:
    time = Time()
    polite = limiter(time, Limits(requests_per_s=100, burst=100))
    polite.troubled(too_many=True)
    time.now += polite.resting_s
    start = time.now
    for _ in range(100):
        polite.turn(within_s=60)
    assert time.now - start > 4


def test_places_for_tasks_run_out_and_come_back() -> None:
    time = Time()
    polite = limiter(time, Limits(tasks=2))
    assert polite.claim_task("a")
    assert polite.claim_task("b")
    assert not polite.claim_task("c")
    assert polite.claim_task("a")  # its own again
    assert polite.claim_task("d", runs_already=True)  # it was started by an earlier process
    assert polite.tasks_running == 3
    polite.release_task("a")
    polite.release_task("d")
    polite.release_task("nobody")
    assert polite.claim_task("c")
    time.now += FORGOTTEN_TASK_S + 1
    assert polite.claim_task("e")
    assert polite.tasks_running == 1


@pytest.mark.parametrize("limits", [{"requests_per_s": 0}, {"burst": 0}, {"tasks": 0}])
def test_limits_that_allow_nothing_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Limits(**limits)


def test_an_infinite_rate_never_waits() -> None:
    time = Time()
    polite = limiter(time, Limits(requests_per_s=float("inf"), burst=1))
    for _ in range(1000):
        polite.turn(within_s=0)
    assert time.now == 1000.0
