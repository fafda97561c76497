# SPDX-License-Identifier: Apache-2.0
"""Series as an algebra: opening and making again are inverses, and order matters only where patches meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from derive.errors import CheckFailed
from derive.patches.append import append
from derive.patches.apply import apply_patch
from derive.patches.make import Change, operations_between
from derive.patches.model import FileOperation, FileState
from derive.patches.parse import parse_patch
from derive.patches.rebase import rebase_tree, start
from derive.patches.render import patch_file, render
from derive.trees.pack import NewFile, add_members
from support.patch_project import PatchProject, patch_project, quick_folder, read_tree, write_tree

Tree = dict[bytes, FileState]

SLOW = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])

ROW = st.sampled_from([b"one", b"two", b"three", b"}", b"", b"\tx", b"-- ", b"caf\xe9", b"<<<<<<< x", b"$Id$"])
LINES = st.lists(st.tuples(ROW, st.sampled_from([b"\n", b"\n", b"\r\n"])).map(b"".join), min_size=1, max_size=14)
CONTENTS = st.tuples(LINES, st.booleans()).map(lambda pair: b"".join(pair[0]).rstrip(b"\r\n" if pair[1] else b""))
STATE = st.builds(FileState, contents=CONTENTS, executable=st.booleans())
PATHS = [b"a", b"dir/b", b"d q/c c", b"n\xff", b".gitattributes", b".gitignore", b"attributes/f"]
TREES = st.dictionaries(st.sampled_from(PATHS), STATE, min_size=1, max_size=5)
ANY_ATTRIBUTES = FileState(contents=b"* text eol=crlf ident merge=union filter=lfs working-tree-encoding=UTF-16\n")


@st.composite
def histories(draw: st.DrawFn, *, least: int = 1) -> list[Tree]:
    """Trees, each other than the one before it."""
    trees = [draw(TREES)]
    for _ in range(draw(st.integers(least, 3))):
        tree = dict(trees[-1])
        for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3)):
            state = draw(st.one_of(st.none(), STATE))
            if state is None:
                tree.pop(path, None)
            else:
                tree[path] = state
        if tree != trees[-1] and tree:
            trees.append(tree)
    assume(len(trees) > least)
    return trees


def between(before: Tree, after: Tree) -> tuple[FileOperation, ...]:
    paths = {*before, *after}
    return operations_between(
        {path: Change(before.get(path), after.get(path)) for path in paths if before.get(path) != after.get(path)}
    )


def series_of(trees: list[Tree]) -> dict[str, bytes]:
    pairs = pairwise(trees)
    return {
        f"{number:04d}-step.patch": patch_file("p", b"Description: Step %d\n" % number, between(old, new), old.get)
        for number, (old, new) in enumerate(pairs, 1)
    }


@contextmanager
def project(source: Tree, patches: Mapping[str, bytes]) -> Iterator[PatchProject]:
    with quick_folder() as place, patch_project(place, source, patches) as made:
        yield made


@settings(max_examples=100)
@given(trees=histories())
def test_the_operations_between_two_trees_give_the_second_and_come_back_from_their_text(trees: list[Tree]) -> None:
    before, after = trees[0], trees[-1]
    assume(before != after)
    operations = between(before, after)
    now: dict[bytes, FileState | None] = {**before}
    now.update(apply_patch(operations, before.get).changes)
    assert {path: state for path, state in now.items() if state is not None} == after
    text = render(operations, before.get)
    assert parse_patch("p", text).operations == operations
    assert render(parse_patch("p", text).operations, before.get) == text


@SLOW
@given(trees=histories())
def test_opening_a_series_and_making_it_again_changes_no_byte(trees: list[Tree]) -> None:
    trees = [{**tree, b"attributes/.gitattributes": ANY_ATTRIBUTES} for tree in trees]
    with project(trees[0], series_of(trees)) as made:
        files = made.files()
        made.edit()
        assert read_tree(made.tree) == made.patched()
        assert made.git("status", "--porcelain") == ""
        assert made.refresh().is_same
        assert made.files() == files


@SLOW
@given(trees=histories(), last=TREES)
def test_what_is_committed_becomes_the_series_and_making_it_again_is_the_same(trees: list[Tree], last: Tree) -> None:
    with project(trees[0], series_of(trees)) as made:
        made.edit()
        for path in read_tree(made.tree):
            (made.tree / path.decode("utf-8", "surrogateescape")).unlink()
        write_tree(made.tree, last)
        made.git("add", "--all", "--force")
        made.git("commit", "--quiet", "--allow-empty-message", "--allow-empty", "--amend", "--no-edit")
        changed = read_tree(made.tree) != trees[-2]
        if not changed:
            return
        made.refresh()
        assert made.patched() == last
        files = made.files()
        assert made.refresh().is_same
        assert made.files() == files
        assert made.git("status", "--porcelain") == ""


@SLOW
@given(source=TREES, first=STATE, second=STATE)
def test_patches_of_different_files_commute(source: Tree, first: FileState, second: FileState) -> None:
    source = {path: state for path, state in source.items() if path not in (b"x", b"y")}
    one, two = {**source, b"x": first}, {**source, b"x": first, b"y": second}
    with project(source, series_of([source, one, two])) as made:
        before, files = made.patched(), made.files()
        made.edit()
        base, *picks = made.git("rev-list", "--reverse", "HEAD").split()
        made.git("reset", "--quiet", "--hard", base)
        for commit in reversed(picks):
            made.git("cherry-pick", commit)
        done = made.refresh()
        assert done.moved
        assert done.changed + done.new + done.dropped == ()
        assert made.patched() == before
        assert {name: text for name, text in made.files().items() if name != "series"} == {
            name: text for name, text in files.items() if name != "series"
        }
        assert made.series.loaded.series.names == ("0002-step.patch", "0001-step.patch")


@SLOW
@given(trees=histories(least=2))
def test_squashed_and_split_again_the_series_does_step_by_step_what_it_did(trees: list[Tree]) -> None:
    with project(trees[0], series_of(trees)) as made:
        names, after = made.series.loaded.series.names, made.patched()
        made.edit()
        tip, first, below = made.git("rev-parse", "HEAD", "HEAD~1", "HEAD~2").split()
        assume(made.git("diff", "--name-only", below, tip))
        made.git("reset", "--soft", below)
        made.git("commit", "--quiet", "--reuse-message", first)
        assert len(made.refresh().dropped) == 1
        assert made.patched() == after
        made.git("reset", "--quiet", "--hard", below)
        for commit in (first, tip):
            made.git("read-tree", "-u", "--reset", commit)
            made.git("commit", "--quiet", "--reuse-message", commit)
        made.refresh()
        trees_then = made.git("rev-parse", f"{first}^{{tree}}", f"{tip}^{{tree}}")
        assert made.git("rev-parse", "HEAD~1^{tree}", "HEAD^{tree}") == trees_then
        assert made.series.loaded.series.names == names


@SLOW
@given(trees=histories(), data=st.data())
def test_a_change_folded_into_a_patch_is_in_the_tree_and_in_no_other_patch(
    trees: list[Tree], data: st.DataObject
) -> None:
    with project(trees[0], series_of(trees)) as made:
        before = made.patched()
        made.edit()
        name = data.draw(st.sampled_from(made.series.loaded.series.names))
        (made.tree / "fresh").write_text("folded\n")
        done = made.refresh(fold=name)
        assert done.changed == (name,)
        assert made.patched() == {**before, b"fresh": FileState(contents=b"folded\n")}
        assert made.git("status", "--porcelain") == ""
        (made.tree / "fresh").unlink()
        assert made.refresh(fold=name).changed == (name,)
        assert made.patched() == before


@SLOW
@given(trees=histories())
def test_the_patched_source_has_nothing_that_a_new_patch_could_hold(trees: list[Tree]) -> None:
    with project(trees[0], series_of(trees)) as made:
        folder = made.root.parent / "same"
        write_tree(folder, made.patched())
        with pytest.raises(CheckFailed, match="nothing"):
            append(
                made.shop, made.series, folder, name="x", description=None, author="", only=(), source=str(made.source)
            )


@SLOW
@given(trees=histories(), more=STATE)
def test_carried_over_to_its_own_source_or_one_with_another_file_a_series_stays(
    trees: list[Tree], more: FileState
) -> None:
    with project(trees[0], series_of(trees)) as made:
        files = made.files()
        tree = {**trees[0], b"elsewhere": more}
        members = ((path, NewFile(state.executable, (state.contents,))) for path, state in tree.items())
        listing = add_members(made.store, members)
        done = start(made.store, made.series, rebase_tree(made.tree), onto=("it", listing), base=None)
        assert {outcome for _, outcome in done.outcomes} == {"applied"}
        assert made.files() == files
        assert not rebase_tree(made.tree).exists()
