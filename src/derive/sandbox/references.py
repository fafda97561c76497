# SPDX-License-Identifier: Apache-2.0
"""Finds the sandbox's own paths in what a script made: a finished output must not lead back to where it was made.

Core: no IO. Members are watched while something else consumes them, so that contents are read once.

Where a path begins and ends is a matter of rule, or ``/output`` and ``lib/build`` would be findings:
docs/builders/script.md states it. Binary files have one more, because their strings stand side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from derive.canonical import escape
from derive.trees.listing import Symlink
from derive.trees.pack import Member, NewFile

SANDBOX_PATHS = (b"/in/", b"/out", b"/build")

Place: TypeAlias = Literal["contents", "link target", "name"]

_NAME = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+-~%@")
_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_CONTINUED = _NAME | frozenset(b"/)}*?\\<") | frozenset(range(0x80, 0x100))
"""Bytes after which a slash begins no path of its own, in text: ``lib/out``, ``${dir}/out``, ``//out``, ``</out>``."""

_JOINED = _NAME | frozenset(b"(){}*$")
"""Bytes of a path as programs hold them, with what they fill in: ``modules/%1$s/build``."""

_SLASH, _DOT = b"/."
_BEFORE = 64  # bytes that the rules look back
_HEAD = 8192  # a file with a zero byte this early is binary


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Reference:
    """A forbidden text in an output: the first of ``count`` in this file, at ``offset`` bytes (0 outside contents)."""

    path: bytes
    text: bytes
    place: Place
    offset: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Allowance:
    """A declared exception: ``text`` may stand in the files that ``path`` matches (``*`` also matches slashes)."""

    path: str
    text: str
    reason: str


class Matcher:
    """Searches one stream of contents, in pieces of any size, for texts that begin with a slash."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._texts = texts
        self._search = re.compile(b"|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)))
        self._longest = max(map(len, texts))
        self.begin()

    def begin(self) -> None:
        """Forget everything and start a new stream."""
        self.hits: dict[bytes, tuple[int, int]] = {}
        self._kept = b""  # the end of what was seen: undecided bytes, and the few before them
        self._undecided = 0  # where in the kept bytes the undecided ones begin
        self._offset = 0  # of the kept bytes in the stream
        self._binary: bool | None = None

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        buffer = self._kept + data if self._kept else data
        if self._binary is None:
            self._binary = b"\0" in buffer[:_HEAD]
            if not self._binary and len(buffer) < _HEAD:
                self._binary = None
                self._kept = buffer
                return
        self._decide(buffer, max(self._undecided, len(buffer) - self._longest))

    def finish(self) -> dict[bytes, tuple[int, int]]:
        """Return, for each text that occurs, its first offset in bytes and how often it occurs."""
        if self._binary is None:
            self._binary = b"\0" in self._kept
        self._decide(self._kept, len(self._kept))
        return self.hits

    def _decide(self, buffer: bytes, until: int) -> None:
        """Judge the occurrences that begin before ``until``, and keep what later ones need."""
        decided = until
        for found in self._search.finditer(buffer, self._undecided):
            start = found.start()
            if start >= until:
                break
            decided = max(until, found.end())
            text = found.group()
            if ends_path(buffer, found.end(), text) and (
                begins_path(buffer, start) or (self._binary and begins_string(buffer, start, found.end()))
            ):
                first, count = self.hits.get(text, (self._offset + start, 0))
                self.hits[text] = (first, count + 1)
        keep = max(0, decided - _BEFORE)
        self._kept = buffer[keep:]
        self._offset += keep
        self._undecided = decided - keep


def begins_path(buffer: bytes, start: int) -> bool:
    """Say whether the slash at ``start`` begins a path: nothing before it, or nothing that a path continues."""
    if start == 0 or buffer[start - 1] not in _CONTINUED:
        return True
    before = buffer[max(0, start - 3) : start]
    if before.endswith(b"//"):  # file:///build
        return True
    is_option = len(before) >= 2 and before[-1] in _LETTERS and before[-2] == ord("-")  # -I/build
    return is_option and (len(before) == 2 or before[0] not in _NAME)


def begins_string(buffer: bytes, start: int, end: int) -> bool:
    """Say whether a path in a binary file begins right after another string or a length, as compilers lay them out.

    It goes on after the text (``value/build/lib.rs`` is two strings, ``fetch/build it`` is none of ours), and no
    slash or dot before it makes it part of a longer path (``src/lib/build/x.c``, ``./build/x.c``).
    """
    if buffer[end - 1 : end] != b"/" and buffer[end : end + 1] != b"/":
        return False
    for position in range(start - 1, max(-1, start - 1 - _BEFORE), -1):
        byte = buffer[position]
        if byte == _SLASH or (byte == _DOT and position == start - 1):
            return False
        if byte not in _JOINED:
            break
    return True


def ends_path(buffer: bytes, end: int, text: bytes) -> bool:
    """Say whether a path component ends at ``end``: with the buffer, or before an ASCII byte that no name holds."""
    return text.endswith(b"/") or end == len(buffer) or (buffer[end] < 0x80 and buffer[end] not in _NAME)


@dataclass(slots=True)
class ReferenceScan:
    """Watches members go by, and collects the references in names, link targets and contents."""

    texts: Sequence[bytes]
    found: list[Reference] = field(default_factory=list)

    def watch(self, members: Iterable[tuple[bytes, Member]]) -> Iterator[tuple[bytes, Member]]:
        """Yield the members unchanged; a new file's contents are searched as they are consumed."""
        matcher = Matcher(self.texts)
        for path, member in members:
            self._look_at_name(path)
            if isinstance(member, NewFile):
                yield path, NewFile(member.executable, self._contents(path, member.chunks, matcher))
                continue
            if isinstance(member, Symlink):
                # A link target is text, whatever its bytes.
                self._search_text(path, member.target, matcher)
            yield path, member

    def _contents(self, path: bytes, chunks: Iterable[bytes], matcher: Matcher) -> Iterator[bytes]:
        matcher.begin()
        for chunk in chunks:
            matcher.feed(chunk)
            yield chunk
        self._add(path, "contents", matcher.finish())

    def _search_text(self, path: bytes, target: bytes, matcher: Matcher) -> None:
        matcher.begin()
        matcher.feed(target)
        self._add(path, "link target", matcher.finish())

    def _look_at_name(self, path: bytes) -> None:
        """An output's own path is absolute once installed: only its very beginning can be one of the texts."""
        for text in self.texts:
            if path == text.strip(b"/"):
                self._add(path, "name", {text: (0, 1)})

    def _add(self, path: bytes, place: Place, hits: dict[bytes, tuple[int, int]]) -> None:
        for text, (offset, count) in hits.items():
            self.found.append(Reference(path=path, text=text, place=place, offset=offset, count=count))


def judge_references(
    found: Iterable[Reference], allowances: Sequence[Allowance]
) -> tuple[tuple[Reference, ...], tuple[Allowance, ...]]:
    """Return the references that nothing allows, sorted, and the allowances that allow nothing any more."""
    used: set[Allowance] = set()
    refused: list[Reference] = []
    for reference in sorted(found):
        by = [allowance for allowance in allowances if _covers(allowance, reference)]
        used.update(by)
        if not by:
            refused.append(reference)
    return tuple(refused), tuple(sorted(set(allowances) - used))


def _covers(allowance: Allowance, reference: Reference) -> bool:
    return allowance.text.encode() == reference.text and fnmatchcase(escape(reference.path), allowance.path)
