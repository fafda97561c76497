# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them.

Core: no IO.
"""

from __future__ import annotations


def size_text(size: int) -> str:
    """Write a number of bytes: three digits and a decimal unit."""
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.5 or unit == "TB":
            return f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"
    raise AssertionError(size)


def duration_text(duration_ns: int) -> str:
    """Write a time: ``0.04 s``, ``12.3 s``, ``4 min 10 s``, ``1 h 02 min``."""
    seconds = duration_ns / 1e9
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def count_text(count: int, one: str, many: str = "") -> str:
    """Write a number of things: ``1 patch``, ``2 patches``; ``many`` defaults to ``one`` with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"
