# SPDX-License-Identifier: Apache-2.0
"""A patch's header as a commit's message and back: the last line says which file of the series the commit is.

Core: no IO.

The first line is the summary, for git's own lists; below it stands the header as it is in the patch file.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from derive.patches.header import TODO, Notes, notes_of, render_notes
from derive.patches.model import Header
from derive.patches.series import SUFFIX

_ID = b"Derive-Patch:"
_SIGNED = re.compile(rb"^[A-Z][A-Za-z]*(?:-[a-z]+)*-by: .*$", re.MULTILINE)
_AUTHOR = re.compile(r"\s*([^<>\n]*?)\s*<([^<>\n]*)>.*", re.DOTALL)
_PICKED = re.compile(r"\(cherry picked from commit ([0-9a-f]{40,64})\)")
_NUMBER = re.compile(r"(\d{4})-.*")
_SLUG_LETTERS = 48

UNKNOWN_AUTHOR = (b"unknown", b"unknown")
"""Name and address of who wrote a patch that does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A commit's message. ``names`` are the patches that it says it is: several when commits were squashed."""

    subject: str
    header: bytes
    names: tuple[str, ...]


def message_of(name: str, header: bytes) -> bytes:
    """Return the message of the commit that is a patch of the series."""
    body = header.strip(b"\n")
    subject = notes_of(Header(text=header)).summary or name
    return subject.encode() + b"\n\n" + (body + b"\n\n" if body else b"") + _ID + b" " + name.encode() + b"\n"


def read_message(data: bytes) -> Message:
    """Read a message back; one without the line that names a patch is that of a new one, and has no header yet."""
    rows = data.split(b"\n")
    names = tuple(row[len(_ID) :].strip().decode("utf-8", "replace") for row in rows if row.startswith(_ID))
    kept = b"\n".join(row for row in rows if not row.startswith(_ID)).strip(b"\n")
    subject, _, header = kept.partition(b"\n\n")
    text = " ".join(subject.decode("utf-8", "backslashreplace").split())
    return Message(subject=text, header=header.strip(b"\n"), names=names)


def same_header(one: bytes, other: bytes) -> bool:
    """Say whether two headers differ only in what git tidies in a message: spaces at ends of lines, empty lines."""
    return _tidy(one) == _tidy(other)


def with_summary(header: bytes, summary: str) -> bytes:
    """Return a header with another first line of its description; as it is where it has no such field."""
    return re.sub(rb"\A(Description|Subject):[^\n]*", lambda m: m[1] + b": " + summary.encode(), header, count=1)


def new_header(message: Message, author: str) -> bytes:
    """Return the header of a patch that a commit is the first word of; what a person must still say is marked."""
    body = message.header.decode("utf-8", "backslashreplace")
    picked = _PICKED.search(body)
    origin = f"{TODO}: is commit {picked[1]} upstream's?" if picked else TODO
    notes = Notes(summary=message.subject or TODO, description=body, author=author, origin=origin, when_to_drop=TODO)
    return render_notes(notes)


def summary_of(header: bytes) -> str:
    """Return the first line of a header's description, empty without one."""
    return notes_of(Header(text=header)).summary


def upstream_message(name: str, header: bytes) -> bytes:
    """Return a patch's message as an upstream expects it: summary, description, who signed it; none of our fields."""
    notes = notes_of(Header(text=header))
    signed = list(dict.fromkeys(_SIGNED.findall(header)))
    description = "\n".join(row for row in notes.description.split("\n") if row.encode() not in signed).strip("\n")
    parts = [(notes.summary or name.removesuffix(SUFFIX)).encode(), description.encode(), b"\n".join(signed)]
    return b"\n\n".join(part for part in parts if part) + b"\n"


def author_of(header: bytes) -> tuple[bytes, bytes]:
    """Return name and address of a patch's author, as git wants them."""
    text = notes_of(Header(text=header)).author
    match = _AUTHOR.fullmatch(text)
    name, address = (match[1], match[2]) if match else (re.sub(r"[<>\n]", " ", text).strip(), "")
    return (name.encode() or UNKNOWN_AUTHOR[0], address.encode()) if text else UNKNOWN_AUTHOR


def new_name(summary: str, taken: Collection[str]) -> str:
    """Return a free file name for a patch: the next number, and the words of its summary."""
    numbers = [int(match[1]) for name in taken if (match := _NUMBER.fullmatch(name)) is not None]
    slug = re.sub(r"[^a-z0-9]+", "-", summary.lower()).strip("-")[:_SLUG_LETTERS].strip("-") or "change"
    number = max(numbers, default=0) + 1
    while (name := f"{number:04d}-{slug}{SUFFIX}") in taken:
        number += 1
    return name


def _tidy(header: bytes) -> list[bytes]:
    rows = [row.rstrip() for row in header.strip(b"\n").split(b"\n")]
    return [row for index, row in enumerate(rows) if row or (index and rows[index - 1])]
