# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.patches.model import Hunk, Line, split_lines
from derive.patches.place import Placed, Unplaced, can_move, ends_file, occurrences, place


def hunk(start: int, text: str) -> Hunk:
    return Hunk(start, tuple(Line(word[0], word[1:].encode() + b"\n") for word in text.split(",")))  # type: ignore[arg-type]


def lines(text: str) -> list[bytes]:
    return split_lines(text.replace(" ", "\n").encode() + b"\n")


MIDDLE = hunk(2, " a, b, c,-x,+y, d, e, f")


def test_every_occurrence_is_found_overlaps_included() -> None:
    assert list(occurrences(lines("a a a b"), lines("a a"))) == [0, 1]
    assert list(occurrences(lines("a b"), lines("a b c"))) == []
    assert list(occurrences([], lines("a"))) == []
    assert list(occurrences(lines("a"), [])) == []


def test_the_stated_line_wins_where_nothing_above_has_moved() -> None:
    assert place(MIDDLE, lines("0 a b c x d e f a b c x d e f"), floor=0, drift=0) == Placed(index=1, offset=0)


def test_elsewhere_the_one_place_is_taken_and_its_offset_told() -> None:
    assert place(MIDDLE, lines("0 1 2 a b c x d e f"), floor=0, drift=0) == Placed(index=3, offset=2)
    assert place(MIDDLE, lines("a b c x d e f"), floor=0, drift=0) == Placed(index=0, offset=-1)


def test_two_places_are_none() -> None:
    text = lines("a b c x d e f 0 a b c x d e f")
    assert place(MIDDLE, text, floor=0, drift=0) == Unplaced(fits=(0, 8), usable=(0, 8))
    assert place(MIDDLE, text, floor=3, drift=0) == Placed(index=8, offset=7)


def test_after_a_move_the_stated_line_proves_nothing() -> None:
    text = lines("0 a b c x d e f a b c x d e f")
    assert place(MIDDLE, text, floor=0, drift=7) == Unplaced(fits=(1, 8), usable=(1, 8))


def test_a_hunk_is_not_placed_before_the_end_of_the_one_above() -> None:
    assert place(MIDDLE, lines("0 a b c x d e f"), floor=2, drift=0) == Unplaced(fits=(1,), usable=())


def test_less_context_than_three_lines_is_not_moved() -> None:
    thin = hunk(2, " a,-x,+y, d")
    assert not can_move(thin)
    assert place(thin, lines("0 a x d"), floor=0, drift=0) == Placed(index=1, offset=0)
    assert place(thin, lines("0 1 a x d"), floor=0, drift=0) == Unplaced(fits=(2,), usable=(2,))


def test_a_hunk_at_the_start_of_a_file_is_not_moved() -> None:
    assert isinstance(place(hunk(1, "-x,+y, d, e, f"), lines("new x d e f"), floor=0, drift=0), Unplaced)


def test_a_hunk_that_shows_the_end_of_its_file_is_placed_only_there() -> None:
    last = hunk(2, " a, b, c,-x,+y, d")
    assert ends_file(last)
    assert can_move(last)
    assert place(last, lines("0 a b c x d"), floor=0, drift=0) == Placed(index=1, offset=0)
    assert place(last, lines("0 1 a b c x d"), floor=0, drift=0) == Placed(index=2, offset=1)
    assert place(last, lines("0 a b c x d more"), floor=0, drift=0) == Unplaced(fits=(1,), usable=())
    assert place(last, lines("0 a b c x d a b c x d"), floor=0, drift=0) == Placed(index=6, offset=5)


def test_a_hunk_of_an_empty_file_needs_an_empty_file() -> None:
    assert place(hunk(0, "+a"), [], floor=0, drift=0) == Placed(index=0, offset=0)
    assert place(hunk(0, "+a"), lines("a"), floor=0, drift=0) == Unplaced(fits=(), usable=())


def test_the_newline_at_the_end_is_part_of_the_last_line() -> None:
    exact = Hunk(1, (Line("-", b"a"), Line("+", b"b")))
    assert place(exact, [b"a"], floor=0, drift=0) == Placed(index=0, offset=0)
    assert isinstance(place(exact, [b"a\n"], floor=0, drift=0), Unplaced)
