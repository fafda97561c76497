# SPDX-License-Identifier: Apache-2.0
"""One file's changes as git writes them: the extended header says what kind of operation it is.

Core: no IO.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.canonical import escape
from derive.errors import expected_got
from derive.patches.hunks import check_after, read_hunks
from derive.patches.model import Copy, FileOperation, Hunk, Modify, Rename, SetExecutable
from derive.patches.names import FileName, bare_name, file_name, git_names, stripped
from derive.patches.operations import created, deleted, refuse_unread
from derive.patches.reader import Refusal, Rows, header_row

_KEYS = (
    b"old mode ",
    b"new mode ",
    b"new file mode ",
    b"deleted file mode ",
    b"rename from ",
    b"rename to ",
    b"copy from ",
    b"copy to ",
    b"similarity index ",
    b"dissimilarity index ",
    b"index ",
)
_PAIRS = ((b"old mode ", b"new mode "), (b"rename from ", b"rename to "), (b"copy from ", b"copy to "))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extended:
    """The header of one file: ``fields`` maps each row's key to its value and line."""

    line: int
    names: tuple[bytes, bytes] | None
    fields: dict[bytes, tuple[bytes, int]]
    files: tuple[FileName, FileName] | None

    def has(self, key: bytes) -> bool:
        return key in self.fields

    @property
    def creates(self) -> bool:
        return self.has(b"new file mode ") or (self.files is not None and self.files[0].absent)

    @property
    def deletes(self) -> bool:
        return self.has(b"deleted file mode ") or (self.files is not None and self.files[1].absent)

    @property
    def moves(self) -> bool:
        return self.has(b"rename from ") or self.has(b"copy from ")


def read_git_file(rows: Rows, refusals: list[Refusal]) -> FileOperation | None:
    """Read the file whose ``diff --git`` row is at the cursor; None when one of its hunks was refused.

    Raises:
        Refusal: when the header is wrong or of a kind that is not applied.
    """
    header = _read_header(rows)
    _check_kind(header)
    old, new = _paths(header)
    executable = _executable_change(header)
    hunks = read_hunks(rows, refusals)
    if hunks is None:
        return None
    if not hunks:
        if header.files is not None:
            raise Refusal(header.line, "a file without a hunk")
        check_after(rows)
    return _operation(header, old, new, executable, hunks)


def _operation(
    header: _Extended, old: bytes, new: bytes, executable: bool | None, hunks: tuple[Hunk, ...]
) -> FileOperation:
    if header.creates:
        return created(new, hunks, executable=executable or False, line=header.line)
    if header.deletes:
        return deleted(old, hunks, line=header.line)
    if header.has(b"rename from "):
        return Rename(old=old, new=new, hunks=hunks, executable=executable)
    if header.has(b"copy from "):
        return Copy(old=old, new=new, hunks=hunks, executable=executable)
    if hunks:
        return Modify(path=new, hunks=hunks, executable=executable)
    if executable is None:
        raise Refusal(header.line, f"changes nothing in {escape(new)}", hint="delete this file's lines from the patch")
    return SetExecutable(path=new, executable=executable)


def _read_header(rows: Rows) -> _Extended:
    line = rows.line
    if not (rows.peek() or b"").startswith(b"diff --git "):
        raise Refusal(line, "a combined diff of a merge", hint="make the patch against one parent")
    names = git_names(header_row(rows)[len(b"diff --git ") :], line)
    fields: dict[bytes, tuple[bytes, int]] = {}
    while (key := _key(rows.peek() or b"")) is not None:
        if key in fields:
            raise Refusal(rows.line, f"a second {key.decode().strip()} row")
        fields[key] = (header_row(rows)[len(key) :], rows.line - 1)
    for first, second in _PAIRS:
        if (first in fields) != (second in fields):
            raise Refusal(line, f"{first.decode()}and {second.decode()}do not stand together")
    refuse_unread(rows)
    files: tuple[FileName, FileName] | None = None
    if rows.at_block() and (rows.peek() or b"").startswith(b"--- "):
        at = rows.line
        files = (file_name(header_row(rows)[4:], at), file_name(header_row(rows)[4:], at + 1))
    return _Extended(line=line, names=names, fields=fields, files=files)


def _key(row: bytes) -> bytes | None:
    return next((key for key in _KEYS if row.startswith(key)), None)


def _check_kind(header: _Extended) -> None:
    kinds = (header.creates, header.deletes, header.has(b"rename from "), header.has(b"copy from "))
    if sum(kinds) > 1:
        raise Refusal(header.line, "more than one of creates, deletes, renames, copies")
    if header.has(b"old mode ") and (header.creates or header.deletes):
        raise Refusal(header.line, "a mode change of a file that is created or deleted")
    if header.files is not None and (header.creates, header.deletes) != tuple(f.absent for f in header.files):
        raise Refusal(header.line, "a created or deleted file whose --- or +++ row does not say /dev/null")


def _paths(header: _Extended) -> tuple[bytes, bytes]:
    """Return the old and new path, from whichever rows give them; all that do must agree."""
    stated = header.names
    for first, second in _PAIRS[1:]:
        if header.has(first):
            moved = (bare_name(*header.fields[first]), bare_name(*header.fields[second]))
            _agree(header.line, stated, moved)
            stated = moved
    if header.files is not None:
        found = [None if name.absent else stripped(name.raw, header.line) for name in header.files]
        only = next(path for path in (*found, *reversed(found)) if path is not None)
        shown = (found[0] or only, found[1] or only)
        _agree(header.line, stated, shown)
        stated = stated or shown
    if stated is None:
        raise Refusal(header.line, "no row shows the file's name", hint="make the patch again with git diff")
    if stated[0] != stated[1] and not header.moves:
        raise Refusal(
            header.line, "the names before and after differ, and no row says rename or copy", detail=_both(stated)
        )
    return stated


def _agree(line: int, stated: tuple[bytes, bytes] | None, found: tuple[bytes, bytes]) -> None:
    if stated is not None and stated != found:
        raise Refusal(line, "the names in the rows of one file differ", detail=(*_both(stated), *_both(found)))


def _both(names: tuple[bytes, bytes]) -> tuple[str, ...]:
    return (f"names     {escape(names[0])} -> {escape(names[1])}",)


def _executable_change(header: _Extended) -> bool | None:
    """Return the owner-execute bit that the header sets, None when it changes none; refuse links and submodules."""
    modes = {key: _owner_execute(*header.fields[key]) for key in _KEYS[:4] if header.has(key)}
    if header.has(b"index "):
        _, _, mode = header.fields[b"index "][0].partition(b" ")
        if mode:
            _owner_execute(mode, header.fields[b"index "][1])
    if b"new file mode " in modes:
        return modes[b"new file mode "]
    if modes.get(b"old mode ") == modes.get(b"new mode "):
        return None
    return modes[b"new mode "]


def _owner_execute(mode: bytes, line: int) -> bool:
    if mode == b"120000":
        raise Refusal(
            line,
            "a change of a symbolic link, which a patch does not make here",
            hint="make the link in the derivation that uses the patched tree",
        )
    if mode == b"160000":
        raise Refusal(line, "a change of a submodule", hint="lock the submodule as a source of its own")
    if len(mode) != 6 or not mode.startswith(b"100") or not set(mode) <= set(b"01234567"):
        raise Refusal(line, "not the mode of a file", detail=expected_got("100644 or 100755", escape(mode)))
    return bool(int(mode, 8) & 0o100)
