# SPDX-License-Identifier: Apache-2.0
"""Two releases compared of which one at least is historical: what was written down of both, and nothing more.

Edge: the project's records, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, table, wants_json

if TYPE_CHECKING:
    import argparse

    from derive.records.chain import Chain
    from derive.report.history import Compared, Stated


def told_of_historical(args: argparse.Namespace, first: str, second: str) -> int | None:
    """Compare two operands ``release:NAME`` of which one is historical; None where they are anything else.

    Raises:
        InputErrors: as :func:`compared_historical`.
    """
    start = "release:"
    if not first.startswith(start) or not second.startswith(start):
        return None
    return compared_historical(args, first.removeprefix(start), second.removeprefix(start))


def compared_historical(args: argparse.Namespace, first: str, second: str) -> int | None:
    """Print the comparison of two releases by name; None, and nothing printed, where neither is historical.

    Returns 1 for any two: that nothing known of both differs does not make them the same.

    Raises:
        InputErrors: when the chain is broken, or there is no such release.
    """
    from derive.records.folder import load
    from derive.report.history import KIND, compare, words
    from derive.words import count_text

    root = project_root(args)
    chain = load(root)
    historical = tuple(name for name in dict.fromkeys((first, second)) if chain.of(name, KIND))
    if not historical:
        return None
    rows = compare(_stated(args, chain, first), _stated(args, chain, second))
    told, more = words(first, second, rows, historical), 0
    if wants_json(args):
        _record(first, second, rows, told)
    else:
        more = _print(first, second, rows, everything=getattr(args, "all", False))
    for text in told:
        note(f"note: {text}")
    if more:
        note(f"note: {count_text(more, 'row')} of one alone not shown: --all")
    return 0 if first == second else 1


def _stated(args: argparse.Namespace, chain: Chain, name: str) -> Stated:
    from derive.releases.find import find_release
    from derive.report.history import KIND, stated, stated_by_documents

    found = chain.of(name, KIND)
    if found:
        return stated(found[0].record)
    known = find_release(project_root(args), name)
    return stated_by_documents(known.release.document(), known.facts.document())


def _print(first: str, second: str, rows: tuple[Compared, ...], *, everything: bool) -> int:
    """Print rows, and return how many were left out."""
    from derive.report.history import cells

    shown = cells(rows, everything=everything)
    answer(table([("what", first, second, ""), *shown]) if shown else "nothing is known of both")
    return len(rows) - len(shown)


def _record(first: str, second: str, rows: tuple[Compared, ...], told: list[str]) -> None:
    answer_record(
        "historical-diff",
        f"{first} {second}",
        {
            "first": first,
            "second": second,
            "words": told,
            "rows": [
                {"part": row.part, "what": row.what, "first": row.first, "second": row.second, "relation": row.relation}
                for row in rows
            ],
        },
    )
