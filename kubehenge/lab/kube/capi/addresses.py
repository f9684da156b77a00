"""The addresses of a pool as the in-cluster IPAM provider gives them out."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Iterator

Run = tuple[int, int]  # first and last address, as numbers


def _entries(addresses: Iterable[str]) -> Iterator[Run]:
    for entry in addresses:
        if "-" in entry:
            first, last = (int(ipaddress.IPv4Address(part.strip())) for part in entry.split("-", 1))
            if last < first:
                raise ValueError(f"{entry!r} ends before it begins")
            yield first, last
        else:
            network = ipaddress.IPv4Network(entry, strict=False)
            yield int(network.network_address), int(network.broadcast_address)


def pool(addresses: Iterable[str], *, gateway: str, prefix: int, without: Iterable[str] = ()) -> list[Run]:
    """
    The addresses of ranges (`a-b`), networks and single addresses, as runs in order, without the gateway and the network's two ends.

    Errors: ValueError for an entry that is no IPv4 range, network or address.
    """
    network = ipaddress.IPv4Network(f"{gateway}/{prefix}", strict=False)
    ends = {int(network.network_address), int(network.broadcast_address)} if prefix < 31 else set()
    gaps = sorted(ends | {int(ipaddress.IPv4Address(address)) for address in (gateway, *without)})
    runs: list[Run] = []
    at = 0
    for first, last in sorted(_entries(addresses)):
        start = max(first, at)
        at = max(at, last + 1)
        for gap in gaps:
            if start <= gap <= last:
                runs.append((start, gap - 1))
                start = gap + 1
        runs.append((start, last))
    return [(first, last) for first, last in runs if first <= last]


def first_free(runs: Iterable[Run], used: Collection[str]) -> str | None:
    """The first address that is not used, or None."""
    taken = {int(ipaddress.IPv4Address(address)) for address in used}
    for first, last in runs:
        for number in range(first, last + 1):
            if number not in taken:
                return str(ipaddress.IPv4Address(number))
    return None


def count(runs: Iterable[Run]) -> int:
    """How many addresses there are."""
    return sum(last - first + 1 for first, last in runs)


def show(runs: Iterable[Run]) -> str:
    """Addresses for people: `a-b, c`."""
    texts = [(str(ipaddress.IPv4Address(first)), str(ipaddress.IPv4Address(last))) for first, last in runs]
    return ", ".join(first if first == last else f"{first}-{last}" for first, last in texts) or "no address"
