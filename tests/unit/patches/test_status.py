# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import pytest

from derive.patches.absorbed import Place
from derive.patches.apply import apply_patch
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
    State,
)
from derive.patches.parse import parse_patch
from derive.patches.status import Absorbed, Applies, Conflicts, Named, Partly, Shadowed, Verdict, Waits, judge

NUMBERS = b"".join(b"%d\n" % number for number in range(1, 41))
Tree = Mapping[bytes, State]


def change(path: str, *lines: tuple[int, str, str]) -> tuple[FileOperation, ...]:
    """A patch of a file of numbers: at each line, one text for another, three lines of context around."""
    rows = [f"--- a/{path}", f"+++ b/{path}"]
    for at, old, new in lines:
        before, after = ([f" {n}" for n in range(*ends)] for ends in ((at - 3, at), (at + 1, at + 4)))
        rows += [f"@@ -{at - 3},7 +{at - 3},{7 + new.count('+')} @@", *before, f"-{old}", f"+{new}", *after]
    return parse_patch("p", "".join(f"{row}\n" for row in rows).encode()).operations


def verdicts(tree: Mapping[bytes, bytes | State], *series: tuple[FileOperation, ...]) -> list[Verdict]:
    states = {path: FileState(contents=s) if isinstance(s, bytes) else s for path, s in tree.items()}
    named = [Named(name=f"{number:04d}.patch", operations=one) for number, one in enumerate(series, 1)]
    found = judge(named, states.get)
    assert [one.name for one in found] == [one.name for one in named]
    return [one.verdict for one in found]


def after(tree: Mapping[bytes, bytes], *series: tuple[FileOperation, ...]) -> dict[bytes, bytes]:
    states: dict[bytes, FileState | None] = {path: FileState(contents=data) for path, data in tree.items()}
    for one in series:
        states.update(apply_patch(one, states.get).changes)
    return {path: state.contents for path, state in states.items() if state is not None}


def test_a_series_that_applies_says_where_each_hunk_lands() -> None:
    moved = b"new\n" * 2 + NUMBERS
    (verdict,) = verdicts({b"f": moved}, change("f", (10, "10", "ten"), (30, "30", "thirty")))
    assert isinstance(verdict, Applies)
    assert [(one.hunk, one.line, one.offset) for one in verdict.landed] == [(1, 9, 2), (2, 29, 2)]
    assert verdict.moved == verdict.landed


def test_a_patch_that_the_source_has_is_already_upstream_wherever_its_lines_stand() -> None:
    patch = change("f", (10, "10", "ten"), (30, "30", "thirty"))
    done = after({b"f": NUMBERS}, patch)
    assert verdicts(done, patch) == [Absorbed(in_source=True)]
    assert verdicts({b"f": b"#\n" + done[b"f"]}, patch) == [Absorbed(in_source=True)]


def test_a_patch_that_an_earlier_one_made_superfluous_is_not_called_upstream() -> None:
    patch = change("f", (10, "10", "ten"))
    first, second = verdicts({b"f": NUMBERS}, patch, patch)
    assert isinstance(first, Applies)
    assert second == Absorbed(in_source=False)


def test_the_hunks_that_the_source_has_are_named_and_the_rest_is_followed() -> None:
    patch = change("f", (10, "10", "ten"), (20, "20", "twenty"), (30, "30", "thirty"))
    source = after({b"f": NUMBERS}, change("f", (20, "20", "twenty")))
    later = change("f", (30, "thirty", "XXX"))
    partly, verdict = verdicts(source, patch, later)
    assert partly == Partly(
        absorbed=(Place(path=b"f", hunk=2, line=17),),
        open=(Place(path=b"f", hunk=1, line=7), Place(path=b"f", hunk=3, line=27)),
    )
    assert isinstance(verdict, Applies)


