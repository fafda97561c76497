# SPDX-License-Identifier: Apache-2.0
"""Tells how two trees differ: paths that came and went, other facts, and what differs inside the first few files.

Core: no IO. Contents come from a function that the caller gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from derive.differ.differ import compare, note_spent
from derive.differ.model import LIMITS, Content, Limits, Report, Spent
from derive.trees.diff import Added, Changed, Removed, diff
from derive.trees.listing import Entry, File, Listing, Symlink
from derive.why.render import Line, text_of
from derive.words import count_text

Read = Callable[[File], Iterable[bytes]]
"""Returns the contents of a file of one tree; may raise what a store raises."""


def differ_trees(first: Listing, second: Listing, read: tuple[Read, Read], limits: Limits = LIMITS) -> list[Line]:
    """Return how two trees differ, in lines for people; nothing where they are equal. Raises what ``read`` raises."""
    report = Report(limits)
    changes = diff(first, second)
    added = [f"+ {_path(one.path)}  {_entry(one.entry)}" for one in changes if isinstance(one, Added)]
    removed = [f"- {_path(one.path)}  {_entry(one.entry)}" for one in changes if isinstance(one, Removed)]
    report.rows(removed, "removed")
    report.rows(added, "added")
    changed = [one for one in changes if isinstance(one, Changed)]
    report.rows([_fact(one) for one in changed if one.kind != "contents"])
    files = [(one.path, one.before, one.after) for one in changed if one.kind == "contents"]
    try:
        for path, old, new in files[: limits.files]:
            assert isinstance(old, File)
            assert isinstance(new, File)
            with report.inside(f"{_path(path)}: {_sizes(old, new)}", "strong"):
                compare(report, text_of(path), (_content(old, read[0]), _content(new, read[1])))
    except Spent:
        note_spent(report)
    report.rows([f"{_path(path)}: {_sizes(old, new)}" for path, old, new in files[limits.files :]])
    if len(files) > limits.files:
        report.say(f"{count_text(len(files), 'file')} differ in contents, the first {limits.files} are shown", "dim")
    return report.finished()


def _content(file: File, read: Read) -> Content:
    return Content(lambda: read(file), file.size)


def _path(path: bytes) -> str:
    return text_of(path) or "the one file"


def _sizes(old: Entry, new: Entry) -> str:
    assert isinstance(old, File)
    assert isinstance(new, File)
    return "other contents" if old.size == new.size else f"other contents, {old.size} -> {new.size} bytes"


def _entry(entry: Entry) -> str:
    match entry:
        case File():
            return f"{'program' if entry.executable else 'file'} of {entry.size} bytes"
        case Symlink():
            return f"link to {text_of(entry.target)}"
        case _:
            return "folder"


def _fact(one: Changed) -> str:
    if one.kind == "executable" and isinstance(one.before, File):
        return f"{_path(one.path)}: {'no longer' if one.before.executable else 'now'} a program, by its execute bit"
    return f"{_path(one.path)}: {_entry(one.before)} -> {_entry(one.after)}"
