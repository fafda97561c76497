# SPDX-License-Identifier: Apache-2.0
"""What enters a derivation of a patch: its file operations and hunks, as one JSON value that can be read back.

Core: no IO.

Not in it, because the patched tree does not depend on them: the patch's file name, its header (author, date, subject,
diffstat), git's index and similarity rows, the section text after a hunk's ``@@``, the counts and the new start of a
hunk (they follow from its lines), and the series' comments, blank lines and licence. The form is specified in
docs/builders/patch.md; two different lists of operations never have the same document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar, assert_never

from derive.canonical import CanonicalError, Json, escape, unescape
from derive.errors import InputErrors, expected_got
from derive.patches.model import (
    Copy,
    Create,
    Delete,
    FileOperation,
    Hunk,
    Line,
    Modify,
    Patch,
    Rename,
    SetExecutable,
    Tag,
    conflicts,
    hunk_faults,
    path_fault,
    split_lines,
)

_T = TypeVar("_T")
_NO_NEWLINE = "\\"
_TAGS: Mapping[str, Tag] = {" ": " ", "+": "+", "-": "-"}


def patch_document(operations: Sequence[FileOperation]) -> dict[str, Json]:
    """Return the JSON value of one patch's operations."""
    return {"operations": [_operation(operation) for operation in operations]}


def series_document(patches: Iterable[Patch]) -> list[Json]:
    """Return the JSON value of patches in their order: the ``series`` argument of the patch builder."""
    return [patch_document(patch.operations) for patch in patches]


def from_document(document: Json, *, where: str = "patches") -> tuple[FileOperation, ...]:
    """Read back what :func:`patch_document` wrote.

    Raises:
        InputErrors: when it is anything else; ``where`` stands before the key path.
    """
    (listed,) = _keys(document, where, "operations")
    operations = tuple(_each(listed, f"{where}.operations", _read_operation))
    if not operations:
        raise InputErrors.one("no operation", where=where)
    for index, message in conflicts(operations):
        raise InputErrors.one(message, where=f"{where}.operations[{index}]")
    return operations


def series_from_document(document: Json, *, where: str = "patches") -> tuple[tuple[FileOperation, ...], ...]:
    """Read back what :func:`series_document` wrote.

    Raises:
        InputErrors: when it is anything else.
    """
    return tuple(_each(document, where, lambda item, place: from_document(item, where=place)))


def _operation(operation: FileOperation) -> dict[str, Json]:
    match operation:
        case Modify(path=path, hunks=hunks, executable=executable):
            return {"op": "modify", "path": escape(path), "executable": executable, "hunks": _hunks(hunks)}
        case Create(path=path, contents=contents, executable=executable):
            lines = _lines(Line("+", content) for content in split_lines(contents))
            return {"op": "create", "path": escape(path), "executable": executable, "lines": lines}
        case Delete(path=path, contents=contents):
            lines = _lines(Line("-", content) for content in split_lines(contents))
            return {"op": "delete", "path": escape(path), "lines": lines}
        case Rename() | Copy():
            return {
                "op": "rename" if isinstance(operation, Rename) else "copy",
                "from": escape(operation.old),
                "to": escape(operation.new),
                "executable": operation.executable,
                "hunks": _hunks(operation.hunks),
            }
        case SetExecutable(path=path, executable=executable):
            return {"op": "set-executable", "path": escape(path), "executable": executable}
        case _:
            assert_never(operation)


def _hunks(hunks: Sequence[Hunk]) -> list[Json]:
    return [{"line": hunk.start, "lines": _lines(hunk.lines)} for hunk in hunks]


def _lines(lines: Iterable[Line]) -> list[Json]:
    texts: list[Json] = []
    for line in lines:
        texts.append(line.tag + escape(line.content.removesuffix(b"\n")))
        if not line.content.endswith(b"\n"):
            texts.append(_NO_NEWLINE)
    return texts


