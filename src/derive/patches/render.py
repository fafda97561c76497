# SPDX-License-Identifier: Apache-2.0
"""A patch as text: one form for equal operations, which the parser reads back to these, and git and GNU patch too.

Core: no IO.

As ``git diff`` writes it, without what says nothing of the change: no ``index`` rows, no similarity. The text after a
hunk's ``@@`` is for people; it is written where the file before is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, assert_never

from derive.errors import InputErrors
from derive.patches.model import (
    Copy,
    Create,
    Delete,
    FileOperation,
    FileState,
    Hunk,
    Line,
    Modify,
    Read,
    Rename,
    SetExecutable,
    split_lines,
)
from derive.patches.model import reads as read_by
from derive.patches.parse import parse_patch

NO_NEWLINE = b"\\ No newline at end of file\n"

_Lines: TypeAlias = Sequence[bytes]
_PLAIN = re.compile(rb"[^\x00-\x1f\x7f-\xff\"\\]+")
_HEADING = re.compile(rb"[A-Za-z_$]")
_HEADING_BYTES = 80
_LETTERS = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
_MODES = {False: b"100644", True: b"100755"}


def _nothing(_: bytes) -> None:
    return None


def patch_file(name: str, header: bytes, operations: Sequence[FileOperation], read: Read = _nothing) -> bytes:
    """Return a whole patch file, checked by reading it back. ``read`` gives the files before it, for headings.

    Raises:
        InputErrors: when the header has a row that would be read as a part of the changes, naming the file.
    """
    head = header.rstrip(b"\n")
    text = (head + b"\n\n" if head else b"") + render(operations, read)
    try:
        patch = parse_patch(name, text)
        same = patch.operations == tuple(operations) and patch.header.text.rstrip(b"\n") == head
    except InputErrors as error:
        raise InputErrors.one(
            "the header cannot stand before these changes",
            where=name,
            detail=[f"{problem.where}: {problem.message}" for problem in error.problems()],
        ) from error
    if not same:
        hint = "a header has no row that begins with 'diff --git', '--- ' or '@@ -'"
        raise InputErrors.one("the header has a row that reads as a change", where=name, hint=hint)
    return text


def render(operations: Sequence[FileOperation], read: Read = _nothing) -> bytes:
    """Return the text of operations; ``read`` gives the state of a path before them, or None where that is unknown."""
    return b"".join(piece for operation in operations for piece in _file(operation, read))


def _file(operation: FileOperation, read: Read) -> Iterator[bytes]:
    source = read_by(operation)
    state = None if source is None else read(source)
    before = state if isinstance(state, FileState) else None
    match operation:
        case Modify(path=path, hunks=hunks, executable=executable):
            yield from (_git_row(path, path), *_mode_rows(executable))
            yield from (_name_row(b"---", b"a/", path), _name_row(b"+++", b"b/", path), *_hunks(hunks, before))
        case Create(path=path, contents=contents, executable=executable):
            yield from (_git_row(path, path), b"new file mode %s\n" % _MODES[executable])
            if contents:
                lines = tuple(Line("+", line) for line in split_lines(contents))
                yield from (b"--- /dev/null\n", _name_row(b"+++", b"b/", path), *_hunks((Hunk(0, lines),), None))
        case Delete(path=path, contents=contents):
            mode = _MODES[before.executable if before is not None else False]
            yield from (_git_row(path, path), b"deleted file mode %s\n" % mode)
            if contents:
                lines = tuple(Line("-", line) for line in split_lines(contents))
                yield from (_name_row(b"---", b"a/", path), b"+++ /dev/null\n", *_hunks((Hunk(1, lines),), None))
        case Rename(old=old, new=new, hunks=hunks, executable=executable):
            yield from _moved(b"rename", old, new, hunks, executable, before)
        case Copy(old=old, new=new, hunks=hunks, executable=executable):
            yield from _moved(b"copy", old, new, hunks, executable, before)
        case SetExecutable(path=path, executable=executable):
            yield from (_git_row(path, path), *_mode_rows(executable))
        case _:
            assert_never(operation)


def _moved(
    word: bytes, old: bytes, new: bytes, hunks: Sequence[Hunk], executable: bool | None, before: FileState | None
) -> Iterator[bytes]:
    yield from (_git_row(old, new), *_mode_rows(executable))
    yield from (b"%s from %s\n" % (word, _name(old)), b"%s to %s\n" % (word, _name(new)))
    if hunks:
        yield from (_name_row(b"---", b"a/", old), _name_row(b"+++", b"b/", new), *_hunks(hunks, before))


def _git_row(old: bytes, new: bytes) -> bytes:
    # A name in which another could begin is quoted, so that this row alone shows both.
    quote: Callable[[bytes], bytes] = quoted if b" " in old + new else _name
    return b"diff --git %s %s\n" % (quote(b"a/" + old), quote(b"b/" + new))


def _name_row(mark: bytes, prefix: bytes, path: bytes) -> bytes:
    # GNU patch takes a name up to a space, unless a tab ends it.
    return b"%s %s%s\n" % (mark, _name(prefix + path), b"\t" if b" " in path else b"")


def _mode_rows(executable: bool | None) -> Iterator[bytes]:
    if executable is not None:
        yield b"old mode %s\n" % _MODES[not executable]
        yield b"new mode %s\n" % _MODES[executable]


def _hunks(hunks: Sequence[Hunk], before: FileState | None) -> Iterator[bytes]:
    lines = split_lines(before.contents) if before is not None else []
    shift = 0
    for hunk in hunks:
        old, new = len(hunk.old), len(hunk.new)
        # An empty side is numbered by the line before it.
        start = hunk.start + shift + (0 if old else 1) - (0 if new else 1)
        heading = _heading(lines, hunk.start - 1)
        yield b"@@ -%s +%s @@%s\n" % (_range(hunk.start, old), _range(start, new), heading)
        for line in hunk.lines:
            yield line.tag.encode() + line.content
            if not line.content.endswith(b"\n"):
                yield b"\n" + NO_NEWLINE
        shift += new - old


def _range(start: int, count: int) -> bytes:
    return b"%d" % start if count == 1 else b"%d,%d" % (start, count)


def _heading(lines: _Lines, index: int) -> bytes:
    """Return the nearest line above that begins at the margin with a word, as git shows it."""
    for at in range(min(index, len(lines)) - 1, -1, -1):
        if _HEADING.match(lines[at]):
            text = lines[at][:_HEADING_BYTES].rstrip()
            return b" " + text.replace(b"\0", b"?") if text else b""
    return b""


def _name(name: bytes) -> bytes:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def quoted(name: bytes) -> bytes:
    """Return a name in C's quotes, as git reads it."""
    return b'"' + b"".join(_LETTERS.get(byte) or _byte(byte) for byte in name) + b'"'


def _byte(byte: int) -> bytes:
    return bytes((byte,)) if 0x20 <= byte < 0x7F else b"\\%03o" % byte
