# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import pytest

from derive.patches.apply import apply_series
from derive.patches.model import (
    Copy,
    Create,
    Delete,
    FileOperation,
    FileState,
    Hunk,
    Line,
    Modify,
    Rename,
    SetExecutable,
)
from derive.patches.shadows import Shadow, shadows

ROWS = tuple(b"%d\n" % number for number in range(1, 21))
FILE = b"".join(ROWS)
Patch = tuple[FileOperation, ...]


def lines(before: bytes, after: bytes, path: bytes = b"f") -> Modify:
    """A change of a whole file, from a row of letters to another: letters in common are kept lines."""
    old, new = [[bytes([letter, 10]) for letter in side] for side in (before, after)]
    head = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    rest = min(len(old), len(new)) - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    rows = [Line(" ", row) for row in old[:head]]
    rows += [Line("-", row) for row in old[head : len(old) - tail]] + [
        Line("+", row) for row in new[head : len(new) - tail]
    ]
    rows += [Line(" ", row) for row in old[len(old) - tail :]]
    return Modify(path=path, hunks=(Hunk(1, tuple(rows)),))


def text(letters: bytes) -> bytes:
    return b"".join(bytes([letter, 10]) for letter in letters)


def found(tree: Mapping[bytes, bytes | FileState], *series: Patch | FileOperation) -> Mapping[int, Shadow]:
    states = {path: FileState(contents=s) if isinstance(s, bytes) else s for path, s in tree.items()}
    patches = [one if isinstance(one, tuple) else (one,) for one in series]
    apply_series(patches, states.get)
    return shadows(patches, states.get)


def undone(*by: int) -> Shadow:
    return Shadow(by=by, undone=True)


def overwritten(*by: int) -> Shadow:
    return Shadow(by=by, undone=False)


START = {b"f": text(b"abcdefg")}


def test_patches_that_touch_different_files_cast_no_shadow() -> None:
    tree = {**START, b"g": text(b"abc")}
    assert found(tree, lines(b"abcdefg", b"abcXefg"), lines(b"abc", b"abX", b"g")) == {}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["abcXefg", "abcdefg"], {0: undone(1)}),
        (["abcdXefg", "abcdefg"], {0: undone(1)}),
        (["abcefg", "abcdefg"], {0: undone(1)}),
        (["abcXefg", "abcYefg"], {0: overwritten(1)}),
        (["abcXefg", "abcefg"], {0: overwritten(1)}),
        (["abcXYfg", "abcXZfg"], {}),
        (["abcXYfg", "abcZYfg", "abcZVfg"], {0: overwritten(1, 2)}),
        (["abcXefg", "abcYefg", "abcZefg"], {0: overwritten(1), 1: overwritten(2)}),
        (["abcXefg", "abcYefg", "abcdefg"], {0: undone(1, 2), 1: overwritten(2)}),
        (["abcefg", "abcXefg"], {}),
        (["abcefg", "abXYfg"], {0: overwritten(1)}),
        (["abcefg", "abXfg"], {0: overwritten(1)}),
        (["abcefg", "abXefg"], {}),
        (["abcXefg", "QabcXefg"], {}),
        (["bcdefg", "abcdefg"], {0: undone(1)}),
        (["abcdef", "abcdefg"], {0: undone(1)}),
        (["abcdef", "abcdefh"], {}),
        (["abcXefg", "QabcXefg", "Qabcdefg"], {0: undone(2)}),
    ],
)
def test_every_line_is_followed_to_the_end(steps: list[str], expected: Mapping[int, Shadow]) -> None:
    texts = [b"abcdefg", *(step.encode() for step in steps)]
    assert found(START, *map(lines, texts, texts[1:])) == expected


def test_a_patch_is_shadowed_only_when_all_of_it_is() -> None:
    tree = {**START, b"g": text(b"abc")}
    both = (lines(b"abcdefg", b"abcXefg"), lines(b"abc", b"abX", b"g"))
    assert found(tree, both, lines(b"abcXefg", b"abcdefg")) == {}
    assert found(tree, both, lines(b"abcXefg", b"abcdefg"), lines(b"abX", b"abY", b"g")) == {0: overwritten(1, 2)}


