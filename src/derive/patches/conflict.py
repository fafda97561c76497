# SPDX-License-Identifier: Apache-2.0
"""What git could not merge, hunk by hunk: what the patch was made for, what is there now, what the patch makes of it.

Edge: reads the index through git.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import escape
from derive.patches.repository import Repository
from derive.patches.threeway import conflict_text, conflicts_between

_STAGES = ("base", "ours", "theirs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicted:
    """A patch in conflict: the paths, and their conflicts as lines for people."""

    patch: str
    paths: tuple[bytes, ...]
    text: tuple[str, ...]


def unmerged(repository: Repository, patch: str) -> Conflicted:
    """Read from the index what is in conflict."""
    stages: dict[bytes, dict[str, str]] = {}
    for row in repository.git("ls-files", "--unmerged", "-z").split(b"\0")[:-1]:
        facts, _, path = row.partition(b"\t")
        _, name, stage = facts.decode().split(" ")
        stages.setdefault(path, {})[_STAGES[int(stage) - 1]] = name
    contents = repository.objects(name for found in stages.values() for name in found.values())
    text = [
        row
        for path, found in stages.items()
        for row in _rows(path, {side: contents[name] for side, name in found.items()})
    ]
    return Conflicted(patch=patch, paths=tuple(stages), text=tuple(text))


def _rows(path: bytes, sides: Mapping[str, bytes]) -> Iterator[str]:
    match sides:
        case {"ours": ours, "theirs": theirs}:
            found = conflicts_between(sides.get("base", b""), ours, theirs)
            for number, conflict in enumerate(found, 1):
                yield from conflict_text(path, number, conflict)
            if not found:
                yield f"{escape(path)}: in conflict, as the file in the work tree shows"
        case {"theirs": _, "base": _}:
            yield f"{escape(path)}: changed by the patch, and no longer there"
        case {"ours": _, "base": _}:
            yield f"{escape(path)}: removed by the patch, and changed since"
        case {"theirs": _}:
            yield f"{escape(path)}: made by the patch, where something else is now"
        case {"ours": _}:
            yield f"{escape(path)}: there now, where the patch makes something else"
        case _:
            yield f"{escape(path)}: moved or removed by the patch, and moved or removed otherwise since"
