# SPDX-License-Identifier: Apache-2.0
"""Words that many messages share: numbers as people read them, what was probably meant, rows in columns.

Core: no IO. Standard library only: every command begins with these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

LAST_S = 253_402_300_799
"""The last second of the year 9999, in seconds since 1970: no later day can be written."""

_SHORT = 8
_FEW_WORDS = 24


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


def binary_size(size: int) -> str:
    """Write a number of bytes exactly, as recipes do: in the largest unit up to GiB of which it is a whole number."""
    for unit in ("B", "KiB", "MiB"):
        if size % 1024 or not size:
            return f"{size}{unit}"
        size //= 1024
    return f"{size}GiB"


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


def releases_text(made: int, historical: int) -> str:
    """Write how many releases there are: ``2 releases``, ``2 releases and 18 historical``."""
    return count_text(made, "release") + (f" and {historical} historical" if historical else "")


def nearest(word: object, words: Iterable[object], alike: float | None = None) -> str | None:
    """Return the word that was probably meant: the likest, if it is like enough, of 1.

    Long words have many letters in common by chance, and must be liker than short ones, or be how one begins.
    """
    from difflib import get_close_matches

    text = str(word)
    cutoff = alike if alike is not None else 0.6 if len(text) <= _SHORT else 0.75
    known = sorted(map(str, words))
    found = get_close_matches(text, known, n=1, cutoff=cutoff)
    return next(iter(found or (one for one in known if len(text) > _SHORT and one.startswith(text))), None)


def near(word: str, words: Iterable[str]) -> str | None:
    """Return the hint that names the word that was probably meant."""
    found = nearest(word, words)
    return f"did you mean {found}?" if found else None


def one_line(text: str) -> str:
    """Write text so that it stays in its line, and does nothing to a terminal: what cannot be printed is escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else {"\n": "\\n", "\t": "\\t"}.get(c, f"\\u{ord(c):04x}") for c in text)


def unreadable(error: OSError) -> str:
    """Say why a file cannot be read."""
    return f"cannot be read: {(error.strerror or 'unknown reason').lower()}"


def in_columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[list[str]]:
    """Return rows with their cells padded to the width of their columns; ``right`` names those aligned to the right."""
    padded = []
    for index, column in enumerate(zip(*rows, strict=True)):
        width = max(map(len, column))
        padded.append([cell.rjust(width) if index in right else cell.ljust(width) for cell in column])
    return [list(row) for row in zip(*padded, strict=True)]


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = (), width: int | None = None) -> list[str]:
    """Return rows as lines in columns, two spaces between.

    Where a ``width`` is given, the last column is wrapped to it, or stands below its row if too little is left for it.
    """
    padded = in_columns(rows, right)
    lines = ["  ".join(cells).rstrip() for cells in padded]
    if width is None or max(map(len, lines), default=0) <= width:
        return lines
    before = sum(len(cell) + 2 for cell in padded[0][:-1])
    from textwrap import wrap

    indent = before if width - before >= _FEW_WORDS else 4
    wrapped = []
    for cells, row in zip(padded, rows, strict=True):
        texts = wrap(row[-1], max(_FEW_WORDS, width - indent), break_on_hyphens=False)
        first = texts.pop(0) if texts and indent == before else ""
        wrapped += ["  ".join((*cells[:-1], first)).rstrip(), *(" " * indent + text for text in texts)]
    return wrapped
