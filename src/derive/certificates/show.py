# SPDX-License-Identifier: Apache-2.0
"""How far a release is certified, as rows for people and as the body of a record.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator

from derive.canonical import Json
from derive.certificates.judge import Judged, Standing, lacking
from derive.words import one_line


def rows_of(standing: Standing) -> Iterator[tuple[str, ...]]:
    """Yield one row for each signature of each certificate: the file, whose it is, its worth, what it says."""
    for one in standing.judged:
        for signed in one.signed:
            who = signed.name or signed.key.short
            yield one_line(one.held.file), who, f"{signed.worth}: {signed.why}", _says(one)
        if not one.signed:
            yield one_line(one.held.file), "nobody", "none", _says(one)
    for unread in standing.unread:
        yield one_line(unread.file), "", "cannot be read", one_line(unread.why)


def _says(one: Judged) -> str:
    parts = []
    if one.contradicts:
        parts.append(f"another image of {', '.join(one.contradicts)}")
    if one.agrees:
        builders = len(one.held.certificate.builders)
        by = f", by {builders} builders" if builders else ""
        parts.append(f"the same image of {', '.join(one.agrees)}{by}")
    if one.elsewhere:
        parts.append(one.elsewhere)
    return "; ".join(parts)


def body_of(standing: Standing) -> dict[str, Json]:
    """Return everything as the body of a record."""
    return {
        "holds": standing.holds,
        "need": standing.need,
        "counted": {platform: list(names) for platform, names in standing.counted.items()},
        "alarms": list(standing.alarms),
        "lacking": list(lacking(standing)),
        "likeness": list(standing.likeness),
        "certificates": [_document(one) for one in standing.judged],
        "unread": [{"file": one.file, "why": one.why} for one in standing.unread],
    }


def _document(one: Judged) -> dict[str, Json]:
    return {
        "file": one.held.file,
        "digest": str(one.held.digest),
        "signed": [
            {"name": signed.name, "key": str(signed.key), "worth": signed.worth, "why": signed.why}
            for signed in one.signed
        ],
        "agrees": list(one.agrees),
        "contradicts": list(one.contradicts),
        "elsewhere": one.elsewhere or None,
        "host": one.held.certificate.host.document(),
        "builders": [maker.document() for maker in one.held.certificate.builders],
        "made_s": one.held.certificate.made_s,
    }
