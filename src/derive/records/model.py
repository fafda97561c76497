# SPDX-License-Identifier: Apache-2.0
"""The one shape of a record: ``{"derive": "record/1", kind, subject, previous, body}``.

Core: no IO.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from derive.canonical import CanonicalError, Digest, Json, decode, digest_document, encode
from derive.errors import expected_got

TAG = "record/1"
_FORMAT = re.compile(r"record/([1-9][0-9]{0,8})")
_NEWER = "a newer derive wrote it: read it with that one"
KEYS = frozenset(("derive", "kind", "subject", "previous", "body"))


def record(kind: str, subject: str, body: Mapping[str, Json], previous: Digest | None = None) -> dict[str, Json]:
    """Build a record. ``subject`` says what it is about; ``previous`` is the digest of the one before it."""
    return {
        "derive": TAG,
        "kind": kind,
        "subject": subject,
        "previous": None if previous is None else str(previous),
        "body": body,
    }


class RecordError(ValueError):
    """Bytes that are no record; ``key`` is the key path, empty where it is the whole; the rest as in a Problem."""

    def __init__(self, key: str, message: str, detail: tuple[str, ...] = (), hint: str | None = None) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key
        self.message = message
        self.detail = detail
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as read; ``body`` is as its kind says (:mod:`derive.records.kinds`)."""

    kind: str
    subject: str
    previous: Digest | None
    body: Mapping[str, Json]

    def document(self) -> dict[str, Json]:
        """Return the document that was read."""
        return record(self.kind, self.subject, self.body, self.previous)

    @property
    def digest(self) -> Digest:
        """The SHA-256 of the canonical bytes, which the next record of a chain names."""
        return digest_document(self.document())

    def encoded(self) -> bytes:
        """Return the canonical bytes."""
        return encode(self.document())


def read_record(data: bytes) -> Record:
    """Read a record in whatever layout it stands; raises RecordError."""
    try:
        document = decode(data)
    except CanonicalError as error:
        raise RecordError("", str(error)) from error
    if not isinstance(document, Mapping) or document.get("derive") != TAG:
        raise _other_format(document.get("derive") if isinstance(document, Mapping) else None)
    odd = sorted(document.keys() ^ KEYS)
    if odd:
        raise RecordError(odd[0], "unknown key" if odd[0] in document else "this key is missing")
    kind, subject, body = document["kind"], document["subject"], document["body"]
    for key, value in (("kind", kind), ("subject", subject)):
        if not isinstance(value, str) or not value:
            raise RecordError(key, "not a name")
    if not isinstance(body, Mapping):
        raise RecordError("body", "not a table")
    return Record(kind=str(kind), subject=str(subject), previous=_previous(document["previous"]), body=body)


def _other_format(tag: Json) -> RecordError:
    if not isinstance(tag, str) or not _FORMAT.fullmatch(tag):
        return RecordError("derive", f"not a {TAG}")
    return RecordError("derive", "a record of another format", expected_got(TAG, tag), _NEWER)


def _previous(value: Json) -> Digest | None:
    if value is None:
        return None
    try:
        return Digest.parse(str(value))
    except ValueError as error:
        raise RecordError("previous", str(error)) from error
