# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Sequence

from derive.canonical import Json
from derive.patches.identity import patch_document
from derive.patches.model import Create, Delete, Hunk, Line, Modify, Patch
from derive.patches.parse import parse_patch
from derive.why.differences import (
    Difference,
    HunkMoved,
    OperationMoved,
    PatchAdded,
    PatchMoved,
    PatchRemoved,
    ValueMoved,
)
from derive.why.graph import node_of
from derive.why.series import patch_labels, series_differences, with_labels
from support.steps import step

PATCH = """\
--- a/{path}
+++ b/{path}
@@ -1,3 +1,3 @@
 first
-old
+{new}
 last
"""


def patch(path: str, new: str = "new") -> Patch:
    return parse_patch("p.patch", PATCH.format(path=path, new=new).encode(), where="p")


def series(*patches: Patch) -> list[Json]:
    return [patch_document(one.operations) for one in patches]


def found(before: Sequence[Json], after: Sequence[Json], *labels: str) -> list[Difference]:
    return list(series_differences(before, after, (), labels))


A, B, C = patch("a"), patch("b"), patch("c")


def test_one_series_has_no_difference() -> None:
    assert found(series(A, B), series(A, B)) == []


def test_a_patch_that_came_and_one_that_went_are_said_with_their_numbers() -> None:
    assert found(series(A, C), series(A, B, C)) == [PatchAdded("patch 2 of 3", 2, B.operations)]
    assert found(series(A, B, C), series(A, C)) == [PatchRemoved("patch 2 of 3", 2, B.operations)]


def test_a_patch_is_called_by_its_label_where_one_is_known() -> None:
    assert found(series(A), series(A, B), "a.patch", "b.patch") == [PatchAdded("b.patch", 2, B.operations)]
    assert found(series(A), series(A, B), "a.patch", "") == [PatchAdded("patch 2 of 2", 2, B.operations)]
    assert found(series(A), series(A, B), "of another series") == [PatchAdded("patch 2 of 2", 2, B.operations)]


def test_a_patch_at_another_place_moved_and_did_not_change() -> None:
    (moved,) = found(series(A, B, C), series(B, C, A))
    assert moved == PatchMoved("patch 3 of 3", 1, 3)


def test_the_hunk_of_a_patch_that_changed_is_shown_in_both_states() -> None:
    (hunk,) = found(series(A, B), series(A, patch("b", "newer")))
    assert isinstance(hunk, HunkMoved)
    assert (hunk.patch, hunk.path, hunk.number) == ("patch 2 of 2", b"b", 1)
    assert hunk.before is not None
    assert hunk.after is not None
    assert (hunk.before.new[1], hunk.after.new[1]) == (b"new\n", b"newer\n")


def test_a_changed_patch_is_told_from_a_new_one_by_what_it_changes() -> None:
    differences = found(series(A, B), series(C, patch("b", "newer")))
    assert [type(one) for one in differences] == [PatchRemoved, PatchAdded, HunkMoved]


PAGES = [f"page {number} is free" for number in range(1, 121)]


def page(number: int, word: str, line: int = 0) -> Patch:
    """Return a patch of one line of a long file."""
    rows = PAGES[number - 4 : number + 3]
    text = "".join(f" {row}\n" for row in rows[:3]) + f"-{rows[3]}\n+page {number} is {word}\n"
    text += "".join(f" {row}\n" for row in rows[4:])
    start = (line or number) - 3
    return parse_patch("p.patch", f"--- a/pages\n+++ b/pages\n@@ -{start},7 +{start},7 @@\n{text}".encode(), where="p")


def kinds(before: Sequence[Json], after: Sequence[Json], *labels: str) -> list[tuple[str, str]]:
    return [(type(one).__name__, getattr(one, "patch", "")) for one in found(before, after, *labels)]


def test_patches_of_one_file_are_not_taken_for_one_by_their_place_in_the_series() -> None:
    a, b, c, d = page(10, "taken"), page(30, "taken"), page(50, "taken"), page(87, "taken")
    assert kinds(series(a, b, c), series(d, c)) == [
        ("PatchRemoved", "patch 1 of 3"),
        ("PatchRemoved", "patch 2 of 3"),
        ("PatchAdded", "patch 1 of 2"),
    ]


def test_after_a_rebase_what_went_what_came_and_what_was_carried_are_told_apart() -> None:
    before = series(page(10, "taken"), page(70, "taken"), page(50, "taken"))
    after = series(page(10, "taken"), page(50, "taken", 53), page(90, "taken"))
    assert kinds(before, after, "1", "3", "4") == [
        ("PatchRemoved", "patch 2 of 3"),
        ("PatchAdded", "4"),
        ("HunkMoved", "3"),
    ]


def test_a_patch_that_was_edited_and_moved_is_both() -> None:
    before, after = series(A, page(10, "taken")), series(page(10, "ours"), A)
    assert sorted(kinds(before, after)) == [("HunkMoved", "patch 1 of 2"), ("PatchMoved", "patch 1 of 2")]


