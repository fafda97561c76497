# SPDX-License-Identifier: Apache-2.0
"""Ledgers as rows of tables for people, and as bodies of records.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from derive.canonical import Json
from derive.memory.compare import Comparison
from derive.memory.ledger import Ledger, gib
from derive.memory.predict import Row

HEAD = ("", "GiB", "sum", "known", "where from")
HELD_HEAD = ("held against", "", "measured", "predicted", "error", "")


def ledger_rows(found: Ledger) -> list[tuple[str, ...]]:
    """Return the lines of a ledger: name, size, running sum, how much is known, where from."""
    lines: list[tuple[str, ...]] = [HEAD]
    parts = Counter(row.line for row in found.rows)
    so_far, seen = 0, ""
    for row in found.rows:
        if row.line != seen and parts[row.line] > 1:
            lines.append((row.line, gib(_line_bytes(found.rows, row.line)), "", "", ""))
        seen = row.line
        so_far += row.bytes
        name = f"  {row.item}" if parts[row.line] > 1 else row.name
        mark = "  <- breaks it" if row is found.breaks else ""
        lines.append((name, gib(row.bytes), gib(so_far), row.basis, row.source + mark))
    return [
        *lines,
        ("total", gib(found.total_bytes), "", "", ""),
        ("usable", gib(found.usable_bytes), "", "", found.usable_source),
        ("free" if found.free_bytes >= 0 else "over", gib(abs(found.free_bytes)), "", "", ""),
    ]


def held_rows(held: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """Return predictions beside what was measured."""
    lines: list[tuple[str, ...]] = [HELD_HEAD]
    for one in held:
        span = _amount(one, one.measured)
        if one.measured_least != one.measured:
            span = f"{gib(one.measured_least)} to {span}"
        remarks = ("fitted to it" if one.fitted else one.taken, "another engine" if one.other_engine else "")
        remark = "; ".join(filter(None, remarks))
        lines.append((one.deployment, one.quantity, span, _amount(one, one.predicted), _error(one), remark))
    return lines


def sentences(found: Ledger) -> Iterator[str]:
    """Yield what the table's lines do not say: tokens, and MemAvailable."""
    kv = found.kv
    yield (
        f"KV cache      {kv.tokens:,} tokens, {hundredths(kv.windows_hundredths)} requests of {kv.context:,}; "
        f"{kv.blocks:,} blocks of {kv.block_bytes:,} bytes, of which a request takes {kv.request_blocks:,}"
    )
    yield f"MemAvailable  {gib(found.available_bytes)} GiB predicted, the guard's floor not counted{_errors(found)}"


def remarks(found: Ledger) -> Iterator[str]:
    """Yield what is to be said beside a ledger: what it rests on, and what it does not decide."""
    yield from found.notes
    if found.fits and found.startup_short_bytes:
        yield (
            f"{found.shape}: the startup guard kills below {gib(found.startup_floor_bytes)} GiB, and "
            f"{gib(found.available_bytes)} GiB are predicted: it may kill a start that would have fitted"
        )


def side_by_side(ledgers: Sequence[Ledger]) -> list[tuple[str, ...]]:
    """Return all shapes in one table, a column each, GiB."""
    names = list(dict.fromkeys(row.line for found in ledgers for row in found.rows))
    lines: list[tuple[str, ...]] = [("GiB", *(found.shape for found in ledgers))]
    lines += [(name, *(gib(_line_bytes(found.rows, name)) for found in ledgers)) for name in names]
    return [
        *lines,
        ("total", *(gib(found.total_bytes) for found in ledgers)),
        ("usable", *(gib(found.usable_bytes) for found in ledgers)),
        ("free", *(gib(found.free_bytes) for found in ledgers)),
        ("MemAvailable", *(gib(found.available_bytes) for found in ledgers)),
        ("KV tokens", *(f"{found.kv.tokens:,}" for found in ledgers)),
        ("full requests", *(hundredths(found.kv.windows_hundredths) for found in ledgers)),
        ("fits", *("yes" if found.breaks is None else f"no: {found.breaks.line}" for found in ledgers)),
    ]


def body(found: Ledger) -> dict[str, Json]:
    """Return a ledger as the body of a record: integers, with their unit in the key."""
    kv, breaks = found.kv, found.breaks
    return {
        "recipe": found.recipe,
        "shape": found.shape,
        "ranks": found.conditions.ranks,
        "rows": [_row(row) for row in found.rows],
        "total_bytes": found.total_bytes,
        "usable_bytes": found.usable_bytes,
        "usable_source": found.usable_source,
        "free_bytes": found.free_bytes,
        "available_bytes": found.available_bytes,
        "startup_floor_bytes": found.startup_floor_bytes,
        "fits": found.fits,
        "breaks": None if breaks is None else _row(breaks),
        "fitting_kv_bytes": found.fitting_kv_bytes,
        "kv": {
            "format": found.conditions.kv_format,
            "tokens": kv.tokens,
            "full_requests": {"decimal": hundredths(kv.windows_hundredths)},
            "blocks": kv.blocks,
            "block_bytes": kv.block_bytes,
            "request_blocks": kv.request_blocks,
            "least_bytes": kv.least_bytes,
        },
        "held": [_held(one) for one in found.held],
        "facts": found.facts.file,
        "from_checkpoint": bool(found.facts.checkpoint),
        "notes": list(found.notes),
    }


def hundredths(number: int) -> str:
    """Write a number of hundredths with its two decimals."""
    return f"{number // 100}.{number % 100:02}"


def _line_bytes(rows: Sequence[Row], line: str) -> int:
    return sum(row.bytes for row in rows if row.line == line)


def _row(row: Row) -> dict[str, Json]:
    return {"line": row.line, "item": row.item, "row_bytes": row.bytes, "basis": row.basis, "source": row.source}


def _held(one: Comparison) -> dict[str, Json]:
    unit = "tokens" if one.in_tokens else "bytes"
    return {
        "deployment": one.deployment,
        "doc": one.doc,
        "quantity": one.quantity,
        f"measured_{unit}": one.measured,
        f"measured_least_{unit}": one.measured_least,
        f"predicted_{unit}": one.predicted,
        f"error_{unit}": one.error,
        "fitted": one.fitted,
        "taken": one.taken,
        "other_engine": one.other_engine,
    }


def _amount(one: Comparison, amount: int) -> str:
    return f"{amount:,}" if one.in_tokens else f"{gib(amount)} GiB"


def _error(one: Comparison) -> str:
    if not one.in_tokens:
        return f"{'+' if one.error > 0 else ''}{gib(one.error)} GiB"
    basis_points = round(one.error * 10000 / one.measured)
    return f"{'-' if basis_points < 0 else '+' if basis_points else ''}{hundredths(abs(basis_points))}%"


def _errors(found: Ledger) -> str:
    errors = [one for one in found.held if one.quantity == "MemAvailable" and not one.fitted]
    if not errors:
        return ""
    return f"; the same rules err by {', '.join(f'{_error(one)} on {one.deployment}' for one in errors)}"