def test_hunks_below_lines_that_the_source_gained_by_absorbing_others_are_found() -> None:
    grows = change("f", (10, "10", "ten\n+and\n+more"), (30, "30", "thirty"))
    source = after({b"f": NUMBERS}, (Modify(path=b"f", hunks=grows[0].hunks[:1]),))  # type: ignore[union-attr]
    assert verdicts(source, grows) == [
        Partly(absorbed=(Place(path=b"f", hunk=1, line=7),), open=(Place(path=b"f", hunk=2, line=29),))
    ]


def test_what_neither_applies_nor_is_there_conflicts_with_its_hunk_and_reason() -> None:
    source = {b"f": NUMBERS.replace(b"\n30\n", b"\nother\n")}
    (verdict,) = verdicts(source, change("f", (10, "10", "ten"), (30, "30", "thirty")))
    assert isinstance(verdict, Conflicts)
    (refused,) = verdict.refused
    assert (refused.path, refused.hunk) == (b"f", 2)
    assert refused.reason.message == "the file differs from the hunk at line 30"


def test_a_conflict_holds_up_no_other_file_and_what_changes_its_own_waits() -> None:
    source = {b"f": NUMBERS.replace(b"\n10\n", b"\nother\n"), b"g": NUMBERS}
    bad, waits, other, again = verdicts(
        source,
        change("f", (10, "10", "ten")),
        change("f", (10, "ten", "TEN")),
        change("g", (10, "10", "ten")),
        change("f", (10, "TEN", "Ten")),
    )
    assert isinstance(bad, Conflicts)
    assert isinstance(waits, Waits)
    assert waits.on == ("0001.patch",)
    assert isinstance(other, Applies)
    assert isinstance(again, Waits)
    assert again.on == ("0001.patch", "0002.patch")


def test_a_conflicting_patch_leaves_nothing_for_those_after_it() -> None:
    source = {b"f": NUMBERS, b"g": b"other\n"}
    both = (*change("f", (10, "10", "ten")), *change("g", (10, "10", "ten")))
    bad, verdict = verdicts(source, both, change("f", (10, "10", "zehn")))
    assert isinstance(bad, Conflicts)
    assert isinstance(verdict, Applies)


BIT = FileState(contents=b"x", executable=True)


@pytest.mark.parametrize(
    ("operation", "tree"),
    [
        (Create(path=b"n", contents=b"x"), {b"n": b"x"}),
        (Delete(path=b"n", contents=b"x"), {}),
        (Rename(old=b"o", new=b"n"), {b"n": b"x"}),
        (Copy(old=b"o", new=b"n"), {b"o": b"x", b"n": b"x"}),
        (SetExecutable(path=b"n", executable=True), {b"n": BIT}),
    ],
)
def test_operations_without_hunks_are_found_in_the_source(
    operation: FileOperation, tree: Mapping[bytes, bytes]
) -> None:
    assert verdicts(tree, (operation,)) == [Absorbed(in_source=True)]


@pytest.mark.parametrize(
    ("operation", "tree"),
    [
        (Create(path=b"n", contents=b"x"), {b"n": b"y"}),
        (Create(path=b"n", contents=b"x"), {b"n": BIT}),
        (Delete(path=b"n", contents=b"x"), {b"n": b"y"}),
        (Rename(old=b"o", new=b"n"), {}),
        (Rename(old=b"o", new=b"n"), {b"o": b"x", b"n": b"x"}),
        (Copy(old=b"o", new=b"n"), {b"o": b"x", b"n": b"y"}),
        (SetExecutable(path=b"n", executable=True), {}),
    ],
)
def test_what_is_there_otherwise_is_a_conflict(operation: FileOperation, tree: Mapping[bytes, bytes]) -> None:
    (verdict,) = verdicts(tree, (operation,))
    assert isinstance(verdict, Conflicts)


