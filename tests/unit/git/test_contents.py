# SPDX-License-Identifier: Apache-2.0
"""A git tree as paths, `.gitmodules` as URLs, Git LFS pointers as such."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from derive.errors import InputErrors
from derive.git import contents
from derive.git.contents import is_pointer, parse_modules, walk
from derive.git.objects import TreeEntry, object_id, render_tree

POINTER = b"version https://example.org/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12\n"


class Trees:
    """Tree objects by id."""

    def __init__(self) -> None:
        self.raw: dict[str, bytes] = {}

    def add(self, *entries: tuple[bytes, bytes, str]) -> str:
        raw = render_tree(TreeEntry(*entry) for entry in entries)
        found = object_id("tree", raw)
        self.raw[found] = raw
        return found

    def __call__(self, names: Sequence[str]) -> Iterator[bytes]:
        return (self.raw[name] for name in names)


def test_paths_come_in_the_order_of_a_nar() -> None:
    trees = Trees()
    inner = trees.add((b"100644", b"z", "1" * 40))
    top = trees.add((b"40000", b"a", inner), (b"100644", b"a.b", "2" * 40), (b"160000", b"s", "3" * 40))
    found = walk(top, trees, "here")
    assert [leaf.path for leaf in found.leaves] == [b"a/z", b"a.b"]
    assert dict(found.links) == {b"s": "3" * 40}
    leaf = found.leaf(b"a/z")
    assert leaf is not None
    assert leaf.id == "1" * 40
    assert found.leaf(b"a") is None


def test_a_path_too_long_for_any_disk_is_refused() -> None:
    trees = Trees()
    tree = trees.add((b"100644", b"x", "1" * 40))
    for _ in range(17):
        tree = trees.add((b"40000", b"n" * 250, tree))
    with pytest.raises(InputErrors) as caught:
        walk(tree, trees, "here")
    (problem,) = caught.value.problems()
    assert problem.message == "a path of 4266 bytes, more than 4095"
    assert len(problem.where) < 250


def test_a_few_objects_that_name_too_many_paths_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_MOST_PATHS", 20_000)
    trees = Trees()
    tree = trees.add((b"100644", b"x", "1" * 40))
    for _ in range(8):
        tree = trees.add(*((b"40000", b"%d" % number, tree) for number in range(10)))
    with pytest.raises(InputErrors) as caught:
        walk(tree, trees, "here")
    assert "more than 20000 paths" in caught.value.problems()[0].message


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (POINTER, True),
        (POINTER.replace(b"https", b"http"), True),
        (POINTER.replace(b"\nsize", b"\next-0-a sha256:bb\nsize"), False),
        (POINTER.replace(b"oid", b"ext-0-a sha256:bb\noid"), True),
        (POINTER + b"\n", False),
        (POINTER[:-1], False),
        (b"x" + POINTER, False),
        (b"", False),
        (POINTER.replace(b"oid", b"ext-0-a sha256:" + b"b" * 1000 + b"\noid"), False),
    ],
)
def test_lfs_pointers_are_told_by_their_form(data: bytes, is_one: bool) -> None:
    assert is_pointer(data) is is_one


def test_modules_have_a_path_and_a_url() -> None:
    listed = (
        b"submodule.a.b.path\nvendor/x/\0submodule.a.b.url\n../x\0submodule.c.path\ny\0core.bare\0submodule.d.url\nz\0"
    )
    assert parse_modules(listed) == {b"vendor/x": "../x"}
    assert parse_modules(b"") == {}
