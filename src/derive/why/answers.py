# SPDX-License-Identifier: Apache-2.0
"""Whole answers of ``derive why`` as lines for people.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from derive.why.causes import Cause
from derive.why.model import Became, Explanation, Time
from derive.why.path import Path
from derive.why.render import Line, Span, line, printable
from derive.why.words import cause_lines, path_lines, time_text
from derive.words import count_text, duration_text


def explanation_lines(found: Explanation) -> Iterator[Line]:
    """Say why something was built, or would be."""
    node = found.node
    yield (Span(printable(node.title), "strong"), Span(f"  {node.builder}, drv:{node.id.short}", "dim"))
    if found.last is None:
        yield line(found.now)
    else:
        yield line(f"{_how(found)}; {found.now}")
    if found.became is None:
        yield line("nothing of this name, for this platform, was realised in this store before it")
        return
    yield ()
    before = found.became.before
    when = f", {_when(found.before)}" if found.before is not None else ""
    yield line(f"since drv:{before.id.short}{when}:")
    yield ()
    yield from became_lines(found.became)


def _how(found: Explanation) -> str:
    last = found.last
    assert last is not None
    text = _when(last)
    if found.lost and found.first is not None:
        return f"{text}, again, since its output was gone from the store; first {_when(found.first)}"
    return text


def _when(time: Time) -> str:
    target = f", for {time.target}" if time.target is not None else ""
    if time.outcome == "reused":
        how = "not built, since its inputs came out as those of an earlier one (early cutoff)"
        return f"{how}, {time_text(time.when_s)}{target}"
    within = f" in {duration_text(time.duration_ns)}" if time.duration_ns else ""  # of what was imported, none is known
    return f"{time.outcome} {time_text(time.when_s)}{within}{target}"


def became_lines(became: Became) -> Iterator[Line]:
    """Show how one derivation became another: what moved bytes, then what moved ids alone."""
    blocks: list[list[Line]] = []
    if became.before.id == became.after.id:
        blocks.append([line("they are one derivation")])
    elif became.label_only:
        blocks.append([line("label only: the config and every layer but the id that the image carries are the same")])
    elif became.same_output:
        blocks.append([line("both gave the same output")])
    idle = [list(cause_lines(cause)) for cause in became.causes if not cause.moved_bytes]
    blocks += [_weighed(cause, became) for cause in became.causes if cause.moved_bytes]
    if idle:
        blocks += [[line("these moved ids alone: what they changed came out the same")], *idle]
    if became.engines is not None:
        before, after = became.engines
        text = f"built by another engine, too ({before} -> {after}); a builder whose bytes move has a new version"
        blocks.append([line(text, "dim")])
    if became.moved is not None:
        from derive.why.moved_words import causeless_lines, sum_lines

        blocks += [found for found in (list(causeless_lines(became.moved)), list(sum_lines(became.moved))) if found]
    for index, block in enumerate(blocks):
        if index:
            yield ()
        yield from block


def _weighed(cause: Cause, became: Became) -> list[Line]:
    """Show a cause and, of images, what it moved."""
    lines = list(cause_lines(cause))
    if became.moved is not None:
        from derive.why.moved_words import weight_of, weight_text

        weight = weight_of(became.moved, cause)
        if weight is not None and weight.paths + weight.packed:
            lines.append(line(f"  moved {weight_text(weight)}", "dim"))
    return lines


def paths_lines(paths: Sequence[Path], *, everything: bool) -> Iterator[Line]:
    """Show by which paths something is depended on."""
    for index, path in enumerate(paths):
        if index:
            yield ()
        yield from path_lines(path)
    if everything:
        yield ()
        yield line(count_text(len(paths), "direct user"))
