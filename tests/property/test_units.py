# SPDX-License-Identifier: Apache-2.0
"""The tiles of a program: exactly one for each count of rows, on each architecture, or the file is refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from derive.kernels.declarations import KernelDecl, parse_kernel
from derive.kernels.units import Unit, units_of

GPUS = ("sm_90a", "sm_100a", "sm_121a")
ROWS = range(1, 40)

Tile = tuple[int, int | None, frozenset[str]]

_TILES = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.one_of(st.none(), st.integers(0, 12)),
        st.one_of(st.just(frozenset(GPUS)), st.frozensets(st.sampled_from(GPUS), min_size=1)),
    ).map(lambda one: (one[0], None if one[1] is None else one[0] + one[1], one[2])),
    min_size=1,
    max_size=5,
)


@st.composite
def cut(draw: st.DrawFn) -> list[Tile]:
    """Tiles that part the counts of rows, for some architectures all the same and for others not."""
    tiles: list[Tile] = []
    for gpus in draw(st.sampled_from([[frozenset(GPUS)], [frozenset(GPUS[:1]), frozenset(GPUS[1:])]])):
        ends = sorted(draw(st.sets(st.integers(1, 30), max_size=4)))
        starts = [1, *(end + 1 for end in ends)]
        tiles += [(start, end, gpus) for start, end in zip(starts, [*ends, None], strict=True)]
    return draw(st.permutations(tiles))


def parse(tiles: list[Tile]) -> tuple[KernelDecl | None, list[str]]:
    text = f'summary = "x"\nsource = "x"\narchitectures = {list(GPUS)}\n'
    text += '[programs.p]\ndoc = "x"\nshapes.one = { doc = "x" }\nshapes.two = { doc = "x", arguments = { n = 2 } }\n'
    for index, (first, last, gpus) in enumerate(tiles):
        rows = [first] if last is None else [first, last]
        text += f"tiles.t{index} = {{ rows = {rows}, architectures = {sorted(gpus)} }}\n"
    kernel, problems = parse_kernel(text.replace("'", '"').encode(), "kernel.toml")
    return kernel, [problem.message for problem in problems]


def fits(unit: Unit, rows: int) -> bool:
    least, most = unit.rows
    return least <= rows and (most is None or rows <= most)


def counts(units: tuple[Unit, ...]) -> list[list[int]]:
    """Return, by shape and architecture that has any unit, how many units are for each count of rows."""
    places = sorted({(unit.shape, unit.gpu) for unit in units})
    return [[sum(fits(u, n) for u in units if (u.shape, u.gpu) == place) for n in ROWS] for place in places]


@given(cut())
def test_for_every_count_of_rows_there_is_one_unit_of_each_shape_and_architecture(tiles: list[Tile]) -> None:
    kernel, problems = parse(tiles)
    assert kernel is not None, problems
    found = counts(units_of("k", kernel))
    assert len(found) == 2 * len(GPUS)
    assert all(each == [1] * len(ROWS) for each in found)


@given(_TILES)
def test_what_is_accepted_is_no_more_than_one_unit_each_and_none_only_beyond_all_tiles(tiles: list[Tile]) -> None:
    kernel, problems = parse(tiles)
    sound = all(_is_sound([(first, last) for first, last, gpus in tiles if gpu in gpus]) for gpu in GPUS)
    assert (kernel is not None) == sound, problems
    if kernel is not None:
        names = [unit.name for unit in units_of("k", kernel)]
        assert len(set(names)) == len(names)


def _is_sound(ranges: list[tuple[int, int | None]]) -> bool:
    """Say, count by count, whether ranges have neither holes nor overlaps."""
    each = [sum(first <= n and (last is None or n <= last) for first, last in ranges) for n in ROWS]
    ones = each.index(0) if 0 in each else len(each)
    return each == [1] * ones + [0] * (len(each) - ones)