def test_lines_that_go_on_in_a_copy_or_under_another_name_are_a_trace() -> None:
    first = lines(b"abcdefg", b"abcXefg")
    assert found(START, first, Copy(old=b"f", new=b"g"), lines(b"abcXefg", b"abcdefg")) == {}
    assert found(START, first, Rename(old=b"f", new=b"g")) == {}
    moved = Rename(old=b"f", new=b"g", hunks=lines(b"abcXefg", b"abcdefg").hunks)
    assert found(START, first, moved) == {0: undone(1)}


def test_a_copy_takes_the_lines_as_they_were_before_its_patch() -> None:
    first = lines(b"abcdefg", b"abcXefg")
    both = (lines(b"abcXefg", b"abcdefg"), Copy(old=b"f", new=b"g"))
    assert found(START, first, both) == {}


def test_what_is_done_to_a_file_that_goes_is_overwritten() -> None:
    first = lines(b"abcdefg", b"abcXefg")
    assert found(START, first, Delete(path=b"f", contents=text(b"abcXefg"))) == {0: overwritten(1)}


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ((Create(path=b"n", contents=b"x\n"), Delete(path=b"n", contents=b"x\n")), {0: undone(1)}),
        ((Create(path=b"n", contents=b"x\n"), Rename(old=b"n", new=b"m")), {}),
        ((Create(path=b"n", contents=b""), Delete(path=b"n", contents=b"")), {0: undone(1)}),
        ((Create(path=b"n", contents=b"x\n"), lines(b"x", b"y", b"n")), {}),
        ((Delete(path=b"f", contents=FILE), Create(path=b"f", contents=FILE)), {0: undone(1)}),
        ((Delete(path=b"f", contents=FILE), Create(path=b"f", contents=b"x\n")), {0: overwritten(1)}),
        ((Delete(path=b"f", contents=FILE), Create(path=b"f", contents=FILE, executable=True)), {0: overwritten(1)}),
        ((Delete(path=b"f", contents=FILE), Create(path=b"g", contents=FILE)), {}),
        ((Rename(old=b"f", new=b"g"), Rename(old=b"g", new=b"f")), {0: undone(1)}),
        ((Rename(old=b"f", new=b"g"), Rename(old=b"g", new=b"h")), {0: overwritten(1)}),
        ((Rename(old=b"f", new=b"g"), Delete(path=b"g", contents=FILE)), {0: overwritten(1)}),
        ((Copy(old=b"f", new=b"g"), Delete(path=b"g", contents=FILE)), {0: undone(1)}),
        ((Copy(old=b"f", new=b"g"), Delete(path=b"f", contents=FILE)), {}),
        ((SetExecutable(path=b"f", executable=True), SetExecutable(path=b"f", executable=False)), {0: undone(1)}),
        ((SetExecutable(path=b"f", executable=True), Delete(path=b"f", contents=FILE)), {0: overwritten(1)}),
        ((SetExecutable(path=b"f", executable=True), Rename(old=b"f", new=b"g")), {}),
    ],
)
def test_operations_on_whole_files_are_followed(
    series: tuple[FileOperation, ...], expected: Mapping[int, Shadow]
) -> None:
    assert found({b"f": FILE}, *series) == expected


def test_a_bit_that_is_flipped_twice_more_is_left() -> None:
    flips = [SetExecutable(path=b"f", executable=bit) for bit in (True, False, True)]
    assert found({b"f": FILE}, *flips) == {1: undone(2)}


def test_a_patch_of_which_nothing_was_applied_is_not_judged() -> None:
    assert found(START, (), lines(b"abcdefg", b"abcXefg"), (), lines(b"abcXefg", b"abcdefg")) == {1: undone(3)}


def test_what_a_pair_undoes_can_be_left_out_with_it() -> None:
    """The promise of 'undone': without both, the tree is the same."""
    texts = [b"abcdefg", b"abcXefg", b"QabcXefg", b"Qabcdefg"]
    series = list(map(lines, texts, texts[1:]))
    assert found(START, *series) == {0: undone(2)}
    states = {path: FileState(contents=data) for path, data in START.items()}
    whole = apply_series([(one,) for one in series], states.get).changes
    assert apply_series([(lines(b"abcdefg", b"Qabcdefg"),)], states.get).changes == whole
