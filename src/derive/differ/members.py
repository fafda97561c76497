# SPDX-License-Identifier: Apache-2.0
"""Two archives' members side by side: which came, went, moved, have other facts, and what differs inside them.

Core: no IO. The formats (zips.py, tars.py, ars.py) read members; this compares them, the same way for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from derive.differ.model import Compare, Content, Report
from derive.words import count_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member: ``facts`` are what its header says, in words, ``contents`` identifies its bytes (a hash or CRC)."""

    name: str
    facts: Mapping[str, str]
    contents: str
    size: int


Opened = Callable[[Sequence[str]], Mapping[str, Content]]
"""Returns the contents of some members, by name."""


def numbered(members: Sequence[Member]) -> dict[str, Member]:
    """Return members by name; one that stands there again has its number after its name."""
    found: dict[str, Member] = {}
    for member in members:
        name, again = member.name, 1
        while name in found:
            again += 1
            name = f"{member.name} (no. {again})"
        found[name] = member
    return found


def compare_members(
    report: Report,
    members: tuple[Mapping[str, Member], Mapping[str, Member]],
    opened: tuple[Opened, Opened],
    compare: Compare,
) -> None:
    """Say how two lists of members differ, then open the first few whose contents do."""
    old, new = members
    report.rows([f"- {name}  {old[name].size} bytes" for name in old if name not in new], "removed")
    report.rows([f"+ {name}  {new[name].size} bytes" for name in new if name not in old], "added")
    common = [name for name in old if name in new]
    if common != [name for name in new if name in old]:
        report.say("the members stand in another order")
    report.rows([row for name in common if (row := _facts(name, old[name], new[name]))])
    differing = [name for name in common if _bytes(old[name]) != _bytes(new[name])]
    first = differing[: report.limits.files]
    contents = [read(first) for read in opened]
    for name in first:
        with report.inside(f"{name}: other contents", "strong"):
            if report.is_full:
                break
            compare(report, name, (contents[0][name], contents[1][name]))
    if len(differing) > len(first):
        report.say(f"... and the contents of {count_text(len(differing) - len(first), 'more member')}", "dim")


def _bytes(member: Member) -> tuple[str, int]:
    return member.contents, member.size


def _facts(name: str, old: Member, new: Member) -> str | None:
    """Say which facts of one member differ; its size among them."""
    rows = [
        f"{fact} {old.facts.get(fact, 'none')} -> {new.facts.get(fact, 'none')}"
        for fact in dict.fromkeys((*old.facts, *new.facts))
        if old.facts.get(fact) != new.facts.get(fact)
    ]
    if old.size != new.size:
        rows.append(f"size {old.size} -> {new.size}")
    return f"{name}: {', '.join(rows)}" if rows else None
