# SPDX-License-Identifier: Apache-2.0
"""A resolved shape as the conditions that its memory follows from.

Core: no IO. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from derive.canonical import Json
from derive.errors import InputErrors, Problem, expected_got
from derive.memory.facts import FORMS, Conditions, KvFormat
from derive.memory.load import KV_FORMATS
from derive.memory.tables import Table
from derive.recipes.resolved import Resolved

_KEY_BYTES = {"fp8": None, "mxfp4": 68}
_PAGE = 4096
_DIGITS = re.compile("[0-9]{1,15}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A shape's ``[memory]`` and what else its ledger reads; sizes in bytes, ``facts`` a path below the project."""

    facts: str
    usable: int
    usable_source: str
    conditions: Conditions
    steady_floor: int
    startup_floor: int


def settings(resolved: Resolved) -> Settings:
    """Read what the ledger needs of a shape that has a ``[memory]`` table.

    Raises:
        InputErrors: all that is missing or wrong.
    """
    problems: list[Problem] = []
    table = Table(f"recipes/{resolved.recipe}.toml", "memory", resolved.memory, problems)
    numbers = _Numbers(resolved, problems)
    facts, usable, usable_source = table.text("facts"), table.size("usable"), table.text("usable-source")
    conditions = _conditions(resolved, table, numbers)
    table.end()
    if problems:
        raise InputErrors(problems)
    floors = {phase.phase: phase.floor_bytes for phase in resolved.guard}
    return Settings(
        facts=f"recipes/{facts}",
        usable=usable,
        usable_source=usable_source,
        conditions=conditions,
        steady_floor=floors.get("steady", 0),
        startup_floor=floors.get("startup", 0),
    )


def _conditions(resolved: Resolved, table: Table, numbers: _Numbers) -> Conditions:
    arguments = resolved.arguments
    sequences = numbers.required("max-num-seqs")
    return Conditions(
        ranks=resolved.nodes,
        page_bytes=resolved.host.page_size or _PAGE,
        context=numbers.required("max-model-len"),
        sequences=sequences,
        batched_tokens=numbers.required("max-num-batched-tokens"),
        # Unless told otherwise vLLM prepares a step while another runs.
        steps=1 if arguments.get("async-scheduling") is False else 2,
        captured=_captured(arguments, sequences),
        kv_bytes=numbers.required("kv-cache-memory-bytes"),
        kv_format=cast("KvFormat", table.choice("kv-format", KV_FORMATS)),
        index_key_bytes=_key_bytes(_below(arguments, "attention-config", "indexer_kv_dtype")),
        engram="memory" if table.choice("engram", ("disk", "memory")) == "memory" else "disk",
        formats=table.texts("formats", tuple(FORMS)),
        carveout_bytes=table.size("display-carveout", "0B"),
        environment=resolved.environment,
    )


@dataclass(frozen=True, slots=True)
class _Numbers:
    resolved: Resolved
    problems: list[Problem]

    def required(self, option: str) -> int:
        """Return an option's integer, given as a number or as its digits."""
        value = self.resolved.arguments.get(option)
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        origin = self.resolved.origins.get(f"arguments.{option}")
        file, key = (
            (origin.file, origin.key) if origin else (f"recipes/{self.resolved.recipe}.toml", f"arguments.{option}")
        )
        message = "the memory ledger needs this option" if value is None else "is to be an integer above 0"
        detail = () if value is None else expected_got("an integer above 0, as a number", value)
        self.problems.append(Problem(where=f"{file}: {key}", message=message, detail=detail))
        return 1


def _below(arguments: Mapping[str, Json], option: str, key: str) -> Json:
    value = arguments.get(option)
    return value.get(key) if isinstance(value, Mapping) else None


def _key_bytes(kind: Json) -> int | None:
    return _KEY_BYTES.get(kind) if isinstance(kind, str) else None


def _captured(arguments: Mapping[str, Json], sequences: int) -> tuple[int, ...]:
    """Return the sizes that graphs are captured for: as named, else those that vLLM makes up to the largest."""
    named = _below(arguments, "compilation-config", "cudagraph_capture_sizes")
    if isinstance(named, list):
        return tuple(size for size in named if isinstance(size, int))
    drafts = _below(arguments, "speculative-config", "num_speculative_tokens")
    largest = arguments.get("max-cudagraph-capture-size")
    if not isinstance(largest, int):
        largest = sequences * (1 + (drafts if isinstance(drafts, int) else 0))
    return tuple(size for size in (1, 2, 4, *range(8, largest + 1, 8)) if size <= largest)
