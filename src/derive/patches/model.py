# SPDX-License-Identifier: Apache-2.0
r"""A patch is a set of file operations; a hunk is exact lines at a stated place. Nothing else about a patch is a fact.

Core: no IO.

All operations of one patch read the state before it, so a rename may swap two files and a copy sees its source
unmodified. Contents are bytes throughout: a line keeps its own ending, and a line without ``\n`` is the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from derive.canonical import escape
from derive.trees.listing import Directory, ListingError, Symlink, check_path

Tag: TypeAlias = Literal[" ", "+", "-"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A regular file: its contents and owner-execute bit."""

    contents: bytes
    executable: bool = False


State: TypeAlias = FileState | Symlink | Directory | None
"""What is at a path; None when nothing is."""

Read: TypeAlias = Callable[[bytes], State]
"""Gives the state of a path before a patch or a series. Symbolic links are not followed."""


@dataclass(frozen=True, slots=True)
class Line:
    r"""One line of a hunk; ``content`` holds its ``\n`` unless the file ends without one."""

    tag: Tag
    content: bytes


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines kept, removed and added, from line ``start`` (1-based) of the old file; 0 when the old file is empty.

    The new start and both counts follow from these, so they are not kept.
    """

    start: int
    lines: tuple[Line, ...]

    @property
    def old(self) -> list[bytes]:
        """The lines that must be there before."""
        return [line.content for line in self.lines if line.tag != "+"]

    @property
    def new(self) -> list[bytes]:
        """The lines that are there afterwards."""
        return [line.content for line in self.lines if line.tag != "-"]

    @property
    def leading(self) -> int:
        """How many context lines stand before the first change."""
        return _context(self.lines)

    @property
    def trailing(self) -> int:
        """How many context lines stand after the last change."""
        return _context(reversed(self.lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Modify:
    """Change an existing file; ``executable`` None keeps its bit."""

    path: bytes
    hunks: tuple[Hunk, ...]
    executable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Write a file where there is none."""

    path: bytes
    contents: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Remove a file that holds exactly these contents."""

    path: bytes
    contents: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """Move a file, changing it on the way."""

    old: bytes
    new: bytes
    hunks: tuple[Hunk, ...] = ()
    executable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copy a file as it was before the patch, changing the copy."""

    old: bytes
    new: bytes
    hunks: tuple[Hunk, ...] = ()
    executable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetExecutable:
    """Set or clear a file's owner-execute bit and nothing else."""

    path: bytes
    executable: bool


FileOperation: TypeAlias = Modify | Create | Delete | Rename | Copy | SetExecutable


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What stands before the first file: for people only, never in an identity.

    ``licence`` is the SPDX expression of a ``SPDX-License-Identifier:`` line, if there is one.
    """

    text: bytes = b""
    licence: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One patch file as read. Invariant: at least one operation, and :func:`conflicts` finds nothing."""

    name: str
    header: Header
    operations: tuple[FileOperation, ...]


def split_lines(contents: bytes) -> list[bytes]:
    r"""Split at ``\n`` alone, each line keeping its own; the last one may have none."""
    rows = contents.split(b"\n")
    last = rows.pop()
    lines = [row + b"\n" for row in rows]
    if last:
        lines.append(last)
    return lines


def path_fault(path: bytes) -> str | None:
    """Say why a path may not be touched by a patch, or None."""
    try:
        check_path(path)
    except ListingError as error:
        return str(error)
    if not path:
        return "an empty path"
    if any(part.lower() == b".git" for part in path.split(b"/")):
        return f"a path inside git's own folder: {escape(path)}"
    return None


def hunk_faults(hunks: Sequence[Hunk]) -> Iterator[tuple[int, str]]:
    """Yield (index, what is wrong) for the hunks of one operation, from what the hunks alone show."""
    floor = 1
    for index, hunk in enumerate(hunks):
        fault = _hunk_fault(hunk, first=index == 0, last=index == len(hunks) - 1)
        if fault is None and not hunk.old and len(hunks) > 1:
            fault = "a hunk for an empty file is not the only one"
        if fault is None and 0 < hunk.start < floor:
            fault = f"begins at line {hunk.start}, before the end of the hunk above it (line {floor - 1})"
        if fault is not None:
            yield index, fault
        floor = max(floor, hunk.start + len(hunk.old))


