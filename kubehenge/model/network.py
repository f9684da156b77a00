"""IPv4 addresses and blocks of them, as integers (reference: kubehenge-clusters, Network; kubehenge-architecture, Networking)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NewType

Address = NewType("Address", int)
"""An IPv4 address as a 32-bit number; `format_address` writes it."""

BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Why a text is no address or block; `reason` is a whole sentence that says what to write."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AddressBlock:
    """The addresses from `first` to `last`, both included; never empty."""

    first: Address
    last: Address

    def __str__(self) -> str:
        """`192.0.2.0/24` where it is a network, `192.0.2.7` for one address, else `192.0.2.1-192.0.2.9`."""
        if self.first == self.last:
            return format_address(self.first)
        size = self.count
        if size & (size - 1) == 0 and self.first % size == 0:
            return f"{format_address(self.first)}/{BITS - size.bit_length() + 1}"
        return f"{format_address(self.first)}-{format_address(self.last)}"

    @property
    def count(self) -> int:
        """How many addresses it holds."""
        return self.last - self.first + 1

    def __contains__(self, address: int) -> bool:
        return self.first <= address <= self.last

    def contains(self, other: AddressBlock) -> bool:
        """Tell whether every address of the other block is in this one."""
        return self.first <= other.first and other.last <= self.last

    def overlaps(self, other: AddressBlock) -> bool:
        """Tell whether any address is in both."""
        return self.first <= other.last and other.first <= self.last


def format_address(address: int) -> str:
    """Write an address in dotted form."""
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address | Unreadable:
    """Read one IPv4 address in dotted form, without leading zeros or spaces."""
    try:
        return Address(int(ipaddress.IPv4Address(text)))
    except ValueError:
        return Unreadable(text=text, reason=f"{text} is no IPv4 address. Write one such as 192.0.2.10.")


@lru_cache(maxsize=4096)
def parse_network(text: str) -> AddressBlock | Unreadable:
    """Read a network in CIDR notation; bits set behind the prefix are refused, since two readings of them exist."""
    address_text, slash, prefix_text = text.partition("/")
    address = parse_address(address_text)
    if isinstance(address, Unreadable) or not slash or not (prefix_text.isascii() and prefix_text.isdigit()) or len(prefix_text) > 2:
        return Unreadable(text=text, reason=f"{text} is no network in CIDR notation. Write one such as 192.0.2.0/24.")
    prefix = int(prefix_text)
    if prefix > BITS:
        return Unreadable(text=text, reason=f"{text} has a prefix of more than {BITS}. Write one from 0 to {BITS}.")
    block = network_of(address, prefix)
    if block.first != address:
        network = f"{format_address(block.first)}/{prefix}"
        return Unreadable(
            text=text, reason=f"{text} has bits set behind its prefix. Write {network} for the network, or {address_text} alone."
        )
    return block


@lru_cache(maxsize=4096)
def parse_block(text: str) -> AddressBlock | Unreadable:
    """Read a range (`192.0.2.21-192.0.2.29`), a network in CIDR notation or a single address."""
    if "/" in text:
        return parse_network(text)
    first_text, dash, last_text = text.partition("-")
    if not dash:
        address = parse_address(text)
        if isinstance(address, Unreadable):
            return Unreadable(text=text, reason=_NO_BLOCK.format(text=text))
        return AddressBlock(first=address, last=address)
    first, last = parse_address(first_text), parse_address(last_text)
    if isinstance(first, Unreadable) or isinstance(last, Unreadable):
        return Unreadable(text=text, reason=_NO_BLOCK.format(text=text))
    if last < first:
        swapped = f"{format_address(last)}-{format_address(first)}"
        return Unreadable(text=text, reason=f"{text} ends before it starts. Write {swapped}, or mend the end that is wrong.")
    return AddressBlock(first=first, last=last)


_NO_BLOCK = "{text} is no range, network or address. Write one such as 192.0.2.21-192.0.2.29, 192.0.2.32/28 or 192.0.2.60."


def network_of(address: int, prefix: int) -> AddressBlock:
    """Return the network that an address lies in, by its prefix length (0 to 32)."""
    size = 1 << (BITS - prefix)
    first = address // size * size
    return AddressBlock(first=Address(first), last=Address(first + size - 1))


def merge(blocks: Iterable[AddressBlock]) -> tuple[AddressBlock, ...]:
    """Return the same addresses as the fewest blocks, in order."""
    given = tuple(blocks)
    if len(given) < 2:  # as most clusters have them
        return given
    merged: list[AddressBlock] = []
    for block in sorted(given, key=lambda block: (block.first, block.last)):
        if merged and block.first <= merged[-1].last + 1:
            if block.last > merged[-1].last:
                merged[-1] = AddressBlock(first=merged[-1].first, last=block.last)
        else:
            merged.append(block)
    return tuple(merged)


def count_addresses(blocks: Iterable[AddressBlock], *, without: Iterable[int] = ()) -> int:
    """Count the addresses that are in any of the blocks, each once, leaving out single ones."""
    merged = merge(blocks)
    left_out = sum(1 for address in set(without) if any(address in block for block in merged))
    return sum(block.count for block in merged) - left_out
