# SPDX-License-Identifier: Apache-2.0
"""Two files of Python byte code: their headers, then their code objects, name by name.

Core: no IO. Nothing is unmarshalled (marshalled.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from derive.differ.marshalled import Atom, Code, Node, Several, read_marshalled
from derive.differ.model import Content, Report, Unread
from derive.differ.raw import compare_raw, first_of

_VERSIONS = ((3495, "3.11"), (3531, "3.12"), (3571, "3.13"))
_FIRST, _LAST = 3450, 3599  # the numbers of 3.11 to 3.13
_STEPS = 200_000
_KINDS = {0: "by time", 1: "by hash, not checked", 3: "by hash, checked"}


def is_pyc(head: bytes) -> bool:
    """Say whether the first bytes are those of byte code of a Python 3."""
    return len(head) >= 16 and head[2:4] == b"\r\n" and 3000 <= int.from_bytes(head[:2], "little") < 4000


def compare_pyc(report: Report, first: bytes, second: bytes) -> None:
    """Say what differs; raises Unread for versions and bytes that are not known here."""
    _headers(report, first, second)
    numbers = [int.from_bytes(data[:2], "little") for data in (first, second)]
    if any(not _FIRST <= one <= _LAST for one in numbers) or numbers[0] != numbers[1]:
        raise Unread("byte code of versions that are not compared here")
    if first[16:] == second[16:]:
        return
    old, new = read_marshalled(first[16:]), read_marshalled(second[16:])
    rows = list(_Walk(report.limits.rows * 50).differences("", old, new))
    if not rows:
        report.say("the same objects, marshalled otherwise: which are shared, and where they are written once")
        compare_raw(report, (Content.of(first), Content.of(second)))
    report.rows(rows)


def _headers(report: Report, first: bytes, second: bytes) -> None:
    if first[:4] != second[:4]:
        report.say(f"compiled by Python {_version(first)} -> {_version(second)}")
    flags = [int.from_bytes(data[4:8], "little") for data in (first, second)]
    if flags[0] != flags[1]:
        report.say(f"loaded {' -> '.join(_KINDS.get(one, f'with flags {one}') for one in flags)}")
    if first[8:16] == second[8:16]:
        return
    if flags[0] & flags[1] & 1:
        report.say(f"hash of its source: {first[8:16].hex()} -> {second[8:16].hex()}")
    elif not (flags[0] | flags[1]) & 1:
        for what, at in (("time of its source", 8), ("size of its source", 12)):
            old, new = (int.from_bytes(data[at : at + 4], "little") for data in (first, second))
            if old != new:
                report.say(f"{what}: {old} -> {new}")


def _version(data: bytes) -> str:
    number = int.from_bytes(data[:2], "little")
    return dict(_VERSIONS).get(number, f"of byte code {number}")


class _Walk:
    """Compares objects; those that refer to each other can be walked for ever, so steps are counted."""

    def __init__(self, most: int) -> None:
        self._left = _STEPS
        self._rows = most

    def differences(self, place: str, old: Node, new: Node) -> Iterator[str]:
        """Yield what differs below a place, up to the limit."""
        for row in self._below(place, old, new):
            self._rows -= 1
            yield row
            if self._rows <= 0:
                return

    def _below(self, place: str, old: Node, new: Node) -> Iterator[str]:
        self._left -= 1
        if self._left < 0:
            raise Unread("too many objects that refer to each other")
        if old is new:
            return
        if isinstance(old, Code) and isinstance(new, Code):
            yield from self._codes(old, new)
        elif isinstance(old, Several) and isinstance(new, Several) and old.kind == new.kind:
            if len(old.items) != len(new.items):
                yield f"{place}: {len(old.items)} -> {len(new.items)} elements"
            for index, (left, right) in enumerate(zip(old.items, new.items, strict=False)):
                yield from self._below(f"{place}[{index}]", left, right)
        elif isinstance(old, Atom) and isinstance(new, Atom):
            if old != new:
                yield _atoms(place, old, new)
        else:
            yield f"{place}: {_kind(old)} -> {_kind(new)}"

    def _codes(self, old: Code, new: Code) -> Iterator[str]:
        name = old.name
        for what in old.numbers:
            if old.numbers[what] != new.numbers[what]:
                yield f"{name}: {what} {old.numbers[what]} -> {new.numbers[what]}"
        yield from self._below(f"{name}: byte code", old.code, new.code)
        for what in old.objects:
            yield from self._below(f"{name}: {what}", old.objects[what], new.objects[what])


def _atoms(place: str, old: Atom, new: Atom) -> str:
    if isinstance(old.value, bytes) and isinstance(new.value, bytes):
        at = first_of(old.value, new.value)
        sizes = f", {len(old.value)} -> {len(new.value)} bytes" if len(old.value) != len(new.value) else ""
        return f"{place} from byte {at} on{sizes}"
    return f"{place}: {_text(old)} -> {_text(new)}"


def _text(atom: Atom) -> str:
    text = repr(atom.value) if atom.kind in ("str", "bytes") else str(atom.value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _kind(node: Node) -> str:
    match node:
        case Atom():
            return f"{node.kind} {_text(node)}"
        case Several():
            return f"{node.kind} of {len(node.items)}"
        case Code():
            return f"code of {node.name}"
