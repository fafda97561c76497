# SPDX-License-Identifier: Apache-2.0
"""Which sizes of all-reduce occur when a shape serves: rows of its steps, times the bytes of a row.

Core: no IO. Imports pydantic, by way of the measured figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Json
from derive.fabric.plan_count import ELEMENT_BYTES
from derive.fabric.plan_measured import ModelDecl


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """One kind of step: its rows (tokens), the bytes of each all-reduce, and how many of these there are.

    ``sequences`` is how many are decoded at once, each with its drafts; None where the whole budget is one prefill.
    """

    sequences: int | None
    rows: int
    size_bytes: int
    all_reduces: int


def traffic(arguments: Mapping[str, Json], model: ModelDecl) -> tuple[Traffic, ...]:
    """Return the kinds of steps of a shape, by its arguments; none where it says no number of sequences."""
    return tuple(
        Traffic(
            sequences=sequences,
            rows=rows,
            size_bytes=rows * model.row_numbers * ELEMENT_BYTES,
            all_reduces=model.layers * model.all_reduces_per_layer,
        )
        for sequences, rows in _steps(arguments)
    )


def _steps(arguments: Mapping[str, Json]) -> Iterator[tuple[int | None, int]]:
    most = arguments.get("max-num-seqs")
    if not isinstance(most, int):
        return
    speculative = arguments.get("speculative-config")
    drafts = speculative.get("num_speculative_tokens") if isinstance(speculative, Mapping) else None
    for sequences in sorted({1, max(1, most // 2), most}):
        yield sequences, sequences * (1 + (drafts if isinstance(drafts, int) else 0))
    budget = arguments.get("max-num-batched-tokens")
    if isinstance(budget, int):
        yield None, budget
