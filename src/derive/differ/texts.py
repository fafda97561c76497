# SPDX-License-Identifier: Apache-2.0
"""Two texts, line by line.

Core: no IO.
"""

from __future__ import annotations

from derive.differ.model import Report, Unread
from derive.why.render import line_diff, text_of

_NEARBY = 400


def is_text(data: bytes) -> bool:
    """Say whether bytes are text as people write it: UTF-8, or nearly, and no control characters but white space."""
    if b"\0" in data:
        return False
    sample = data[:8192].decode("utf-8", "replace")
    odd = sum(
        1 for one in sample if one == "\N{REPLACEMENT CHARACTER}" or (ord(one) < 32 and one not in "\t\n\r\f\x1b")
    )
    return odd * 20 <= len(sample)


def compare_text(report: Report, first: bytes, second: bytes) -> None:
    """Show the lines that differ; of texts of very many lines, those near the first that does."""
    rows = [data.split(b"\n") for data in (first, second)]
    most = report.limits.text_lines
    if max(map(len, rows)) <= most:
        for one in line_diff(first, second, context=1, limit=report.limits.rows * 2):
            report.show(one)
        return
    at = next((n for n, (a, b) in enumerate(zip(*rows, strict=False)) if a != b), min(map(len, rows)))
    if at >= max(map(len, rows)):
        raise Unread("no line differs")
    near = [b"\n".join(row[at : at + _NEARBY]) + b"\n" for row in rows]
    report.say(f"more than {most} lines: the first that differs is line {at + 1}; lines below count from there", "dim")
    for one in line_diff(near[0], near[1], context=1, limit=report.limits.rows):
        report.show(one)


def value_text(data: bytes, most: int = 60) -> str:
    """Write bytes that are a short text in one line."""
    text = text_of(data)
    return text if len(text) <= most else f"{text[:most]}..."