def test_a_rename_that_the_source_made_leaves_the_hunks_that_it_did_not_make() -> None:
    (modify,) = change("o", (10, "10", "ten"), (30, "30", "thirty"))
    assert isinstance(modify, Modify)
    rename = Rename(old=b"o", new=b"n", hunks=modify.hunks)
    source = after({b"n": NUMBERS}, change("n", (10, "10", "ten")))
    (verdict,) = verdicts(source, (rename,))
    assert verdict == Partly(
        absorbed=(Place(path=b"n"), Place(path=b"n", hunk=1, line=7)), open=(Place(path=b"n", hunk=2, line=27),)
    )
    assert verdicts(after({b"o": NUMBERS}, (rename,)), (rename,)) == [Absorbed(in_source=True)]


def test_a_copy_with_hunks_is_there_when_a_hunk_shows_it() -> None:
    (modify,) = change("o", (10, "10", "ten"), (30, "30", "thirty"))
    assert isinstance(modify, Modify)
    copy = Copy(old=b"o", new=b"n", hunks=modify.hunks)
    assert verdicts(after({b"o": NUMBERS}, (copy,)), (copy,)) == [Absorbed(in_source=True)]
    (verdict,) = verdicts({b"o": NUMBERS, b"n": NUMBERS}, (copy,))
    assert isinstance(verdict, Conflicts)


def test_a_bit_and_a_hunk_are_told_apart() -> None:
    (modify,) = change("f", (10, "10", "ten"))
    assert isinstance(modify, Modify)
    both = Modify(path=b"f", hunks=modify.hunks, executable=True)
    tree = {b"f": FileState(contents=NUMBERS, executable=True)}
    assert verdicts(tree, (both,)) == [Partly(absorbed=(Place(path=b"f"),), open=(Place(path=b"f", hunk=1, line=7),))]
    done = {b"f": FileState(contents=after({b"f": NUMBERS}, (modify,))[b"f"])}
    assert verdicts(done, (both,)) == [Partly(absorbed=(Place(path=b"f", hunk=1, line=7),), open=(Place(path=b"f"),))]


def test_a_hunk_for_an_empty_file_and_one_that_empties_it() -> None:
    fills = Modify(path=b"f", hunks=(Hunk(0, (Line("+", b"a\n"),)),))
    empties = Modify(path=b"f", hunks=(Hunk(1, (Line("-", b"a\n"),)),))
    assert verdicts({b"f": b"a\n"}, (fills,)) == [Absorbed(in_source=True)]
    assert verdicts({b"f": b""}, (empties,)) == [Absorbed(in_source=True)]
    (verdict,) = verdicts({b"f": b"b\n"}, (fills,))
    assert isinstance(verdict, Conflicts)


def test_lines_that_only_look_alike_are_not_taken_for_done() -> None:
    """The new side of a hunk that stands at two places shows nothing."""
    patch = change("f", (10, "10", "ten"))
    done = after({b"f": NUMBERS}, patch)[b"f"]
    (verdict,) = verdicts({b"f": b"#\n" + done + done}, patch)
    assert isinstance(verdict, Conflicts)


def test_line_endings_that_differ_are_a_conflict_that_names_them() -> None:
    (verdict,) = verdicts({b"f": NUMBERS.replace(b"\n", b"\r\n")}, change("f", (10, "10", "ten")))
    assert isinstance(verdict, Conflicts)
    assert "only line endings differ" in verdict.refused[0].reason.message


def test_a_patch_that_a_later_one_undoes_is_shadowed_and_the_later_one_is_not() -> None:
    undone, verdict = verdicts({b"f": NUMBERS}, change("f", (10, "10", "ten")), change("f", (10, "ten", "10")))
    assert undone == Shadowed(by=("0002.patch",), undone=True)
    assert isinstance(verdict, Applies)


def test_symbolic_links_are_no_files_and_stop_nothing_else() -> None:
    from derive.trees.listing import Symlink

    tree: Tree = {b"l": Symlink(b"/etc"), b"f": FileState(contents=NUMBERS)}
    bad, good = verdicts(tree, change("l/f", (10, "10", "ten")), change("f", (10, "10", "ten")))
    assert isinstance(bad, Conflicts)
    assert "is a symbolic link" in bad.refused[0].reason.message
    assert isinstance(good, Applies)
