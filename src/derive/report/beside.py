# SPDX-License-Identifier: Apache-2.0
"""Records that lie beside the chain of releases: scores, certificates, audits, reports of any kind.

Core: no IO. Files are given by their path below ``records/``. No signature is checked here: ``derive certify`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from derive.canonical import Json
from derive.certificates.model import Certificate, read_certificate
from derive.errors import Corrupt
from derive.records.model import Record, RecordError, read_record
from derive.report.model import Row, Score
from derive.report.values import clean, day_of, items, moment, short, table, times_in, whole, worded
from derive.trust.dsse import Envelope

SCORES, CERTIFICATES, AUDITS = "derivability/", "certificates/", "audits/"
_SAYS = 8
_FIRST = ("outcome", "verdict", "result")
_LOST = 6
_ENVELOPE = ".dsse.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What was read, by path below ``records/``; ``unread`` says in words which files are neither."""

    records: Mapping[str, Record]
    certificates: Mapping[str, tuple[Certificate, Envelope]]
    unread: tuple[str, ...]


def read_beside(files: Mapping[str, bytes], but: str) -> Beside:
    """Read every file but those below the folder ``but``."""
    records: dict[str, Record] = {}
    certificates: dict[str, tuple[Certificate, Envelope]] = {}
    unread: list[str] = []
    for path in sorted(files):
        if path.startswith(but) or not path.endswith(".json"):
            continue
        try:
            if path.endswith(_ENVELOPE):
                certificates[path] = read_certificate(files[path])
            else:
                records[path] = read_record(files[path])
        except (RecordError, Corrupt) as error:
            unread.append(clean(f"records/{path}: {error}"))
    return Beside(records=records, certificates=certificates, unread=tuple(unread))


def link_problems(beside: Beside) -> Iterator[str]:
    """Yield, of scores and audits, each record that the next one of its folder names another digest of."""
    for folder in (SCORES, AUDITS):
        paths = [path for path in beside.records if path.startswith(folder)]
        for before, after in pairwise(paths):
            expected, said = beside.records[before].digest, beside.records[after].previous
            if said is not None and said != expected:
                name = after.removeprefix(folder)
                yield clean(f"records/{before}: edited since it was written: {name} names another digest of it")


def scores(beside: Beside) -> Iterator[Score]:
    """Yield how much of a release could be derived, each time that somebody looked."""
    for path, record in beside.records.items():
        score = whole(record.body.get("score_bp"))
        if not path.startswith(SCORES) or score is None:
            continue
        when = max(times_in(record.body), default=None)
        lost = tuple(clean(table(one).get("name")) for one in items(record.body.get("nowhere")))
        yield Score(
            release=clean(record.subject),
            day=day_of(when),
            date=moment(when),
            score_bp=score,
            inputs=whole(table(record.body.get("total")).get("inputs")),
            counts=tuple(_counts(record.body)),
            lost=lost[:_LOST],
            more=max(0, len(lost) - _LOST),
            file=f"records/{clean(path)}",
        )


def _counts(body: Mapping[str, Json]) -> Iterator[tuple[str, int]]:
    """Yield how many inputs each place has; one may be in several, and those in none come last."""
    total = table(body.get("total"))
    places = table(body.get("counts")) or table(total.get("held"))
    for place in sorted(places):
        if count := whole(places[place]):
            yield clean(place), count
    if count := whole(total.get("nowhere")):
        yield "nowhere", count


def certificate_rows(beside: Beside) -> Iterator[Row]:
    """Yield each certificate, by path."""
    for path, (one, envelope) in beside.certificates.items():
        yield Row(
            file=f"records/{clean(path)}",
            kind="certificate",
            subject="" if one.release is None else clean(one.release.name),
            date=moment(one.made_s),
            says=(
                ("images", clean(", ".join(f"{held.name} {name}" for name, held in sorted(one.images.items())))),
                ("steps built twice", str(sum(held.steps for held in one.images.values()))),
                ("machine", clean(f"{one.host.architecture}, {one.host.cpu}, {one.host.cores} cores")),
                ("kernel", clean(one.host.kernel)),
                ("keys", clean(", ".join(short(str(held.key)) for held in envelope.signatures))),
            ),
        )


def rows(beside: Beside, folder: str) -> Iterator[Row]:
    """Yield the records of a folder, by path, with what their bodies say first."""
    yield from (row(f"records/{path}", record) for path, record in beside.records.items() if path.startswith(folder))


def row(file: str, record: Record) -> Row:
    """Return a record of any kind as a row: the texts, numbers and flags of its body, by key."""
    told = sorted(
        (key for key in record.body if _tells(key, record.body[key])), key=lambda key: (key not in _FIRST, key)
    )
    said = [(clean(key.replace("_", " ")), short(worded(record.body[key]))) for key in told]
    return Row(
        file=clean(file),
        kind=clean(record.kind),
        subject=clean(record.subject),
        date=moment(max(times_in(record.body), default=None)),
        says=tuple(said[:_SAYS]),
    )


def newest_certificate_s(beside: Beside) -> int:
    """Return the time of the newest certificate in seconds since 1970, 0 without one."""
    return max((one.made_s for one, _ in beside.certificates.values()), default=0)


def _tells(key: str, value: Json) -> bool:
    return value not in (None, "", [], {}, ()) and not key.endswith("_s")
