# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

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


def test_a_changed_patch_is_told_from_a_new_one_by_the_files_that_it_touches() -> None:
    differences = found(series(A, B), series(C, patch("b", "newer")))
    assert [type(one) for one in differences] == [PatchRemoved, PatchAdded, HunkMoved]


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
    kinds = [patch_document([Delete(path=b"f", contents=b"a\n")])]
    (kind,) = found(one, kinds)
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
