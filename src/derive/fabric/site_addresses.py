# SPDX-License-Identifier: Apache-2.0
"""What judges of a site share: addresses and subnets read from text, and the abstract site passed over.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Network

from derive.errors import Problem
from derive.fabric.abstract import is_abstract
from derive.fabric.cabling import PREFIX_LENGTH
from derive.fabric.rule import SiteInput

LINK_LOCAL = "is link-local: a machine gives itself such an address when nobody gave it one, and no path has it"


def unusable(text: str, *, subnet: bool = False) -> str | None:
    """Say why an address, or the first of a subnet, cannot be a machine's; None where it can."""
    address = address_of(text)
    if address is None:
        return "is no IPv4 address"
    if address.is_link_local:
        return LINK_LOCAL
    if address.is_loopback:
        return "is the machine's own loopback"
    if address.is_multicast:
        return "is for multicast"
    if address.is_unspecified or (not subnet and address == IPv4Address("255.255.255.255")):
        return "is no address of a machine"
    return None


def address_of(text: str) -> IPv4Address | None:
    """Return an address, or None where the text is none."""
    try:
        return IPv4Address(text)
    except ValueError:
        return None


def network_of(text: str) -> IPv4Network | None:
    """Return a subnet of 24 bits whose other bits are zero, or None where the text is none."""
    try:
        network = IPv4Network(text)
    except ValueError:
        return None
    return network if network.prefixlen == PREFIX_LENGTH and text.endswith(f"/{PREFIX_LENGTH}") else None


def strict_hint(text: str) -> str | None:
    """Return the hint that writes a subnet as it must be."""
    address = address_of(text.partition("/")[0])
    if address is None:
        return None
    return f"write {IPv4Network((int(address) >> 8 << 8, PREFIX_LENGTH))}"


def unless_abstract(judge: Callable[[SiteInput], Iterator[Problem]]) -> Callable[[SiteInput], Iterator[Problem]]:
    """Let a judge pass the abstract site over."""

    def judged(given: SiteInput) -> Iterator[Problem]:
        if not is_abstract(given.site):
            yield from judge(given)

    return judged