def conflicts(operations: Sequence[FileOperation]) -> Iterator[tuple[int, str]]:
    """Yield (index, what is wrong) where two operations of one patch do not go together."""
    written: set[bytes] = set()
    removed: set[bytes] = set()
    edited: set[bytes] = set()
    for index, operation in enumerate(operations):
        gone, made = removes(operation), writes(operation)
        if gone is not None and gone == made:
            yield index, f"renames {escape(gone)} to itself"
        if isinstance(operation, Copy) and operation.old == operation.new:
            yield index, f"copies {escape(operation.old)} to itself"
        if made is not None and made in written:
            yield index, f"writes {escape(made)} a second time"
        if gone is not None and gone in removed | edited:
            yield index, f"removes {escape(gone)}, which an operation above changes or removes"
        if isinstance(operation, Modify | SetExecutable):
            if operation.path in removed:
                yield index, f"changes {escape(operation.path)}, which an operation above removes"
            edited.add(operation.path)
        written.update(() if made is None else (made,))
        removed.update(() if gone is None else (gone,))


def reads(operation: FileOperation) -> bytes | None:
    """Return the path whose state an operation starts from."""
    match operation:
        case Rename() | Copy():
            return operation.old
        case Modify() | Delete() | SetExecutable():
            return operation.path
        case Create():
            return None
        case _:
            assert_never(operation)


def writes(operation: FileOperation) -> bytes | None:
    """Return the path that holds an operation's result."""
    match operation:
        case Rename() | Copy():
            return operation.new
        case Modify() | Create() | SetExecutable():
            return operation.path
        case Delete():
            return None
        case _:
            assert_never(operation)


def removes(operation: FileOperation) -> bytes | None:
    """Return the path that is gone after an operation."""
    match operation:
        case Rename():
            return operation.old
        case Delete():
            return operation.path
        case Modify() | Create() | Copy() | SetExecutable():
            return None
        case _:
            assert_never(operation)


def hunks_of(operation: FileOperation) -> tuple[Hunk, ...]:
    """Return the hunks of an operation, none for one that has whole contents or none."""
    match operation:
        case Modify() | Rename() | Copy():
            return operation.hunks
        case Create() | Delete() | SetExecutable():
            return ()
        case _:
            assert_never(operation)


def counts(operation: FileOperation) -> tuple[int, int]:
    """Return how many lines an operation adds and how many it removes."""
    match operation:
        case Create(contents=contents):
            return len(split_lines(contents)), 0
        case Delete(contents=contents):
            return 0, len(split_lines(contents))
        case Modify() | Rename() | Copy() | SetExecutable():
            tags = [line.tag for hunk in hunks_of(operation) for line in hunk.lines]
            return tags.count("+"), tags.count("-")
        case _:
            assert_never(operation)


def _context(lines: Iterable[Line]) -> int:
    count = 0
    for line in lines:
        if line.tag != " ":
            break
        count += 1
    return count


def _hunk_fault(hunk: Hunk, *, first: bool, last: bool) -> str | None:
    old, new = hunk.old, hunk.new
    faults = (
        (old == new, "changes nothing: its removed and added lines are the same"),
        (not all(map(_is_line, hunk.lines)), "holds a line that is no line"),
        (
            not all(content.endswith(b"\n") for side in (old, new) for content in side[:-1]),
            "has a line without a newline that is not the last of its file",
        ),
        (not old and hunk.start > 0, "neither keeps nor removes a line, so it does not show where it belongs"),
        (bool(old) and hunk.start < 1, "begins at line 0 of a file that has lines"),
        (
            bool(old) and hunk.leading == 0 and not (first and hunk.start == 1),
            "has no context before its change, though it is not at the start of the file",
        ),
        (hunk.trailing == 0 and not last, "has no context after its change, though another hunk follows"),
    )
    return next((message for wrong, message in faults if wrong), None)


def _is_line(line: Line) -> bool:
    return bool(line.content) and b"\n" not in line.content[:-1]
