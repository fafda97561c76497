# SPDX-License-Identifier: Apache-2.0
"""The names in a patch's headers: quoting undone, the first folder stripped, illegal paths refused.

Core: no IO.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from derive.canonical import escape
from derive.patches.model import path_fault
from derive.patches.reader import Refusal

DEV_NULL = b"/dev/null"

_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb'\\(?:([0-3][0-7]{2})|([abtnvfr"\\])|.)', re.DOTALL)
_LETTERS = {
    b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r", b'"': b'"', b"\\": b"\\",
}  # fmt: skip
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\d) (\d\d):(\d\d):00(?:\.0+)? ([+-])(\d\d)(\d\d)")


@dataclass(frozen=True, slots=True)
class FileName:
    """The name in a ``---`` or ``+++`` row; ``absent`` when the row says that the file is not there on that side."""

    raw: bytes
    absent: bool


def file_name(row: bytes, line: int) -> FileName:
    """Read what follows ``--- `` or ``+++ ``: a name, quoted or up to a tab, then perhaps a time.

    GNU diff says with a time of 0 that a file is absent, git with ``/dev/null``.
    """
    if row.startswith(b'"'):
        raw, rest = unquote(row, line)
    else:
        raw, _, rest = row.partition(b"\t")
    return FileName(raw, absent=raw == DEV_NULL or _is_epoch(rest.strip()))


def unquote(text: bytes, line: int) -> tuple[bytes, bytes]:
    """Undo the C quoting of a name at the start of a text, and return it with what follows the closing quote."""
    match = _QUOTED.match(text)
    if match is None:
        raise Refusal(line, f"a quoted name without its closing quote: {escape(text)}")
    for found in _ESCAPE.finditer(match[1]):
        if found[1] is None and found[2] is None:
            raise Refusal(line, f"an unknown escape in a quoted name: {escape(found[0])}")
    raw = _ESCAPE.sub(lambda m: bytes([int(m[1], 8)]) if m[1] else _LETTERS[m[2]], match[1])
    return raw, text[match.end() :]


def stripped(raw: bytes, line: int) -> bytes:
    """Return a header's name without its first folder (as ``-p1``), checked.

    Raises:
        Refusal: when there is no folder to strip, or the path is not one that a patch may touch.
    """
    if raw.startswith(b"/"):
        raise Refusal(line, f"an absolute path: {escape(raw)}")
    first, slash, path = raw.partition(b"/")
    if not slash or not first:
        raise Refusal(
            line,
            f"no folder to strip from {escape(raw)}",
            hint="make the patch with names such as a/file and b/file",
        )
    return checked(path, line)


def checked(path: bytes, line: int) -> bytes:
    """Return a path that a patch may touch.

    Raises:
        Refusal: naming why it may not.
    """
    fault = path_fault(path)
    if fault is not None:
        raise Refusal(line, fault)
    return path


def bare_name(text: bytes, line: int) -> bytes:
    """Read the name in a ``rename`` or ``copy`` row: whole, quoted or not, with no folder to strip."""
    if not text.startswith(b'"'):
        return checked(text, line)
    raw, rest = unquote(text, line)
    if rest:
        raise Refusal(line, f"text after a quoted name: {escape(rest)}")
    return checked(raw, line)


def git_names(text: bytes, line: int) -> tuple[bytes, bytes] | None:
    """Read both names, stripped, from what follows ``diff --git ``; None where the row alone does not show them.

    Unquoted names may hold spaces: then only the same name on both sides can be told.
    """
    if text.startswith(b'"'):
        old, rest = unquote(text, line)
        if not rest.startswith(b" "):
            raise Refusal(line, "no second name after diff --git")
        new = unquote(rest[1:], line)[0] if rest[1:].startswith(b'"') else rest[1:]
        return stripped(old, line), stripped(new, line)
    if text.endswith(b'"'):
        start = text.find(b' "')
        if start < 0:
            raise Refusal(line, "no second name after diff --git")
        return stripped(text[:start], line), stripped(unquote(text[start + 1 :], line)[0], line)
    splits = [index for index in range(len(text)) if text[index : index + 1] == b" "]
    same = {(o, n) for o, n in ((_rest(text[:i]), _rest(text[i + 1 :])) for i in splits) if o and o == n}
    if len(same) == 1:
        path = checked(next(iter(same))[0], line)
        return path, path
    if len(splits) == 1:
        return stripped(text[: splits[0]], line), stripped(text[splits[0] + 1 :], line)
    return None


def _rest(raw: bytes) -> bytes:
    return raw.partition(b"/")[2]


def _is_epoch(stamp: bytes) -> bool:
    match = _STAMP.fullmatch(stamp)
    if match is None:
        return False
    minutes = int(match[2]) * 60 + int(match[3])
    zone = int(match[5]) * 60 + int(match[6])
    if match[4] == b"+" or zone == 0:
        return match[1] == b"1970-01-01" and minutes == zone
    return match[1] == b"1969-12-31" and minutes == 24 * 60 - zone
