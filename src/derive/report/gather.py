# SPDX-License-Identifier: Apache-2.0
"""From the files of ``records/`` to what a report says.

Core: no IO. Files are given by their path below ``records/``; what cannot be read is said, and stops nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from derive.canonical import CanonicalError, Json, decode
from derive.errors import Problem
from derive.records.chain import Chain, read_chain, verify
from derive.records.model import Record
from derive.report.beside import (
    AUDITS,
    CERTIFICATES,
    SCORES,
    Beside,
    certificate_rows,
    link_problems,
    newest_certificate_s,
    read_beside,
    row,
    rows,
    scores,
)
from derive.report.changes import Documented, steps
from derive.report.figures import groups, historical_figures, measured_figures
from derive.report.history import KIND
from derive.report.line import not_derivable, promotions, releases
from derive.report.model import Account, ChainState, Figure, Row, Size
from derive.report.recipes import Texts
from derive.report.values import clean, day_named, day_of, day_text, items, moment, table, times_in, whole

CHAIN_FOLDER = "releases/"
_OF_RELEASES = frozenset({KIND, "candidate", "promoted", "retired"})


def gather(files: Mapping[str, bytes], texts: Texts | None = None) -> Account:
    """Return what records say, in the order of the chain, then of the files' names.

    ``texts`` are recipes' texts at hand: with them it is said which keys moved, without them that something did.
    """
    in_chain = {path.removeprefix(CHAIN_FOLDER): data for path, data in files.items() if path.startswith(CHAIN_FOLDER)}
    chain = read_chain(in_chain)
    beside = read_beside(files, CHAIN_FOLDER)
    newest_s, newest = _newest(chain, beside)
    documented = tuple(_documented(chain, in_chain))
    line = releases(chain)
    return Account(
        newest=newest,
        chain=ChainState(
            records=len(chain.entries),
            head=None if chain.head is None else str(chain.head),
            problems=(*_worded(verify(chain, in_chain)), *link_problems(beside)),
        ),
        releases=line,
        not_derivable=not_derivable(chain),
        changes=steps(line, documented, texts or {}),
        groups=groups(_figures(documented, beside.records)),
        sizes=tuple(_sizes(documented)),
        scores=tuple(scores(beside)),
        promotions=promotions(chain, newest_s),
        certificates=(*certificate_rows(beside), *rows(beside, CERTIFICATES)),
        audits=tuple(rows(beside, AUDITS)),
        others=tuple(_others(chain)),
        unread=beside.unread,
    )


def _worded(problems: Iterable[Problem]) -> Iterator[str]:
    for problem in problems:
        yield clean(
            "; ".join([f"{problem.where}: {problem.message}", *(" ".join(one.split()) for one in problem.detail)])
        )


def _newest(chain: Chain, beside: Beside) -> tuple[int, str]:
    """Return the newest time that any record states, in seconds since 1970, and in words."""
    times, days = [newest_certificate_s(beside)], [-1]
    for record in (*(entry.record for entry in chain.entries), *beside.records.values()):
        times += times_in(record.body)
        days += [day for day in (day_named(table(record.body.get("date")).get("last")),) if day is not None]
    if max(times) >= max(days) * 86400 and max(times) > 0:
        return max(times), moment(max(times))
    return (max(days) * 86400, day_text(max(days))) if max(days) >= 0 else (0, "not known")


def _documented(chain: Chain, files: Mapping[str, bytes]) -> Iterator[Documented]:
    for entry in chain.entries:
        if entry.record.kind in (KIND, "candidate"):
            subject = entry.record.subject
            documents = [_document(files.get(f"{subject}/{name}.json")) for name in ("release", "facts")]
            yield Documented(record=entry.record, release=documents[0], facts=documents[1])


def _document(data: bytes | None) -> Mapping[str, Json]:
    if data is None:
        return {}
    try:
        return table(decode(data))
    except CanonicalError:
        return {}


def _figures(documented: Iterable[Documented], beside: Mapping[str, Record]) -> Iterator[Figure]:
    for one in documented:
        yield from historical_figures(one.record)
    for path, record in beside.items():
        if not path.startswith((SCORES, CERTIFICATES, AUDITS)):
            yield from measured_figures(f"records/{clean(path)}", record)


def _sizes(documented: Iterable[Documented]) -> Iterator[Size]:
    for one in documented:
        names = table(one.release.get("images"))
        for platform, facts in sorted(table(one.facts.get("images")).items()):
            layers = [whole(table(layer).get("size_bytes")) or 0 for layer in items(table(facts).get("layers"))]
            yield Size(
                release=clean(one.record.subject),
                day=day_of(one.record.body.get("made_s")),
                image=clean(table(names.get(platform)).get("name")),
                platform=clean(platform),
                size_bytes=sum(layers),
                layers=len(layers),
            )


def _others(chain: Chain) -> Iterator[Row]:
    for entry in chain.entries:
        if entry.record.kind not in _OF_RELEASES:
            yield row(entry.where, entry.record)