def _read_operation(item: Json, where: str) -> FileOperation:
    kind = item.get("op") if isinstance(item, Mapping) else None
    match kind:
        case "modify":
            _, path, executable, hunks = _keys(item, where, "op", "path", "executable", "hunks")
            found = _read_hunks(hunks, where)
            if not found:
                raise InputErrors.one("no hunk", where=where)
            return Modify(path=_path(path, where), executable=_optional_flag(executable, where), hunks=found)
        case "create":
            _, path, executable, lines = _keys(item, where, "op", "path", "executable", "lines")
            contents = _contents(lines, where, "+")
            return Create(path=_path(path, where), executable=_flag(executable, where), contents=contents)
        case "delete":
            _, path, lines = _keys(item, where, "op", "path", "lines")
            return Delete(path=_path(path, where), contents=_contents(lines, where, "-"))
        case "rename" | "copy":
            _, old, new, executable, hunks = _keys(item, where, "op", "from", "to", "executable", "hunks")
            return (Rename if kind == "rename" else Copy)(
                old=_path(old, where),
                new=_path(new, where),
                executable=_optional_flag(executable, where),
                hunks=_read_hunks(hunks, where),
            )
        case "set-executable":
            _, path, executable = _keys(item, where, "op", "path", "executable")
            return SetExecutable(path=_path(path, where), executable=_flag(executable, where))
        case _:
            raise InputErrors.one(f"not an operation of a patch: {kind!r}", where=where)


def _read_hunks(value: Json, where: str) -> tuple[Hunk, ...]:
    hunks = tuple(_each(value, f"{where}.hunks", _read_hunk))
    for index, message in hunk_faults(hunks):
        raise InputErrors.one(f"this hunk {message}", where=f"{where}.hunks[{index}]")
    return hunks


def _read_hunk(item: Json, where: str) -> Hunk:
    start, lines = _keys(item, where, "line", "lines")
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise InputErrors.one("not a line number", where=f"{where}.line", detail=expected_got("0 or more", start))
    return Hunk(start, tuple(_read_lines(lines, f"{where}.lines")))


def _read_lines(value: Json, where: str) -> list[Line]:
    lines: list[Line] = []
    for text in _each(value, where, _text):
        if text == _NO_NEWLINE:
            if not lines or not lines[-1].content.endswith(b"\n") or lines[-1].content == b"\n":
                raise InputErrors.one("a no-newline mark after no line", where=where)
            lines[-1] = Line(lines[-1].tag, lines[-1].content[:-1])
            continue
        tag = _TAGS.get(text[:1])
        content = _bytes(text[1:], where)
        if tag is None or b"\n" in content:
            raise InputErrors.one(f"not a line of a hunk: {text!r}", where=where)
        lines.append(Line(tag, content + b"\n"))
    return lines


def _contents(value: Json, where: str, tag: Tag) -> bytes:
    lines = _read_lines(value, f"{where}.lines")
    if any(line.tag != tag for line in lines) or any(not line.content.endswith(b"\n") for line in lines[:-1]):
        raise InputErrors.one(f"not the lines of one file, each with {tag!r} before it", where=f"{where}.lines")
    return b"".join(line.content for line in lines)


def _path(value: Json, where: str) -> bytes:
    path = _bytes(_text(value, where), where)
    fault = path_fault(path)
    if fault is not None:
        raise InputErrors.one(fault, where=where)
    return path


def _bytes(text: str, where: str) -> bytes:
    try:
        return unescape(text)
    except CanonicalError as error:
        raise InputErrors.one(str(error), where=where) from error


def _text(value: Json, where: str) -> str:
    if not isinstance(value, str):
        raise InputErrors.one("not a text", where=where, detail=expected_got("a string", type(value).__name__))
    return value


def _flag(value: Json, where: str) -> bool:
    if not isinstance(value, bool):
        raise InputErrors.one("executable is not true or false", where=where)
    return value


def _optional_flag(value: Json, where: str) -> bool | None:
    return None if value is None else _flag(value, where)


def _keys(value: Json, where: str, *names: str) -> tuple[Json, ...]:
    """Return the values of exactly these keys."""
    if not isinstance(value, Mapping) or set(value) != set(names):
        got = ", ".join(sorted(value)) if isinstance(value, Mapping) else type(value).__name__
        raise InputErrors.one(
            "not the keys of this value", where=where, detail=expected_got(", ".join(sorted(names)), got)
        )
    return tuple(value[name] for name in names)


def _each(value: Json, where: str, read: Callable[[Json, str], _T]) -> list[_T]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InputErrors.one("not a list", where=where, detail=expected_got("a list", type(value).__name__))
    return [read(item, f"{where}[{index}]") for index, item in enumerate(value)]
