# SPDX-License-Identifier: Apache-2.0
"""What moved between two compiles of kernels: the unit, its code, its resources, its instructions.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import Digest, Json
from derive.content import key_path
from derive.kernels.facts import Facts
from derive.why.render import Line, Span, bounded, line, line_diff, printable

DIFF_LINES = 40
_INSTRUCTIONS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a compile gave: the digest of all of it, its facts, its CUDA, and the count of each instruction."""

    output: str
    facts: Facts
    cuda: bytes
    instructions: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two: a unit's document and code as they stand in its derivation.

    ``root`` is the id of what it is compiled in; ``built`` is None where it is not, or no more, in the store.
    """

    name: str
    derivation: Digest
    root: str
    unit: Mapping[str, Json]
    source: bytes
    built: Built | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One value that differs, as texts; None where there is none."""

    place: str
    before: str | None
    after: str | None

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {"place": self.place, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number on both sides, equal or not. ``unit`` is that of the number, where it has one."""

    what: str
    before: int
    after: int
    unit: str = ""

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        suffix = "_bytes" if self.unit == "B" else ""
        return {"what": self.what, f"before{suffix}": self.before, f"after{suffix}": self.after}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What moved. ``resources`` and ``matrix`` are whole, ``instructions`` are those whose count moved, most first."""

    before: Side
    after: Side
    values: tuple[Moved, ...]
    compilers: tuple[Moved, ...]
    resources: tuple[Count, ...]
    matrix: tuple[Count, ...]
    instructions: tuple[Count, ...]

    @property
    def same(self) -> bool:
        """Say whether nothing moved that both sides tell of."""
        before, after = self.before, self.after
        if before.built is None or after.built is None:
            return before.derivation == after.derivation
        here, there = (before.root, before.source), (after.root, after.source)
        return not self.values and here == there and before.built.output == after.built.output

    @property
    def unbuilt(self) -> tuple[Side, ...]:
        """Those of the two whose machine code is not there to be compared."""
        return tuple(side for side in (self.before, self.after) if side.built is None)


def compare(before: Side, after: Side) -> Comparison:
    """Compare two compiles; of one that is not built, what is written down alone."""
    compilers: list[Moved] = []
    resources: list[Count] = []
    matrix: list[Count] = []
    instructions: list[Count] = []
    if before.built is not None and after.built is not None:
        old, new = before.built.facts, after.built.facts
        compilers = list(_moved(old.resources.compiler, new.resources.compiler))
        resources = list(_resources(old, new))
        matrix = list(_counts(old.resources.matrix_instructions, new.resources.matrix_instructions))
        named = {count.what for count in matrix}
        all_counts = _counts(before.built.instructions, after.built.instructions)
        moved = [one for one in all_counts if one.before != one.after and one.what not in named]
        instructions = sorted(moved, key=lambda one: (-abs(one.after - one.before), one.what))
    return Comparison(
        before=before,
        after=after,
        values=tuple(_moved(dict(_flat(before.unit)), dict(_flat(after.unit)))),
        compilers=tuple(compilers),
        resources=tuple(resources),
        matrix=tuple(matrix),
        instructions=tuple(instructions),
    )


def _flat(value: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield each value of a unit's document by its key path; a list counts as one value."""
    match value:
        case Mapping():
            for key in value:
                yield from _flat(value[key], (*path, key))
        case list() | tuple():
            yield key_path(path), " ".join(_text(one) for one in value) or "none"
        case _:
            yield key_path(path), _text(value)


def _text(value: Json) -> str:
    match value:
        case None:
            return "no bound"
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def _moved(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Moved]:
    for place in [*before, *(key for key in after if key not in before)]:
        if before.get(place) != after.get(place):
            yield Moved(place=place, before=before.get(place), after=after.get(place))


def _resources(before: Facts, after: Facts) -> Iterator[Count]:
    old, new = before.resources, after.resources
    rows = (
        ("registers", old.registers, new.registers, ""),
        ("shared memory", before.shared_memory_bytes, after.shared_memory_bytes, "B"),
        ("spill stores", old.spill_store_bytes, new.spill_store_bytes, "B"),
        ("spill loads", old.spill_load_bytes, new.spill_load_bytes, "B"),
        ("stack", old.stack_bytes, new.stack_bytes, "B"),
        ("instructions", old.instructions, new.instructions, ""),
    )
    for what, first, second, unit in rows:
        yield Count(what=what, before=first, after=second, unit=unit)


def _counts(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[Count]:
    for name in sorted(before.keys() | after.keys()):
        yield Count(what=name, before=before.get(name, 0), after=after.get(name, 0))


def comparison_lines(found: Comparison, *, everything: bool = False) -> Iterator[Line]:
    """Yield a comparison as lines: what was asked about, then each part in which something moved."""
    limit = 10**6 if everything else DIFF_LINES
    yield line(f"{_title(found.before)} -> {_title(found.after)}", "strong")
    if found.same:
        yield line("nothing moved")
        return
    yield from _section("unit", (_moved_line(one) for one in found.values))
    yield from _section("compiler", _compiler_lines(found))
    yield from _section("kernel.py", line_diff(found.before.source, found.after.source, limit=limit))
    before, after = found.before.built, found.after.built
    if before is None or after is None:
        return
    moved = [one for one in found.resources if one.before != one.after]
    yield from _section("resources", _count_lines(found.resources if moved else ()))
    yield from _section("matrix instructions", _count_lines(found.matrix))
    shown = len(found.instructions) if everything else _INSTRUCTIONS
    yield from _section("instructions", bounded(list(_count_lines(found.instructions)), shown))
    yield from _section("kernel.cu", line_diff(before.cuda, after.cuda, limit=limit))
    sass = [side.facts.resources.sass_sha256 for side in (before, after)]
    yield ()
    yield line(f"machine code: {'the same' if sass[0] == sass[1] else f'{sass[0][:12]} -> {sass[1][:12]}'}")


def _title(side: Side) -> str:
    return f"{side.name} ({side.derivation.short})"


def _section(title: str, lines: Iterable[Line]) -> Iterator[Line]:
    rows = list(lines)
    if rows:
        yield ()
        yield line(title, "strong")
        yield from ((Span("  "), *row) for row in rows)


def _moved_line(one: Moved) -> Line:
    if one.before is None or one.after is None:
        added = one.before is None
        text = f"{one.place}: {one.after if added else one.before}, {'added' if added else 'removed'}"
        return (Span(printable(text), "added" if added else "removed"),)
    return line(f"{one.place}: {one.before} -> {one.after}")


def _compiler_lines(found: Comparison) -> Iterator[Line]:
    yield from (_moved_line(one) for one in found.compilers)
    if found.before.root != found.after.root:
        yield line(f"compiled in: {found.before.root[:12]} -> {found.after.root[:12]}")


def _count_lines(counts: Sequence[Count]) -> Iterator[Line]:
    if not counts:
        return
    cells = [(one.what, _number(one.before, one), _number(one.after, one)) for one in counts]
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    for one, (what, before, after) in zip(counts, cells, strict=True):
        text = f"{what.ljust(widths[0])}  {before.rjust(widths[1])} -> {after.rjust(widths[2])}"
        change = one.after - one.before
        yield line(f"{text}  {change:+d}" if change else text, "plain" if change else "dim")


def _number(value: int, one: Count) -> str:
    return f"{value} {one.unit}" if one.unit else str(value)


def comparison_body(found: Comparison) -> dict[str, Json]:
    """Return a comparison as the body of a record; what is not built has null for what its compile would say."""
    before, after = found.before, found.after
    return {
        "same": found.same,
        "before": _side_document(before),
        "after": _side_document(after),
        "unit": [one.document() for one in found.values],
        "compiler": [one.document() for one in found.compilers],
        "root": {"before": before.root, "after": after.root},
        "source_same": before.source == after.source,
        "cuda_same": None if found.unbuilt else _built(before).cuda == _built(after).cuda,
        "resources": [one.document() for one in found.resources],
        "matrix_instructions": [one.document() for one in found.matrix],
        "instructions": [one.document() for one in found.instructions],
    }


def _side_document(side: Side) -> dict[str, Json]:
    built = side.built
    return {
        "unit": side.name,
        "derivation": str(side.derivation),
        "output": None if built is None else built.output,
        "sass_sha256": None if built is None else built.facts.resources.sass_sha256,
    }


def _built(side: Side) -> Built:
    assert side.built is not None
    return side.built


def unbuilt_words(found: Comparison) -> str:
    """Say which of the two are not built, where that is so, and what builds them; else nothing."""
    names = " ".join(dict.fromkeys(side.name for side in found.unbuilt))
    if not names:
        return ""
    return f"not built, and so compared by what is written alone: {names}\n  hint: derive kernels build {names}"
