# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.canonical import sha256
from derive.trees.diff import Added, Changed, Removed, diff, first_difference
from derive.trees.listing import DIRECTORY, Entry, File, Listing, Location, Symlink


def file(text: bytes, *, executable: bool = False) -> File:
    return File(executable=executable, size=len(text), sha256=sha256(text))


BASE: dict[bytes, Entry] = {b"a/x": file(b"x"), b"a/y": file(b"y"), b"link": Symlink(b"a"), b"empty": DIRECTORY}


def moved(change: dict[bytes, Entry], *gone: bytes) -> tuple[object, ...]:
    after = {path: entry for path, entry in {**BASE, **change}.items() if path not in gone}
    return diff(Listing.of(BASE), Listing.of(after))


def test_equal_trees_have_no_difference_wherever_their_contents_lie() -> None:
    here = File(executable=False, size=1, sha256=sha256(b"x"), at=Location(sha256(b"pack"), 0, 1))
    assert moved({b"a/x": here}) == ()


def test_a_path_of_one_tree_is_added_or_removed() -> None:
    assert moved({b"new": file(b"n")}) == (Added(b"new", file(b"n")),)
    assert moved({}, b"a/y") == (Removed(b"a/y", file(b"y")),)


def test_each_fact_that_differs_is_named() -> None:
    assert moved({b"a/x": file(b"z")}) == (Changed(b"a/x", "contents", file(b"x"), file(b"z")),)
    program = file(b"x", executable=True)
    assert moved({b"a/x": program}) == (Changed(b"a/x", "executable", file(b"x"), program),)
    assert moved({b"link": Symlink(b"b")}) == (Changed(b"link", "target", Symlink(b"a"), Symlink(b"b")),)
    assert moved({b"link": DIRECTORY}) == (Changed(b"link", "type", Symlink(b"a"), DIRECTORY),)
    both = moved({b"a/x": file(b"z", executable=True)})
    assert [change.kind for change in both if isinstance(change, Changed)] == ["executable", "contents"]


def test_a_folder_that_became_a_file_loses_what_was_below() -> None:
    changes = diff(Listing.of(BASE), Listing.of([(b"a", file(b"")), (b"link", Symlink(b"a")), (b"empty", DIRECTORY)]))
    assert [type(change) for change in changes] == [Changed, Removed, Removed]


def test_differences_come_in_nar_order() -> None:
    before = Listing.of({})
    after = Listing.of({b"a.b": file(b""), b"a/b": file(b""), b"a-": file(b"")})
    assert [change.path for change in diff(before, after)] == [b"a", b"a/b", b"a-", b"a.b"]


@pytest.mark.parametrize(
    ("before", "after", "offset"),
    [
        (b"", b"", None),
        (b"abc", b"abc", None),
        (b"abc", b"abd", 2),
        (b"xbc", b"abc", 0),
        (b"abc", b"ab", 2),
        (b"", b"a", 0),
        (bytes(1000), bytes(999) + b"\1", 999),
        (bytes(1000) + b"\1", bytes(1000) + b"\2", 1000),
    ],
)
@pytest.mark.parametrize(("ours", "theirs"), [(1, 1), (1, 3), (7, 2), (1000, 333), (4096, 4096)])
def test_the_first_difference_does_not_depend_on_the_chunks(
    before: bytes, after: bytes, offset: int | None, ours: int, theirs: int
) -> None:
    left = [b"", *(before[at : at + ours] for at in range(0, len(before), ours))]
    right = [*(after[at : at + theirs] for at in range(0, len(after), theirs)), b""]
    assert first_difference(left, right) == offset
    assert first_difference(right, left) == offset
