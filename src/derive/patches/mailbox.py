# SPDX-License-Identifier: Apache-2.0
"""Mails with patches, as git writes them, read into what a patch of a series is made of.

Core: no IO.

The changes are taken byte for byte, after undoing the encoding that the mail names; only the words around them are
text. A date, a statistic and a signature are nobody's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message

from derive.errors import InputErrors
from derive.patches.header import decoded, printable, subject
from derive.patches.reader import HUNK

_START = re.compile(
    rb"^From (\S+)(?: at \S+)? +[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}.*\n", re.MULTILINE
)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FIELD = re.compile(rb"[!-9;-~]+:")
_PLAIN = frozenset({"", "7bit", "8bit", "binary"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """One mail. ``number`` counts from 1; ``diff`` is empty for a mail without changes, such as a cover letter.

    ``commit`` is the id that git wrote above the mail, empty if it wrote none.
    """

    number: int
    subject: str
    author: str
    text: str
    commit: str
    diff: bytes


def read_mailbox(data: bytes, where: str) -> tuple[Mail, ...]:
    """Read a mailbox, or a single mail.

    Raises:
        InputErrors: when it is neither, or a mail cannot be read exactly.
    """
    if data and data.count(b"\r\n") == data.count(b"\n"):
        # Of a mail that came over a network every line ends so: it says nothing of the files in it.
        data = data.replace(b"\r\n", b"\n")
    starts = list(_START.finditer(data))
    if not starts or data[: starts[0].start()].strip():
        return (_mail(1, "", data.lstrip(b"\n"), where),)
    ends = [match.start() for match in starts[1:]] + [len(data)]
    return tuple(
        _mail(number, match[1].decode("latin-1"), data[match.end() : end], where)
        for number, (match, end) in enumerate(zip(starts, ends, strict=True), 1)
    )


def _mail(number: int, sender: str, data: bytes, where: str) -> Mail:
    place = f"{where}: mail {number}"
    head, _, body = data.partition(b"\n\n")
    rows = head.split(b"\n")
    if not _FIELD.match(rows[0]):
        hint = "write one with git format-patch --stdout"
        raise InputErrors.one(
            "not a mail: it does not begin with fields such as From: and Subject:", where=place, hint=hint
        )
    if any(row.endswith(b"\r") for row in rows):
        hint = "give the mailbox LF endings, or let every line end in CRLF"
        raise InputErrors.one("some lines end in CRLF and others in LF", where=place, hint=hint)
    message = message_from_bytes(head + b"\n\n")
    fields = {name.lower(): _text(str(value)) for name, value in reversed(list(message.raw_items()))}
    content, charset = _content(message, head, body, place)
    words, diff = _split(content.split(b"\n"))
    inner, text = _inner(_lines(words, charset))
    return Mail(
        number=number,
        subject=subject(inner.get("subject", fields.get("subject", ""))),
        author=printable(decoded(" ".join(inner.get("from", fields.get("from", "")).split()))),
        text=text,
        commit=sender if _COMMIT.fullmatch(sender) and sender.strip("0") else "",
        diff=diff,
    )


def _text(raw: str) -> str:
    """Read a field that may hold bytes of another encoding than the ASCII that it should be in."""
    return raw.encode("ascii", "surrogateescape").decode("utf-8", "backslashreplace")


def _content(message: Message, head: bytes, body: bytes, place: str) -> tuple[bytes, str]:
    """Return what a mail holds, and the character set of its words."""
    encoding = str(message.get("content-transfer-encoding", "")).strip().lower()
    if message.get_content_maintype() == "text" and encoding in _PLAIN:
        return body, message.get_content_charset("utf-8")
    whole = message_from_bytes(head + b"\n\n" + body)
    parts = [part for part in whole.walk() if not part.is_multipart()]
    if not parts or any(part.get_content_maintype() != "text" for part in parts):
        kinds = ", ".join(sorted({part.get_content_type() for part in parts}))
        raise InputErrors.one("a mail whose parts are not all text", where=place, detail=[f"got       {kinds}"])
    payloads = [payload for part in parts if isinstance(payload := part.get_payload(decode=True), bytes)]
    text = b"\n".join(payload.removesuffix(b"\n") for payload in payloads) + b"\n"
    if b"\r\n" in text and text.count(b"\r\n") == text.count(b"\n"):
        text = text.replace(b"\r\n", b"\n")
    return text, parts[0].get_content_charset("utf-8")


def _split(rows: Sequence[bytes]) -> tuple[list[bytes], bytes]:
    """Return the words of a mail, up to the mark below them or the first change, and all changes."""
    first = next((at for at in range(len(rows)) if _begins_change(rows, at)), len(rows))
    words = list(rows[:first])
    if b"---" in words:
        words = words[: words.index(b"---")]
    return words, b"".join(row + b"\n" for row in _changes(rows[first:]))


def _begins_change(rows: Sequence[bytes], at: int) -> bool:
    row = rows[at]
    return row.startswith(b"diff --git ") or (
        row.startswith(b"--- ") and at + 1 < len(rows) and rows[at + 1].startswith(b"+++ ")
    )


def _changes(rows: Sequence[bytes]) -> Sequence[bytes]:
    """Return the rows up to the signature, which looks like a removed line and stands in no hunk."""
    old = new = end = 0
    for at, row in enumerate(rows):
        if old > 0 or new > 0:
            old -= row[:1] in (b" ", b"-", b"")
            new -= row[:1] in (b" ", b"+", b"")
        elif match := HUNK.fullmatch(row):
            old, new = (1 if match[side] is None else int(match[side]) for side in (2, 4))
        elif row in (b"-- ", b"--"):
            break
        elif not row:
            continue
        end = at + 1
    return rows[:end]


def _lines(rows: Sequence[bytes], charset: str) -> list[str]:
    text = b"\n".join(rows)
    try:
        words = text.decode(charset)
    except (LookupError, UnicodeDecodeError):
        words = text.decode("utf-8", "backslashreplace")
    return [printable(row.rstrip()) for row in words.strip().split("\n")]


def _inner(rows: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return the fields that stand at the top of the words and hold instead of the mail's own, and the rest."""
    found: dict[str, str] = {}
    for row in rows:
        name, colon, value = row.partition(":")
        if not colon or name.lower() not in ("from", "subject", "date") or name.lower() in found:
            break
        found[name.lower()] = value.strip()
    return found, "\n".join(rows[len(found) :]).strip("\n")
