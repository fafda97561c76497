# SPDX-License-Identifier: Apache-2.0
"""Which hosts are unlike, how alike two are, and how many builders there are of which no two had one host.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from derive.canonical import Digest
from derive.certificates.model import Host


def most_on_unlike(said: Iterable[tuple[str, Host]]) -> tuple[str, ...]:
    """Return the names of as many builders as can each be given a host of their own, sorted.

    ``said`` are builders with hosts that they built on. Two hosts are one when they have the same id or the same boot,
    also through a third.
    """
    pairs = list(said)
    classes = _classes([host for _, host in pairs])
    hosts: dict[str, list[int]] = {}
    for name, host in sorted(pairs, key=lambda pair: (pair[0], pair[1].id)):
        hosts.setdefault(name, []).append(classes[host.id])
    given: dict[int, str] = {}
    for name in hosts:
        _give(name, hosts, given, set())
    return tuple(sorted(given.values()))


def likeness(first: Host, second: Host) -> str:
    """Say in one line what two hosts have in common."""
    if first.id == second.id:
        return "one host"
    if first.boot == second.boot:
        return "one machine under two names, as containers are"
    pairs = (
        ("architecture", first.architecture, second.architecture),
        ("CPU model", first.cpu, second.cpu),
        ("kernel", first.kernel, second.kernel),
    )
    same = [f"{what} {one}" for what, one, other in pairs if one == other]
    unlike = [f"{what} {one} and {other}" for what, one, other in pairs if one != other]
    told = [*(["the same " + ", ".join(same)] if same else []), *unlike]
    return "unlike hosts; " + "; ".join(told)


def _classes(hosts: Sequence[Host]) -> dict[Digest, int]:
    """Return, by the ids of hosts, the number of the machine that each is taken for."""
    found: dict[Digest, int] = {}
    boots: dict[Digest, int] = {}
    for number, host in enumerate(hosts):
        old = {one for one in (found.get(host.id), boots.get(host.boot)) if one is not None}
        target = min(old, default=number)
        for table in (found, boots):
            table.update({key: target for key, value in table.items() if value in old})
        found[host.id] = boots[host.boot] = target
    return found


def _give(name: str, hosts: dict[str, list[int]], given: dict[int, str], asked: set[int]) -> bool:
    """Give a builder a host, moving others to another of theirs where that frees one."""
    for host in hosts[name]:
        if host in asked:
            continue
        asked.add(host)
        if host not in given or _give(given[host], hosts, given, asked):
            given[host] = name
            return True
    return False
