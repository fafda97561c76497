# SPDX-License-Identifier: Apache-2.0
"""Ledgers as they are printed and recorded: today's engine and the former one, what fits and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from derive.cli.console import table
from derive.errors import Problem
from derive.memory.ledger import ledger, problems
from derive.memory.show import body, held_rows, ledger_rows, remarks, sentences, side_by_side
from support.golden import check_golden
from support.ledgers import FORMER, GIB, MEMORY, facts, shape

SHAPES = ("tp4-ring", "tp3-triangle", "tp3-triangle-4k")
REFUSED: Mapping[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "engram-in-memory": ("tp4-ring", {"engram": "memory"}, {}),
    "engram-in-memory-of-three": ("tp3-triangle", {"engram": "memory"}, {}),
    "kv-cache-too-large": ("tp3-triangle", {}, {"kv_cache_memory_bytes": 6335076761, "max_model_len": 1048576}),
    "no-room-for-a-request": ("tp4-ring", {}, {"kv_cache_memory_bytes": 2 * GIB}),
    "not-even-without": ("tp3-triangle", {"usable": "100GiB"}, {}),
}


@pytest.mark.parametrize(("engine", "memory"), [("today", MEMORY), ("former", FORMER)])
def test_the_ledger_of_each_shape_is_as_reviewed(engine: str, memory: dict[str, Any]) -> None:
    parts = []
    held = held_rows(ledger(shape(), facts()).held)
    for name in SHAPES:
        found = ledger(shape(name, memory), facts())
        parts += [name, table(ledger_rows(found), right=frozenset({1, 2})), *sentences(found), *remarks(found), ""]
    check_golden(f"memory/{engine}.txt", "\n".join([*parts, table(held, right=frozenset({2, 3, 4})), ""]))


def test_all_shapes_side_by_side_are_as_reviewed() -> None:
    rows = side_by_side([ledger(shape(name), facts()) for name in SHAPES])
    check_golden("memory/all.txt", table(rows, right=frozenset({1, 2, 3})) + "\n")


def test_the_record_is_as_reviewed() -> None:
    text = json.dumps(body(ledger(shape(), facts())), indent=1, ensure_ascii=False)
    check_golden("memory/tp4-ring.json", text + "\n")


def test_what_is_refused_is_told_as_reviewed() -> None:
    parts = []
    for case, (name, memory, arguments) in REFUSED.items():
        [problem] = problems(ledger(shape(name, {**MEMORY, **memory}, **arguments), facts()))
        parts += [case, *_lines(problem), ""]
    check_golden("memory/refused.txt", "\n".join(parts))


def _lines(problem: Problem) -> list[str]:
    return [f"{problem.where}: {problem.message}", *problem.detail, f"hint: {problem.hint}"]
