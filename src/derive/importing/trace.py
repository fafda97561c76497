# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a recipe or site that is not written yet, told where it stands in the files that it came from.

Core: no IO.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from derive.errors import Problem
from derive.importing.account import Row
from derive.importing.nodes import NodeMap
from derive.recipes.load import FOLDER
from derive.toml import key_path
from derive.words import one_line

_SHAPE = re.compile(r"shapes\.[a-z0-9-]+\.")
_NODE = re.compile(r"nodes\[([0-9]+)\]")
_WIDTH = 120
_NUMBER = re.compile(r"\[[0-9]+\]")


def in_clusters(
    problems: Iterable[Problem], name: str, rows: Sequence[Row], shapes: Mapping[str, str], default: str
) -> list[Problem]:
    """Return problems of a recipe at the keys that became it; ``shapes`` have their files, ``default`` is the first.

    Problems of files that are there already stay where they are.
    """
    file = f"{FOLDER}{name}.toml"
    return [_in_clusters(one, file, rows, shapes, default) if _is_of(one, file) else one for one in problems]


def _in_clusters(problem: Problem, file: str, rows: Sequence[Row], shapes: Mapping[str, str], default: str) -> Problem:
    key = _key(problem, file)
    shape = key.split(".")[1] if _SHAPE.match(key) else None
    own = shapes.get(shape or "")
    bare = _SHAPE.sub("", key, count=1) if shape is not None else key
    wanted = [row for row in rows if own is None or row.file == own]
    return _at(problem, _nearest(bare, wanted), own or default, key)


def in_map(problems: Iterable[Problem], file: str, nodes: NodeMap, rows: Sequence[Row]) -> list[Problem]:
    """Return problems of a site, which messages call ``file``, at the keys of its node map and of cluster files."""
    return [_in_map(one, file, nodes, rows) if _is_of(one, file) else one for one in problems]


def _in_map(problem: Problem, file: str, nodes: NodeMap, rows: Sequence[Row]) -> Problem:
    key = _key(problem, file)
    match = _NODE.match(key)
    there = key
    if match is not None and int(match[1]) < len(nodes.nodes):
        there = f"nodes[{nodes.nodes[int(match[1])].at}]{key[match.end() :]}"
    if key.startswith("cables"):
        return _at(problem, None, nodes.file, key)  # made of what two nodes say: neither key alone is wrong
    mine = [row for row in rows if row.state == "site"]
    found = _nearest(there, [row for row in mine if row.file == nodes.file]) or _nearest(there, mine)
    return _at(problem, found, nodes.file, key)


def _is_of(problem: Problem, file: str) -> bool:
    return problem.where == file or problem.where.startswith(f"{file}: ")


def _key(problem: Problem, file: str) -> str:
    return problem.where.removeprefix(file).removeprefix(": ")


def _at(problem: Problem, row: Row | None, file: str, key: str) -> Problem:
    where = file if row is None else f"{row.file}: {one_line(row.key)[:_WIDTH]}"
    became = (f"became    {key}",) if key and (row is None or row.key != key) else ()
    return replace(problem, where=where, detail=(*problem.detail, *became))


def _nearest(key: str, rows: Iterable[Row]) -> Row | None:
    """Return the row whose place is a key, or the longest of those above it."""
    best: tuple[int, Row | None] = (0, None)
    for row in rows:
        for place in _places(row.place):
            above = key == place or key.startswith((f"{place}.", f"{place}["))
            if above and len(place) >= best[0]:  # of what is said twice the later counts
                best = (len(place), row)
    return best[1]


def _places(place: str) -> Iterator[str]:
    """Yield how a key path may be written: names of options and variables may be odd, and have dots in them."""
    if not place:
        return
    table, _, rest = place.partition(".")
    yield place
    yield _NUMBER.sub("[]", place)
    if rest and "[" not in place:
        yield key_path((table, rest))
        yield key_path(tuple(place.split(".")))
