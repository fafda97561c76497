# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TypeAlias

import pytest

from derive.canonical import sha256
from derive.errors import InputErrors
from derive.trees.compose import compose, select
from derive.trees.listing import DIRECTORY, Entry, File, Listing, Location, Symlink

Part: TypeAlias = tuple[str, dict[bytes, Entry]]


def file(text: bytes, *, executable: bool = False) -> File:
    return File(executable=executable, size=len(text), sha256=sha256(text))


def messages(*parts: Part, wins: dict[bytes, str] | None = None) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        compose([(name, Listing.of(entries)) for name, entries in parts], wins or {}, where="w")
    assert {problem.where for problem in caught.value.problems()} == {"w"}
    return [problem.message for problem in caught.value.problems()]


def union(*parts: Part, wins: dict[bytes, str] | None = None) -> Listing:
    return compose([(name, Listing.of(entries)) for name, entries in parts], wins or {})


def test_folders_merge_in_nar_order() -> None:
    whole = union(("a", {b"usr/b": file(b"b"), b"x": DIRECTORY}), ("b", {b"usr/a": file(b"a"), b"usr-": file(b"")}))
    assert list(whole) == [b"", b"usr", b"usr/a", b"usr/b", b"usr-", b"x"]


def test_nothing_and_one_part() -> None:
    assert compose([], {}) == Listing.of({})
    single = Listing.of({b"": file(b"x")})
    assert compose([("a", single)], {}) == single


def test_an_entry_given_alike_stands_once_wherever_its_contents_lie() -> None:
    located = File(executable=False, size=1, sha256=sha256(b"x"), at=Location(sha256(b"pack"), 0, 1))
    whole = union(("a", {b"x": file(b"x"), b"l": Symlink(b"x")}), ("b", {b"x": located, b"l": Symlink(b"x")}))
    assert whole == Listing.of([(b"x", file(b"x")), (b"l", Symlink(b"x"))])


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (file(b"x"), file(b"y")),
        (file(b"x"), file(b"x", executable=True)),
        (file(b"x"), Symlink(b"x")),
        (Symlink(b"x"), Symlink(b"y")),
        (Symlink(b"x"), DIRECTORY),
        (file(b"x"), DIRECTORY),
    ],
    ids=repr,
)
def test_a_path_given_differently_is_a_collision_unless_a_rule_says_who_wins(one: Entry, two: Entry) -> None:
    parts: tuple[Part, ...] = (("a", {b"p": one}), ("b", {b"p": two}))
    assert messages(*parts) == ["collision at p: a, b differ"]
    assert union(*parts, wins={b"p": "a"})[b"p"] == one
    assert union(*parts, wins={b"p": "b"})[b"p"] == two


def test_a_collision_names_what_each_part_gives() -> None:
    with pytest.raises(InputErrors) as caught:
        union(("one", {b"p": file(b"x")}), ("b", {b"p": Symlink(b"q")}), ("three", {b"p": file(b"x")}))
    (problem,) = caught.value.problems()
    assert problem.message == "collision at p: b, one differ"
    assert problem.detail == (
        "b           symlink to q",
        f"one, three  file of 1 bytes, {sha256(b'x')}",
    )
    assert problem.hint == "leave it out of all but one, or say in a compose under wins whose entry stands"


def test_the_order_of_parts_decides_nothing() -> None:
    parts: list[Part] = [("a", {b"x/1": file(b"1"), b"p": file(b"a")}), ("b", {b"x/2": file(b"2"), b"p": file(b"b")})]
    forth, back = (union(*order, wins={b"p": "b"}) for order in (parts, parts[::-1]))
    assert list(forth.items()) == list(back.items())
    assert forth[b"p"] == file(b"b")


def test_a6_a_path_below_another_parts_symlink_is_refused_by_name() -> None:
    for target in (b"/etc", b"..", b"x", b"usr/lib"):
        parts: tuple[Part, ...] = (("links", {b"x": Symlink(target)}), ("files", {b"x/passwd": file(b"root")}))
        with pytest.raises(InputErrors) as caught:
            union(*parts)
        (problem,) = caught.value.problems()
        assert problem.message == "collision at x: files, links differ"
        assert "files puts x/passwd below it, which would lead through the symlink" in problem.detail
        assert problem.hint == "let files's folder stand under wins, or take x/passwd out of files"


def test_a_rule_cannot_put_a_link_in_the_place_of_a_folder_that_holds_something() -> None:
    parts: tuple[Part, ...] = (("links", {b"x": Symlink(b"y")}), ("files", {b"x/passwd": file(b"root")}))
    assert messages(*parts, wins={b"x": "links"}) == ["collision at x: files, links differ"]
    assert union(*parts, wins={b"x": "files"}) == Listing.of({b"x/passwd": file(b"root")})


def test_a_tree_that_is_one_file_collides_with_a_folder() -> None:
    assert messages(("a", {b"": file(b"x")}), ("b", {b"y": file(b"y")})) == ["collision at the root: a, b differ"]


def test_an_idle_rule_is_a_problem() -> None:
    parts: tuple[Part, ...] = (
        ("a", {b"p": file(b"a"), b"same": file(b"s")}),
        ("b", {b"p": file(b"b"), b"same": file(b"s")}),
    )
    rules = {b"absent": "a", b"same": "a", b"p": "a"}
    assert messages(*parts, wins=rules) == [
        "wins: absent: the rule decides nothing",
        "wins: same: the rule decides nothing",
    ]


def test_a_rule_that_names_an_unknown_part_or_one_without_the_path_is_a_problem() -> None:
    parts: tuple[Part, ...] = (("a", {b"p": file(b"a")}), ("b", {b"p": file(b"b")}), ("c", {}))
    assert "wins: p: no part is called z" in messages(*parts, wins={b"p": "z"})
    assert "wins: p: c does not have it" in messages(*parts, wins={b"p": "c"})


def test_many_collisions_are_counted_and_the_first_shown() -> None:
    parts: tuple[Part, ...] = tuple(
        (name, {b"%03d" % n: file(name.encode()) for n in range(57)}) for name in ("a", "b")
    )
    found = messages(*parts)
    assert len(found) == 21
    assert found[0] == "collision at 000: a, b differ"
    assert found[19] == "collision at 019: a, b differ"
    assert found[20] == "collisions in all: 57, the first 20 shown"


def test_two_parts_of_one_name_are_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="two parts of one name"):
        compose([("a", Listing.of({})), ("a", Listing.of({}))], {})


def test_a_selection_takes_what_lies_below_and_the_folders_above() -> None:
    whole = Listing.of([(b"usr/lib/a/1", file(b"1")), (b"usr/lib/ab", file(b"2")), (b"etc", DIRECTORY)])
    assert list(select(whole, [b"usr/lib/a"])) == [b"", b"usr", b"usr/lib", b"usr/lib/a", b"usr/lib/a/1"]
    assert select(whole, [b""]) == whole
    assert select(whole, []) == Listing.of({})


def test_a_selection_of_nothing_there_is_a_problem() -> None:
    with pytest.raises(InputErrors) as caught:
        select(Listing.of({b"a": DIRECTORY}), [b"b", b"a/c"], where="w")
    assert [problem.message for problem in caught.value.problems()] == ["nothing at a/c", "nothing at b"]
