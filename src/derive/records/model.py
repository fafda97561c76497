# SPDX-License-Identifier: Apache-2.0
"""The one shape of a record: ``{"derive": "record/1", kind, subject, previous, body}``.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.canonical import Digest, Json


def record(kind: str, subject: str, body: Mapping[str, Json], previous: Digest | None = None) -> dict[str, Json]:
    """Build a record. ``subject`` says what it is about; ``previous`` is the digest of the one before it."""
    return {
        "derive": "record/1",
        "kind": kind,
        "subject": subject,
        "previous": None if previous is None else str(previous),
        "body": body,
    }
