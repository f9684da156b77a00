"""Address blocks: reading, writing, counting."""

from __future__ import annotations

import ipaddress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubehenge.model.network import (
    AddressBlock,
    Unreadable,
    count_addresses,
    format_address,
    merge,
    network_of,
    parse_address,
    parse_block,
    parse_network,
)

addresses = st.integers(0, 2**32 - 1)
blocks = st.tuples(addresses, addresses).map(lambda ends: AddressBlock(first=min(ends), last=max(ends)))
near_blocks = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda ends: AddressBlock(first=min(ends), last=max(ends)))


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("192.0.2.21-192.0.2.29", "192.0.2.21", "192.0.2.29"),
        ("192.0.2.32/28", "192.0.2.32", "192.0.2.47"),
        ("192.0.2.60", "192.0.2.60", "192.0.2.60"),
        ("0.0.0.0/0", "0.0.0.0", "255.255.255.255"),
        ("255.255.255.255/32", "255.255.255.255", "255.255.255.255"),
        ("10.0.0.5-10.0.0.5", "10.0.0.5", "10.0.0.5"),
    ],
)
def test_a_block_is_a_range_a_network_or_an_address(text, first, last):
    block = parse_block(text)
    assert not isinstance(block, Unreadable)
    assert (format_address(block.first), format_address(block.last)) == (first, last)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("192.0.2.69-192.0.2.51", "ends before it starts"),
        ("192.0.2.33/28", "192.0.2.32/28"),
        ("192.0.2.0/33", "more than 32"),
        ("192.0.2.0/", "no network"),
        ("192.0.2.0/2x", "no network"),
        ("192.0.2.0/²", "no network"),
        ("192.0.2.1 - 192.0.2.9", "no range"),
        ("192.0.2.1-9", "no range"),
        ("192.0.2.256", "no range"),
        ("192.0.2.01", "no range"),
        ("2001:db8::1", "no range"),
        ("", "no range"),
        ("-", "no range"),
    ],
)
def test_what_is_no_block_says_why(text, says):
    found = parse_block(text)
    assert isinstance(found, Unreadable)
    assert says in found.reason


@pytest.mark.parametrize("text", ["10.0.0.0", "10.0.0.1/8", "10.0.0.0-10.0.0.9", "::/0"])
def test_only_cidr_notation_is_a_network(text):
    assert isinstance(parse_network(text), Unreadable)


@given(addresses)
def test_an_address_is_written_as_it_is_read(address):
    assert parse_address(format_address(address)) == address
    assert format_address(address) == str(ipaddress.IPv4Address(address))


@given(blocks)
def test_a_block_is_written_as_it_is_read(block):
    assert parse_block(str(block)) == block


@given(addresses, st.integers(0, 32))
def test_a_network_is_what_the_standard_library_says(address, prefix):
    expected = ipaddress.ip_network((address, prefix), strict=False)
    block = network_of(address, prefix)
    assert (block.first, block.last) == (int(expected[0]), int(expected[-1]))
    assert address in block
    assert str(block) == (str(expected) if prefix < 32 else format_address(address))


def test_blocks_that_touch_become_one():
    halves = [AddressBlock(first=8, last=15), AddressBlock(first=0, last=7)]
    assert merge(halves) == (AddressBlock(first=0, last=15),)


@given(st.lists(near_blocks), st.lists(st.integers(0, 60)))
def test_addresses_are_counted_once_each(blocks, without):
    members = {address for block in blocks for address in range(block.first, block.last + 1)}
    assert count_addresses(blocks) == len(members)
    assert count_addresses(blocks, without=without) == len(members - set(without))
    merged = merge(blocks)
    assert all(later.first > earlier.last + 1 for earlier, later in pairwise(merged))


@given(near_blocks, near_blocks)
def test_overlap_is_a_shared_address_and_containment_a_subset(one, other):
    first, second = set(range(one.first, one.last + 1)), set(range(other.first, other.last + 1))
    assert one.overlaps(other) == bool(first & second)
    assert one.contains(other) == (second <= first)
