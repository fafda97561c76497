# SPDX-License-Identifier: Apache-2.0
"""What a patch's header says to people: why it is there, whence it comes, under which licence, and when it may go.

Core: no IO.

The fields are those of Debian's patch tagging guidelines (DEP-3), and ``When-To-Drop``. None of them is in an identity.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header, make_header

from derive.patches.model import Header

TODO = "TODO"
"""Begins the value of a field that a person has yet to write: it counts as absent."""

_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9-]*):(?:[ \t]+(.*)|)")
_MAIL = re.compile(r"From [0-9a-f]{40} .*")
_PREFIX = re.compile(r"(?:\s*(?:re:|\[[^\]]*\b(?:patch|rfc)\b[^\]]*\]))+\s*", re.IGNORECASE)
_LATE = frozenset(
    {"author", "from", "origin", "forwarded", "last-update", "applied-upstream"}
    | {"spdx-license-identifier", "when-to-drop"}
)
"""Fields that are read below the first paragraph too; other words before a colon there are text."""

_EARLY = _LATE | {"description", "subject"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """The fields of a header, each empty where it is absent. ``description`` is what follows the summary, as lines.

    ``licence`` is the patch's own SPDX expression; without one, that of the series holds.
    """

    summary: str
    description: str = ""
    author: str = ""
    origin: str = ""
    forwarded: str = ""
    licence: str = ""
    when_to_drop: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """The fields that every patch should have, and this one has not, as they are written."""
        wanted = (("Description", self.summary), ("Origin", self.origin), ("When-To-Drop", self.when_to_drop))
        return tuple(name for name, value in wanted if not value or value.split()[0].rstrip(":,") == TODO)


def notes_of(header: Header) -> Notes:
    """Read a header; one that has no fields is all description."""
    fields, free = _fields(_rows(header.text))
    if "description" in fields:
        summary, _, rest = fields["description"].partition("\n")
    elif "subject" in fields:
        summary, rest = subject(fields["subject"]), ""
    else:
        summary, _, free = free.partition("\n")
        rest, free = "", free.strip("\n")
    return Notes(
        summary=_line(summary),
        description="\n\n".join(part for part in (rest.strip("\n"), free) if part),
        author=decoded(_line(fields.get("author", fields.get("from", "")))),
        origin=_line(fields.get("origin", "")),
        forwarded=_line(fields.get("forwarded", "")),
        licence=header.licence or "",
        when_to_drop=_line(fields.get("when-to-drop", "")),
    )


def render_notes(notes: Notes) -> bytes:
    """Write a header that reads back as these notes, and the empty line after it."""
    rows = [f"Description: {notes.summary}", *(f" {row}" if row else " ." for row in _split(notes.description))]
    for name, value in (
        ("Author", notes.author),
        ("Origin", notes.origin),
        ("Forwarded", notes.forwarded),
        ("SPDX-License-Identifier", notes.licence),
        ("When-To-Drop", notes.when_to_drop),
    ):
        if value:
            rows.append(f"{name}: {value}")
    return "".join(f"{row}\n" for row in [*rows, ""]).encode()


def subject(text: str) -> str:
    """Return the subject of a mail as one line, without ``[PATCH v2 3/7]`` and what else stands before it."""
    return _PREFIX.sub("", decoded(_line(text)), count=1)


def decoded(text: str) -> str:
    """Undo the encoding of words that mail gives to what is not ASCII."""
    if "=?" not in text:
        return text
    try:
        return printable(str(make_header(decode_header(text))))
    except (HeaderParseError, LookupError, UnicodeError, ValueError):
        return text


def printable(text: str) -> str:
    """Return a text in which nothing can move a terminal's cursor: such characters are written as escapes."""
    text = text.replace("\t", " ")
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _rows(text: bytes) -> list[str]:
    """Return the rows of a header up to the mark under which mails put their statistics."""
    rows: list[str] = []
    for row in text.decode("utf-8", "backslashreplace").split("\n"):
        if row.rstrip() == "---" or row.startswith(("Index: ", "diff ")):
            break
        rows.append(printable(row.rstrip()))
    while rows and (not rows[0] or _MAIL.fullmatch(rows[0])):
        rows.pop(0)
    return rows


def _fields(rows: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return the fields by name in lower case, the first of each, and the text that belongs to none."""
    found: list[tuple[str, list[str]]] = []
    free: list[str] = []
    known = _LATE if _is_prose(rows) else None
    last: list[str] | None = None
    for row in rows:
        match = _FIELD.fullmatch(row)
        if match and (known is None or match[1].lower() in known):
            last = [match[2] or ""]
            found.append((match[1].lower(), last))
        elif last is not None and row.startswith(" ") and row.strip():
            last.append("" if row.strip() == "." else row[1:])
        else:
            last = None
            known = _LATE if not row else known
            free.append(row)
    return {name: "\n".join(lines) for name, lines in reversed(found)}, "\n".join(free).strip("\n")


def _is_prose(rows: Sequence[str]) -> bool:
    """Whether the first paragraph has no field that a header has, so that a word before a colon is a word."""
    first = itertools.takewhile(bool, rows)
    return not any((match := _FIELD.fullmatch(row)) and match[1].lower() in _EARLY for row in first)


def _line(value: str) -> str:
    return " ".join(value.split())


def _split(text: str) -> Iterator[str]:
    return iter(text.split("\n") if text else ())
