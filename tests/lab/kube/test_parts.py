"""Smaller parts: addresses, protobuf bodies, the work queue."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubehenge.lab.kube import protobuf
from kubehenge.lab.kube.capi import addresses
from kubehenge.lab.kube.capi.pace import Pace
from kubehenge.lab.kube.capi.workqueue import Retry, WorkQueue
from kubehenge.lab.kube.errors import ApiError


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["192.0.2.10-192.0.2.12"], ["192.0.2.10", "192.0.2.11", "192.0.2.12"]),
        (["192.0.2.60"], ["192.0.2.60"]),
        (["192.0.2.32/30"], ["192.0.2.32", "192.0.2.33", "192.0.2.34", "192.0.2.35"]),
        (["192.0.2.0/30"], ["192.0.2.2", "192.0.2.3"]),  # without the network's own address and the gateway
        (["192.0.2.254/31"], ["192.0.2.254"]),  # without the broadcast address
        (["192.0.2.5", "192.0.2.4-192.0.2.6"], ["192.0.2.4", "192.0.2.5", "192.0.2.6"]),
    ],
)
def test_pool_of_addresses(entries: list[str], expected: list[str]) -> None:
    runs = addresses.pool(entries, gateway="192.0.2.1", prefix=24)
    assert _every(runs) == expected
    assert addresses.count(runs) == len(expected)


def _every(runs: list[addresses.Run]) -> list[str]:
    """The addresses as they are given out, one after the other."""
    used: list[str] = []
    while address := addresses.first_free(runs, used):
        used.append(address)
    return used


_hosts = st.integers(0, 40)


@given(st.lists(st.tuples(_hosts, _hosts)), st.sets(_hosts))
def test_pool_holds_each_asked_address_once(ranges: list[tuple[int, int]], without: set[int]) -> None:
    entries = [f"192.0.2.{min(pair)}-192.0.2.{max(pair)}" for pair in ranges]
    runs = addresses.pool(entries, gateway="192.0.2.1", prefix=24, without=[f"192.0.2.{host}" for host in without])
    asked = {host for pair in ranges for host in range(min(pair), max(pair) + 1)} - without - {0, 1}
    assert _every(runs) == [f"192.0.2.{host}" for host in sorted(asked)]


def test_pool_of_sixteen_million_addresses_is_no_burden() -> None:
    runs = addresses.pool(["10.0.0.0/8"], gateway="10.0.0.1", prefix=8)
    assert addresses.count(runs) == 2**24 - 3
    assert addresses.show(runs) == "10.0.0.2-10.255.255.254"


@pytest.mark.parametrize("entry", ["nonsense", "10.0.0.9-10.0.0.1", "10.0.0.0/99", "::1"])
def test_entry_that_is_no_address_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        addresses.pool([entry], gateway="10.0.0.1", prefix=24)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    refusals = {None}
    for body in (content, b"k8s\x00" + content):
        try:
            protobuf.decode(body)
        except ApiError as exc:
            refusals.add(exc.code)
    assert refusals <= {None, 400, 415}


def _run(work: object, *, keys: list[str], enough: int) -> list[tuple[str, int]]:
    """What a queue calls until `enough` calls were made: key and how many calls ran at once for it."""
    calls: list[tuple[str, int]] = []

    async def main() -> None:
        done, running = asyncio.Event(), dict.fromkeys(keys, 0)

        async def call(key: str) -> float | None:
            running[key] += 1
            calls.append((key, running[key]))
            if len(calls) >= enough:
                done.set()
            try:
                return await work(key, queue, len(calls))
            finally:
                running[key] -= 1

        queue: WorkQueue[str] = WorkQueue(call, Pace(0))
        queue.start()
        for key in keys:
            queue.add(key)
        await asyncio.wait_for(done.wait(), 10)
        await queue.stop()

    asyncio.run(main())
    return calls


def test_key_that_fails_is_tried_again() -> None:
    async def work(_key: str, _queue: object, number: int) -> float | None:
        if number == 1:
            raise Retry("not yet")
        if number == 2:
            raise RuntimeError("a mistake must not stop the worker")
        return None

    assert len(_run(work, keys=["a"], enough=3)) == 3


def test_key_is_worked_on_by_one_worker_at_a_time() -> None:
    async def work(key: str, queue: WorkQueue[str], _number: int) -> float | None:
        queue.add(key)  # woken while it is worked on: once more afterwards, not beside
        await asyncio.sleep(0)
        return None

    assert {together for _, together in _run(work, keys=["a", "b"], enough=50)} == {1}