def test_two_patches_of_one_name_are_one_whatever_they_say() -> None:
    one, two = series(page(10, "taken")), series(page(70, "ours"))
    assert [type(d) for d in series_differences(one, two, ("x",), ("x",))] == [HunkMoved]
    assert [type(d) for d in series_differences(one, two, ("x",), ("y",))] == [PatchRemoved, PatchAdded]


def test_a_patch_that_is_there_twice_is_paired_one_by_one() -> None:
    assert kinds(series(A, B, A), series(A, B)) == [("PatchRemoved", "patch 3 of 3")]
    assert kinds(series(A), series(A, A)) == [("PatchAdded", "patch 2 of 2")]


def test_a_patch_that_grew_is_the_same_patch() -> None:
    small = [Modify(path=b"f", hunks=(hunk(1, b"a\n"),))]
    large = [Modify(path=b"f", hunks=tuple(hunk(9 * n + 1, b"a" * (n + 1) + b"\n") for n in range(8)))]
    assert {kind for kind, _ in kinds([patch_document(small)], [patch_document(large)])} == {"HunkMoved"}


def test_lines_inserted_at_one_place_are_one_patch_when_they_are_alike() -> None:
    def one(text: bytes) -> list[Json]:
        return [patch_document([Modify(path=b"f", hunks=(hunk(5, text),))])]

    assert [kind for kind, _ in kinds(one(b"gid = 70\n"), one(b"gid = 90\n"))] == ["HunkMoved"]
    assert [kind for kind, _ in kinds(one(b"gid = 70\n"), one(b"return NULL;\n"))] == ["PatchRemoved", "PatchAdded"]


def test_a_series_of_many_patches_turned_around_is_compared_quickly() -> None:
    patches = [page(4 + n % 100, f"taken by {n}") for n in range(150)]
    turned = [page(4 + n % 100, f"had by {n}") for n in range(150)][::-1]
    started = time.process_time()
    assert len(kinds(series(*patches), series(*turned))) >= 150
    assert time.process_time() - started < 5


def hunk(start: int, new: bytes) -> Hunk:
    return Hunk(start, (Line(" ", b"x\n"), Line("+", new), Line(" ", b"y\n")))


def test_only_the_hunk_that_differs_is_named() -> None:
    one = Modify(path=b"f", hunks=(hunk(1, b"a\n"), hunk(9, b"b\n")))
    two = Modify(path=b"f", hunks=(hunk(1, b"a\n"), hunk(8, b"b\n")))
    (moved,) = found([patch_document([one])], [patch_document([two])])
    assert moved == HunkMoved("patch 1 of 1", b"f", 2, hunk(9, b"b\n"), hunk(8, b"b\n"))


def test_a_hunk_that_came_or_went_has_one_state() -> None:
    one = Modify(path=b"f", hunks=(hunk(1, b"a\n"),))
    two = Modify(path=b"f", hunks=(hunk(1, b"a\n"), hunk(8, b"b\n")))
    (came,) = found([patch_document([one])], [patch_document([two])])
    assert came == HunkMoved("patch 1 of 1", b"f", 2, None, hunk(8, b"b\n"))


def test_what_is_no_hunk_is_an_operation() -> None:
    one = [patch_document([Create(path=b"f", contents=b"a\n")])]
    two = [patch_document([Create(path=b"f", contents=b"b\n")])]
    (moved,) = found(one, two)
    assert isinstance(moved, OperationMoved)
    bits = [patch_document([Modify(path=b"f", hunks=(hunk(1, b"a\n"),), executable=bit)]) for bit in (None, True)]
    (bit,) = found([bits[0]], [bits[1]])
    assert isinstance(bit, OperationMoved)
    rest = Create(path=b"g", contents=b"a\n")
    states: list[list[Json]] = [
        [patch_document([op, rest])] for op in (Create(path=b"f", contents=b"a\n"), Delete(path=b"f", contents=b"a\n"))
    ]
    (kind,) = found(states[0], states[1])
    assert isinstance(kind, OperationMoved)


def test_files_of_a_patch_in_another_order_are_a_difference() -> None:
    operations = [Create(path=b"f", contents=b"a\n"), Create(path=b"g", contents=b"a\n")]
    (moved,) = found([patch_document(operations)], [patch_document(operations[::-1])])
    assert moved == ValueMoved("patch 1 of 1: order of files", "f g", "g f")


def test_a_series_that_this_engine_cannot_read_is_told_by_its_digest() -> None:
    (moved,) = found([{"operations": [{"op": "from the future"}]}], series(A))
    assert isinstance(moved, ValueMoved)
    assert moved.place == "series"


def test_patches_get_their_names_from_files_that_say_the_same() -> None:
    files = {
        "up/series": b"# licence: MIT\n0001-a.patch\n",
        "up/0001-a.patch": b"A header that counts for nothing.\n\n" + PATCH.format(path="a", new="new").encode(),
    }
    stored = step("patched", "patch", series=series(A, B))
    node = with_labels(node_of(stored.id, stored.name, stored.document()), patch_labels(files))
    assert node.labels == ("patches/up/0001-a.patch", "")
