# SPDX-License-Identifier: Apache-2.0
"""What an archive said and a tree cannot: permission bits, attributes, a path given twice; listed, never just lost.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from derive.canonical import CanonicalError, escape, unescape

_FILE_MODES = frozenset((0o644, 0o755))
_FOLDER_MODE = 0o755
_SPECIAL_BITS = ((0o4000, "setuid"), (0o2000, "setgid"), (0o1000, "sticky"))
_SHOWN = 5
"""Paths shown of many that lost the same thing; the others are counted."""


@dataclass(frozen=True, slots=True, order=True)
class Dropped:
    """Something about a path that is no fact of a tree: a mode beyond 0644 and 0755, an extended attribute."""

    path: bytes
    what: str


@dataclass(frozen=True, slots=True, order=True)
class Replaced:
    """A path that the archive gives more than once: the last one is kept."""

    path: bytes


Note: TypeAlias = Dropped | Replaced


def mode_note(path: bytes, mode: int, *, folder: bool) -> Dropped | None:
    """Return what the tree cannot keep of a mode (its low twelve bits), or None when it keeps all of it."""
    bits = mode & 0o7777
    if bits == _FOLDER_MODE or (bits in _FILE_MODES and not folder):
        return None
    special = "".join(f", {name}" for bit, name in _SPECIAL_BITS if bits & bit)
    return Dropped(path, f"mode {bits:04o}{special}")


def below(prefix: bytes, note: Note) -> Note:
    """Return the same note about a path that has moved below a folder."""
    path = prefix + b"/" + note.path if note.path else prefix
    return Replaced(path) if isinstance(note, Replaced) else Dropped(path, note.what)


def to_text(notes: Iterable[Note]) -> bytes:
    """Write notes as canonical text: one line each, sorted bytewise, no line twice."""
    return b"".join(sorted({_line(note).encode() + b"\n" for note in notes}))


def from_text(text: bytes) -> tuple[Note, ...]:
    """Read what :func:`to_text` wrote.

    Raises:
        ValueError: when a line is no note.
    """
    return tuple(_parse(line.decode()) for line in text.splitlines())


def summary(notes: Iterable[Note]) -> list[str]:
    """Return lines for a log: special bits one by one, plain modes and attributes grouped when there are many."""
    groups: dict[str, list[bytes]] = {}
    for note in notes:
        what = "given twice, the last is kept" if isinstance(note, Replaced) else f"dropped {note.what}"
        groups.setdefault(what, []).append(note.path)
    lines: list[str] = []
    for what, paths in sorted(groups.items()):
        shown = sorted(paths)
        keep = shown if "," in what else shown[:_SHOWN]
        lines += [f"{what}: {_name(path)}" for path in keep]
        if len(keep) < len(shown):
            lines.append(f"{what}: and {len(shown) - len(keep)} more")
    return lines


def _name(path: bytes) -> str:
    return escape(path) or "."


def _line(note: Note) -> str:
    match note:
        case Dropped(path, what):
            return f"dropped\t{_name(path)}\t{what}"
        case Replaced(path):
            return f"replaced\t{_name(path)}"
        case _:
            assert_never(note)


def _parse(line: str) -> Note:
    try:
        match line.split("\t"):
            case ["dropped", path, what]:
                return Dropped(b"" if path == "." else unescape(path), what)
            case ["replaced", path]:
                return Replaced(b"" if path == "." else unescape(path))
            case _:
                pass
    except CanonicalError as error:
        raise ValueError(f"not a note: {line!r}") from error
    raise ValueError(f"not a note: {line!r}")
