# SPDX-License-Identifier: Apache-2.0
"""What causes moved, in words and as parts of records.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from derive.canonical import Json, escape
from derive.why.causes import Cause
from derive.why.differences import TextMoved
from derive.why.documents import cause_document
from derive.why.moved import Causeless, Moved, Weight
from derive.why.render import Line, Span, bounded, line, printable, text_of
from derive.why.words import details, headline
from derive.words import columns, count_text, size_text

_SHOWN = 8


def weight_of(moved: Moved, cause: Cause) -> Weight | None:
    """Return what a cause moved; None for one that is not among those that did."""
    for one in moved.causes:
        if (one.cause.path, one.cause.difference) == (cause.path, cause.difference):
            return one.weight
    return None


def weight_text(weight: Weight) -> str:
    """Write what a cause moved: bytes of files, and the layers that they are in."""
    if not weight.paths:
        return f"no file, but what {_layers(weight.layers)} says of them: {size_text(weight.packed)} compressed"
    text = f"{size_text(weight.size)} in {count_text(weight.paths, 'path')}"
    if 0 < weight.shared < weight.size:
        text += f" ({size_text(weight.shared)} of it by others, too)"
    elif weight.shared:
        text += " (by others, too)"
    if weight.layers:
        text += f"; {_layers(weight.layers)}, {size_text(weight.packed)} compressed"
    return text


def cause_text(cause: Cause) -> str:
    """Say in one line what a cause is, and in which step."""
    return f"{_headline(cause)}{_steps(cause)}  in {cause.step}"


def cause_rows(moved: Moved) -> Iterator[Line]:
    """Yield one line a cause, with the bytes that it moved, the most first; then those that moved ids alone."""
    rows = [
        (
            size_text(one.weight.size) if one.weight.paths else "-",
            count_text(one.weight.paths, "path") if one.weight.paths else "",
            f"{size_text(one.weight.packed)} compressed" if one.weight.packed else "config",
            f"{_headline(one.cause)}{_steps(one.cause)}",
            f"{'shared; ' if one.weight.shared else ''}in {one.cause.step}",
        )
        for one in moved.causes
    ]
    yield from (line(text.rstrip()) for text in columns(rows, frozenset({0, 1, 2})))
    if moved.idle:
        yield line("these moved ids alone: what they changed came out the same", "dim")
        yield from (line(f"  {cause_text(one)}", "dim") for one in moved.idle)


def path_rows(moved: Moved) -> Iterator[Line]:
    """Yield, cause by cause, the paths that it moved."""
    for one in moved.causes:
        if one.paths:
            yield line(_headline(one.cause), "strong")
            yield from (line(f"  /{text_of(path)}") for path in one.paths)


def causeless_lines(moved: Moved) -> Iterator[Line]:
    """Show what moved without a cause: the path, its bytes, and the step that gave it."""
    if not moved.causeless:
        return
    yield (Span("these bytes moved without a cause: the steps read the same, and did not give the same", "removed"),)
    for one in moved.causeless:
        yield line(f"  {one.step}, drv:{one.derivation.short}: {_causeless(one)}")
        paths = [line(f"    /{text_of(path)}") for path in one.paths]
        yield from bounded(paths, _SHOWN)
    yield line("  build it again, and compare: derive build NAME --check", "dim")


def sum_lines(moved: Moved) -> Iterator[Line]:
    """Say what moved in all."""
    if not moved.compared:
        text = f"in all: {size_text(moved.packed)} compressed; a tree is not in the store: no file could be compared"
        yield line(text, "dim")
    elif moved.paths or moved.packed:
        files = f"{size_text(moved.size)} in {count_text(moved.paths, 'path')}"
        yield line(f"in all: {files}, {size_text(moved.packed)} compressed", "dim")


def moved_document(moved: Moved) -> dict[str, Json]:
    """Return what moved as a part of a record."""
    return {
        "compared": moved.compared,
        "bytes": moved.size,
        "paths": moved.paths,
        "compressed_bytes": moved.packed,
        "causes": [{**cause_document(one.cause), **_weight_document(one.weight)} for one in moved.causes],
        "idle": [cause_document(one) for one in moved.idle],
        "without_cause": [
            {
                "step": one.step,
                "derivation": str(one.derivation),
                "bytes": one.size,
                "paths": [escape(path) for path in one.paths],
            }
            for one in moved.causeless
        ],
    }


def _weight_document(weight: Weight) -> dict[str, Json]:
    return {
        "bytes": weight.size,
        "paths": weight.paths,
        "shared_bytes": weight.shared,
        "layers": list(weight.layers),
        "compressed_bytes": weight.packed,
    }


def _causeless(one: Causeless) -> str:
    return f"{size_text(one.size)} in {count_text(len(one.paths), 'path')}" if one.paths else "its layer or image"


def _layers(names: Sequence[str]) -> str:
    if len(names) > 4:
        return count_text(len(names), "layer")
    return f"layer {names[0]}" if len(names) == 1 else f"layers {', '.join(names)}"


def _headline(cause: Cause) -> str:
    """Say in one line what a cause is; of a text how many lines came and went."""
    text = printable(headline(cause.difference))
    if not isinstance(cause.difference, TextMoved):
        return text
    rows = ["".join(span.text for span in spans).strip() for spans in details(cause.difference)]
    added, removed = (sum(row.startswith(sign) for row in rows) for sign in "+-")
    return f"{text} of {cause.step}: +{added} -{removed} lines"


def _steps(cause: Cause) -> str:
    return f" ({count_text(cause.steps, 'step')})" if cause.steps > 1 else ""
