# SPDX-License-Identifier: Apache-2.0
"""What checks said, as lines for people and as the body of a record.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from derive.why.render import Line, Span, Style, line, printable
from derive.words import count_text, in_columns

if TYPE_CHECKING:
    from derive.canonical import Json
    from derive.doctor.check import Check
    from derive.doctor.finding import Finding
    from derive.doctor.judge import Judged

_HEAD = ("check", "verdict", "what", "where")
_FEW_WORDS = 24  # of a row, however narrow a terminal is
_SHOWN = 4  # of checks that are unknown for one reason
_LABEL = 10  # as wide as "expected" and what divides it from its value


def table_lines(found: Sequence[Judged], width: int | None = None) -> Iterator[Line]:
    """Show one row for each check, by area. In less than its ``width`` places are left out and sentences cut."""
    head, *rows = in_columns([_HEAD, *map(_row, found)])
    yield _cells(head, "plain", width)
    area = found[0].check.area if found else ""
    for one, row in zip(found, rows, strict=True):
        if one.check.area != area:
            yield ()
        area = one.check.area
        yield _cells(row, _style(one), width)


def finding_lines(found: Sequence[Judged]) -> Iterator[Line]:
    """Show everything that is no pass, with what was expected, and what to do: of each check, then what is unknown."""
    unknown: dict[tuple[object, ...], list[Finding]] = {}
    for one in found:
        alike: dict[tuple[object, ...], list[Finding]] = {}
        for finding in one.findings:
            if finding.verdict == "finding":
                alike.setdefault((finding.message, finding.detail, finding.fix), []).append(finding)
            elif finding.verdict == "unknown":
                unknown.setdefault((finding.where, finding.message, finding.fix), []).append(finding)
        for findings in alike.values():
            first = findings[0]
            place = first.where if len(findings) == 1 else count_text(len(findings), "place")
            places = [f"{'at':<{_LABEL}}{finding.where}" for finding in findings] if len(findings) > 1 else []
            kind = "finding" if first.severity == "error" else "warning"
            yield from _block(
                kind, _style(one), f"{first.id}  {place}", (first.message, *places, *first.detail), first.fix
            )
    for findings in unknown.values():
        first = findings[0]
        ids = first.id if len(findings) == 1 else count_text(len(findings), "check")
        blocks = any(finding.severity == "error" for finding in findings)
        style: Style = "removed" if blocks else "strong"
        checks = [f"{'checks':<{_LABEL}}{_listed([finding.id for finding in findings])}"] if len(findings) > 1 else []
        yield from _block("unknown", style, f"{ids}  {first.where}", (first.message, *checks), first.fix)


def _block(kind: str, style: Style, title: str, texts: Iterable[str], fix: str | None) -> Iterator[Line]:
    yield ()
    yield (Span(kind, style), Span(printable(f"  {title}")))
    yield from (line(f"    {text}") for text in texts)
    if fix is not None:
        yield line(f"    {'fix':<{_LABEL}}{fix}")


def _listed(ids: Sequence[str]) -> str:
    more = len(ids) - _SHOWN
    return ", ".join(ids[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def summary(found: Sequence[Judged]) -> str:
    """Say in one line how many checks came out how."""
    counts = _counts(found)
    parts = [f"{counts['pass']} pass", count_text(counts["finding"], "finding"), count_text(counts["warn"], "warning")]
    return f"{count_text(len(found), 'check')}: {', '.join(parts)}, {counts['unknown']} unknown"


def why_lines(check: Check) -> Iterator[Line]:
    """Explain one check."""
    yield (Span(check.id, "strong"), Span(f"  {check.severity}", "dim"))
    said = (("holds", check.what), ("why", check.why), ("how", check.how), ("fix", check.fix), ("files", check.place))
    yield from (line(f"    {label:<{_LABEL}}{text}") for label, text in said)


def body(found: Sequence[Judged]) -> dict[str, Json]:
    """Return everything as the body of a record; nothing in it tells the machine or the hour."""
    checks: list[Json] = [
        {
            "id": one.check.id,
            "severity": one.check.severity,
            "verdict": one.verdict,
            "what": one.check.what,
            "findings": [finding.document() for finding in one.findings],
        }
        for one in found
    ]
    return {"checks": checks, "counts": dict(_counts(found)), "blocks": any(one.blocks for one in found)}


def why_body(check: Check) -> dict[str, Json]:
    """Return the explanation of one check as the body of a record."""
    return {
        "severity": check.severity,
        "holds": check.what,
        "why": check.why,
        "how": check.how,
        "fix": check.fix,
        "files": check.place,
    }


def _counts(found: Sequence[Judged]) -> dict[str, int]:
    kinds = ["warn" if one.verdict == "finding" and one.check.severity == "warn" else str(one.verdict) for one in found]
    return {kind: kinds.count(kind) for kind in ("pass", "finding", "warn", "unknown")}


def _row(one: Judged) -> tuple[str, ...]:
    first, others = one.findings[0], len(one.findings) - 1
    more = f" (and {others} more)" if others else ""
    return (one.check.id, one.verdict, printable(first.message) + more, printable(first.where))


def _cells(padded: Sequence[str], style: Style, width: int | None) -> Line:
    name, whole = padded[0] + "  ", "  " + "  ".join(padded[2:])
    if width is None or len(name) + len(padded[1]) + len(whole) <= width:
        return (Span(name), Span(padded[1], style), Span(whole.rstrip()))
    left = max(_FEW_WORDS, width - len(name) - len(padded[1]) - 2)
    what = padded[2].rstrip()
    return (Span(name), Span(padded[1], style), Span("  " + (what if len(what) <= left else f"{what[: left - 3]}...")))


def _style(one: Judged) -> Style:
    if one.verdict == "pass":
        return "added"
    return "removed" if one.blocks else "strong"
